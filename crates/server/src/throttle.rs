//! Bounds how often a line is logged.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const WINDOW: Duration = Duration::from_secs(1);

/// Lets a line be logged once a second (or a few times, see [`Throttle::per_second`]), with the number of times it was left out
/// since the last one. Keep one for each line:
///
/// ```ignore
/// static REFUSED: Throttle = Throttle::new();
/// if let Some(repeated) = REFUSED.permit() {
///     tracing::warn!(%error, repeated, "the log refused a frame");
/// }
/// ```
#[derive(Debug)]
pub(crate) struct Throttle {
    per_second: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the window of a second began, and the lines logged in it.
    began: Option<Instant>,
    logged: u64,
    suppressed: u64,
}

impl Throttle {
    pub const fn new() -> Throttle {
        Throttle::per_second(1)
    }

    /// For lines of which each says something new.
    pub const fn per_second(lines: u64) -> Throttle {
        Throttle { per_second: lines, state: Mutex::new(State { began: None, logged: 0, suppressed: 0 }) }
    }

    /// Whether to log now; if so, how many times the line was left out since the last one.
    pub fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state.began.is_none_or(|at| now.saturating_duration_since(at) >= WINDOW) {
            (state.began, state.logged) = (Some(now), 0);
        }
        if state.logged >= self.per_second {
            state.suppressed += 1;
            return None;
        }
        state.logged += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_line_is_logged_once_a_second_with_a_count() {
        let (throttle, start) = (Throttle::new(), Instant::now());
        assert_eq!(throttle.permit_at(start), Some(0));
        assert_eq!(throttle.permit_at(start + WINDOW / 2), None);
        assert_eq!(throttle.permit_at(start + WINDOW / 2), None);
        assert_eq!(throttle.permit_at(start + WINDOW), Some(2));
        assert_eq!(throttle.permit_at(start + WINDOW * 3), Some(0));
    }

    #[test]
    fn lines_that_differ_are_logged_a_few_times_a_second() {
        let (throttle, start) = (Throttle::per_second(2), Instant::now());
        let permits = [0, 1, 2, 3].map(|quarter| throttle.permit_at(start + WINDOW / 4 * quarter));
        assert_eq!(permits, [Some(0), Some(0), None, None]);
        assert_eq!(throttle.permit_at(start + WINDOW), Some(2));
        assert_eq!(throttle.permit_at(start + WINDOW), Some(0));
    }
}
