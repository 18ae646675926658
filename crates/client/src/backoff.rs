use std::time::Duration;

use crate::random::random_fraction;

/// Waits that grow from one attempt to the next.
///
/// ```
/// # use std::time::Duration;
/// # use redstart_client::Backoff;
/// let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
/// assert_eq!(backoff.wait(1), Duration::from_millis(10));
/// assert_eq!(backoff.wait(3), Duration::from_millis(40));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The wait after the first attempt.
    pub first: Duration,
    /// Each wait is this many times the one before.
    pub factor: f64,
    /// No wait is longer.
    pub max: Duration,
    /// The part of a wait that is random, from 0 to 1. With 1 a wait is anything from none to the whole, so that clients that
    /// failed together do not return together.
    pub jitter: f64,
}

impl Default for Backoff {
    /// 10 ms, doubled up to 1 s, with full jitter.
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(10), factor: 2.0, max: Duration::from_secs(1), jitter: 1.0 }
    }
}

impl Backoff {
    /// For connections: 100 ms, doubled up to 10 s, with half jitter.
    pub(crate) fn of_connections() -> Backoff {
        Backoff { first: Duration::from_millis(100), factor: 2.0, max: Duration::from_secs(10), jitter: 0.5 }
    }

    /// The wait after so many failed attempts.
    pub fn wait(&self, failed: u32) -> Duration {
        self.wait_with(failed, random_fraction())
    }

    fn wait_with(&self, failed: u32, random: f64) -> Duration {
        let grown =
            self.first.as_secs_f64() * self.factor.max(1.0).powi(failed.saturating_sub(1).min(64) as i32);
        let whole = grown.min(self.max.as_secs_f64());
        let jitter = self.jitter.clamp(0.0, 1.0);
        Duration::try_from_secs_f64(whole * (1.0 - jitter + jitter * random)).unwrap_or(self.max)
    }

    pub(crate) fn faults(&self, faults: &mut Vec<String>) {
        if !(self.factor.is_finite() && self.factor >= 1.0) {
            faults.push(format!("the back-off factor is {}, it must be at least 1", self.factor));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            faults.push(format!("the back-off jitter is {}, it must be from 0 to 1", self.jitter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_limit_and_jitter_shortens_them() {
        let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
        let waits: Vec<u128> = (1..=9).map(|failed| backoff.wait(failed).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(backoff.wait(u32::MAX), Duration::from_secs(1));
        let full = Backoff::default();
        assert_eq!(full.wait_with(3, 0.0), Duration::ZERO);
        assert_eq!(full.wait_with(3, 0.5), Duration::from_millis(20));
        let half = Backoff { jitter: 0.5, ..full };
        assert_eq!(half.wait_with(1, 0.0), Duration::from_millis(5));
        assert!((0..100).all(|_| full.wait(9) < Duration::from_secs(1)));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let mut faults = Vec::new();
        Backoff { factor: 0.5, jitter: 2.0, ..Backoff::default() }.faults(&mut faults);
        assert_eq!(faults.len(), 2);
        Backoff { factor: f64::NAN, jitter: f64::NAN, ..Backoff::default() }.faults(&mut faults);
        assert_eq!(faults.len(), 4);
    }
}
