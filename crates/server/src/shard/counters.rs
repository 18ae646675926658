use std::sync::atomic::{AtomicU64, Ordering};

use crate::statistics::Statistics;

/// What a shard has done since it started.
#[derive(Debug, Default)]
pub struct Counters {
    flushes: AtomicU64,
    frames: AtomicU64,
    statistics: Statistics,
}

impl Counters {
    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn appended(&self) {
        self.frames.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages in and out.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Times the log was made durable.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Frames appended.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }
}
