//! A consumer that runs a handler for every message.

use std::{
    fmt::Display,
    future::{Future, poll_fn},
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::Instant,
};

use super::{
    Batch, BatchPolicy, ConsumerCounters, Delivery, Lease, RetryPolicy, Settle, SettleError, ShutdownReport,
    batch,
    core::{Core, Phase, Prefetch},
    receiver::{Consumption, consumption_settings},
    schedule::Schedule,
};
use tracing::Instrument as _;

use crate::{BuildError, Client, Codec, Filter, Poison, Received, ReplyError, trace, transport::Consuming};

const CONCURRENCY: usize = 20;
const CONCURRENCY_MAX: usize = 10_000;
const MESSAGES_MAX: usize = 1024;
const BYTES_MAX: usize = 64 << 20;

/// A message that a handler is to process. It is acknowledged, or comes again, by what the handler returns.
#[derive(Debug, Clone)]
pub struct Job {
    received: Arc<Received>,
    lease: Lease,
    core: Arc<Core>,
}

impl Deref for Job {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

impl Job {
    /// Whether the message is still this consumer's. The worker renews it while the handler runs; when that fails for long, the lease
    /// is lost and the message may be with another consumer.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Answers a request: the producer that [waits](crate::Requester) gets the body.
    pub async fn reply(&self, body: impl Into<Bytes>) -> Result<(), ReplyError> {
        self.core.reply(&self.received, body.into()).await
    }
}

/// What becomes of a message that a handler has processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It comes again, when the worker's retry policy says.
    Retry,
    /// It comes again after this time.
    RetryAfter(Duration),
    /// It is given up, for this reason.
    DeadLetter(String),
}

impl From<()> for Outcome {
    fn from((): ()) -> Outcome {
        Outcome::Done
    }
}

/// Settings of a [`Worker`].
#[derive(Debug, Clone)]
#[must_use = "a worker comes from `run`"]
pub struct WorkerBuilder {
    consumption: Consumption,
    concurrency: usize,
    poison: Poison,
}

consumption_settings!(WorkerBuilder);

impl WorkerBuilder {
    pub(crate) fn new(client: &Client, group: String) -> WorkerBuilder {
        let prefetch = Prefetch::UpTo { messages: MESSAGES_MAX, bytes: BYTES_MAX };
        WorkerBuilder {
            consumption: Consumption::new(client, group, prefetch),
            concurrency: CONCURRENCY,
            poison: Poison::default(),
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.consumption.settings.group
    }

    /// How many handlers run at a time: 20 if not set.
    pub fn concurrency(mut self, handlers: usize) -> WorkerBuilder {
        self.concurrency = handlers;
        self
    }

    /// How many messages and bytes are held, those in handlers included: 1,024 and 64 MiB if not set.
    pub fn hold(mut self, messages: usize, bytes: usize) -> WorkerBuilder {
        self.consumption.settings.prefetch = Prefetch::UpTo { messages, bytes };
        self
    }

    /// How long a message is renewed while its handler runs: 3 hours if not set.
    pub fn renew_for(mut self, time: Duration) -> WorkerBuilder {
        self.consumption.settings.renew_max = time;
        self
    }

    /// What becomes of messages whose bodies cannot be decoded, with [`run_typed`](WorkerBuilder::run_typed): dead letters if not set.
    pub fn poison(mut self, poison: Poison) -> WorkerBuilder {
        self.poison = poison;
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = self.consumption.faults();
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            faults.push(format!(
                "{} handlers at a time; it must be from 1 to {CONCURRENCY_MAX}",
                self.concurrency
            ));
        }
        if matches!(
            self.consumption.settings.prefetch,
            Prefetch::UpTo { messages: 0, .. } | Prefetch::UpTo { bytes: 0, .. }
        ) {
            faults.push("a worker must hold at least one message".to_owned());
        }
        faults
    }

