use std::time::{Duration, Instant};

/// A peer that reads nothing of what waits for it for this long is gone.
pub(crate) const STUCK_MAX: Duration = Duration::from_secs(30);
/// While bytes are scarce, a peer has to read so many in [`STUCK_MAX`], or everything that waits for it.
const FAIR_BYTES: usize = 1 << 20;

/// Whether a peer reads what waits for it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When it last read something, or nothing waited for it.
    read_at: Instant,
    /// When it last had read a fair amount, and what it has read since.
    fair_at: Instant,
    read: usize,
}

impl Progress {
    pub fn new(now: Instant) -> Progress {
        Progress { read_at: now, fair_at: now, read: 0 }
    }

    /// Nothing waits for it.
    pub fn is_done(&mut self, now: Instant) {
        *self = Progress::new(now);
    }

    /// It has read so much, and more waits.
    pub fn read(&mut self, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.read_at = now;
        }
        self.read += bytes;
        if self.read >= FAIR_BYTES {
            *self = Progress::new(now);
        }
    }

    pub fn is_stuck(&self, now: Instant, limit: Duration, scarce: bool) -> bool {
        let since = if scarce { self.fair_at } else { self.read_at };
        now.saturating_duration_since(since) >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_reads_little_is_borne_until_bytes_are_scarce() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let stuck = |progress: &Progress, seconds| {
            [false, true].map(|scarce| progress.is_stuck(at(seconds), STUCK_MAX, scarce))
        };
        let mut progress = Progress::new(start);
        assert_eq!(stuck(&progress, 29), [false, false]);
        assert_eq!(stuck(&progress, 30), [true, true]);
        progress.read(1, at(20));
        assert_eq!(stuck(&progress, 30), [false, true]);
        progress.read(0, at(40));
        assert_eq!(stuck(&progress, 50), [true, true], "nothing was read");
        progress.read(FAIR_BYTES - 1, at(50));
        assert_eq!(stuck(&progress, 79), [false, false]);
        progress.is_done(at(90));
        assert_eq!(stuck(&progress, 119), [false, false]);
    }
}
