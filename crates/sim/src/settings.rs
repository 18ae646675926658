//! How a run is set up: which work it does, and which known bug is switched on.

use redstart_engine::Planted as EngineBug;
use redstart_log::Planted as LogBug;
use redstart_server::shard::Planted as ShardBug;

/// A known bug, to prove that the oracle would notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    Engine(EngineBug),
    Log(LogBug),
    Shard(ShardBug),
}

impl Bug {
    /// Every bug that can be planted.
    pub fn all() -> Vec<Bug> {
        let engine = EngineBug::ALL.into_iter().map(Bug::Engine);
        let log = LogBug::ALL.into_iter().map(Bug::Log);
        engine.chain(log).chain(ShardBug::ALL.into_iter().map(Bug::Shard)).collect()
    }

    pub fn name(self) -> String {
        match self {
            Bug::Engine(bug) => format!("{bug:?}"),
            Bug::Log(bug) => format!("{bug:?}"),
            Bug::Shard(bug) => format!("{bug:?}"),
        }
    }

    pub fn named(name: &str) -> Option<Bug> {
        Self::all().into_iter().find(|bug| bug.name() == name)
    }

    /// The kind of work that brings this bug to light soonest.
    pub fn profile(self) -> Profile {
        match self {
            Bug::Log(LogBug::KeepTailGarbage) => Profile::Uniform,
            Bug::Log(LogBug::IgnoreTornTail) => Profile::Crashes,
            Bug::Log(_) | Bug::Engine(EngineBug::AckBeforeDurable | EngineBug::ForgetAcks) => {
                Profile::Crashes
            }
            Bug::Engine(
                EngineBug::LoseTimersAtSeal | EngineBug::DropTimersOfSegment | EngineBug::RetireWithoutRecord,
            ) => Profile::Retention,
            Bug::Engine(EngineBug::IgnoreGroupLock | EngineBug::ForgetLocksOnRestart) => Profile::Order,
            Bug::Engine(_) | Bug::Shard(_) => Profile::Mixed,
        }
    }

    /// Whether it shows in that replicas differ.
    pub fn is_of_replicas(self) -> bool {
        matches!(
            self,
            Bug::Engine(
                EngineBug::SettingInApply
                    | EngineBug::RetireWithoutRecord
                    | EngineBug::FactAppliedTwice
                    | EngineBug::SpeculationInCheckpoint
                    | EngineBug::KeepUncommittedFacts
            )
        )
    }

    /// The world that this bug shows in.
    pub fn layer(self) -> Layer {
        match self {
            Bug::Shard(_)
            | Bug::Engine(
                EngineBug::SkipUnreadable
                | EngineBug::GiveBackAcks
                | EngineBug::RetireWithoutWake
                | EngineBug::OwnWorkWaits,
            ) => Layer::Shard,
            Bug::Engine(_) | Bug::Log(_) => Layer::Engine,
        }
    }
}

/// How much of the broker a run drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Engine and log, with everything that their callers could do.
    Engine,
    /// The shard's runtime over both, through the handle that front ends use.
    Shard,
}

impl Layer {
    pub const ALL: [Layer; 2] = [Layer::Engine, Layer::Shard];

    pub fn named(name: &str) -> Option<Layer> {
        Self::ALL.into_iter().find(|layer| format!("{layer:?}").eq_ignore_ascii_case(name))
    }
}

/// Which operations are common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A bit of everything.
    Mixed,
    /// Power cuts and failing disks.
    Crashes,
    /// Segments are filled, sealed, checkpointed and removed.
    Retention,
    /// Ordered groups on message groups.
    Order,
    /// One message of one size per frame, and power cuts: what a cut leaves behind fits what comes next.
    Uniform,
}

impl Profile {
    pub const ALL: [Profile; 5] =
        [Profile::Mixed, Profile::Crashes, Profile::Retention, Profile::Order, Profile::Uniform];

    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|profile| format!("{profile:?}").eq_ignore_ascii_case(name))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub layer: Layer,
    /// `None`: the seed decides.
    pub profile: Option<Profile>,
    pub bug: Option<Bug>,
    /// Operations before everything is drained.
    pub steps: usize,
    /// Print the trace while running.
    pub print: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { layer: Layer::Engine, profile: None, bug: None, steps: 600, print: false }
    }
}

impl Settings {
    /// Runs of the shard's runtime.
    pub fn shard() -> Settings {
        Settings { layer: Layer::Shard, ..Settings::default() }
    }

    pub fn planted(bug: Bug) -> Settings {
        Settings { layer: bug.layer(), profile: Some(bug.profile()), bug: Some(bug), ..Settings::default() }
    }
}
