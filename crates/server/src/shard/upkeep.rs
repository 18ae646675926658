//! What the shard does besides serving: indexes, checkpoints, retention, and the end.

use std::time::Duration;

use redstart_engine::{Job, JobDone};

use super::{
    Failure, Now,
    events::{self, Fullness},
    planted::planted,
    runtime::Runtime,
};
use crate::throttle::Throttle;

static NO_USAGE: Throttle = Throttle::new();
static NOT_REMOVED: Throttle = Throttle::new();
static NOT_WRITTEN: Throttle = Throttle::new();

/// When nothing became durable for so long, the manifest is synced.
const IDLE: Duration = Duration::from_secs(1);

/// Segments removed before requests are looked at again.
const RETIRE_PER_ROUND: usize = 8;

/// Bytes of checkpoints that are written each second, on average. A start reads the frames since the last one again.
const CHECKPOINT_BYTES_PER_SECOND: f64 = (4 << 20) as f64;

/// Time between checkpoints however many frames there are, also when one could not be written.
const CHECKPOINT_SPACING: Duration = Duration::from_millis(50);

impl Runtime {
    /// Whether the owner's clock may be wrong by much.
    pub(super) fn set_time_suspicious(&mut self, suspicious: bool) {
        self.engine.set_time_suspicious(suspicious);
    }

    pub(super) fn housekeep(&mut self, now: Now) {
        self.checkpoint_if_due(now);
        self.encode_checkpoint();
        self.jobs.extend(self.engine.rebuild(now.time));
        if now.uptime < self.housekeeping_at {
            return;
        }
        self.housekeeping_at = now.uptime + self.config.housekeeping_interval;
        self.measure_disk();
        self.jobs.extend(self.engine.retry_spare());
        if self.flushed_at.is_some_and(|at| now.uptime >= at + IDLE) {
            self.flushed_at = None;
            self.jobs.push(self.engine.sync_manifest());
        }
        while let Some(job) = self.engine.seal() {
            self.jobs.push(job);
        }
        self.engine.expire_lites(now.time);
        for _ in 0..RETIRE_PER_ROUND {
            match self.engine.retire(now.time) {
                Ok(Some(retired)) => {
                    let (kept, percent) = (self.engine.log().segments().len(), self.engine.disk_percent());
                    events::log_removal(&retired, kept, percent);
                    self.counters.removed(&retired);
                    // It may have made room enough: no more than needed goes before its time.
                    self.measure_disk();
                }
                Ok(None) => break,
                Err(error) => {
                    if let Some(repeated) = NOT_REMOVED.permit() {
                        tracing::warn!(%error, repeated, "cannot remove the oldest segment");
                    }
                    break;
                }
            }
        }
    }

    fn measure_disk(&mut self) {
        self.counters.condition().set_room_scarce(self.engine.log().scarcity().is_some());
        match self.engine.log().usage() {
            Ok(usage) => {
                self.engine.set_usage(usage);
                self.watch_disk();
                self.counters.condition().set_disk(self.engine.disk_percent(), self.engine.config());
            }
            Err(error) => {
                if let Some(repeated) = NO_USAGE.permit() {
                    tracing::warn!(%error, repeated, "cannot tell how full the disk is");
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

    fn checkpoint_if_due(&mut self, now: Now) {
        let (frames, age) =
            (self.engine.frames_since_checkpoint(), now.uptime.saturating_sub(self.checkpointed_at));
        // Large ones are written less often.
        let spacing = Duration::from_secs_f64(self.checkpoint_bytes as f64 / CHECKPOINT_BYTES_PER_SECOND);
        let many = frames >= self.config.checkpoint_frames;
        let due = many || (frames > 0 && age >= self.config.checkpoint_interval);
        let due = due && age >= spacing.max(CHECKPOINT_SPACING);
        // What waits to be written cannot be while the log refuses: nothing may wait for a checkpoint then.
        let refused = self.refusal.is_some() && self.engine.has_batch();
        let refused = refused && !planted!(self.config, CheckpointWaits);
        self.checkpoint_wanted = (due || self.checkpoint_wanted) && !refused;
        if !self.checkpoint_wanted || self.engine.pending_frames() > 0 || self.engine.has_batch() {
            return;
        }
        self.checkpoint_wanted = false;
        self.checkpointed_at = now.uptime;
        let job = self.engine.checkpoint();
        self.save_checkpoint(job);
    }

    /// Goes on with a checkpoint that takes several steps.
    pub(super) fn encode_checkpoint(&mut self) {
        let job = self.engine.encode_checkpoint();
        self.save_checkpoint(job);
    }

    fn save_checkpoint(&mut self, job: Option<Job>) {
        if let Some(Job::SaveCheckpoint { state, .. }) = &job {
            self.checkpoint_bytes = state.len();
        }
        self.jobs.extend(job);
    }

    /// A job that [`Runtime::take_jobs`] gave out is done.
    pub fn job_done(&mut self, done: JobDone, now: Now) {
        if let JobDone::CheckpointSaved { result: Ok(()), .. } = &done {
            self.counters.checkpointed(now.uptime);
        }
        if let JobDone::SpareMade { result } = &done {
            self.room.spare_made(result.as_ref().err());
            drop(self.engine.job_done(done));
            return;
        }
        let done = match done {
            JobDone::Read(warmed) => return self.warmed(warmed),
            done => done,
        };
        let Err(error) = self.engine.job_done(done) else { return };
        if let Some(segment) = error.damaged_segment() {
            let segment = segment.0;
            tracing::error!(segment, %error, "a segment is damaged together with its index, which is given up");
        } else if let Some(repeated) = NOT_WRITTEN.permit() {
            tracing::warn!(%error, repeated, "work on an index or checkpoint failed and is tried again");
        }
    }

    /// Writes what was accepted, however long the log may have refused. The shell makes it durable then.
    pub fn write_all(&mut self, now: Now) -> Result<(), Failure> {
        self.checkpoint_wanted = false;
        self.refusal = None;
        self.submit(now)
    }

    /// Gives up what still waits, and asks for a last checkpoint if all that was accepted is durable.
    pub fn end(&mut self) {
        drop(self.waiting.drain());
        let job = self.engine.checkpoint();
        self.save_checkpoint(job);
        while self.engine.is_encoding() {
            self.encode_checkpoint();
        }
    }
}
