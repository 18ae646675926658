use std::time::Duration;

use redstart_engine::Timestamp;

/// The time as one step of the shard sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The engine's time: what messages, invisible times and retention go by.
    pub time: Timestamp,
    /// Time since the shard was started, by a clock that never jumps: what waiting receives, intervals and pauses go by.
    pub uptime: Duration,
}
