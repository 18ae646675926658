//! How a run is set up: which work it does, and which known bug is switched on.

use redstart_engine::Planted as EngineBug;
use redstart_log::Planted as LogBug;
use redstart_raft::Planted as RaftBug;
use redstart_server::shard::Planted as ShardBug;

use crate::ClusterBug;

/// A known bug, to prove that the oracle would notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    Engine(EngineBug),
    Log(LogBug),
    Shard(ShardBug),
    Cluster(ClusterBug),
}

impl Bug {
    /// Every bug that can be planted.
    pub fn all() -> Vec<Bug> {
        let engine = EngineBug::ALL.into_iter().map(Bug::Engine);
        let log = LogBug::ALL.into_iter().map(Bug::Log);
        let shard = ShardBug::ALL.into_iter().map(Bug::Shard);
        engine.chain(log).chain(shard).chain(ClusterBug::all().into_iter().map(Bug::Cluster)).collect()
    }

    pub fn name(self) -> String {
        match self {
            Bug::Engine(bug) => format!("{bug:?}"),
            Bug::Log(bug) => format!("{bug:?}"),
            Bug::Shard(bug) => format!("{bug:?}"),
            Bug::Cluster(bug) => bug.name(),
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
            Bug::Cluster(ClusterBug::Replica(RaftBug::VoteAtStart)) => Profile::Crashes,
            Bug::Cluster(ClusterBug::Replica(RaftBug::KeepLeaseInTransfer)) => Profile::Order,
            Bug::Cluster(ClusterBug::Replica(RaftBug::ForgetFloor)) => Profile::Retention,
            Bug::Engine(_) | Bug::Shard(_) | Bug::Cluster(_) => Profile::Mixed,
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
            Bug::Cluster(_) => Layer::Cluster,
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
    /// Several nodes, each with an engine over a replicated log.
    Cluster,
}

impl Layer {
    pub const ALL: [Layer; 3] = [Layer::Engine, Layer::Shard, Layer::Cluster];

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

    /// Runs of a cluster.
    pub fn cluster() -> Settings {
        Settings { layer: Layer::Cluster, ..Settings::default() }
    }

    pub fn planted(bug: Bug) -> Settings {
        Settings { layer: bug.layer(), profile: Some(bug.profile()), bug: Some(bug), ..Settings::default() }
    }
}
