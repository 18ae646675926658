//! Deliveries between the engine and a consumer. Until the consumer has the answer that carries them they can be given back: the
//! messages become visible again, and the delivery does not count as an attempt.

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

/// Time until receipts are submitted again after the shard was overloaded.
const SUBMIT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Gives deliveries back to the engine. While the shard is overloaded their receipts are kept here and submitted again.
#[derive(Debug, Clone)]
pub(crate) struct GiveBackQueue {
    shard: ShardHandle,
    pending: Arc<Mutex<Pending>>,
}

/// Receipts to be given back. Bounded by the messages in flight: each is in here at most once.
#[derive(Debug, Default)]
struct Pending {
    receipts: Vec<(Receipt, Duration)>,
    /// A task submits them to the shard until it takes them.
    has_task: bool,
}

impl GiveBackQueue {
    pub fn new(shard: ShardHandle) -> GiveBackQueue {
        GiveBackQueue { shard, pending: Arc::default() }
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
        let has_task = pending.has_task;
        drop(pending);
        if !has_task && self.submit() == Submitted::Overloaded {
            self.spawn_task();
        }
    }

    fn submit(&self) -> Submitted {
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
            Ok(_) => Submitted::Done,
            // The messages are in flight in the log, and are delivered again after their invisible time.
            Err(Unavailable::Stopped) => Submitted::Done,
            Err(Unavailable::Overloaded { .. }) => Submitted::Overloaded,
        }
    }

    fn spawn_task(&self) {
        // Without a tokio runtime the process is stopping.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if mem::replace(&mut self.pending.lock().has_task, true) {
            return;
        }
        let queue = self.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(SUBMIT_AGAIN_AFTER).await;
                if queue.submit() == Submitted::Overloaded {
                    continue;
                }
                let mut pending = queue.pending.lock();
                // Receipts that were added after the submission rely on this task.
                if pending.receipts.is_empty() {
                    pending.has_task = false;
                    return;
                }
            }
        });
    }

    /// Waits for a pop. If the wait is dropped, the deliveries of the pop are given back.
    pub fn receive(&self, reply: Reply<Result<Popped, ReceiveError>>) -> Receiving {
        Receiving { queue: self.clone(), reply }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Submitted {
    Done,
    Overloaded,
}

/// A pop that the shard has not answered, or whose answer was not taken.
#[derive(Debug)]
pub(crate) struct Receiving {
    queue: GiveBackQueue,
    reply: Reply<Result<Popped, ReceiveError>>,
}

impl Future for Receiving {
    type Output = Result<Result<Popped, ReceiveError>, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.reply).poll(cx)
    }
}

impl Drop for Receiving {
    /// The owner may have answered since the last poll: without this the messages would stay in flight until their invisible time is
    /// over.
    fn drop(&mut self) {
        if let Some(Ok(popped)) = self.reply.abandon() {
            drop(Handover::new(&self.queue, &popped));
        }
    }
}

/// The deliveries of one answer that has not reached its consumer. Those that are left when this is dropped are given back.
#[derive(Debug)]
#[must_use = "dropped, it gives all deliveries back"]
pub(crate) struct Handover {
    queue: GiveBackQueue,
    receipts: Vec<Receipt>,
}

impl Handover {
    pub fn new(queue: &GiveBackQueue, popped: &Popped) -> Handover {
        let receipts = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
        Handover { queue: queue.clone(), receipts }
    }

    /// Removes deliveries without giving them back: the caller does something else with them.
    pub fn exclude(&mut self, excluded: &[Receipt]) {
        self.receipts.retain(|receipt| !excluded.contains(receipt));
    }

    /// Gives deliveries back that are not part of the answer; they are visible again after `delay`.
    pub fn give_back(&mut self, receipts: &[Receipt], delay: Duration) {
        self.exclude(receipts);
        self.queue.give_back(receipts.iter().copied(), delay);
    }

    /// The answer has reached the consumer. Returns the deliveries that it carried.
    pub fn complete(&mut self) -> Vec<Receipt> {
        mem::take(&mut self.receipts)
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.queue.give_back(mem::take(&mut self.receipts), Duration::ZERO);
    }
}