    /// Starts the worker. The handler is called for every message and says what becomes of it; `()` means done. An error or a panic
    /// of the handler means retry. Messages of one message group are processed one after the other, in their order: one that fails
    /// is tried again here, and the later ones of its group wait, while other groups go on.
    ///
    /// ```no_run
    /// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redstart_client::{Filter, Outcome};
    ///
    /// let worker = client
    ///     .worker("billing")
    ///     .subscribe("orders", Filter::all())
    ///     .run(|job| async move {
    ///         println!("{}", String::from_utf8_lossy(job.body()));
    ///         Ok::<_, std::io::Error>(Outcome::Done)
    ///     })
    ///     .await?;
    /// let report = worker.shutdown(Duration::from_secs(10)).await;
    /// println!("{} done, {} given back", report.finished, report.returned);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<H, F, O, E>(self, handler: H) -> Result<Worker, BuildError>
    where
        H: Fn(Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
        O: Into<Outcome> + Send + 'static,
        E: Display + Send + 'static,
    {
        BuildError::check(self.faults())?;
        let concurrency = self.concurrency;
        let (core, mut tasks) = self.consumption.start(Consuming::Pushed).await?;
        tasks.spawn(dispatch(core.clone(), Arc::new(handler), concurrency));
        Ok(Worker { core, tasks })
    }

    /// Starts a worker whose handler gets the value of each body. A message whose body has no value does not come again and again:
    /// see [`poison`](WorkerBuilder::poison).
    ///
    /// ```no_run
    /// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redstart_client::{Filter, Json};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Order {
    ///     id: u32,
    /// }
    ///
    /// let worker = client
    ///     .worker("billing")
    ///     .subscribe("orders", Filter::all())
    ///     .run_typed(Json, |_job, order: Order| async move {
    ///         println!("order {}", order.id);
    ///         Ok::<_, std::io::Error>(())
    ///     })
    ///     .await?;
    /// # drop(worker);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_typed<T, C, H, F, O, E>(self, codec: C, handler: H) -> Result<Worker, BuildError>
    where
        T: Send + 'static,
        C: Codec<T>,
        H: Fn(Job, T) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
        O: Into<Outcome> + Send + 'static,
        E: Display + Send + 'static,
    {
        let (poison, handler) = (self.poison, Arc::new(handler));
        self.run(move |job: Job| {
            let value = job.decode::<T, C>(&codec);
            let handler = handler.clone();
            async move {
                match (value, poison) {
                    (Ok(value), _) => {
                        handler(job, value).await.map(Into::into).map_err(|error| error.to_string())
                    }
                    (Err(error), Poison::DeadLetter) => Ok(Outcome::DeadLetter(error.to_string())),
                    (Err(error), Poison::Retry) => Err(error.to_string()),
                    (Err(error), Poison::Drop) => {
                        tracing::warn!(id = job.id(), %error, "a message was dropped");
                        Ok(Outcome::Done)
                    }
                }
            }
        })
        .await
    }

    /// Starts a worker whose handler gets several messages of one topic at a time. See [`BatchPolicy`] for when, and [`Batch`] for what
    /// becomes of each message. An error or a panic of the handler means retry, for all of them.
    pub async fn run_batches<H, F, E>(mut self, policy: BatchPolicy, handler: H) -> Result<Worker, BuildError>
    where
        H: Fn(Batch) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let mut faults = self.faults();
        policy.faults(&mut faults);
        BuildError::check(faults)?;
        if let Prefetch::UpTo { messages, .. } = &mut self.consumption.settings.prefetch {
            // One batch in the making for each that is out, or a full one would never come together.
            *messages = (*messages).max(2 * policy.count);
        }
        let concurrency = self.concurrency;
        let (core, mut tasks) = self.consumption.start(Consuming::Pushed).await?;
        tasks.spawn(batch::dispatch(core.clone(), policy, Arc::new(handler), concurrency));
        Ok(Worker { core, tasks })
    }
}

/// A consumer that runs a handler for every message, from when it is built until it is shut down or dropped.
#[derive(Debug)]
pub struct Worker {
    core: Arc<Core>,
    tasks: JoinSet<()>,
}

impl Worker {
    /// What this worker has done.
    pub fn counters(&self) -> ConsumerCounters {
        self.core.counters()
    }

    /// Why no messages come, if a server says that none will until an operator changes something.
    pub fn refusal(&self) -> Option<super::ReceiveError> {
        self.core.refusal()
    }

    /// Stops fetching, gives back what no handler has begun, waits for the handlers that run, tells the server what is settled, and
    /// leaves the group; all of it within this time. Handlers that are not done then are dropped with the worker, and their messages come
    /// again when their invisible time is over.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.core.end(&mut self.tasks);
    }
}

/// The message group of a message, which is one only within its topic.
pub(super) type GroupKey = (String, String);

pub(super) fn key_of(received: &Received) -> Option<GroupKey> {
    received.group().map(|group| (received.topic().to_owned(), group.to_owned()))
}

/// Counts a handler that runs, for the shutdown that waits for it.
#[derive(Debug)]
pub(super) struct Running(Arc<Core>);

