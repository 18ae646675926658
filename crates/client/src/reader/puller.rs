//! The task that pulls from one queue.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{QueueBatch, core::Core, slots::Turn};
use crate::{Backoff, CallError, Queue};

/// Batches of a queue that may wait for the application.
const BATCHES_MAX: usize = 2;
/// A server that has nothing answers when its long poll is over. One that answers sooner is not asked again at once.
const EMPTY_PAUSE: Duration = Duration::from_millis(100);

/// What a turn came to.
enum Step {
    Begin(i64),
    Batch(QueueBatch),
}

/// Pulls until the queue is not this reader's any more.
pub(super) async fn pull_queue(core: Arc<Core>, queue: Queue) {
    let filter = core.filter_of(&queue.topic);
    let backoff = Backoff::of_connections();
    let mut failed = 0;
    loop {
        let changed = core.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let turn = core.slots().turn(&queue, BATCHES_MAX);
        let began = Instant::now();
        let step = async {
            match turn {
                Turn::Begin { .. } => core.begin(&queue).await.map(Step::Begin),
                Turn::Pull { offset, .. } => core.pull(&queue, &filter, offset).await.map(|pulled| {
                    Step::Batch(QueueBatch {
                        queue: queue.clone(),
                        messages: pulled.messages,
                        next_offset: pulled.next,
                    })
                }),
                Turn::Wait | Turn::End => std::future::pending().await,
            }
        };
        let Some(epoch) = turn.epoch() else {
            if turn == Turn::End {
                return;
            }
            changed.await;
            continue;
        };
        let Some(step) = while_current(&core, &queue, epoch, step).await else { continue };
        match step {
            Ok(Step::Begin(offset)) => {
                failed = 0;
                core.slots().begin_at(&queue, epoch, offset);
            }
            Ok(Step::Batch(batch)) => {
                failed = 0;
                core.refuse(None);
                let nothing = batch.messages.is_empty();
                core.slots().put(epoch, batch);
                core.arrived.notify_waiters();
                if nothing && began.elapsed() < EMPTY_PAUSE {
                    tokio::time::sleep(EMPTY_PAUSE).await;
                }
            }
            Err(error) => {
                failed += 1;
                note(&core, &queue, error).await;
                tokio::time::sleep(backoff.wait(failed)).await;
            }
        }
    }
}

/// The outcome of a step; `None` as soon as the queue is moved or given away.
async fn while_current<T>(
    core: &Core,
    queue: &Queue,
    epoch: u64,
    step: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(step);
    loop {
        let changed = core.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !core.slots().is_current(queue, epoch) {
            return None;
        }
        tokio::select! {
            done = &mut step => return Some(done),
            () = changed => {}
        }
    }
}

async fn note(core: &Core, queue: &Queue, error: CallError) {
    tracing::debug!(%error, %queue, "a queue was not read");
    if !error.retryable() {
        core.refuse(Some(error));
    }
    drop(core.client.refresh_route(&queue.topic).await);
}
