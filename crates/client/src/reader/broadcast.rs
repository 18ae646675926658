//! A consumer that gets every message, whatever other consumers get.

use std::{
    collections::HashMap,
    fmt::{self, Display},
    future::Future,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::Instant,
};

use super::{
    Position, ProgressStore, QueueBatch,
    builder::start,
    core::{Core, Phase, Settings, Sharing},
    progress::{Store, Unfinished},
};
use crate::{
    Backoff, BuildError, CallError, Client, Filter, Queue, Received, ShutdownReport,
    client::{Part, PartFuture},
    consumer::{Schedule, guarded},
    message::is_topic_name,
    transport::Consuming,
};

const CONCURRENCY: usize = 20;
const HELD_MAX: usize = 1024;
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

type OnDrop = Arc<dyn Fn(&Received, &str) + Send + Sync>;

/// Settings of a [`Broadcast`].
#[must_use = "a broadcast comes from `run`"]
pub struct BroadcastBuilder {
    client: Client,
    settings: Settings,
    name: String,
    instance: String,
    concurrency: usize,
    attempts: u32,
    backoff: Backoff,
    on_drop: Option<OnDrop>,
}

impl fmt::Debug for BroadcastBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl BroadcastBuilder {
    pub(crate) fn new(client: &Client, name: String, instance: String) -> BroadcastBuilder {
        // The progress of each instance is its own.
        let mut settings = Settings::new(format!("{name}%{instance}"));
        settings.sharing = Sharing::All;
        BroadcastBuilder {
            client: client.clone(),
            settings,
            name,
            instance,
            concurrency: CONCURRENCY,
            attempts: 1,
            backoff: Backoff { first: Duration::from_millis(100), ..Backoff::default() },
            on_drop: None,
        }
    }

    /// Subscribes to a topic. May be called for several topics.
    pub fn subscribe(mut self, topic: impl Into<String>, filter: Filter) -> BroadcastBuilder {
        self.settings.subscriptions.push((topic.into(), filter));
        self
    }

    /// Where progress is kept: on the server if not set, under the group `name%instance`, whose lag operators can see. See
    /// [`FileStore`](super::FileStore) and [`MemoryStore`](super::MemoryStore).
    pub fn store(mut self, store: impl ProgressStore) -> BroadcastBuilder {
        self.settings.store = Some(Arc::new(store));
        self
    }

    /// Where an instance begins that has no progress: with the next message if not set.
    pub fn start(mut self, position: Position) -> BroadcastBuilder {
        self.settings.start = position;
        self
    }

    /// How many handlers run at a time: 20 if not set.
    pub fn concurrency(mut self, handlers: usize) -> BroadcastBuilder {
        self.concurrency = handlers;
        self
    }

    /// How often a message is tried, with these waits, before it is dropped: once if not set. The server does not deliver it again.
    pub fn attempts(mut self, attempts: u32, backoff: Backoff) -> BroadcastBuilder {
        (self.attempts, self.backoff) = (attempts, backoff);
        self
    }

    /// Is told of every message that is dropped, and why.
    pub fn on_drop(mut self, hook: impl Fn(&Received, &str) + Send + Sync + 'static) -> BroadcastBuilder {
        self.on_drop = Some(Arc::new(hook));
        self
    }

    /// How long the server holds a request while there is no message: 15 s if not set.
    pub fn long_poll(mut self, time: Duration) -> BroadcastBuilder {
        self.settings.wait = time;
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (what, name) in [("name", &self.name), ("instance", &self.instance)] {
            if !is_topic_name(name) {
                faults.push(format!("{name:?} cannot be the {what} of a broadcast"));
            }
        }
        if faults.is_empty() {
            faults.extend(self.settings.faults());
        }
        if self.settings.subscriptions.is_empty() {
            faults.push("no topic is subscribed to".to_owned());
        }
        if self.concurrency == 0 {
            faults.push("0 handlers at a time".to_owned());
        }
        if self.attempts == 0 {
            faults.push("a message needs at least 1 attempt".to_owned());
        }
        self.backoff.faults(&mut faults);
        faults
    }

