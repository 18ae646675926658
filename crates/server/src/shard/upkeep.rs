//! What the owner does besides serving: indexes, checkpoints, retention, and the end.

use std::time::{Duration, Instant};

use redstart_engine::{JobDone, Timestamp};

use super::{Failure, events::Fullness, owner::Owner};

/// Segments removed before requests are looked at again.
const RETIRE_PER_ROUND: usize = 8;

/// Time between checkpoints however many frames there are, also when one could not be written.
const CHECKPOINT_SPACING: Duration = Duration::from_millis(50);

impl Owner<'_> {
    pub(super) fn housekeep(&mut self, now: Timestamp) {
        self.checkpoint_if_due();
        if Instant::now() < self.housekeeping_at {
            return;
        }
        self.housekeeping_at = Instant::now() + self.config.housekeeping_interval;
        match self.engine.log().usage() {
            Ok(usage) => {
                self.engine.set_usage(usage);
                self.watch_disk();
                self.counters.condition().set_disk(self.engine.disk_percent(), self.engine.config());
            }
            Err(error) => tracing::warn!(%error, "cannot tell how full the disk is"),
        }
        while let Some(job) = self.engine.seal() {
            self.clerk.give(job);
        }
        self.engine.expire_lites(now);
        for _ in 0..RETIRE_PER_ROUND {
            match self.engine.retire(now) {
                Ok(Some(retired)) => {
                    let (kept, percent) = (self.engine.log().segments().len(), self.engine.disk_percent());
                    let (segment, forced) = (retired.segment.0, retired.forced);
                    tracing::info!(segment, forced, kept, disk_percent = percent, "removed a segment");
                    self.counters.removed(retired.forced);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove the oldest segment");
                    break;
                }
            }
        }
    }

    fn watch_disk(&mut self) {
        let Some(percent) = self.engine.disk_percent() else { return };
        let fullness = Fullness::of(percent, &self.engine.config().retention);
        if fullness != self.fullness {
            self.fullness = fullness;
            fullness.log(percent);
        }
    }

    fn checkpoint_if_due(&mut self) {
        let (frames, age) = (self.engine.frames_since_checkpoint(), self.checkpointed_at.elapsed());
        let many = frames >= self.config.checkpoint_frames && age >= CHECKPOINT_SPACING;
        let due = many || (frames > 0 && age >= self.config.checkpoint_interval);
        if !due && !self.checkpoint_wanted {
            return;
        }
        self.checkpoint_wanted = true;
        if self.engine.pending_frames() > 0 || self.engine.has_batch() {
            return;
        }
        self.checkpoint_wanted = false;
        self.checkpointed_at = Instant::now();
        if let Some(job) = self.engine.checkpoint() {
            self.clerk.give(job);
        }
    }

    pub(super) fn job_done(&mut self, done: JobDone) {
        if let JobDone::CheckpointSaved { result: Ok(()), .. } = &done {
            self.counters.checkpointed();
        }
        if let Err(error) = self.engine.job_done(done) {
            tracing::warn!(%error, "an index or checkpoint could not be written");
        }
    }

    /// Makes everything accepted durable, answers everyone, writes a checkpoint.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        self.checkpoint_wanted = false;
        self.take_requests(now);
        self.submit(now)?;
        self.flushing.order();
        self.flushing.finish();
        self.take_reports()?;
        drop(self.waiting.drain());
        if let Some(job) = self.engine.checkpoint() {
            self.clerk.give(job);
        }
        self.clerk.finish();
        self.take_reports()
    }
}
