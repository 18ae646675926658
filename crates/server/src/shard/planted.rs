//! Known bugs of the shard's runtime that a simulation switches on, to prove that it would find them.
//!
//! The runtime calls the functions of this module at the points where a bug can act. In a build without the `sim` feature each of
//! them is a no-op: it returns its argument, or `false`.

use std::time::Duration;

use redstart_engine::{Engine, Popped, Receipt};

use super::{Config, Now, receive::Next};

/// One planted bug.
#[cfg(feature = "sim")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A delivery whose caller has given up counts as an attempt.
    LeaveCounts,
    /// A search that cannot read the disk runs again at once, and for ever.
    SearchSpins,
    /// A frame that the log refused is appended again at once.
    RefusalSpins,
    /// While the log refuses frames no request is taken.
    RefusalStopsRequests,
    /// When the facts that the log has refused fill their memory, no request is taken.
    FullMemoryStopsRequests,
    /// Requests wait for a checkpoint also while the log refuses frames.
    CheckpointWaits,
    /// A transaction check counts although it could not be sent.
    CheckCountsUnsent,
    /// Deadlines of waiting receives are compared with a clock that may stand still or jump.
    WaitByWallClock,
    /// Facts that came through the engine slot are not written until something else is.
    DeferForEver,
    /// A request that waits for a part of the log does not go on when the part was read.
    LoseColdRead,
    /// The broker's time follows the wall clock at once. The simulated clock acts on it.
    BelieveClock,
}

#[cfg(feature = "sim")]
impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Planted; 11] = [
        Planted::LeaveCounts,
        Planted::SearchSpins,
        Planted::RefusalSpins,
        Planted::RefusalStopsRequests,
        Planted::FullMemoryStopsRequests,
        Planted::CheckpointWaits,
        Planted::CheckCountsUnsent,
        Planted::WaitByWallClock,
        Planted::DeferForEver,
        Planted::LoseColdRead,
        Planted::BelieveClock,
    ];
}

/// Whether a bug is planted; a constant `false` in a build without the `sim` feature.
macro_rules! is_planted {
    ($config:expr, $bug:ident) => {{
        #[cfg(feature = "sim")]
        let planted = $config.planted == Some(Planted::$bug);
        #[cfg(not(feature = "sim"))]
        let planted = {
            let _ = $config;
            false
        };
        planted
    }};
}

/// The time of a step.
pub(super) fn step_time(config: &Config, now: Now) -> Now {
    if is_planted!(config, WaitByWallClock) {
        return Now { uptime: Duration::from_millis(now.time.0), ..now };
    }
    now
}

/// Whether no request is taken because the log refuses frames.
pub(super) fn stops_requests(config: &Config, log_refuses: bool) -> bool {
    log_refuses && is_planted!(config, RefusalStopsRequests)
}

/// Whether no request is taken because refused facts fill their memory.
pub(super) fn full_memory_stops_requests(config: &Config, full: bool) -> bool {
    full && is_planted!(config, FullMemoryStopsRequests)
}

/// Transaction checks that may be made now.
pub(super) fn checks_max(config: &Config, max: usize) -> usize {
    if is_planted!(config, CheckCountsUnsent) { usize::MAX } else { max }
}

/// Whether facts are deferred whatever their age.
pub(super) fn defers_for_ever(config: &Config) -> bool {
    is_planted!(config, DeferForEver)
}

/// When a frame that the log refused is appended again.
pub(super) fn append_again_at(config: &Config, at: Duration, now: Now) -> Duration {
    if is_planted!(config, RefusalSpins) { now.uptime } else { at }
}

/// Whether a checkpoint waits although the log refuses frames.
pub(super) fn checkpoint_waits(config: &Config) -> bool {
    is_planted!(config, CheckpointWaits)
}

/// What becomes of a receive that found nothing.
pub(super) fn next(config: &Config, popped: &Popped, next: Next) -> Next {
    if is_planted!(config, SearchSpins) && (popped.more || popped.ask_again_at.is_some()) {
        return Next::Search(Duration::MAX);
    }
    next
}

/// Ends deliveries that no consumer has, as attempts that count. Says whether it did.
pub(super) fn counts_lost_deliveries(
    config: &Config,
    engine: &mut Engine,
    lost: &[Receipt],
    now: Now,
) -> bool {
    let counts = is_planted!(config, LeaveCounts);
    if counts {
        for receipt in lost {
            let _ = engine.change_invisible(*receipt, Duration::ZERO, now.time);
        }
    }
    counts
}

/// Whether a part of the log that was read is dropped.
pub(super) fn loses_cold_read(config: &Config) -> bool {
    is_planted!(config, LoseColdRead)
}
