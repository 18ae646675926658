use std::time::Duration;

use super::CheckSink;

/// When a frame counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// When it is durable (RocketMQ: SYNC_FLUSH).
    Sync,
    /// When it is written; made durable at this interval (RocketMQ: ASYNC_FLUSH).
    Async { interval: Duration },
}

/// Settings of the shard runtime.
#[derive(Debug, Clone)]
pub struct Config {
    pub flush: Flush,
    /// Requests waiting for the owner; past it callers are refused at once.
    pub requests_max: usize,
    /// Bytes of messages accepted and not yet stored; past it senders are refused at once.
    pub pending_bytes_max: usize,
    /// Requests that go into one frame, in bytes.
    pub frame_bytes_max: usize,
    /// Long polls held at a time.
    pub waiting_max: usize,
    /// Lite topics that clients have subscribed to, all together.
    pub lite_subscriptions_max: usize,
    /// Time and log frames after which a checkpoint is due.
    pub checkpoint_interval: Duration,
    pub checkpoint_frames: u64,
    /// How often the disk is looked at and old segments are removed.
    pub housekeeping_interval: Duration,
    /// Where transactions go that must be asked about; without one they only time out.
    pub checks: Option<CheckSink>,
    /// A bug to plant, so that a simulation can prove that it would notice.
    #[cfg(feature = "sim")]
    pub planted: Option<super::Planted>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            flush: Flush::Sync,
            requests_max: 65_536,
            pending_bytes_max: 256 << 20,
            frame_bytes_max: 4 << 20,
            waiting_max: 100_000,
            lite_subscriptions_max: 1_000_000,
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_frames: 100_000,
            housekeeping_interval: Duration::from_secs(1),
            checks: None,
            #[cfg(feature = "sim")]
            planted: None,
        }
    }
}