    /// Starts the broadcast. The handler is called for every message of the topics; an error or a panic counts as a failed attempt.
    /// Messages of one message group are processed one after the other.
    pub async fn run<H, F, E>(self, handler: H) -> Result<Broadcast, BuildError>
    where
        H: Fn(Arc<Received>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        BuildError::check(self.faults())?;
        let (core, mut tasks) = start(self.client, self.settings, Consuming::Broadcast).await?;
        let runner = Arc::new(Runner {
            core,
            concurrency: self.concurrency,
            attempts: self.attempts,
            backoff: self.backoff,
            on_drop: self.on_drop,
            unfinished: Mutex::default(),
            saved: tokio::sync::Mutex::default(),
            counters: Counters::default(),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
        });
        runner.core.client.adopt_consumer(&runner);
        tasks.spawn(dispatch(runner.clone(), Arc::new(handler)));
        tasks.spawn(save_often(runner.clone()));
        Ok(Broadcast { runner, _tasks: tasks })
    }
}

/// Gets every message of its topics, as every other instance does, and runs a handler for each.
///
/// An instance is named by the application, and keeps its progress under that name. A message is processed at least once by each
/// instance; one that fails is tried again here, a few times, and then dropped: a broadcast has no dead letters.
///
/// ```no_run
/// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redstart_client::{FileStore, Filter};
///
/// let caches = client
///     .broadcast("invalidate", "web-1")
///     .subscribe("prices", Filter::all())
///     .store(FileStore::new("/var/lib/shop/prices.json"))
///     .run(|message| async move {
///         println!("{} is stale", String::from_utf8_lossy(message.body()));
///         Ok::<_, std::io::Error>(())
///     })
///     .await?;
/// caches.shutdown(Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Broadcast {
    runner: Arc<Runner>,
    /// They end with the broadcast.
    _tasks: JoinSet<()>,
}

/// What a broadcast has done since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BroadcastCounters {
    /// Messages that came.
    pub received: u64,
    /// Messages whose handler succeeded.
    pub done: u64,
    /// Attempts after a failed one.
    pub retried: u64,
    /// Messages that were given up.
    pub dropped: u64,
}

impl Broadcast {
    /// What this broadcast has done.
    pub fn counters(&self) -> BroadcastCounters {
        self.runner.counters()
    }

    /// Stops reading, waits for the handlers that run, and keeps the progress. Messages whose handlers have not begun, or are not done
    /// in time, come again with the next start.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.runner.shutdown(Instant::now() + within).await
    }
}

#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    done: AtomicU64,
    retried: AtomicU64,
    dropped: AtomicU64,
}

