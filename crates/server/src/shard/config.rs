//! The settings of a shard.

use std::time::Duration;

use super::{CheckSink, JobThreads, PendingBytesBudget};

/// When a frame counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// When it is durable (RocketMQ: SYNC_FLUSH).
    Sync,
    /// When it is appended; frames are made durable at this interval (RocketMQ: ASYNC_FLUSH). A power cut loses acknowledged messages
    /// of the last interval.
    Async { interval: Duration },
}

/// The default limit of [`Config::pending_bytes`].
pub const PENDING_BYTES_MAX: usize = 256 << 20;

/// Settings of a shard.
#[derive(Debug, Clone)]
pub struct Config {
    pub flush: Flush,
    /// Requests in the channel to the owner; past this limit callers are refused at once.
    pub requests_max: usize,
    /// Bytes of messages accepted and not yet stored; past its limit senders are refused at once. Shards of one process share it.
    pub pending_bytes: PendingBytesBudget,
    /// Bytes of records in one frame; past this limit further requests go into the next one.
    pub frame_bytes_max: usize,
    /// Bytes of facts that are kept in memory while the log refuses frames; past this limit deliveries, acks and stored offsets are
    /// refused, and reads go on.
    pub refused_bytes_max: usize,
    /// Waiting receives (long polls); past this limit a receive that finds nothing is refused.
    pub waiting_receives_max: usize,
    /// Subscriptions to lite topics, of all clients together.
    pub lite_subscriptions_max: usize,
    /// A checkpoint is due after this time, or after this many frames.
    pub checkpoint_interval: Duration,
    pub checkpoint_frames: u64,
    /// How often the disk is measured and old segments are removed.
    pub housekeeping_interval: Duration,
    /// The threads for slow jobs, which shards of one process share. Without them the shard has its own.
    pub job_threads: Option<JobThreads>,
    /// Takes the transactions whose producers are to be asked; without it they only time out.
    pub checks: Option<CheckSink>,
    /// A bug to plant, so that a simulation can prove that it would find it.
    #[cfg(feature = "sim")]
    pub planted: Option<super::Planted>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            flush: Flush::Sync,
            requests_max: 65_536,
            pending_bytes: PendingBytesBudget::new(PENDING_BYTES_MAX),
            frame_bytes_max: 4 << 20,
            refused_bytes_max: 64 << 20,
            waiting_receives_max: 100_000,
            lite_subscriptions_max: 1_000_000,
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_frames: 100_000,
            housekeeping_interval: Duration::from_secs(1),
            job_threads: None,
            checks: None,
            #[cfg(feature = "sim")]
            planted: None,
        }
    }
}
