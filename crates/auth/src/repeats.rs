//! Bounds what one source writes into the audit log: the first denials of a minute are written one by one, the rest is counted
//! and said once.

use std::{collections::BTreeMap, net::IpAddr};

/// Denials of one source that are written in a window.
const WRITTEN_MAX: u64 = 20;
pub const WINDOW_MS: i64 = 60_000;
const SOURCES_MAX: usize = 1024;

/// Denials by source. Its memory is bounded: sources past the bound share one window.
#[derive(Debug, Default)]
pub struct Repeats {
    sources: BTreeMap<IpAddr, Window>,
    others: Option<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: i64,
    denials: u64,
}

/// Denials of a window that were not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritten {
    /// `None` for the sources past the bound.
    pub source: Option<IpAddr>,
    pub count: u64,
}

impl Repeats {
    /// Whether a denial is to be written. Times are in milliseconds of a clock that does not go back.
    pub fn is_written(&mut self, source: IpAddr, now: i64) -> bool {
        let new = Window { began: now, denials: 0 };
        let window = if self.sources.len() < SOURCES_MAX || self.sources.contains_key(&source) {
            self.sources.entry(source).or_insert(new)
        } else {
            self.others.get_or_insert(new)
        };
        window.denials = window.denials.saturating_add(1);
        window.denials <= WRITTEN_MAX
    }

    /// Ends the windows whose time is over. To be called about once a second.
    pub fn end(&mut self, now: i64) -> Vec<Unwritten> {
        let is_over = |window: &Window| now - window.began >= WINDOW_MS;
        let mut ended = Vec::new();
        self.sources.retain(|source, window| {
            if is_over(window) {
                ended.extend(window.unwritten(Some(*source)));
            }
            !is_over(window)
        });
        if let Some(window) = self.others.take_if(|window| is_over(window)) {
            ended.extend(window.unwritten(None));
        }
        ended
    }
}

impl Window {
    fn unwritten(self, source: Option<IpAddr>) -> Option<Unwritten> {
        let count = self.denials.checked_sub(WRITTEN_MAX).filter(|count| *count > 0)?;
        Some(Unwritten { source, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + host).into())
    }

    #[test]
    fn the_first_denials_of_a_source_are_written_and_the_rest_is_counted() {
        let mut repeats = Repeats::default();
        let written = (0..1000).filter(|_| repeats.is_written(address(1), 5)).count();
        assert_eq!(written as u64, WRITTEN_MAX);
        assert!(repeats.is_written(address(2), 5), "another source is not concerned");
        assert_eq!(repeats.end(5 + WINDOW_MS - 1), []);
        let expected = Unwritten { source: Some(address(1)), count: 1000 - WRITTEN_MAX };
        assert_eq!(repeats.end(5 + WINDOW_MS), [expected]);
        assert_eq!(repeats.end(5 + 2 * WINDOW_MS), [], "it is said once");
        assert!(repeats.is_written(address(1), 6 + WINDOW_MS), "a new window");
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut repeats = Repeats::default();
        let written =
            (0..3 * SOURCES_MAX as u32).filter(|host| repeats.is_written(address(*host), 0)).count();
        assert_eq!(written as u64, SOURCES_MAX as u64 + WRITTEN_MAX);
        assert_eq!(repeats.sources.len(), SOURCES_MAX);
        let count = 2 * SOURCES_MAX as u64 - WRITTEN_MAX;
        assert_eq!(repeats.end(WINDOW_MS), [Unwritten { source: None, count }]);
        assert!(repeats.sources.is_empty() && repeats.others.is_none());
    }
}
