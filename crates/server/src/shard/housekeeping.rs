//! Work of the shard beside requests: checkpoints, indexes, retention, measuring the disk, and the last writes before it stops.

use std::time::Duration;

use redstart_engine::{Job, JobDone};

use super::{
    Failure, Now,
    log_lines::{self, DiskLevel},
    planted,
    runtime::Runtime,
};
use crate::throttle::Throttle;

static NO_USAGE: Throttle = Throttle::new();
static NOT_REMOVED: Throttle = Throttle::new();
static NOT_WRITTEN: Throttle = Throttle::new();

/// The manifest is synced when no frame became durable for this long.
const MANIFEST_SYNC_AFTER: Duration = Duration::from_secs(1);

/// Segments that are removed in one step; requests are served before the next ones.
const RETIRE_PER_ROUND: usize = 8;

/// Bytes of checkpoints that may be written each second, on average. A start replays the frames since the last checkpoint.
const CHECKPOINT_BYTES_PER_SECOND: f64 = (4 << 20) as f64;

/// Shortest time between two checkpoints, even if one could not be written.
const CHECKPOINT_SPACING: Duration = Duration::from_millis(50);

impl Runtime {
    /// Tells the engine whether the clock may be wrong by much.
    pub(super) fn set_time_suspicious(&mut self, suspicious: bool) {
        self.engine.set_time_suspicious(suspicious);
    }

    pub(super) fn housekeep(&mut self, now: Now) {
        self.checkpoint_if_due(now);
        self.encode_checkpoint();
        if self.decides() {
            self.jobs.extend(self.engine.rebuild(now.time));
        }
        if now.uptime < self.housekeeping_at {
            if self.engine.has_retired() || self.engine.copies_were_read() {
                self.remove_segments(now);
            }
            return;
        }
        self.housekeeping_at = now.uptime + self.config.housekeeping_interval;
        self.measure_disk();
        self.jobs.extend(self.engine.make_spare_again());
        if self.flushed_at.is_some_and(|at| now.uptime >= at + MANIFEST_SYNC_AFTER) {
            self.flushed_at = None;
            self.jobs.push(self.engine.sync_manifest());
        }
        while let Some(job) = self.engine.seal() {
            self.jobs.push(job);
        }
        if self.decides() {
            self.engine.expire_lites(now.time);
        }
        self.remove_segments(now);
    }

    /// Takes the next steps of removing the oldest segments. Each begins when the one before it is committed.
    fn remove_segments(&mut self, now: Now) {
        for _ in 0..RETIRE_PER_ROUND {
            let removed = match self.decides() {
                true => self.engine.retire(now.time),
                // The leader decides what is removed; each replica deletes its own files.
                false => self.engine.remove_retired(),
            };
            match removed {
                Ok(Some(retired)) => {
                    let (kept, percent) = (self.engine.log().segments().len(), self.engine.disk_percent());
                    log_lines::log_removal(&retired, kept, percent);
                    self.counters.removed(&retired);
                    // The disk may have enough room now, and no segment is removed before its time without need.
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
                    tracing::warn!(%error, repeated, "cannot measure how full the disk is");
                }
            }
        }
    }

    fn watch_disk(&mut self) {
        let Some(percent) = self.engine.disk_percent() else { return };
        let disk_level = DiskLevel::of(percent, &self.engine.config().retention);
        if disk_level != self.disk_level {
            self.disk_level = disk_level;
            disk_level.log(percent);
        }
    }

    fn checkpoint_if_due(&mut self, now: Now) {
        let (frames, age) =
            (self.engine.frames_since_checkpoint(), now.uptime.saturating_sub(self.checkpointed_at));
        // Large checkpoints are written less often.
        let spacing = Duration::from_secs_f64(self.checkpoint_bytes as f64 / CHECKPOINT_BYTES_PER_SECOND);
        let many = frames >= self.config.checkpoint_frames;
        let due = many || (frames > 0 && age >= self.config.checkpoint_interval);
        let due = due && age >= spacing.max(CHECKPOINT_SPACING);
        // While the log refuses the batch a checkpoint cannot be taken, and requests must not wait for it.
        let refused = self.refusal.is_some() && self.engine.has_batch();
        let refused = refused && !planted::checkpoint_waits(&self.config);
        self.checkpoint_wanted = (due || self.checkpoint_wanted) && !refused;
        if !self.checkpoint_wanted || self.engine.pending_frames() > 0 || self.engine.has_batch() {
            return;
        }
        self.checkpoint_wanted = false;
        self.checkpointed_at = now.uptime;
        let job = self.engine.checkpoint();
        self.save_checkpoint(job);
    }

    /// Encodes the next step of a checkpoint.
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

    /// A job of [`Runtime::take_jobs`] has finished.
    pub fn job_done(&mut self, done: JobDone, now: Now) {
        if let JobDone::CheckpointSaved { result: Ok(()), .. } = &done {
            self.counters.checkpointed(now.uptime);
        }
        if let JobDone::SpareMade { result } = &done {
            self.spare_file.made(result.as_ref().err());
            drop(self.engine.job_done(done));
            return;
        }
        let done = match done {
            JobDone::Read(part) => return self.cold_read_done(part),
            done => done,
        };
        let Err(error) = self.engine.job_done(done) else { return };
        if let Some(segment) = error.damaged_segment() {
            let segment = segment.0;
            tracing::error!(segment, %error, "a segment and its index are both damaged; the index is given up");
        } else if let Some(repeated) = NOT_WRITTEN.permit() {
            tracing::warn!(%error, repeated, "cannot write an index or a checkpoint; trying again later");
        }
    }

    /// Appends all accepted records, even if the log has just refused them. The caller flushes them.
    pub fn write_all(&mut self, now: Now) -> Result<(), Failure> {
        self.checkpoint_wanted = false;
        self.refusal = None;
        self.submit(now)
    }

    /// Drops the waiting receives, and orders a last checkpoint if all accepted records are durable.
    pub fn end(&mut self) {
        drop(self.wait_list.drain());
        let job = self.engine.checkpoint();
        self.save_checkpoint(job);
        while self.engine.is_encoding() {
            self.encode_checkpoint();
        }
    }
}
