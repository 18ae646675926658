//! Reading queues: each from an offset on, with progress that the application stores.

mod allocation;
mod balance;
mod broadcast;
mod builder;
mod core;
mod progress;
mod puller;
mod slots;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{task::JoinSet, time::Instant};

use self::core::Core;
pub use self::{
    allocation::{Allocation, AllocationError, AllocationFunction, MachineRooms},
    broadcast::{Broadcast, BroadcastBuilder, BroadcastCounters},
    builder::QueueReaderBuilder,
    progress::{FileStore, MemoryStore, ProgressStore},
};
use crate::{CallError, Queue, ReceiveError, Received, ShutdownReport};

/// Messages of one queue, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueBatch {
    /// The queue.
    pub queue: Queue,
    /// Its messages: at least one.
    pub messages: Vec<Received>,
    /// Where the queue goes on behind them: what [`QueueReader::commit`] stores.
    pub next_offset: i64,
}

/// A place in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The oldest message.
    Earliest,
    /// The next message to come.
    Latest,
    /// The message at this offset.
    Offset(i64),
    /// The first message that was stored at or after this time.
    At(SystemTime),
}

/// Why a queue was not moved or its progress not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue is not this reader's, or not any more.
    #[error("queue {queue} is not this reader's")]
    NotAssigned {
        /// The queue.
        queue: Queue,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Queues that come and go when the members of a group change.
///
/// It is given to the hook of [`QueueReaderBuilder::on_rebalance`] before another member reads the queues that go.
#[derive(Debug)]
pub struct Rebalance {
    core: Arc<Core>,
    revoked: Vec<Queue>,
    assigned: Vec<Queue>,
}

impl Rebalance {
    /// The queues that go. Nothing more of them is given to the application.
    pub fn revoked(&self) -> &[Queue] {
        &self.revoked
    }

    /// The queues that come, after the hook has returned.
    pub fn assigned(&self) -> &[Queue] {
        &self.assigned
    }

    /// Behind the last message of a queue that [`QueueReader::next`] has given; `None` if it gave none.
    pub fn position(&self, queue: &Queue) -> Option<i64> {
        self.core.slots().given(queue)
    }

    /// Stores the progress of the group in a queue: the next message is the one at this offset.
    pub async fn commit(&self, queue: &Queue, offset: i64) -> Result<(), QueueError> {
        self.core.commit(queue, offset).await
    }
}

type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the application does when queues come and go.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(Rebalance) -> HookFuture + Send + Sync>);

impl Hook {
    fn new<F: Future<Output = ()> + Send + 'static>(
        hook: impl Fn(Rebalance) -> F + Send + Sync + 'static,
    ) -> Hook {
        Hook(Arc::new(move |rebalance| Box::pin(hook(rebalance))))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}

/// Reads queues in their order, from offsets that the application may choose: those that it names, or its share of the topics' queues
/// as a member of a group.
///
/// Progress moves only when the application [commits](QueueReader::commit) it. A message that cannot be processed is not tried again
/// by the server: [`seek`](QueueReader::seek) back to it, or keep it elsewhere.
///
/// ```no_run
/// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redstart_client::{Allocation, Filter};
///
/// let reader = client
///     .queue_reader("billing")
///     .balanced(Allocation::Averagely)
///     .subscribe("orders", Filter::all())
///     .on_rebalance(|change| async move {
///         for queue in change.revoked() {
///             if let Some(offset) = change.position(queue) {
///                 let _ = change.commit(queue, offset).await;
///             }
///         }
///     })
///     .build()
///     .await?;
/// loop {
///     let batch = reader.next().await?;
///     for message in &batch.messages {
///         println!("{} {}", batch.queue, message.offset());
///     }
///     reader.commit(&batch).await?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct QueueReader {
    core: Arc<Core>,
    /// They end with the reader.
    _tasks: JoinSet<()>,
}

impl QueueReader {
    /// The next messages of one queue; waits for them. Queues take turns. An error says that none will come until an operator
    /// changes something; the reader goes on trying all the same.
    ///
    /// Cancel safe: what was fetched while a dropped call waited stays for the next call.
    pub async fn next(&self) -> Result<QueueBatch, ReceiveError> {
        self.core.next().await
    }

    /// The batches as a stream, which ends when the reader is shut down. Other errors are items: the reader goes on trying.
    #[cfg(feature = "stream")]
    pub fn stream(&self) -> impl futures_util::Stream<Item = Result<QueueBatch, ReceiveError>> + Send + '_ {
        futures_util::stream::unfold(self, async |reader| match reader.next().await {
            Err(ReceiveError::ShutDown) => None,
            batch => Some((batch, reader)),
        })
    }

    /// Stores that all messages of a batch, and those before them, are done.
    pub async fn commit(&self, batch: &QueueBatch) -> Result<(), QueueError> {
        self.core.commit(&batch.queue, batch.next_offset).await
    }

    /// Stores the progress of the group in a queue: the next message is the one at this offset.
    pub async fn commit_offset(&self, queue: &Queue, offset: i64) -> Result<(), QueueError> {
        self.core.commit(queue, offset).await
    }

    /// The progress of the group in a queue that the server has stored; `None` if there is none.
    pub async fn committed(&self, queue: &Queue) -> Result<Option<i64>, QueueError> {
        self.core.committed(queue).await
    }

    /// Goes on at another place of a queue. What was fetched from the queue is dropped.
    pub async fn seek(&self, queue: &Queue, position: Position) -> Result<(), QueueError> {
        self.core.seek(queue, position).await
    }

    /// The offset that a position stands for now.
    pub async fn offset(&self, queue: &Queue, position: Position) -> Result<i64, QueueError> {
        self.core.find(queue, position).await
    }

    /// Gives nothing of a queue until it is [resumed](QueueReader::resume).
    pub fn pause(&self, queue: &Queue) -> Result<(), QueueError> {
        self.core.pause(queue, true)
    }

    /// Goes on with a queue that was paused.
    pub fn resume(&self, queue: &Queue) -> Result<(), QueueError> {
        self.core.pause(queue, false)
    }

    /// The queues that this reader has now.
    pub fn assignment(&self) -> Vec<Queue> {
        self.core.slots().queues()
    }

    /// Stops reading, runs the hook for the queues that the reader has, and leaves the group. The report counts as finished the
    /// messages that [`next`](QueueReader::next) has given.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}
