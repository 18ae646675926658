//! Bounds how often a repeated failure is logged.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time between two lines about the same failure.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets a failure be logged once a second, with a count of what was left out in between. Keep one for each kind of failure:
///
/// ```ignore
/// static REFUSED: Throttle = Throttle::new();
/// if let Some(repeated) = REFUSED.permit() {
///     tracing::warn!(%error, repeated, "the log refused a frame");
/// }
/// ```
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    logged_at: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    pub const fn new() -> Throttle {
        Throttle(Mutex::new(State { logged_at: None, suppressed: 0 }))
    }

    /// Whether to log now; if so, how many times the failure was not logged since the last line.
    pub fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.logged_at.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.logged_at = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_is_logged_once_a_second_with_a_count() {
        let (throttle, start) = (Throttle::new(), Instant::now());
        assert_eq!(throttle.permit_at(start), Some(0));
        assert_eq!(throttle.permit_at(start + INTERVAL / 2), None);
        assert_eq!(throttle.permit_at(start + INTERVAL / 2), None);
        assert_eq!(throttle.permit_at(start + INTERVAL), Some(2));
        assert_eq!(throttle.permit_at(start + INTERVAL * 3), Some(0));
    }
}
