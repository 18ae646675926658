//! What every ledger promises.

use std::{sync::Arc, time::Duration};

use redstart_client::{Claim, Claimed, Decision, Outcome, Queue, once};
use tokio::sync::Barrier;

use crate::counting::Counting;

pub async fn suite<L: Counting>(ledger: L) {
    ledger.check().await.unwrap();
    claims(&ledger).await;
    concurrent_duplicates(&ledger).await;
    failures(&ledger).await;
    deadlocks(&ledger).await;
    old_claims(&ledger).await;
    fences(&ledger).await;
    ledger.execute("DROP TABLE redstart_inbox").await;
    ledger.check().await.unwrap_err();
}

async fn claim<L: Counting>(ledger: &L, keys: &[&str]) -> Vec<Claimed> {
    let mut tx = ledger.begin().await.unwrap();
    let claims: Vec<Claim> = keys.iter().map(|key| Claim::new("g", *key)).collect();
    let claimed = ledger.claim(&mut tx, &claims).await.unwrap();
    ledger.commit(tx).await.unwrap();
    claimed
}

async fn claims<L: Counting>(ledger: &L) {
    use Claimed::{Fresh, Seen};
    assert_eq!(claim(ledger, &["a", "A", "ä", "a "]).await, [Fresh; 4], "texts are compared byte by byte");
    assert_eq!(claim(ledger, &["a", "b", "b"]).await, [Seen, Fresh, Seen]);
    let mut tx = ledger.begin().await.unwrap();
    assert_eq!(ledger.claim(&mut tx, &[Claim::new("g", "c")]).await.unwrap(), [Fresh]);
    assert!(ledger.holds(&mut tx, &Claim::new("g", "c")).await.unwrap());
    assert!(!ledger.holds(&mut tx, &Claim::new("g", "d")).await.unwrap());
    drop(tx);
    assert_eq!(claim(ledger, &["c"]).await, [Fresh], "a transaction that is dropped is rolled back");
}

/// Two deliveries of one message at the same time: the second waits, and does not run its handler.
async fn concurrent_duplicates<L: Counting>(ledger: &L) {
    let start = Arc::new(Barrier::new(10));
    let deliveries = (0..10).map(|_| {
        let (ledger, start) = (ledger.clone(), start.clone());
        tokio::spawn(async move {
            start.wait().await;
            let work = |mut tx: L::Tx| async move {
                L::count(&mut tx, "twice").await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok::<_, L::Error>(tx)
            };
            once(&ledger, &Claim::new("g", "twice"), work)
                .await
                .map_err(|error| format!("{error:?}"))
                .unwrap()
        })
    });
    let mut done = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        done += usize::from(delivery.await.unwrap() == Some(Outcome::Done));
    }
    assert_eq!((done, ledger.counts().await), (1, (1, 1)));
}

/// A handler that goes on after a statement has failed must not be committed without what it did before.
async fn failures<L: Counting>(ledger: &L) {
    let work = |mut tx: L::Tx| async move {
        L::count(&mut tx, "after a failure").await?;
        L::fail(&mut tx).await;
        Ok::<_, L::Error>(tx)
    };
    let done = once(ledger, &Claim::new("g", "after a failure"), work).await;
    let before = ledger.counts().await.0;
    match done {
        // MySQL and SQLite undo the statement alone, and the rest is as it should be.
        Ok(outcome) => assert_eq!((outcome, before), (Some(Outcome::Done), 2)),
        // PostgreSQL undoes everything, and answers a COMMIT as if all were well.
        Err(_) => assert_eq!(before, 1),
    }
    let work = |mut tx: L::Tx| async move {
        L::count(&mut tx, "after a failure").await?;
        Ok::<_, L::Error>(tx)
    };
    once(ledger, &Claim::new("g", "after a failure"), work)
        .await
        .map_err(|error| format!("{error:?}"))
        .unwrap();
    assert_eq!(ledger.counts().await, (2, 1));
    ledger.execute("DELETE FROM counted").await;
}

