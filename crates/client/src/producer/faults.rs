//! Which brokers a producer leaves out for a while, because they were slow or failed. As RocketMQ's `MQFaultStrategy`, keyed by address.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a broker is left out after a slow or failed send.
///
/// Isolation only ever extends: a fast answer does not end it early. While all brokers are left out, all are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPolicy {
    steps: Vec<(Duration, Duration)>,
    error: Duration,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl FaultPolicy {
    /// The table of RocketMQ 5.1.4 and later: a send of 550 ms leaves its broker out for 2 s, a failed one for 10 s.
    pub fn current() -> FaultPolicy {
        let steps =
            [(50, 0), (100, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (15_000, 30_000)];
        FaultPolicy::new(steps, ms(10_000))
    }

    /// The table of RocketMQ 4.x up to 5.1.1: a send of 550 ms leaves its broker out for 30 s, a failed one for 10 minutes.
    pub fn before_5_1_4() -> FaultPolicy {
        let steps = [
            (50, 0),
            (100, 0),
            (550, 30_000),
            (1000, 60_000),
            (2000, 120_000),
            (3000, 180_000),
            (15_000, 600_000),
        ];
        FaultPolicy::new(steps, ms(30_000))
    }

    fn new(steps: [(u64, u64); 7], error: Duration) -> FaultPolicy {
        let steps = steps.map(|(latency, isolation)| (ms(latency), ms(isolation)));
        FaultPolicy { steps: steps.to_vec(), error }
    }

    /// How long a broker is left out after a send that took so long. The highest step that is reached counts.
    pub fn isolation(&self, latency: Duration) -> Duration {
        let reached = self.steps.iter().rev().find(|(step, _)| latency >= *step);
        reached.map_or(Duration::ZERO, |(_, isolation)| *isolation)
    }

    /// The same after a send that failed: it counts as one that took very long.
    pub fn isolation_after_error(&self) -> Duration {
        self.isolation(self.error)
    }
}

impl Default for FaultPolicy {
    fn default() -> FaultPolicy {
        FaultPolicy::current()
    }
}

/// With this many brokers in the table, entries whose isolation is over are removed.
const BROKERS_MAX: usize = 256;

/// What a producer knows of its brokers.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    brokers: HashMap<String, Broker>,
}

#[derive(Debug)]
struct Broker {
    isolated_until: Instant,
    /// The last thing that a broker did was to fail.
    unreachable: bool,
}

/// What became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(Duration),
    Failed,
}

impl Faults {
    /// Notes a send. Fast answers of brokers that were never slow cost nothing.
    pub fn record(&mut self, policy: &FaultPolicy, address: &str, outcome: Outcome, now: Instant) {
        let isolation = match outcome {
            Outcome::Answered(latency) => policy.isolation(latency),
            Outcome::Failed => policy.isolation_after_error(),
        };
        let unreachable = outcome == Outcome::Failed;
        match self.brokers.get_mut(address) {
            Some(broker) => {
                broker.isolated_until = broker.isolated_until.max(now + isolation);
                broker.unreachable = unreachable;
            }
            None if isolation > Duration::ZERO => {
                if self.brokers.len() >= BROKERS_MAX {
                    self.brokers.retain(|_, broker| broker.isolated_until > now);
                }
                self.brokers
                    .insert(address.to_owned(), Broker { isolated_until: now + isolation, unreachable });
            }
            None => {}
        }
    }

    /// Whether nothing speaks against a broker.
    pub fn is_available(&self, address: &str, now: Instant) -> bool {
        self.brokers.get(address).is_none_or(|broker| broker.isolated_until <= now)
    }

    /// Whether a broker may be slow but answers.
    pub fn is_reachable(&self, address: &str) -> bool {
        self.brokers.get(address).is_none_or(|broker| !broker.unreachable)
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.brokers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_have_apaches_steps() {
        let seconds = |policy: &FaultPolicy, latency| policy.isolation(ms(latency)).as_secs();
        let table = |policy: &FaultPolicy, cases: &[(u64, u64)]| {
            for (latency, left_out) in cases {
                assert_eq!(seconds(policy, *latency), *left_out, "{latency} ms");
            }
        };
        let new = FaultPolicy::current();
        table(
            &new,
            &[(0, 0), (49, 0), (50, 0), (100, 0), (549, 0), (550, 2), (1799, 2), (1800, 5), (2999, 5)],
        );
        table(&new, &[(3000, 6), (4999, 6), (5000, 10), (14_999, 10), (15_000, 30), (99_999, 30)]);
        assert_eq!(new.isolation_after_error(), Duration::from_secs(10));
        let old = FaultPolicy::before_5_1_4();
        table(&old, &[(0, 0), (50, 0), (100, 0), (549, 0), (550, 30), (999, 30), (1000, 60), (1999, 60)]);
        table(&old, &[(2000, 120), (2999, 120), (3000, 180), (14_999, 180), (15_000, 600), (99_999, 600)]);
        assert_eq!(old.isolation_after_error(), Duration::from_secs(600));
        assert_eq!(FaultPolicy::default(), new);
    }

    #[test]
    fn isolation_only_ever_extends() {
        let (policy, start) = (FaultPolicy::current(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut faults = Faults::default();
        faults.record(&policy, "a", Outcome::Answered(ms(20)), start);
        assert!(faults.is_empty(), "a broker that does well is not remembered");
        faults.record(&policy, "a", Outcome::Failed, start);
        assert!(!faults.is_available("a", at(9)) && !faults.is_reachable("a"));
        faults.record(&policy, "a", Outcome::Answered(ms(1)), at(1));
        assert!(!faults.is_available("a", at(9)), "a fast answer does not end it");
        assert!(faults.is_reachable("a"), "but the broker answers again");
        faults.record(&policy, "a", Outcome::Answered(ms(600)), at(1));
        assert!(!faults.is_available("a", at(9)), "nor does a shorter isolation");
        assert!(faults.is_available("a", at(10)));
        assert!(faults.is_available("b", at(0)) && faults.is_reachable("b"));
        faults.record(&policy, "a", Outcome::Answered(ms(15_000)), at(20));
        assert!(!faults.is_available("a", at(49)) && faults.is_available("a", at(50)));
    }
}
