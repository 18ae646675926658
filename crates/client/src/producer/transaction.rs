//! Messages that are delivered only if a piece of local work succeeds.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

use super::{Core, ProducerBuilder, ProducerCounters, SendStatus, Sent};
use crate::{
    BuildError, CallError, Message, Received, SendError, ShutdownReport,
    consumer::guarded,
    transport::{Check, Purpose, Transaction, Verdict as Ending},
};

/// Checks that may wait; the server asks again about further ones.
const CHECKS_MAX: usize = 2000;
/// Checks that run at a time.
const CHECKING_MAX: usize = 16;
const END_ATTEMPTS: u32 = 3;

/// What became of the local work that a transactional message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is done: the message is to be delivered.
    Commit,
    /// It is not done and never will be: the message is to be dropped.
    Rollback,
    /// It cannot be said yet: the server asks again later.
    Unknown,
}

/// Says what became of local work when the producer that did it has not said so: it crashed, or could not reach the server.
///
/// The server asks any producer of the group, in any process. So the answer must come from where the work left its trace, a database
/// for example. Work that leaves no trace now may still do so a moment later: a checker that answers [`Verdict::Rollback`] must see to it
/// that this cannot happen.
pub trait Checker: Send + Sync + 'static {
    /// What became of the work that this message belongs to.
    fn check(&self, message: Received) -> impl Future<Output = Verdict> + Send;
}

impl<C, F> Checker for C
where
    C: Fn(Received) -> F + Send + Sync + 'static,
    F: Future<Output = Verdict> + Send,
{
    fn check(&self, message: Received) -> impl Future<Output = Verdict> + Send {
        self(message)
    }
}

/// Why a transaction did not begin, or did not end as it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The message was not sent. There is no transaction.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The message was stored, and not as safely as the server is configured to. The transaction was rolled back.
    #[error("the message is not stored safely ({0:?}); the transaction was rolled back")]
    Unsafe(SendStatus),
    /// The server could not be told the end, or has ended the transaction otherwise. If it was not told, it asks the checker.
    #[error("the transaction was not ended: {0}")]
    End(CallError),
}

/// Settings of a [`TransactionProducer`].
#[derive(Debug, Clone)]
#[must_use = "a producer comes from `build`"]
pub struct TransactionProducerBuilder<C> {
    producer: ProducerBuilder,
    checker: C,
    topics: Vec<String>,
    check_after: Option<Duration>,
}

impl<C: Checker> TransactionProducerBuilder<C> {
    pub(super) fn new(producer: ProducerBuilder, checker: C) -> TransactionProducerBuilder<C> {
        TransactionProducerBuilder { producer, checker, topics: Vec::new(), check_after: None }
    }

    /// A topic that the producer sends to. The server asks about transactions of these topics from the start on, and so about those that a
    /// process before this one has left open; about those of others once a message was sent.
    pub fn topic(mut self, topic: impl Into<String>) -> TransactionProducerBuilder<C> {
        self.topics.push(topic.into());
        self
    }

    /// How long the local work may take before the server asks: the server's own time if not set, which is 6 s. Apache's brokers take
    /// whole seconds.
    pub fn check_after(mut self, time: Duration) -> TransactionProducerBuilder<C> {
        self.check_after = Some(time);
        self
    }

    /// Builds the producer. Every fault of the settings is named at once.
    pub async fn build(self) -> Result<TransactionProducer, BuildError> {
        let mut faults = Vec::new();
        for topic in self.topics.iter().filter(|topic| !crate::message::is_topic_name(topic)) {
            faults.push(format!("{topic:?} is no name of a topic"));
        }
        BuildError::check(faults)?;
        let (sender, checks) = mpsc::channel(CHECKS_MAX);
        let core = self.producer.start(self.topics, Some(sender)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_checks(core.clone(), Arc::new(self.checker), checks));
        let check_after = self.check_after;
        Ok(TransactionProducer { core, check_after, _tasks: Arc::new(tasks) })
    }
}

/// Sends messages that are delivered only if local work succeeds: the message is stored first, and delivered when the producer, or
/// its checker, says that the work is done. The topic must have type TRANSACTION where the server checks types.
///
/// ```no_run
/// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redstart_client::{Message, Received, Verdict};
/// # async fn insert_order(id: &str) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn has_order(id: &str) -> bool { true }
///
/// let producer = client
///     .producer()
///     .group("orders")
///     .transactions(|half: Received| async move {
///         if has_order(half.keys()[0].as_str()).await { Verdict::Commit } else { Verdict::Unknown }
///     })
///     .topic("orders")
///     .build()
///     .await?;
/// producer
///     .execute(Message::new("orders", "created").key("order-1042"), |_id| insert_order("order-1042"))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TransactionProducer {
    core: Arc<Core>,
    check_after: Option<Duration>,
    /// They end with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

/// A message that is stored and not delivered, until it is decided whether it will be.
///
/// Dropping it decides nothing: the server asks the checker.
#[derive(Debug)]
#[must_use = "a transaction that is dropped stays open until the checker decides"]
pub struct Prepared {
    core: Arc<Core>,
    sent: Sent,
    transaction: Transaction,
}