/// Transactions that take the same rows in opposite orders.
async fn deadlocks<L: Counting>(ledger: &L) {
    for round in 0..10 {
        let start = Arc::new(Barrier::new(2));
        let sides = [["left", "right"], ["right", "left"]].map(|rows| {
            let (ledger, start) = (ledger.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                let work = |mut tx: L::Tx| async move {
                    L::count(&mut tx, rows[0]).await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    // The error of a deadlock is left to the ledger to find.
                    let _ = L::count(&mut tx, rows[1]).await;
                    Ok::<_, L::Error>(tx)
                };
                let claim = Claim::new("g", format!("{round} {}", rows[0]));
                let done = once(&ledger, &claim, work).await;
                done.map_err(|error| format!("{error:?}"))
            })
        });
        for side in sides {
            // One that is given up is delivered again.
            if let Err(error) = side.await.unwrap() {
                println!("given up: {error}");
            }
        }
        for rows in [["left", "right"], ["right", "left"]] {
            let work = |mut tx: L::Tx| async move {
                L::count(&mut tx, rows[0]).await?;
                L::count(&mut tx, rows[1]).await?;
                Ok::<_, L::Error>(tx)
            };
            let claim = Claim::new("g", format!("{round} {}", rows[0]));
            once(ledger, &claim, work).await.map_err(|error| format!("{error:?}")).unwrap();
        }
    }
    assert_eq!(ledger.counts().await, (2, 20), "each of 20 transactions counted once on each side");
    ledger.execute("DELETE FROM counted").await;
}

async fn old_claims<L: Counting>(ledger: &L) {
    ledger.execute("DELETE FROM redstart_inbox").await;
    claim(ledger, &["1", "2", "3"]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(ledger.sweep(Duration::from_secs(60), 10).await.unwrap(), 0, "they are young");
    assert_eq!(ledger.sweep(Duration::ZERO, 2).await.unwrap(), 2, "no more than it is told to");
    assert_eq!(ledger.sweep(Duration::ZERO, 2).await.unwrap(), 1);
    let queue = Queue::new("t", "b", 3);
    let at = |offset: i64| {
        let mut claim = Claim::new("g", offset.to_string());
        (claim.queue, claim.offset) = (queue.clone(), offset);
        claim
    };
    let mut tx = ledger.begin().await.unwrap();
    ledger.claim(&mut tx, &[at(4), at(5), at(6)]).await.unwrap();
    ledger.commit(tx).await.unwrap();
    assert_eq!(ledger.forget("other", &queue, 5).await.unwrap(), 0);
    assert_eq!(ledger.forget("g", &queue, 5).await.unwrap(), 2, "a replay from 5 on takes effect again");
    assert_eq!(claim(ledger, &["4", "5"]).await, [Claimed::Seen, Claimed::Fresh]);
}

async fn fences<L: Counting>(ledger: &L) {
    assert_eq!(ledger.decide("p", "late").await.unwrap(), Decision::Fenced);
    let mut tx = ledger.begin().await.unwrap();
    assert_eq!(
        ledger.record(&mut tx, "p", "late").await.unwrap(),
        Decision::Fenced,
        "it cannot commit any more"
    );
    drop(tx);
    let mut tx = ledger.begin().await.unwrap();
    assert_eq!(ledger.record(&mut tx, "p", "slow").await.unwrap(), Decision::Committed);
    let check = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.decide("p", "slow").await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!check.is_finished(), "a check waits for the transaction");
    assert!(ledger.is_recorded(&mut tx, "p", "slow").await.unwrap());
    ledger.commit(tx).await.unwrap();
    assert_eq!(check.await.unwrap(), Decision::Committed);
    assert_eq!(ledger.decide("p", "late").await.unwrap(), Decision::Fenced);
}
