//! Deliveries on their way from the engine to a consumer: until a consumer has the answer that carries them they can be
//! given back, and then do not count as attempts.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use redstart_engine::{Popped, Receipt};

use crate::shard::{ReceiveError, Reply, ShardHandle, Unavailable};

/// Pause before deliveries are given back again when the shard had no room for the request.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Gives deliveries back to the engine. None is forgotten while the shard has no room for requests.
#[derive(Debug, Clone)]
pub(crate) struct Returns {
    shard: ShardHandle,
    pending: Arc<Mutex<Pending>>,
}

/// Bounded by the messages in flight: each is here at most once.
#[derive(Debug, Default)]
struct Pending {
    receipts: Vec<(Receipt, Duration)>,
    /// A task offers them to the shard again.
    retrying: bool,
}

impl Returns {
    pub fn new(shard: ShardHandle) -> Returns {
        Returns { shard, pending: Arc::default() }
    }

    /// Makes the messages visible again after `delay`, as if they had not been delivered.
    pub fn give_back(&self, receipts: impl IntoIterator<Item = Receipt>, delay: Duration) {
        let mut pending = self.pending.lock();
        let before = pending.receipts.len();
        pending.receipts.extend(receipts.into_iter().map(|receipt| (receipt, delay)));
        let added = pending.receipts.len() - before;
        if added == 0 {
            return;
        }
        self.shard.counters().gave_back(added);
        let retrying = pending.retrying;
        drop(pending);
        if !retrying && self.offer() == Offered::Refused {
            self.retry();
        }
    }

    fn offer(&self) -> Offered {
        let pending = self.pending.clone();
        let asked = self.shard.ask(move |engine, now| {
            let pending = mem::take(&mut pending.lock().receipts);
            for run in pending.chunk_by(|(_, one), (_, next)| one == next) {
                let receipts: Vec<Receipt> = run.iter().map(|(receipt, _)| *receipt).collect();
                // The engine refuses a receipt whose delivery was acked or has been delivered again.
                engine.give_back(&receipts, run[0].1, now);
            }
        });
        match asked {
            Ok(_) => Offered::Taken,
            // They are in flight in what is stored, and come again when their time is out.
            Err(Unavailable::Stopped) => Offered::Taken,
            Err(Unavailable::Overloaded { .. }) => Offered::Refused,
        }
    }

    fn retry(&self) {
        // Without a runtime the process is going down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if mem::replace(&mut self.pending.lock().retrying, true) {
            return;
        }
        let returns = self.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(RETRY_AFTER).await;
                if returns.offer() == Offered::Refused {
                    continue;
                }
                let mut pending = returns.pending.lock();
                // What came after the offer was taken found this task at work.
                if pending.receipts.is_empty() {
                    pending.retrying = false;
                    return;
                }
            }
        });
    }

    /// Waits for a pop. What it brings after the wait was given up goes back.
    pub fn receive(&self, reply: Reply<Result<Popped, ReceiveError>>) -> Receiving {
        Receiving { returns: self.clone(), reply }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offered {
    Taken,
    Refused,
}

/// A pop under way.
#[derive(Debug)]
pub(crate) struct Receiving {
    returns: Returns,
    reply: Reply<Result<Popped, ReceiveError>>,
}

impl Future for Receiving {
    type Output = Result<Result<Popped, ReceiveError>, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.reply).poll(cx)
    }
}

impl Drop for Receiving {
    /// The owner may have answered between the last look and now: without this the messages would stay in flight until
    /// their invisible time is out.
    fn drop(&mut self) {
        if let Some(Ok(popped)) = self.reply.abandon() {
            drop(Handover::new(&self.returns, &popped));
        }
    }
}

/// The deliveries of one answer that its consumer does not have yet. What is left of them when this is dropped is given
/// back at once.
#[derive(Debug)]
#[must_use = "dropped, it gives all deliveries back"]
pub(crate) struct Handover {
    returns: Returns,
    receipts: Vec<Receipt>,
}

impl Handover {
    pub fn new(returns: &Returns, popped: &Popped) -> Handover {
        let receipts = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
        Handover { returns: returns.clone(), receipts }
    }

    /// These are not part of the answer and are not given back: the caller decides what becomes of them.
    pub fn exclude(&mut self, excluded: &[Receipt]) {
        self.receipts.retain(|receipt| !excluded.contains(receipt));
    }

    /// These are not part of the answer; they are visible again after `delay`.
    pub fn give_back(&mut self, receipts: &[Receipt], delay: Duration) {
        self.exclude(receipts);
        self.returns.give_back(receipts.iter().copied(), delay);
    }

    /// The consumer has the answer. Says which deliveries it carried.
    pub fn complete(&mut self) -> Vec<Receipt> {
        mem::take(&mut self.receipts)
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.returns.give_back(mem::take(&mut self.receipts), Duration::ZERO);
    }
}
