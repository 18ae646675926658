//! The broker's time: where it comes from ([`Clock`]) and how a step of the shard gets it ([`Now`]).

mod steady;

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use redstart_engine::Timestamp;

#[cfg(not(feature = "sim"))]
use steady::{Reading, SteadyTime};
#[cfg(feature = "sim")]
pub use steady::{Reading, SteadyTime};

/// Time between two readings of the wall clock.
const OBSERVE_EVERY_US: i64 = 100_000;

/// The time of one step of the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Engine time: for messages, invisible times and retention.
    pub time: Timestamp,
    /// Time since the shard was started, by a clock that never jumps: for deadlines of waiting receives, intervals and backoffs.
    pub uptime: Duration,
}

/// The source of engine time, which never goes back.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// How far the time can be relied on.
    fn state(&self) -> ClockState {
        ClockState::default()
    }
}

/// How far engine time and the machine's wall clock are apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockState {
    /// Milliseconds by which the wall clock is ahead of engine time; negative when it is behind.
    pub wall_ahead_ms: i64,
    /// The two are so far apart that nothing may be removed because of its age.
    pub suspicious: bool,
}

/// The time of this process: the machine's wall clock as it was at the start, carried on by a monotonic clock that also counts
/// while the machine is suspended, and brought nearer to the wall clock slowly. See [`SteadyTime`].
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

static PROCESS: LazyLock<SharedTime> =
    LazyLock::new(|| SharedTime::new(Reading { wall_us: wall_us(), monotonic_us: monotonic_us() }));

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        PROCESS.now(monotonic_us(), wall_us)
    }

    fn state(&self) -> ClockState {
        PROCESS.state()
    }
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// `CLOCK_BOOTTIME` where there is one: unlike `CLOCK_MONOTONIC`, which [`std::time::Instant`] reads, it goes on while the
/// machine sleeps.
fn monotonic_us() -> i64 {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

/// A [`SteadyTime`] that every thread reads without a lock.
#[derive(Debug)]
struct SharedTime {
    time: Mutex<SteadyTime>,
    /// Copies of the values of `time` after its last observation.
    offset_us: AtomicI64,
    wall_ahead_us: AtomicI64,
    suspicious: AtomicBool,
    /// When the wall clock is read next, by the monotonic clock.
    observe_at_us: AtomicI64,
    /// The latest time that any thread was given; no thread is given an earlier one.
    latest_ms: AtomicU64,
}

impl SharedTime {
    fn new(start: Reading) -> SharedTime {
        let time = SteadyTime::anchored(start);
        SharedTime {
            offset_us: AtomicI64::new(time.offset_us()),
            wall_ahead_us: AtomicI64::new(0),
            suspicious: AtomicBool::new(false),
            observe_at_us: AtomicI64::new(start.monotonic_us.saturating_add(OBSERVE_EVERY_US)),
            latest_ms: AtomicU64::new(0),
            time: Mutex::new(time),
        }
    }

    fn now(&self, monotonic_us: i64, wall_us: impl FnOnce() -> i64) -> Timestamp {
        if monotonic_us >= self.observe_at_us.load(Ordering::Relaxed)
            && let Some(mut time) = self.time.try_lock()
        {
            self.observe(&mut time, Reading { wall_us: wall_us(), monotonic_us });
        }
        let us = monotonic_us.saturating_add(self.offset_us.load(Ordering::Relaxed));
        let ms = u64::try_from(us).unwrap_or(0) / 1_000;
        Timestamp(self.latest_ms.fetch_max(ms, Ordering::Relaxed).max(ms))
    }

    fn observe(&self, time: &mut SteadyTime, reading: Reading) {
        let was_suspicious = time.is_suspicious();
        let jumped_us = time.observe(reading);
        self.offset_us.store(time.offset_us(), Ordering::Relaxed);
        self.wall_ahead_us.store(time.wall_ahead_us(), Ordering::Relaxed);
        self.suspicious.store(time.is_suspicious(), Ordering::Relaxed);
        self.observe_at_us.store(reading.monotonic_us.saturating_add(OBSERVE_EVERY_US), Ordering::Relaxed);
        let ahead_ms = time.wall_ahead_us() / 1_000;
        if let Some(us) = jumped_us {
            tracing::warn!(
                by_ms = us / 1_000,
                wall_ahead_ms = ahead_ms,
                "the wall clock jumped; the broker's time goes on and follows it slowly"
            );
        }
        match (was_suspicious, time.is_suspicious()) {
            (false, true) => tracing::error!(
                wall_ahead_ms = ahead_ms,
                "the wall clock and the broker's time are far apart: nothing is removed because of its age; set the clock \
                 right, or restart the broker if it is right"
            ),
            (true, false) => tracing::info!(
                wall_ahead_ms = ahead_ms,
                "the wall clock and the broker's time agree again: retention by age goes on"
            ),
            _ => {}
        }
    }

    fn state(&self) -> ClockState {
        ClockState {
            wall_ahead_ms: self.wall_ahead_us.load(Ordering::Relaxed) / 1_000,
            suspicious: self.suspicious.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    /// A wall clock of 2023 on a machine that has been up for a day.
    const WALL: i64 = 1_700_000_000 * SECOND;
    const UP: i64 = 24 * HOUR;

    #[test]
    fn time_goes_on_when_the_wall_clock_jumps_and_never_goes_back() {
        for jump in [-HOUR, 73 * HOUR] {
            let time = SharedTime::new(Reading { wall_us: WALL, monotonic_us: UP });
            let mut last = Timestamp(0);
            // Ten seconds in steps of 50 ms; the wall clock is wrong from the third to the sixth second.
            for step in 0..200 {
                let since = step * 50_000;
                let wrong = (3 * SECOND..6 * SECOND).contains(&since);
                let now = time.now(UP + since, || WALL + since + if wrong { jump } else { 0 });
                assert!(now >= last, "{jump}: {now} after {last}");
                let error = now.0 as i64 - (WALL + since) / 1_000;
                assert!(error.abs() <= 3 * 50 + 1, "{jump}: {error} ms off after {since} us");
                let state = time.state();
                let noticed = wrong && since > 3 * SECOND + OBSERVE_EVERY_US;
                assert!(!noticed || state.suspicious, "{jump}: {state:?} after {since} us");
                last = now;
            }
            assert!(!time.state().suspicious, "{jump}");
        }
    }

    #[test]
    fn the_time_of_this_process_is_that_of_the_machine() {
        let (before, now, after) = (wall_us(), SystemClock.now().0 as i64, wall_us());
        assert!(now >= before / 1_000 - 1_000 && now <= after / 1_000 + 1_000, "{before} {now} {after}");
        assert!(monotonic_us() <= monotonic_us());
    }
}
