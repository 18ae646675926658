//! The growing pause between attempts that make no progress.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// How long to wait before the next attempt: twice as long after each one that made no progress, up to a bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff(Duration);

impl Backoff {
    /// The wait after one more attempt without progress.
    pub fn next(self) -> Backoff {
        Backoff((self.0 * 2).clamp(FIRST, LONGEST))
    }

    /// When the next attempt is due.
    pub fn until(self, uptime: Duration) -> Duration {
        uptime + self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            backoff = backoff.next();
            waits.push(backoff.until(Duration::ZERO).as_millis());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 500, 500]);
    }
}
