//! The clocks of a machine: one that only counts, and a wall clock that may be wrong. The broker's time comes from both, by
//! the same state machine as in production.

use std::time::Duration;

use redstart_engine::Timestamp;
use redstart_server::shard::{Reading, SteadyTime};

/// Time between two looks at the wall clock.
const OBSERVE_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Clocks {
    monotonic_us: i64,
    /// The true time minus the monotonic one.
    epoch_us: i64,
    /// How far the wall clock is ahead of the true time.
    wall_error_us: i64,
    steady: SteadyTime,
    /// The planted bug: the broker's time follows the wall clock at once.
    believes_wall: bool,
}

impl Clocks {
    pub fn new(start: Timestamp, believes_wall: bool) -> Clocks {
        let epoch_us = start.0 as i64 * 1_000;
        let steady = SteadyTime::anchored(Reading { wall_us: epoch_us, monotonic_us: 0 });
        let mut clocks = Clocks { monotonic_us: 0, epoch_us, wall_error_us: 0, steady, believes_wall };
        clocks.restart();
        clocks
    }

    /// A new process takes the wall clock as it is.
    pub fn restart(&mut self) {
        self.steady = SteadyTime::anchored(self.reading());
    }

    pub fn pass(&mut self, mut time: Duration) {
        while !time.is_zero() {
            let step = time.min(OBSERVE_EVERY);
            time -= step;
            self.monotonic_us += step.as_micros() as i64;
            if self.believes_wall {
                self.steady = SteadyTime::anchored(self.reading());
            } else {
                self.steady.observe(self.reading());
            }
        }
    }

    /// Sets the wall clock wrong by so many milliseconds; 0 sets it right.
    pub fn set_wall_error(&mut self, ms: i64) {
        self.wall_error_us = ms * 1_000;
    }

    /// The broker's time.
    pub fn now(&self) -> Timestamp {
        Timestamp(((self.monotonic_us + self.steady.offset_us()) / 1_000) as u64)
    }

    pub fn is_suspicious(&self) -> bool {
        self.steady.is_suspicious()
    }

    fn reading(&self) -> Reading {
        let wall_us = self.monotonic_us + self.epoch_us + self.wall_error_us;
        Reading { wall_us, monotonic_us: self.monotonic_us }
    }
}
