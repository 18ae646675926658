//! Makes up what disks and clocks do. A fault lasts a while; then everything must be as before.

use std::time::Duration;

use redstart_engine::Job;
use redstart_log::{Storage, sim::SimStorage};
use redstart_server::shard::Now;

use super::ShardWorld;
use crate::oracle::Checked;

/// Pauses and retries that a fault has caused are over after this time.
const AFTERMATH: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Faults {
    /// A fault is on until then.
    until: Option<Duration>,
    ended_at: Duration,
    pub slow_flushes: bool,
    /// The time that the engine goes by stands still, as when the wall clock was set back.
    pub clock_stands: bool,
    /// By how much faults have moved the engine's time ahead, all together.
    pub hastened: Duration,
    /// The disk is full, and there was time to make the next segment before that.
    pub spare_left: bool,
}

impl Faults {
    /// Neither a fault nor what one leaves behind.
    pub fn are_over(&self, now: Now) -> bool {
        self.until.is_none() && (self.ended_at.is_zero() || now.uptime >= self.ended_at + AFTERMATH)
    }

    fn end(&mut self, storage: &SimStorage, now: Now) {
        storage.no_space_after(None);
        storage.set_capacity(None);
        storage.fail_reads(false);
        storage.no_descriptors(false);
        storage.fail_sync(0);
        *self = Faults { ended_at: now.uptime, hastened: self.hastened, ..Faults::default() };
    }
}

impl ShardWorld {
    pub(super) fn end_faults(&mut self) {
        self.clocks.set_wall_error(0);
        self.faults.end(&self.storage, self.now);
    }

    /// Whether nothing has kept the shard from making the file of its next segment.
    fn is_prepared(&self) -> bool {
        let being_made = self.jobs.iter().any(|(.., job)| matches!(job, Job::MakeSpare { .. }));
        self.faults.are_over(self.now) && self.unwritten_since.is_none() && !being_made
    }

    pub(super) fn make_up_faults(&mut self) -> Checked {
        if self.faults.until.is_some_and(|until| until <= self.now.uptime) {
            self.say("the fault is over");
            self.end_faults();
        }
        if self.rng.one_in(5) {
            self.say("nothing is in memory");
            self.storage.evict();
        }
        if self.faults.until.is_some() || !self.rng.one_in(6) {
            return Ok(());
        }
        let prepared = self.is_prepared();
        let lasts = Duration::from_millis(self.rng.between(100, 40_000));
        let fault = self.rng.below(11);
        self.faults.until = Some(self.now.uptime + lasts);
        let what = match fault {
            0 | 1 => {
                let room = self.rng.of([0, 100, 3_000, 9_000]);
                self.storage.no_space_after(Some(room));
                format!("{room} bytes of room")
            }
            2 => {
                // Enough for what is allocated, and not for another segment.
                let used = self.storage.usage().map_or(0, |usage| usage.total - usage.free);
                self.storage.set_capacity(Some(used + self.rng.below(8_000)));
                self.faults.spare_left = prepared;
                "no room for another segment".to_owned()
            }
            3 | 4 => {
                self.storage.fail_reads(true);
                "no read succeeds".to_owned()
            }
            5 => {
                self.storage.no_descriptors(true);
                "no descriptors".to_owned()
            }
            6 => {
                self.faults.slow_flushes = true;
                "slow flushes".to_owned()
            }
            7 => {
                self.faults.clock_stands = self.rng.one_in(2);
                if !self.faults.clock_stands {
                    let ahead = Duration::from_secs(self.rng.between(1, 60));
                    self.now.time = self.now.time.after(ahead);
                    self.faults.hastened += ahead;
                }
                format!("a clock that stands still: {}", self.faults.clock_stands)
            }
            8 | 9 => {
                let seconds = self.rng.of([-3_600, -60, -1, 2, 400, 73 * 3_600]);
                self.clocks.set_wall_error(seconds * 1_000);
                format!("the wall clock is wrong by {seconds} s")
            }
            _ => {
                if self.rng.one_in(2) {
                    self.storage.fail_sync(1);
                    return Ok(());
                }
                return self.crash();
            }
        };
        self.say(format!("fault: {what} for {lasts:?}"));
        Ok(())
    }
}
