//! What a shard has done since it started, for metrics. Written by its threads, read by any thread.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use redstart_engine::{Loss, Retired};

use super::Condition;
use crate::statistics::{Histogram, Statistics};

/// In microseconds: a flush takes some tens of them on a fast disk, and seconds on one in trouble.
static TIMES_US: [u64; 14] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];
static FRAME_RECORDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096];
static FRAME_BYTES: [u64; 10] =
    [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// What a shard has done since it started.
#[derive(Debug)]
pub struct Counters {
    flushes: AtomicU64,
    frames: AtomicU64,
    /// Payload bytes of frames that were appended, flushed, applied.
    appended_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
    applied_bytes: AtomicU64,
    removed_expired: AtomicU64,
    removed_forced: AtomicU64,
    read_errors: AtomicU64,
    passed_over_damaged: AtomicU64,
    passed_over_removed: AtomicU64,
    given_back: AtomicU64,
    /// Messages of segments that were removed before their time.
    early_finished: AtomicU64,
    early_unconsumed: AtomicU64,
    scrubbed_bytes: AtomicU64,
    scrub_segments: AtomicU64,
    scrub_indexes: AtomicU64,
    waiting_receives: AtomicUsize,
    started: Instant,
    /// Microseconds from the start to the last checkpoint that was written.
    checkpointed: AtomicU64,
    commit_us: Histogram<14>,
    flush_us: Histogram<14>,
    frame_records: Histogram<11>,
    frame_bytes: Histogram<10>,
    condition: Condition,
    statistics: Statistics,
}

/// Messages of segments that were removed before their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedEarly {
    pub finished: u64,
    /// Some group that consumes their topic had not finished them.
    pub unconsumed: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            flushes: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            appended_bytes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            applied_bytes: AtomicU64::new(0),
            removed_expired: AtomicU64::new(0),
            removed_forced: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            passed_over_damaged: AtomicU64::new(0),
            passed_over_removed: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            early_finished: AtomicU64::new(0),
            early_unconsumed: AtomicU64::new(0),
            scrubbed_bytes: AtomicU64::new(0),
            scrub_segments: AtomicU64::new(0),
            scrub_indexes: AtomicU64::new(0),
            waiting_receives: AtomicUsize::new(0),
            started: Instant::now(),
            checkpointed: AtomicU64::new(0),
            commit_us: Histogram::new(&TIMES_US),
            flush_us: Histogram::new(&TIMES_US),
            frame_records: Histogram::new(&FRAME_RECORDS),
            frame_bytes: Histogram::new(&FRAME_BYTES),
            condition: Condition::default(),
            statistics: Statistics::default(),
        }
    }
}

impl Counters {
    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// A frame was appended. Returns the bytes appended since the start, this frame included.
    pub(super) fn appended(&self, records: usize, bytes: usize) -> u64 {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.frame_records.observe(records as u64);
        self.frame_bytes.observe(bytes as u64);
        // Release: a flush that begins after a thread has read this sum covers that many bytes.
        self.appended_bytes.fetch_add(bytes as u64, Ordering::Release) + bytes as u64
    }

    /// A flush took this long; the first `covered` bytes are durable.
    pub(super) fn flush_took(&self, time: Duration, covered: u64) {
        self.flush_us.observe(micros(time));
        self.flushed_bytes.store(covered, Ordering::Relaxed);
    }

    /// A frame became durable this long after it was appended.
    pub(super) fn committed(&self, after: Duration) {
        self.commit_us.observe(micros(after));
    }

    /// The first `end` bytes have been applied.
    pub(super) fn applied(&self, end: u64) {
        self.applied_bytes.fetch_max(end, Ordering::Relaxed);
    }

    pub(super) fn removed(&self, retired: &Retired) {
        let count = if retired.forced { &self.removed_forced } else { &self.removed_expired };
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(contents) = &retired.contents {
            let finished = contents.messages.saturating_sub(contents.unconsumed);
            self.early_finished.fetch_add(finished, Ordering::Relaxed);
            self.early_unconsumed.fetch_add(contents.unconsumed, Ordering::Relaxed);
        }
    }

