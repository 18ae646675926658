//! Detects a peer that does not read the bytes that are sent to it.

use std::time::{Duration, Instant};

/// A connection is closed when its peer reads none of the bytes to be sent for this long.
pub(crate) const STUCK_MAX: Duration = Duration::from_secs(30);
/// While the byte budget is scarce, a peer has to read this many bytes in [`STUCK_MAX`], or all bytes to be sent.
const FAIR_BYTES: usize = 1 << 20;

/// Decides whether a peer reads the bytes that are to be sent to it.
#[derive(Debug)]
pub(crate) struct StallDetector {
    /// When the peer last read something, or nothing was to be sent.
    read_at: Instant,
    /// When the peer had last read [`FAIR_BYTES`], and the bytes that it has read since.
    fair_at: Instant,
    read_since_fair: usize,
}

impl StallDetector {
    pub fn new(now: Instant) -> StallDetector {
        StallDetector { read_at: now, fair_at: now, read_since_fair: 0 }
    }

    /// Nothing is to be sent.
    pub fn reset(&mut self, now: Instant) {
        *self = StallDetector::new(now);
    }

    /// The peer has read `bytes`, and more are to be sent.
    pub fn peer_read(&mut self, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.read_at = now;
        }
        self.read_since_fair += bytes;
        if self.read_since_fair >= FAIR_BYTES {
            *self = StallDetector::new(now);
        }
    }

    /// Whether the connection is to be closed. `scarce`: only the reserve of the byte budget is left.
    pub fn is_stuck(&self, now: Instant, limit: Duration, scarce: bool) -> bool {
        let since = if scarce { self.fair_at } else { self.read_at };
        now.saturating_duration_since(since) >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_reads_little_is_tolerated_until_bytes_are_scarce() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let stuck = |stall: &StallDetector, seconds| {
            [false, true].map(|scarce| stall.is_stuck(at(seconds), STUCK_MAX, scarce))
        };
        let mut stall = StallDetector::new(start);
        assert_eq!(stuck(&stall, 29), [false, false]);
        assert_eq!(stuck(&stall, 30), [true, true]);
        stall.peer_read(1, at(20));
        assert_eq!(stuck(&stall, 30), [false, true]);
        stall.peer_read(0, at(40));
        assert_eq!(stuck(&stall, 50), [true, true], "nothing was read");
        stall.peer_read(FAIR_BYTES - 1, at(50));
        assert_eq!(stuck(&stall, 79), [false, false]);
        stall.reset(at(90));
        assert_eq!(stuck(&stall, 119), [false, false]);
    }
}
