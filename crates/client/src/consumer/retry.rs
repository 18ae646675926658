use std::time::Duration;

/// When a message that could not be processed comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    waits: Vec<Duration>,
}

const SECONDS: [u64; 16] = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

impl Default for RetryPolicy {
    /// RocketMQ's ladder: 10 s, 30 s, 1 to 10 minutes, 20 minutes, 30 minutes, 1 hour, then 2 hours each.
    fn default() -> RetryPolicy {
        RetryPolicy { waits: SECONDS.map(Duration::from_secs).to_vec() }
    }
}

impl RetryPolicy {
    /// The same wait each time.
    pub fn every(wait: Duration) -> RetryPolicy {
        RetryPolicy { waits: vec![wait] }
    }

    /// These waits in their order; the last one repeats. No waits: at once.
    pub fn ladder(waits: impl IntoIterator<Item = Duration>) -> RetryPolicy {
        RetryPolicy { waits: waits.into_iter().collect() }
    }

    /// The wait after a delivery, the first being 1.
    pub fn wait(&self, attempt: u32) -> Duration {
        let place = attempt.saturating_sub(1) as usize;
        self.waits.get(place).or(self.waits.last()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_rocketmqs_and_its_last_step_repeats() {
        let policy = RetryPolicy::default();
        let seconds = |attempt| policy.wait(attempt).as_secs();
        assert_eq!((seconds(0), seconds(1), seconds(2), seconds(3), seconds(12)), (10, 10, 30, 60, 600));
        assert_eq!(
            (seconds(13), seconds(14), seconds(15), seconds(16), seconds(99)),
            (1200, 1800, 3600, 7200, 7200)
        );
        let all: u64 = (1..=16).map(seconds).sum();
        assert_eq!(all, 4 * 3600 + 46 * 60 - 20, "4 h 46 min in all, less 20 s");
        assert_eq!(RetryPolicy::every(Duration::from_secs(3)).wait(7), Duration::from_secs(3));
        assert_eq!(RetryPolicy::ladder([]).wait(1), Duration::ZERO);
    }
}
