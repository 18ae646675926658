//! The order of work, against a ledger in memory that fails where it is told to.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Mutex,
    time::Duration,
};

use super::*;
use crate::{Decision, Queue};

#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    committed: BTreeSet<String>,
    steps: Vec<String>,
    /// Commits that fail, and whether they happen all the same.
    failures: VecDeque<(&'static str, bool)>,
}

#[derive(Debug)]
struct MemoryTx(Vec<String>);

impl Memory {
    fn note(&self, step: &str) {
        self.0.lock().expect("no panic").steps.push(step.to_owned());
    }

    fn steps(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic").steps)
    }

    fn fail(&self, how: &'static str, happens: bool) {
        self.0.lock().expect("no panic").failures.push_back((how, happens));
    }
}

impl Ledger for Memory {
    type Tx = MemoryTx;
    type Error = &'static str;

    async fn migrate(&self) -> Result<(), &'static str> {
        Ok(())
    }

    async fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    async fn begin(&self) -> Result<MemoryTx, &'static str> {
        self.note("begin");
        Ok(MemoryTx(Vec::new()))
    }

    async fn claim(&self, tx: &mut MemoryTx, claims: &[Claim]) -> Result<Vec<Claimed>, &'static str> {
        let keys: Vec<&str> = claims.iter().map(|claim| claim.key.as_str()).collect();
        self.note(&format!("claim {}", keys.join(" ")));
        let state = self.0.lock().expect("no panic");
        let mut claimed = Vec::new();
        for claim in claims {
            let seen = state.committed.contains(&claim.key) || tx.0.contains(&claim.key);
            claimed.push(if seen { Claimed::Seen } else { Claimed::Fresh });
            tx.0.push(claim.key.clone());
        }
        Ok(claimed)
    }

    async fn holds(&self, tx: &mut MemoryTx, claim: &Claim) -> Result<bool, &'static str> {
        Ok(tx.0.contains(&claim.key))
    }

    async fn commit(&self, tx: MemoryTx) -> Result<(), &'static str> {
        self.note("commit");
        let mut state = self.0.lock().expect("no panic");
        let failure = state.failures.pop_front();
        if failure.is_none_or(|(_, happens)| happens) {
            state.committed.extend(tx.0);
        }
        failure.map_or(Ok(()), |(how, _)| Err(how))
    }

    fn is_conflict(&self, error: &&'static str) -> bool {
        *error == "deadlock"
    }

    async fn sweep(&self, _older_than: Duration, _max: u32) -> Result<u64, &'static str> {
        Ok(0)
    }

    async fn forget(&self, _group: &str, _queue: &Queue, _from: i64) -> Result<u64, &'static str> {
        Ok(0)
    }

    async fn record(&self, _tx: &mut MemoryTx, _group: &str, _id: &str) -> Result<Decision, &'static str> {
        Ok(Decision::Committed)
    }

    async fn is_recorded(&self, _tx: &mut MemoryTx, _group: &str, _id: &str) -> Result<bool, &'static str> {
        Ok(true)
    }

    async fn decide(&self, _group: &str, _id: &str) -> Result<Decision, &'static str> {
        Ok(Decision::Fenced)
    }
}

async fn run(ledger: &Memory, key: &str) -> Result<Option<Outcome>, String> {
    let work = |tx| {
        ledger.note("work");
        std::future::ready(Ok::<MemoryTx, String>(tx))
    };
    once(ledger, &Claim::new("g", key), work).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_message_is_claimed_before_its_work_and_a_second_delivery_does_no_work() {
    let ledger = Memory::default();
    assert_eq!(run(&ledger, "a").await, Ok(Some(Outcome::Done)));
    assert_eq!(ledger.steps(), ["begin", "claim a", "work", "commit"]);
    assert_eq!(run(&ledger, "a").await, Ok(None));
    assert_eq!(ledger.steps(), ["begin", "claim a"]);
}

#[tokio::test]
async fn a_transaction_that_lost_is_run_again_as_a_whole_and_other_failures_are_not() {
    let ledger = Memory::default();
    ledger.fail("deadlock", false);
    assert_eq!(run(&ledger, "a").await, Ok(Some(Outcome::Done)));
    assert_eq!(ledger.steps(), ["begin", "claim a", "work", "commit", "begin", "claim a", "work", "commit"]);
    ledger.fail("connection lost", true);
    let error = run(&ledger, "b").await.expect_err("it is not known");
    assert_eq!(error, "the ledger failed: connection lost");
    assert_eq!(run(&ledger, "b").await, Ok(None), "the next delivery finds out that it was committed");
}

#[tokio::test]
async fn a_transaction_that_the_database_has_rolled_back_is_not_committed() {
    let ledger = Memory::default();
    let times = Mutex::new(0);
    let work = |mut tx: MemoryTx| {
        let mut times = times.lock().expect("no panic");
        *times += 1;
        if *times == 1 {
            tx.0.clear();
        }
        std::future::ready(Ok::<MemoryTx, String>(tx))
    };
    let done = once(&ledger, &Claim::new("g", "a"), work).await.map_err(|error| error.to_string());
    assert_eq!(done, Ok(Some(Outcome::Done)));
    assert_eq!(ledger.steps(), ["begin", "claim a", "begin", "claim a", "commit"]);
}

#[tokio::test]
async fn work_that_fails_or_aborts_leaves_no_claim() {
    let ledger = Memory::default();
    let claim = Claim::new("g", "a");
    let failed = once(&ledger, &claim, |_tx| std::future::ready(Err::<MemoryTx, _>("no"))).await;
    assert!(matches!(failed, Err(OnceError::Work("no"))));
    let dead = || Outcome::DeadLetter("never".to_owned());
    let aborted =
        once(&ledger, &claim, |_tx| std::future::ready(Ok::<_, String>(Effect::<MemoryTx>::Abort(dead()))))
            .await;
    assert_eq!(aborted.map_err(|error| error.to_string()), Ok(Some(dead())));
    assert_eq!(run(&ledger, "a").await, Ok(Some(Outcome::Done)), "it can still take effect");
}

#[tokio::test]
async fn a_batch_claims_in_one_order_and_works_on_what_is_fresh() {
    let ledger = Memory::default();
    assert_eq!(run(&ledger, "b").await, Ok(Some(Outcome::Done)));
    ledger.steps();
    let claims = ["c", "b", "a", "c"].map(|key| Claim::new("g", key));
    let seen = Mutex::new(Vec::new());
    let work = |fresh: Vec<usize>, tx| {
        *seen.lock().expect("no panic") = fresh;
        std::future::ready(Ok::<MemoryTx, String>(tx))
    };
    let done = once_all(&ledger, &claims, work).await.map_err(|error| error.to_string());
    assert_eq!(done, Ok(Some(Outcome::Done)));
    assert_eq!(ledger.steps()[1], "claim a b c c", "sorted, so that two batches cannot wait for each other");
    assert_eq!(*seen.lock().expect("no panic"), [0, 2], "in the order of the batch, and none twice");
}