    pub(super) fn set_waiting_receives(&self, receives: usize) {
        self.waiting_receives.store(receives, Ordering::Relaxed);
    }

    /// A checkpoint was written, this long after the start.
    pub(super) fn checkpointed(&self, uptime: Duration) {
        self.checkpointed.store(micros(uptime), Ordering::Relaxed);
    }

    /// A stored message could not be read; another read may succeed.
    pub(crate) fn read_failed(&self) {
        self.read_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// A pull passed over a message that is proven to be lost.
    pub(crate) fn passed_over(&self, loss: Loss) {
        let count = match loss {
            Loss::Damaged => &self.passed_over_damaged,
            Loss::Removed => &self.passed_over_removed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Deliveries were given back because their answer did not reach a consumer.
    pub(crate) fn gave_back(&self, deliveries: usize) {
        self.given_back.fetch_add(deliveries as u64, Ordering::Relaxed);
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Flushes of the log.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Frames appended.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Payload of all frames appended.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Ordering::Acquire)
    }

    /// Bytes appended and not yet durable.
    pub fn flush_behind(&self) -> u64 {
        let flushed = self.flushed_bytes.load(Ordering::Relaxed);
        self.appended_bytes().saturating_sub(flushed)
    }

    /// Bytes appended and not yet applied: consumers cannot see these messages.
    pub fn apply_behind(&self) -> u64 {
        let applied = self.applied_bytes.load(Ordering::Relaxed);
        self.appended_bytes().saturating_sub(applied)
    }

    /// Segments removed after their retention time, and before it because the disk was filling up.
    pub fn segments_removed(&self) -> (u64, u64) {
        (self.removed_expired.load(Ordering::Relaxed), self.removed_forced.load(Ordering::Relaxed))
    }

    /// Bytes of stored data that the scrub has checked.
    pub fn scrubbed_bytes(&self) -> u64 {
        self.scrubbed_bytes.load(Ordering::Relaxed)
    }

    /// Segments and indexes that the scrub has found damaged.
    pub fn scrub_damage(&self) -> (u64, u64) {
        (self.scrub_segments.load(Ordering::Relaxed), self.scrub_indexes.load(Ordering::Relaxed))
    }

    pub(crate) fn scrubbed(&self, bytes: u64) {
        self.scrubbed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn scrub_damaged_segment(&self) {
        self.scrub_segments.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn scrub_damaged_index(&self) {
        self.scrub_indexes.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads of stored messages that failed and may succeed another time.
    pub fn read_errors(&self) -> u64 {
        self.read_errors.load(Ordering::Relaxed)
    }

    /// Damaged and removed messages that pulls passed over. The engine counts those of deliveries.
    pub fn passed_over_by_pulls(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.passed_over_damaged), load(&self.passed_over_removed))
    }

    /// Deliveries that were given back because their answer did not reach a consumer.
    pub fn deliveries_given_back(&self) -> u64 {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Messages of segments that were removed before their time because the disk was filling up.
    pub fn removed_early(&self) -> RemovedEarly {
        RemovedEarly {
            finished: self.early_finished.load(Ordering::Relaxed),
            unconsumed: self.early_unconsumed.load(Ordering::Relaxed),
        }
    }

    /// Waiting receives.
    pub fn waiting_receives(&self) -> usize {
        self.waiting_receives.load(Ordering::Relaxed)
    }

    pub fn running_for(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time since the last checkpoint was written, or since the start if none was.
    pub fn checkpoint_age(&self) -> Duration {
        let at = Duration::from_micros(self.checkpointed.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(at)
    }

    /// Microseconds from a frame's append until it was durable.
    pub fn commit_us(&self) -> &Histogram<14> {
        &self.commit_us
    }

    /// Microseconds that flushes took.
    pub fn flush_us(&self) -> &Histogram<14> {
        &self.flush_us
    }

    /// Decisions and facts in a frame.
    pub fn frame_records(&self) -> &Histogram<11> {
        &self.frame_records
    }

    pub fn frame_bytes(&self) -> &Histogram<10> {
        &self.frame_bytes
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