impl Running {
    pub fn new(core: &Arc<Core>) -> Running {
        core.running.fetch_add(1, Ordering::AcqRel);
        Running(core.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Hands deliveries to handlers, as many at a time as may run.
async fn dispatch<H, F, O, E>(core: Arc<Core>, handler: Arc<H>, concurrency: usize)
where
    H: Fn(Job) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
    O: Into<Outcome> + Send + 'static,
    E: Display + Send + 'static,
{
    let slots = Slots { free: Arc::new(Semaphore::new(concurrency)), freed: Arc::new(Notify::new()) };
    let mut schedule = Schedule::new();
    let mut jobs: JoinSet<Option<GroupKey>> = JoinSet::new();
    while core.phase() == Phase::Running {
        let arrived = core.arrived.notified();
        let freed = slots.freed.notified();
        tokio::pin!(arrived, freed);
        arrived.as_mut().enable();
        freed.as_mut().enable();
        while let Some(delivery) = core.take() {
            schedule.push(key_of(&delivery), delivery);
        }
        while let Ok(slot) = slots.free.clone().try_acquire_owned() {
            let Some((key, delivery)) = schedule.next() else { break };
            let (core, handler, slots) = (core.clone(), handler.clone(), slots.clone());
            let running = Running::new(&core);
            jobs.spawn(async move {
                process(&core, &*handler, delivery, &slots, slot).await;
                drop(running);
                key
            });
        }
        tokio::select! {
            () = arrived => {}
            () = freed => {}
            Some(job) = jobs.join_next(), if !jobs.is_empty() => {
                if let Ok(Some(key)) = job {
                    schedule.done(&key);
                }
            }
            () = core.stopping() => {}
        }
    }
    core.give_back(schedule.drain());
    core.give_back(core.take_all());
    while jobs.join_next().await.is_some() {}
}

/// The handlers that may run.
#[derive(Debug, Clone)]
struct Slots {
    free: Arc<Semaphore>,
    freed: Arc<Notify>,
}

/// Runs the handler for one delivery and settles it.
async fn process<H, F, O, E>(
    core: &Arc<Core>,
    handler: &H,
    delivery: Delivery,
    slots: &Slots,
    slot: OwnedSemaphorePermit,
) where
    H: Fn(Job) -> F,
    F: Future<Output = Result<O, E>>,
    O: Into<Outcome>,
    E: Display,
{
    let mut slot = Some(slot);
    let (received, settle) = delivery.into_parts();
    if let Some(error) = received.body_error() {
        let reason = format!("the body cannot be read: {error}");
        return log(settle.dead_letter(&reason).await);
    }
    if received.is_expired(SystemTime::now()) {
        core.expired();
        return settle.ack_later();
    }
    let ordered = received.group().is_some();
    let mut received = Arc::new(received);
    loop {
        let job = Job { received: received.clone(), lease: settle.lease(), core: settle.core().clone() };
        let span = core.client.tracer().process(&core.settings.group, &received);
        let work = || trace::in_trace_of(&received, handler(job)).instrument(span.clone());
        let result = guarded(work).await;
        let outcome = span.in_scope(|| outcome_of(&received, result));
        if settle.held().is_lost() {
            // Another delivery decides about the message now.
            tracing::warn!(id = received.id(), "a handler ran longer than its message was this consumer's");
            return;
        }
        let wait = match (outcome, ordered) {
            (Outcome::Done, false) => return settle.ack_later(),
            // The next of the message group begins only when the server has heard that this one is done.
            (Outcome::Done, true) => return log(settle.ack().await),
            (Outcome::DeadLetter(reason), _) => return log(settle.dead_letter(&reason).await),
            (Outcome::Retry, false) => return log(settle.retry().await),
            (Outcome::RetryAfter(wait), false) => return log(settle.retry_after(wait).await),
            (Outcome::Retry, true) => core.retry_wait(received.attempt()),
            (Outcome::RetryAfter(wait), true) => wait,
        };
        if received.attempt() >= core.fifo_attempts_max() {
            return log(settle.dead_letter("retries exhausted").await);
        }
        // The order of the message group would be lost if the message came again from the server: later ones are here already.
        drop(slot.take());
        slots.freed.notify_waiters();
        let due = Instant::now() + wait;
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = core.stopping() => {
                return log(settle.retry_after(due.saturating_duration_since(Instant::now())).await);
            }
        }
        slot = slots.free.clone().acquire_owned().await.ok();
        let mut again = Received::clone(&received);
        again.attempt += 1;
        received = Arc::new(again);
    }
}

/// What a handler's result means.
pub(super) fn outcome_of<O: Into<Outcome>, E: Display>(
    received: &Received,
    result: Option<Result<O, E>>,
) -> Outcome {
    match result {
        Some(Ok(outcome)) => outcome.into(),
        Some(Err(error)) => {
            tracing::warn!(id = received.id(), attempt = received.attempt(), %error, "a message could not be processed");
            Outcome::Retry
        }
        None => {
            tracing::error!(id = received.id(), attempt = received.attempt(), "a handler panicked");
            Outcome::Retry
        }
    }
}

/// The result of a future; `None` if it panics.
pub(crate) async fn guarded<F: Future>(make: impl FnOnce() -> F) -> Option<F::Output> {
    let future = catch_unwind(AssertUnwindSafe(make)).ok()?;
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// A settlement that failed has been counted; the message comes again.
pub(super) fn log(result: Result<(), SettleError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a message will come again");
    }
}

/// Settles one message as its outcome says.
pub(super) async fn settle_as(settle: Settle, outcome: Outcome) {
    log(match outcome {
        Outcome::Done => settle.ack().await,
        Outcome::Retry => settle.retry().await,
        Outcome::RetryAfter(wait) => settle.retry_after(wait).await,
        Outcome::DeadLetter(reason) => settle.dead_letter(&reason).await,
    });
}
