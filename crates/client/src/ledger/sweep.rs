//! Removing claims that no delivery can ask for any more.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::Ledger;
use crate::random::random_fraction;

/// Which claims are removed, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepPolicy {
    /// How long a claim is kept. It must be at least as long as a message can be delivered: the topic's retention and the waits
    /// between its attempts.
    pub keep: Duration,
    /// The time between two sweeps.
    pub every: Duration,
    /// The most claims of one statement.
    pub batch: u32,
}

impl Default for SweepPolicy {
    /// 77 hours, which is RocketMQ's retention and its ladder of retries; every minute; 1,000 claims a statement.
    fn default() -> SweepPolicy {
        SweepPolicy { keep: Duration::from_secs(77 * 3600), every: Duration::from_secs(60), batch: 1000 }
    }
}

/// Removes old claims until it is dropped. Several may run, in several processes: each finds what is left.
#[derive(Debug)]
pub struct Sweeper {
    task: JoinHandle<()>,
}

impl Sweeper {
    /// Starts sweeping.
    pub fn start<L: Ledger>(ledger: L, policy: SweepPolicy) -> Sweeper {
        Sweeper { task: tokio::spawn(sweep_on(ledger, policy)) }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sweep_on<L: Ledger>(ledger: L, policy: SweepPolicy) {
    loop {
        // Sweepers that were started together do not sweep together.
        tokio::time::sleep(policy.every.mul_f64(0.5 + random_fraction())).await;
        loop {
            match ledger.sweep(policy.keep, policy.batch).await {
                Ok(removed) if removed >= u64::from(policy.batch) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "old claims were not removed");
                    break;
                }
            }
        }
    }
}