struct Runner {
    core: Arc<Core>,
    concurrency: usize,
    attempts: u32,
    backoff: Backoff,
    on_drop: Option<OnDrop>,
    unfinished: Mutex<Unfinished>,
    /// What the store has.
    saved: tokio::sync::Mutex<HashMap<Queue, i64>>,
    counters: Counters,
    running: AtomicUsize,
    idle: Notify,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Part for Runner {
    fn shut_down(self: Arc<Runner>, deadline: Instant) -> PartFuture {
        Box::pin(async move { Runner::shutdown(&self, deadline).await })
    }
}

/// Counts a handler that runs.
struct Running(Arc<Runner>);

impl Running {
    fn new(runner: &Arc<Runner>) -> Running {
        runner.running.fetch_add(1, Ordering::AcqRel);
        Running(runner.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Runner {
    fn unfinished(&self) -> std::sync::MutexGuard<'_, Unfinished> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch. It is taken and noted as unfinished in one step, so that no progress is kept behind it.
    fn take(&self) -> Option<QueueBatch> {
        let mut unfinished = self.unfinished();
        let batch = self.core.take()?;
        self.counters.received.fetch_add(batch.messages.len() as u64, Ordering::Relaxed);
        unfinished.begin(&batch.queue, batch.messages.iter().map(Received::offset), batch.next_offset);
        Some(batch)
    }

    fn counters(&self) -> BroadcastCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { received, done, retried, dropped } = &self.counters;
        BroadcastCounters {
            received: read(received),
            done: read(done),
            retried: read(retried),
            dropped: read(dropped),
        }
    }

    async fn shutdown(&self, deadline: Instant) -> ShutdownReport {
        self.core.stop();
        let quiet = async {
            loop {
                let idle = self.idle.notified();
                if self.running.load(Ordering::Acquire) == 0 {
                    return;
                }
                idle.await;
            }
        };
        let _ = tokio::time::timeout_at(deadline, quiet).await;
        if let Ok(Err(error)) = tokio::time::timeout_at(deadline, self.save()).await {
            tracing::warn!(%error, "the progress of a broadcast was not kept");
        }
        self.core.shutdown(deadline).await;
        let BroadcastCounters { received, done, dropped, .. } = self.counters();
        let abandoned = self.running.load(Ordering::Acquire) as u64;
        let finished = done + dropped;
        ShutdownReport { finished, returned: received.saturating_sub(finished + abandoned), abandoned }
    }

    /// Keeps progress that is not kept yet.
    async fn save(&self) -> io::Result<()> {
        let mut saved = self.saved.lock().await;
        let mut new = {
            let mut unfinished = self.unfinished();
            let idle = self.core.slots().read_to();
            idle.into_iter().for_each(|(queue, next)| unfinished.passed(&queue, next));
            unfinished.progress()
        };
        new.retain(|(queue, offset)| saved.get(queue) != Some(offset));
        let mut failed = Ok(());
        match &self.core.settings.store {
            _ if new.is_empty() => {}
            Some(store) => {
                Store::save(&**store, &new).await?;
                saved.extend(new);
            }
            None => {
                for (queue, offset) in new {
                    match self.save_on_server(&queue, offset).await {
                        Ok(()) => drop(saved.insert(queue, offset)),
                        // A queue that is away must not hold back the others.
                        Err(error) => failed = Err(io::Error::other(error)),
                    }
                }
            }
        }
        failed
    }

    async fn save_on_server(&self, queue: &Queue, offset: i64) -> Result<(), CallError> {
        let place = self.core.place(queue).await?;
        self.core.session.store_offset(&self.core.settings.group, &place, offset).await
    }

    /// Tries a message until it succeeds, its attempts are over, or the broadcast stops.
    async fn process<H, F, E>(&self, handler: &H, message: Arc<Received>)
    where
        H: Fn(Arc<Received>) -> F,
        F: Future<Output = Result<(), E>>,
        E: Display,
    {
        let mut attempt = 1;
        let reason = loop {
            if let Some(error) = message.body_error() {
                break format!("the body cannot be read: {error}");
            }
            let why = match guarded(|| handler(message.clone())).await {
                Some(Ok(())) => {
                    self.counters.done.fetch_add(1, Ordering::Relaxed);
                    return self.unfinished().done(message.queue(), message.offset());
                }
                Some(Err(error)) => error.to_string(),
                None => "the handler panicked".to_owned(),
            };
            if attempt >= self.attempts {
                break why;
            }
            tracing::debug!(id = message.id(), attempt, error = why, "a message is tried again");
            self.counters.retried.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = tokio::time::sleep(self.backoff.wait(attempt)) => {}
                // It is not finished, and comes again with the next start.
                () = self.core.stopping() => return,
            }
            attempt += 1;
        };
        tracing::warn!(id = message.id(), reason, "a message of a broadcast was dropped");
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(on_drop) = &self.on_drop {
            on_drop(&message, &reason);
        }
        self.unfinished().done(message.queue(), message.offset());
    }
}

type GroupKey = (String, String);

/// Hands messages to handlers, as many at a time as may run.
async fn dispatch<H, F, E>(runner: Arc<Runner>, handler: Arc<H>)
where
    H: Fn(Arc<Received>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let core = runner.core.clone();
    let slots = Arc::new(Semaphore::new(runner.concurrency));
    let mut schedule: Schedule<GroupKey, Arc<Received>> = Schedule::new();
    let mut jobs: JoinSet<Option<GroupKey>> = JoinSet::new();
    while core.phase() == Phase::Running {
        let arrived = core.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        while schedule.len() < HELD_MAX {
            let Some(batch) = runner.take() else { break };
            for message in batch.messages {
                let key = message.group().map(|group| (message.topic().to_owned(), group.to_owned()));
                schedule.push(key, Arc::new(message));
            }
        }
        while let Ok(slot) = slots.clone().try_acquire_owned() {
            let Some((key, message)) = schedule.next() else { break };
            let (runner, handler, running) = (runner.clone(), handler.clone(), Running::new(&runner));
            jobs.spawn(async move {
                runner.process(&*handler, message).await;
                drop((running, slot));
                key
            });
        }
        tokio::select! {
            () = arrived => {}
            Some(job) = jobs.join_next(), if !jobs.is_empty() => {
                if let Ok(Some(key)) = job {
                    schedule.done(&key);
                }
            }
            () = core.stopping() => {}
        }
    }
    while jobs.join_next().await.is_some() {}
}

async fn save_often(runner: Arc<Runner>) {
    while runner.core.phase() == Phase::Running {
        tokio::select! {
            () = tokio::time::sleep(SAVE_INTERVAL) => {}
            () = runner.core.stopping() => return,
        }
        if let Err(error) = runner.save().await {
            tracing::warn!(%error, "the progress of a broadcast was not kept");
        }
    }
}
