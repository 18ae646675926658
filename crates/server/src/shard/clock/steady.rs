//! Engine time as a function of the readings of two clocks. No clock is read here.

/// Engine time gains or loses at most one part in this many while it follows the wall clock: three minutes in an hour.
const SLEW_DIVISOR: i64 = 20;
/// Differences up to this are not corrected: the two clocks are not read at the same instant.
const TOLERANCE_US: i64 = 2_000;
/// Time between two observations that counts for a correction; a machine that slept may have had a long one.
const SLEW_TIME_MAX_US: i64 = 1_000_000;
/// A change of the wall clock against the monotonic one that is logged.
const JUMP_US: i64 = 500_000;
/// From this difference on it is not known which of the two is right.
const SUSPICIOUS_US: i64 = 300_000_000;

/// The two clocks at one instant, in microseconds: Unix time, and the time since an arbitrary start.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub wall_us: i64,
    pub monotonic_us: i64,
}

/// Unix time that is taken from the wall clock once and carried on by the monotonic clock.
///
/// A wall clock that jumps is not followed at once: engine time is slewed towards it by at most 1/20 of the time that passes, so
/// that a wrong clock which is set right soon has moved it by little, and one that was right comes to count in the end.
/// While the two are more than five minutes apart the time is suspicious. A restart takes the wall clock as it is.
#[derive(Debug)]
pub struct SteadyTime {
    /// Engine time minus monotonic time.
    offset_us: i64,
    /// Wall clock minus monotonic time, and when that was observed.
    wall_offset_us: i64,
    observed_at_us: i64,
}

impl SteadyTime {
    pub fn anchored(start: Reading) -> SteadyTime {
        let offset_us = start.wall_us.saturating_sub(start.monotonic_us);
        SteadyTime { offset_us, wall_offset_us: offset_us, observed_at_us: start.monotonic_us }
    }

    /// Takes a reading of the clocks. Returns by how much the wall clock has jumped since the last one, if it has.
    pub fn observe(&mut self, reading: Reading) -> Option<i64> {
        let passed = reading.monotonic_us.saturating_sub(self.observed_at_us).clamp(0, SLEW_TIME_MAX_US);
        let wall_offset = reading.wall_us.saturating_sub(reading.monotonic_us);
        let moved = wall_offset.saturating_sub(self.wall_offset_us);
        self.wall_offset_us = wall_offset;
        self.observed_at_us = reading.monotonic_us;
        let ahead = self.wall_ahead_us();
        if ahead.abs() > TOLERANCE_US {
            let most = passed / SLEW_DIVISOR;
            self.offset_us = self.offset_us.saturating_add(ahead.clamp(-most, most));
        }
        (moved.abs() >= JUMP_US).then_some(moved)
    }

    /// Engine time minus monotonic time.
    pub fn offset_us(&self) -> i64 {
        self.offset_us
    }

    /// How far the wall clock is ahead of engine time.
    pub fn wall_ahead_us(&self) -> i64 {
        self.wall_offset_us.saturating_sub(self.offset_us)
    }

    pub fn is_suspicious(&self) -> bool {
        self.wall_ahead_us().abs() > SUSPICIOUS_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000;
    const SECOND: i64 = 1_000 * MS;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;

    /// A wall clock that is off by `error` from `from` to `to`, looked at ten times a second.
    struct Case {
        name: &'static str,
        error: i64,
        from: i64,
        to: i64,
        /// How long it is watched.
        until: i64,
        /// Error of engine time at the end, at most.
        engine_error: std::ops::RangeInclusive<i64>,
        jumps: usize,
        suspicious_at_end: bool,
    }

    #[test]
    fn jumps_are_slewed_and_not_believed() {
        let cases = [
            Case {
                name: "a clock that is right",
                error: 0,
                from: 0,
                to: 0,
                until: HOUR,
                engine_error: 0..=0,
                jumps: 0,
                suspicious_at_end: false,
            },
            Case {
                name: "a correction of some milliseconds is taken over within a second",
                error: 40 * MS,
                from: MINUTE,
                to: HOUR,
                until: MINUTE + 2 * SECOND,
                engine_error: 38 * MS..=40 * MS,
                jumps: 0,
                suspicious_at_end: false,
            },
            Case {
                name: "a second back is made up for in 20 seconds",
                error: -SECOND,
                from: MINUTE,
                to: HOUR,
                until: MINUTE + 21 * SECOND,
                engine_error: -SECOND..=-SECOND + 2 * MS,
                jumps: 1,
                suspicious_at_end: false,
            },
            Case {
                name: "73 hours ahead for a minute, and right again",
                error: 73 * HOUR,
                from: MINUTE,
                to: 2 * MINUTE,
                until: 10 * MINUTE,
                engine_error: 0..=2 * MS,
                jumps: 2,
                suspicious_at_end: false,
            },
            Case {
                name: "73 hours ahead for good: three minutes an hour",
                error: 73 * HOUR,
                from: MINUTE,
                to: 99 * HOUR,
                until: HOUR + MINUTE,
                engine_error: 3 * MINUTE - SECOND..=3 * MINUTE,
                jumps: 1,
                suspicious_at_end: true,
            },
            Case {
                name: "an hour back for good",
                error: -HOUR,
                from: MINUTE,
                to: 99 * HOUR,
                until: 2 * HOUR + MINUTE,
                engine_error: -6 * MINUTE..=-6 * MINUTE + SECOND,
                jumps: 1,
                suspicious_at_end: true,
            },
            Case {
                name: "an hour back is made up for within a day",
                error: -HOUR,
                from: MINUTE,
                to: 99 * HOUR,
                until: 21 * HOUR,
                engine_error: -HOUR..=-HOUR + 2 * MS,
                jumps: 1,
                suspicious_at_end: false,
            },
        ];
        for case in cases {
            let wall = 1_700_000_000 * SECOND;
            let mut time = SteadyTime::anchored(Reading { wall_us: wall, monotonic_us: 5 });
            let (mut jumps, mut last) = (0, i64::MIN);
            for since in (0..case.until).step_by(100 * MS as usize) {
                let error = if (case.from..case.to).contains(&since) { case.error } else { 0 };
                let reading = Reading { wall_us: wall + since + error, monotonic_us: 5 + since };
                jumps += usize::from(time.observe(reading).is_some());
                let now = reading.monotonic_us + time.offset_us();
                assert!(now > last, "{}: time stands still after {since} us", case.name);
                last = now;
            }
            let error = time.offset_us() - (wall - 5);
            assert!(case.engine_error.contains(&error), "{}: {error} us", case.name);
            assert_eq!(jumps, case.jumps, "{}", case.name);
            assert_eq!(time.is_suspicious(), case.suspicious_at_end, "{}", case.name);
        }
    }

    #[test]
    fn sleep_that_the_monotonic_clock_counts_is_no_jump() {
        let mut time = SteadyTime::anchored(Reading { wall_us: 100 * HOUR, monotonic_us: 0 });
        let woken = Reading { wall_us: 108 * HOUR, monotonic_us: 8 * HOUR };
        assert_eq!(time.observe(woken), None);
        assert_eq!((time.offset_us(), time.is_suspicious()), (100 * HOUR, false));
    }
}
