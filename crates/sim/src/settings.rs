//! How a run is set up: which work it does, and which known bug is switched on.

use redstart_engine::Planted as EngineBug;
use redstart_log::Planted as LogBug;

/// A known bug, to prove that the oracle would notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    Engine(EngineBug),
    Log(LogBug),
}

impl Bug {
    /// Every bug that can be planted.
    pub fn all() -> Vec<Bug> {
        EngineBug::ALL.into_iter().map(Bug::Engine).chain(LogBug::ALL.into_iter().map(Bug::Log)).collect()
    }

    pub fn name(self) -> String {
        match self {
            Bug::Engine(bug) => format!("{bug:?}"),
            Bug::Log(bug) => format!("{bug:?}"),
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
            Bug::Engine(EngineBug::LoseTimersAtSeal | EngineBug::DropTimersOfSegment) => Profile::Retention,
            Bug::Engine(EngineBug::IgnoreGroupLock | EngineBug::ForgetLocksOnRestart) => Profile::Order,
            Bug::Engine(_) => Profile::Mixed,
        }
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
        Settings { profile: None, bug: None, steps: 600, print: false }
    }
}

impl Settings {
    pub fn planted(bug: Bug) -> Settings {
        Settings { profile: Some(bug.profile()), bug: Some(bug), ..Settings::default() }
    }
}
