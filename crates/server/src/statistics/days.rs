use std::sync::{Mutex, MutexGuard, PoisonError};

use redstart_engine::Timestamp;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// Counts as they stood this morning and yesterday morning; days begin at midnight UTC. Both are 0 until a day has begun
/// since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mornings {
    day: u64,
    pub put_today: u64,
    pub put_yesterday: u64,
    pub got_today: u64,
    pub got_yesterday: u64,
}

/// Remembers the counts of mornings.
#[derive(Debug, Default)]
pub struct Days {
    mornings: Mutex<Mornings>,
}

impl Days {
    pub(super) fn sample(&self, now: Timestamp, put: u64, got: u64) {
        let day = now.0 / DAY_MS;
        let mut mornings = self.lock();
        if mornings.day != 0 && mornings.day != day {
            mornings.put_yesterday = std::mem::replace(&mut mornings.put_today, put);
            mornings.got_yesterday = std::mem::replace(&mut mornings.got_today, got);
        }
        mornings.day = day;
    }

    pub fn mornings(&self) -> Mornings {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Mornings> {
        self.mornings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_day_begins_with_what_was_counted_before_it() {
        let days = Days::default();
        let at = |day: u64| Timestamp(day * DAY_MS + 5);
        days.sample(at(100), 3, 1);
        days.sample(at(100), 10, 2);
        assert_eq!((days.mornings().put_today, days.mornings().put_yesterday), (0, 0));
        days.sample(at(101), 12, 4);
        days.sample(at(102), 20, 5);
        let mornings = days.mornings();
        assert_eq!((mornings.put_today, mornings.put_yesterday), (20, 12));
        assert_eq!((mornings.got_today, mornings.got_yesterday), (5, 4));
    }
}
