//! The counts at the start of today and of yesterday, which `mqadmin brokerStatus` shows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redstart_engine::Timestamp;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// The counts of stored and delivered messages at the start of today and of yesterday. Days begin at midnight UTC. Both are
/// 0 until a day has begun while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DayStartCounts {
    day: u64,
    pub put_today: u64,
    pub put_yesterday: u64,
    pub got_today: u64,
    pub got_yesterday: u64,
}

/// Keeps the counts at the start of the last two days.
#[derive(Debug, Default)]
pub struct DayStarts {
    counts: Mutex<DayStartCounts>,
}

impl DayStarts {
    pub(super) fn sample(&self, now: Timestamp, put: u64, got: u64) {
        let day = now.0 / DAY_MS;
        let mut counts = self.lock();
        if counts.day != 0 && counts.day != day {
            counts.put_yesterday = std::mem::replace(&mut counts.put_today, put);
            counts.got_yesterday = std::mem::replace(&mut counts.got_today, got);
        }
        counts.day = day;
    }

    pub fn counts(&self) -> DayStartCounts {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, DayStartCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_day_begins_with_what_was_counted_before_it() {
        let days = DayStarts::default();
        let at = |day: u64| Timestamp(day * DAY_MS + 5);
        days.sample(at(100), 3, 1);
        days.sample(at(100), 10, 2);
        assert_eq!((days.counts().put_today, days.counts().put_yesterday), (0, 0));
        days.sample(at(101), 12, 4);
        days.sample(at(102), 20, 5);
        let counts = days.counts();
        assert_eq!((counts.put_today, counts.put_yesterday), (20, 12));
        assert_eq!((counts.got_today, counts.got_yesterday), (5, 4));
    }
}
