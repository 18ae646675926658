//! Known bugs of the shard's runtime that a test can switch on, to prove that the simulation would find them.

/// One planted bug.
#[cfg(feature = "sim")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A delivery whose receiver has left counts as an attempt.
    LeaveCounts,
    /// A search that the disk holds up is tried again at once, and for ever.
    SearchSpins,
    /// A frame that the log refused is tried again at once.
    RefusalSpins,
    /// While the log refuses frames no request is taken.
    RefusalStopsRequests,
    /// Requests wait for a checkpoint also while the log refuses frames.
    CheckpointWaits,
    /// A transaction check counts as asked although it could not be handed over.
    CheckCountsUnsent,
    /// Waiting receives go by a clock that may stand still or jump.
    WaitByWallClock,
    /// Facts that came through the engine slot are not written until something else is.
    DeferForEver,
    /// What waits for a part of the log is not told when the part was read.
    LoseColdRead,
    /// The broker's time follows the wall clock at once, whatever it says.
    BelieveClock,
}

#[cfg(feature = "sim")]
impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Planted; 10] = [
        Planted::LeaveCounts,
        Planted::SearchSpins,
        Planted::RefusalSpins,
        Planted::RefusalStopsRequests,
        Planted::CheckpointWaits,
        Planted::CheckCountsUnsent,
        Planted::WaitByWallClock,
        Planted::DeferForEver,
        Planted::LoseColdRead,
        Planted::BelieveClock,
    ];
}

/// Answers "is this bug planted?"; a constant `false` in a build without the `sim` feature.
macro_rules! planted {
    ($config:expr, $bug:ident) => {{
        #[cfg(feature = "sim")]
        let planted = $config.planted == Some($crate::shard::planted::Planted::$bug);
        #[cfg(not(feature = "sim"))]
        let planted = {
            let _ = &$config;
            false
        };
        planted
    }};
}
pub(super) use planted;