/// Local work that succeeded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Executed<T> {
    /// What the work returned.
    pub value: T,
    /// The message.
    pub sent: Sent,
    /// Whether the server has heard that the message is to be delivered. If not, the checker will say so.
    pub committed: Result<(), TransactionError>,
}

/// Why nothing came of a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError<E> {
    /// There is no transaction: the work was not begun.
    #[error(transparent)]
    Prepare(TransactionError),
    /// The work failed, and the message is not delivered.
    #[error("the local work failed: {0}")]
    Local(E),
}

impl TransactionProducer {
    /// Stores a message that is not delivered yet.
    pub async fn prepare(&self, message: Message) -> Result<Prepared, TransactionError> {
        let purpose = Purpose::Half { check_after: self.check_after };
        let result = self.core.send_for(message, purpose).await;
        self.core.count(&result);
        let mut sent = result?;
        let transaction = sent.transaction.take().ok_or_else(|| {
            TransactionError::End(CallError::Malformed {
                address: sent.queue.broker.clone(),
                why: "the server did not say which transaction the message begins".to_owned(),
            })
        })?;
        let prepared = Prepared { core: self.core.clone(), sent, transaction };
        match prepared.sent.status {
            SendStatus::Stored => Ok(prepared),
            status => {
                if let Err(error) = prepared.rollback().await {
                    tracing::warn!(%error, "a message that is not stored safely was not rolled back");
                }
                Err(TransactionError::Unsafe(status))
            }
        }
    }

    /// Stores a message, does the local work, and has the message delivered if the work succeeds, dropped if it fails. The work gets the
    /// id of the message. If it panics, or this future is dropped, the checker decides.
    pub async fn execute<T, E, F>(
        &self,
        message: Message,
        work: impl FnOnce(String) -> F,
    ) -> Result<Executed<T>, ExecuteError<E>>
    where
        F: Future<Output = Result<T, E>>,
        E: Display,
    {
        let prepared = self.prepare(message).await.map_err(ExecuteError::Prepare)?;
        let sent = prepared.sent.clone();
        match work(sent.id.clone()).await {
            Ok(value) => {
                let committed = prepared.commit().await;
                if let Err(error) = &committed {
                    tracing::warn!(id = sent.id, %error, "the checker will have a message delivered");
                }
                Ok(Executed { value, sent, committed })
            }
            Err(error) => {
                if let Err(error) = prepared.rollback().await {
                    tracing::warn!(id = sent.id, %error, "the checker will have a message dropped");
                }
                Err(ExecuteError::Local(error))
            }
        }
    }

    /// The producer group.
    pub fn group(&self) -> &str {
        self.core.session.group()
    }

    /// What this producer has done.
    pub fn counters(&self) -> ProducerCounters {
        self.core.counters()
    }

    /// Takes no more messages and waits for those on their way. The server asks another producer of the group about transactions that
    /// are open.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}

impl Prepared {
    /// The id of the message, by which the checker can find what became of the work.
    pub fn id(&self) -> &str {
        &self.sent.id
    }

    pub(crate) fn sent(&self) -> &Sent {
        &self.sent
    }

    /// The message is delivered.
    pub async fn commit(self) -> Result<(), TransactionError> {
        self.core.end_transaction(&self.transaction, Ending::Commit, false).await
    }

    /// The message is dropped.
    pub async fn rollback(self) -> Result<(), TransactionError> {
        self.core.end_transaction(&self.transaction, Ending::Rollback, false).await
    }
}

impl Core {
    async fn end_transaction(
        &self,
        transaction: &Transaction,
        ending: Ending,
        checked: bool,
    ) -> Result<(), TransactionError> {
        let mut failed = 0;
        loop {
            let error = match self.session.end_transaction(transaction, ending, checked).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            failed += 1;
            // The server takes the same end twice.
            if !error.retryable() || failed >= END_ATTEMPTS {
                return Err(TransactionError::End(error));
            }
            tokio::time::sleep(self.settings.backoff.wait(failed)).await;
        }
    }
}

/// Has the checker answer what the server asks.
async fn answer_checks<C: Checker>(core: Arc<Core>, checker: Arc<C>, mut checks: mpsc::Receiver<Check>) {
    let slots = Arc::new(Semaphore::new(CHECKING_MAX));
    let mut checking = JoinSet::new();
    while let Some(Check { message, transaction }) = checks.recv().await {
        while checking.try_join_next().is_some() {}
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let (core, checker) = (core.clone(), checker.clone());
        checking.spawn(async move {
            let id = message.id().to_owned();
            let verdict = guarded(|| checker.check(message)).await.unwrap_or_else(|| {
                tracing::error!(id, "a checker of transactions panicked");
                Verdict::Unknown
            });
            let ending = match verdict {
                Verdict::Commit => Ending::Commit,
                Verdict::Rollback => Ending::Rollback,
                Verdict::Unknown => return drop(slot),
            };
            if let Err(error) = core.end_transaction(&transaction, ending, true).await {
                tracing::warn!(id, %error, "the server did not take the answer to its check");
            }
            drop(slot);
        });
    }
}
