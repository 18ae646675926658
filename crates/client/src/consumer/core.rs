//! What receivers and workers share: the deliveries that came, and what becomes of them.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use tracing::Instrument as _;

use super::{
    ConsumerCounters, Delivery, ReceiveError, RetryPolicy, SettleError, ShutdownReport,
    lease::{Due, Held, Leases, due},
};
use crate::{
    Backoff, CallError, Client, Filter, Received, ReplyError,
    client::{Part, PartFuture},
    trace,
    transport::{Fetched, Receipt, Session},
};

/// Settlements that wait to be told to the server; further ones are left to the invisible time.
const SETTLEMENTS_MAX: usize = 4096;
/// Acknowledgements of one request.
const ACKS_MAX: usize = 256;
const SETTLE_ATTEMPTS: u32 = 3;
/// Renewals that run at a time.
const RENEWALS_MAX: usize = 32;

/// What a builder has been told.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub group: String,
    pub subscriptions: Vec<(String, Filter)>,
    pub invisible: Duration,
    pub wait: Duration,
    pub batch: usize,
    /// `None`: as the server says, else RocketMQ's.
    pub retry: Option<RetryPolicy>,
    /// Deliveries after which a message is given up; `None`: the server does it.
    pub attempts_max: Option<u32>,
    pub renew_max: Duration,
    pub fifo: bool,
    pub from_start: bool,
    pub prefetch: Prefetch,
}

/// How many messages a consumer wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefetch {
    /// As many as the application waits for, and so many more.
    OnDemand { more: usize },
    /// Up to these, settled ones not counted.
    UpTo { messages: usize, bytes: usize },
}

/// Where a consumer is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// Nothing is fetched any more.
    Stopping,
    /// Nothing is settled any more.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(super) client: Client,
    pub(super) session: Session,
    pub(super) settings: Settings,
    pub(super) leases: Leases,
    pub(super) phase: watch::Sender<Phase>,
    /// Deliveries that nobody has taken yet, in the order in which they came.
    inbox: Mutex<VecDeque<Delivery>>,
    pub(super) arrived: Notify,
    /// Messages that the application waits for.
    wanted: AtomicUsize,
    /// There is room for more messages.
    pub(super) hungry: Notify,
    refusal: Mutex<Option<CallError>>,
    settlements: mpsc::Sender<Settlement>,
    counters: Counters,
    /// Messages that were given back without being begun.
    returned: AtomicU64,
    /// Messages that are being given back.
    returning: AtomicUsize,
    /// Handlers that run.
    pub(super) running: AtomicUsize,
    pub(super) idle: Notify,
}

#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    acked: AtomicU64,
    retried: AtomicU64,
    dead_lettered: AtomicU64,
    dropped: AtomicU64,
    renewed: AtomicU64,
    lost: AtomicU64,
    expired: AtomicU64,
}

/// What the background task is to tell the server.
#[derive(Debug)]
enum Settlement {
    Ack {
        held: Arc<Held>,
        number: u64,
    },
    Retry {
        held: Arc<Held>,
        number: u64,
        wait: Duration,
    },
    GiveBack {
        held: Arc<Held>,
        number: u64,
    },
    /// Says when all before it are done.
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// What the server is told about one delivery.
#[derive(Debug, Clone, Copy)]
enum SettleRequest<'a> {
    Ack,
    VisibleAfter(Duration),
    DeadLetter(&'a str),
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Core {
    /// The core and the tasks that settle and renew. They end with the core; the set is to be kept by the consumer.
    pub(super) fn start(client: Client, session: Session, settings: Settings) -> (Arc<Core>, JoinSet<()>) {
        let (settlements, told) = mpsc::channel(SETTLEMENTS_MAX);
        let core = Arc::new(Core {
            client,
            session,
            settings,
            leases: Leases::default(),
            phase: watch::Sender::new(Phase::Running),
            inbox: Mutex::default(),
            arrived: Notify::new(),
            wanted: AtomicUsize::new(0),
            hungry: Notify::new(),
            refusal: Mutex::default(),
            settlements,
            counters: Counters::default(),
            returned: AtomicU64::new(0),
            returning: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
        });
        core.client.adopt_consumer(&core);
        let mut tasks = JoinSet::new();
        tasks.spawn(settle(Arc::downgrade(&core), told));
        tasks.spawn(keep_leases(Arc::downgrade(&core)));
        (core, tasks)
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns when nothing is to be fetched any more.
    pub(super) async fn stopping(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is this core's own: the wait ends only with the phase.
        let _ = phase.wait_for(|phase| *phase > Phase::Running).await;
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<Delivery>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages there is room for.
    pub(super) fn room(&self) -> usize {
        match self.settings.prefetch {
            Prefetch::OnDemand { more } => {
                (self.wanted.load(Ordering::Acquire) + more).saturating_sub(self.inbox().len())
            }
            Prefetch::UpTo { messages, bytes } => {
                let (held, held_bytes) = self.leases.size();
                if held_bytes >= bytes { 0 } else { messages.saturating_sub(held) }
            }
        }
    }

    /// The application waits for so many messages, until the guard is dropped.
    pub(super) fn want(&self, count: usize) -> Want<'_> {
        self.wanted.fetch_add(count, Ordering::AcqRel);
        self.hungry.notify_waiters();
        Want { core: self, count }
    }

    /// Takes messages in that have come.
    pub(super) fn put(self: &Arc<Core>, fetched: Vec<Fetched>, filter: &Filter, until: Instant) {
        self.refuse(None);
        let count = fetched.len() as u64;
        let renewing = true;
        let deliveries: Vec<Delivery> = fetched
            .into_iter()
            .map(|Fetched { received, receipt }| {
                let held = Arc::new(Held::new(receipt, received.weight(), until, renewing));
                Delivery::new(self, received, held)
            })
            .collect();
        // Brokers compare hashes of tags: a message with another tag is none of this consumer's.
        let (wanted, others): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|delivery| filter.takes_tag(delivery.tag()));
        others.into_iter().for_each(Delivery::ack_later);
        if self.phase() > Phase::Running {
            // A poll that was on its way. It may have brought what was given back before, which counts once.
            return self.give_back_uncounted(wanted);
        }
        add(&self.counters.received, count);
        self.inbox().extend(wanted);
        self.arrived.notify_waiters();
    }

    /// The next message that has come. One whose time is over is left to its next delivery.
    pub(super) fn take(&self) -> Option<Delivery> {
        loop {
            let delivery = self.inbox().pop_front()?;
            if !delivery.held().is_lost() && delivery.held().until() > Instant::now() {
                return Some(delivery);
            }
            // Dropping it tells the server nothing it does not know.
            drop(delivery);
        }
    }

    pub(super) fn take_all(&self) -> Vec<Delivery> {
        self.inbox().drain(..).collect()
    }

    /// Notes why nothing comes, or that something comes again.
    pub(super) fn refuse(&self, refusal: Option<CallError>) {
        let said = refusal.is_some();
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        if said {
            self.arrived.notify_waiters();
        }
    }

    /// Why nothing comes.
    pub(super) fn refusal(&self) -> Option<ReceiveError> {
        if self.phase() > Phase::Running {
            return Some(ReceiveError::ShutDown);
        }
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone().map(ReceiveError::Refused)
    }

    pub(super) fn retry_wait(&self, attempt: u32) -> Duration {
        if let Some(policy) = &self.settings.retry {
            return policy.wait(attempt);
        }
        let waits = self.session.rules().retry_waits;
        if waits.is_empty() {
            RetryPolicy::default().wait(attempt)
        } else {
            RetryPolicy::ladder(waits).wait(attempt)
        }
    }

    /// Whether a message that failed at this delivery is given up by this consumer.
    pub(super) fn is_last(&self, attempt: u32) -> bool {
        self.settings.attempts_max.is_some_and(|max| attempt >= max)
    }

    /// Deliveries after which a FIFO message, which is retried here, is given up.
    pub(super) fn fifo_attempts_max(&self) -> u32 {
        self.settings.attempts_max.or(self.session.rules().attempts_max).unwrap_or(FIFO_ATTEMPTS_MAX)
    }

    /// Tells the server what becomes of a delivery. A call that failed on its way is repeated, while the delivery is this consumer's.
    async fn send_settle_request(&self, held: &Held, what: SettleRequest<'_>) -> Result<(), SettleError> {
        let operation = match what {
            SettleRequest::Ack => "ack",
            SettleRequest::VisibleAfter(_) => "nack",
            SettleRequest::DeadLetter(_) => "dead_letter",
        };
        let span = trace::settle(&self.settings.group, operation, 1);
        self.send_settle_request_traced(held, what).instrument(span).await
    }

    async fn send_settle_request_traced(
        &self,
        held: &Held,
        what: SettleRequest<'_>,
    ) -> Result<(), SettleError> {
        let receipt = held.receipt.lock().await;
        let mut failed = 0;
        loop {
            let told = match what {
                SettleRequest::Ack => {
                    let results = self.session.ack(std::slice::from_ref(&*receipt)).await;
                    results.into_iter().next().unwrap_or(Ok(()))
                }
                SettleRequest::VisibleAfter(wait) => {
                    self.session.change_invisible(&receipt, wait).await.map(drop)
                }
                SettleRequest::DeadLetter(reason) => self.session.dead_letter(&receipt, reason).await,
            };
            let Err(error) = told else { return Ok(()) };
            failed += 1;
            let again = error.retryable() && failed < SETTLE_ATTEMPTS && Instant::now() < held.until();
            if !again {
                return Err(SettleError::of(error));
            }
            tokio::time::sleep(Backoff::default().wait(failed + 2)).await;
        }
    }

    pub(super) async fn ack(&self, held: &Held) -> Result<(), SettleError> {
        self.send_settle_request(held, SettleRequest::Ack).await?;
        add(&self.counters.acked, 1);
        Ok(())
    }

    /// Settles many together: one result for each.
    pub(super) async fn ack_all(&self, all: &[Arc<Held>]) -> Vec<Result<(), SettleError>> {
        let mut guards = Vec::with_capacity(all.len());
        for held in all {
            guards.push(held.receipt.lock().await);
        }
        let receipts: Vec<Receipt> = guards.iter().map(|guard| Receipt::clone(guard)).collect();
        let span = trace::settle(&self.settings.group, "ack", receipts.len());
        let mut results = self.session.ack(&receipts).instrument(span).await;
        let failed = |result: &Result<(), CallError>| matches!(result, Err(error) if error.retryable());
        for attempt in 1..SETTLE_ATTEMPTS {
            let again: Vec<usize> = (0..results.len()).filter(|place| failed(&results[*place])).collect();
            if again.is_empty() {
                break;
            }
            tokio::time::sleep(Backoff::default().wait(attempt + 2)).await;
            let receipts: Vec<Receipt> = again.iter().map(|place| receipts[*place].clone()).collect();
            let answers = self.session.ack(&receipts).await;
            again.into_iter().zip(answers).for_each(|(place, answer)| results[place] = answer);
        }
        add(&self.counters.acked, results.iter().filter(|result| result.is_ok()).count() as u64);
        results.into_iter().map(|result| result.map_err(SettleError::of)).collect()
    }

    pub(super) async fn reply(&self, request: &Received, body: Bytes) -> Result<(), ReplyError> {
        let to = request.reply_to.as_ref().ok_or(ReplyError::NotARequest)?;
        Ok(self.session.reply(to, body).await?)
    }

    /// A request whose producer has stopped waiting was not processed.
    pub(super) fn expired(&self) {
        add(&self.counters.expired, 1);
    }

    pub(super) async fn retry(&self, held: &Held, wait: Duration) -> Result<(), SettleError> {
        if self.is_last(held.attempt) {
            return self.dead_letter(held, "retries exhausted").await;
        }
        self.send_settle_request(held, SettleRequest::VisibleAfter(wait)).await?;
        add(&self.counters.retried, 1);
        Ok(())
    }

    pub(super) async fn dead_letter(&self, held: &Held, reason: &str) -> Result<(), SettleError> {
        self.send_settle_request(held, SettleRequest::DeadLetter(reason)).await?;
        add(&self.counters.dead_lettered, 1);
        Ok(())
    }

    /// Keeps a delivery for this long from now.
    pub(super) async fn renew(&self, held: &Held, time: Duration) -> Result<(), SettleError> {
        let mut receipt = held.receipt.lock().await;
        // The server's time begins when it gets the request, which is not before now.
        let now = Instant::now();
        match self.session.change_invisible(&receipt, time).await {
            Ok(new) => {
                *receipt = new;
                held.set_until(now + time);
                add(&self.counters.renewed, 1);
                Ok(())
            }
            Err(error) => {
                let error = SettleError::of(error);
                if matches!(error, SettleError::Lost(_)) {
                    held.lose();
                }
                Err(error)
            }
        }
    }

    pub(super) fn ack_later(&self, held: Arc<Held>, number: u64) {
        let _ = self.tell(Settlement::Ack { held, number }, number);
    }

    /// A delivery was dropped: it is to come again by the policy.
    pub(super) fn dropped(&self, held: Arc<Held>, number: u64) {
        if held.is_lost() || held.until() <= Instant::now() {
            self.leases.remove(number);
            self.hungry.notify_waiters();
            return;
        }
        add(&self.counters.dropped, 1);
        tracing::debug!(
            attempt = held.attempt,
            "a delivery was dropped without being settled; it comes again"
        );
        let wait = self.retry_wait(held.attempt);
        let _ = self.tell(Settlement::Retry { held, number, wait }, number);
    }

    /// Messages that were not begun are visible to others at once.
    pub(super) fn give_back(&self, deliveries: Vec<Delivery>) {
        add(&self.returned, deliveries.len() as u64);
        self.give_back_uncounted(deliveries);
    }

    fn give_back_uncounted(&self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            let (_, settle) = delivery.into_parts();
            settle.give_back();
        }
    }

    pub(super) fn give_back_one(&self, held: Arc<Held>, number: u64) {
        self.returning.fetch_add(1, Ordering::AcqRel);
        if !self.tell(Settlement::GiveBack { held, number }, number) {
            self.returning.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Leaves a settlement to the background task; `false` if it cannot be left there.
    fn tell(&self, settlement: Settlement, number: u64) -> bool {
        let told = self.settlements.try_send(settlement).is_ok();
        if !told {
            tracing::warn!(
                "too many settlements wait, or the consumer has ended: a message comes again when its invisible time is over"
            );
            self.leases.remove(number);
            self.hungry.notify_waiters();
        }
        told
    }

    /// A settlement is over.
    pub(super) fn settled(&self, number: u64, held: &Held, result: &Result<(), SettleError>) {
        if let Err(error) = result {
            if matches!(error, SettleError::Lost(_)) {
                add(&self.counters.lost, 1);
                held.lose();
            }
            tracing::debug!(%error, "a delivery was not settled");
        }
        self.leases.remove(number);
        self.hungry.notify_waiters();
    }

    pub(super) fn counters(&self) -> ConsumerCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { received, acked, retried, dead_lettered, dropped, renewed, lost, expired } =
            &self.counters;
        ConsumerCounters {
            received: read(received),
            acked: read(acked),
            retried: read(retried),
            dead_lettered: read(dead_lettered),
            dropped: read(dropped),
            renewed: read(renewed),
            lost: read(lost),
            expired: read(expired),
        }
    }

    /// Stops fetching, hands back what was not begun, waits for handlers, tells the server what is settled, and leaves the group.
    pub async fn shutdown(&self, deadline: Instant) -> ShutdownReport {
        self.phase.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Stopping;
            }
            running
        });
        self.hungry.notify_waiters();
        self.arrived.notify_waiters();
        self.give_back(self.take_all());
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
        self.flush(deadline).await;
        let _ = tokio::time::timeout_at(deadline, self.session.close(&self.client.addresses())).await;
        self.phase.send_replace(Phase::Stopped);
        let counters = self.counters();
        ShutdownReport {
            finished: counters.acked + counters.dead_lettered + counters.retried,
            returned: self.returned.load(Ordering::Relaxed),
            abandoned: self.leases.size().0.saturating_sub(self.returning.load(Ordering::Acquire)) as u64,
        }
    }

    /// The consumer was dropped. After a shutdown its polls may still be on their way: the client sees to it that what they bring goes
    /// back. Without one everything ends at once, and what was not settled comes again when its invisible time is over.
    pub(super) fn end(&self, tasks: &mut JoinSet<()>) {
        let before = self.phase.send_replace(Phase::Stopped);
        if before == Phase::Stopped {
            self.client.adopt_tasks(std::mem::take(tasks));
        } else {
            tasks.abort_all();
        }
        // Each has a handle on this core, which would never be freed.
        let left = self.take_all();
        if !left.is_empty() {
            tracing::warn!(
                messages = left.len(),
                "a consumer was dropped without a shutdown; its messages come again later"
            );
        }
    }

    /// Waits until every settlement before now has been told.
    pub(super) async fn flush(&self, deadline: Instant) {
        let (done, flushed) = tokio::sync::oneshot::channel();
        let all = async {
            if self.settlements.send(Settlement::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = tokio::time::timeout_at(deadline, all).await;
    }
}

impl Part for Core {
    fn shut_down(self: Arc<Core>, deadline: Instant) -> PartFuture {
        Box::pin(async move { Core::shutdown(&self, deadline).await })
    }
}

const FIFO_ATTEMPTS_MAX: u32 = 17;

/// Messages that the application waits for.
#[derive(Debug)]
pub(super) struct Want<'a> {
    core: &'a Core,
    count: usize,
}

impl Drop for Want<'_> {
    fn drop(&mut self) {
        self.core.wanted.fetch_sub(self.count, Ordering::AcqRel);
    }
}

/// Tells the server what became of deliveries that nobody waits for: acknowledgements together, the others one by one.
async fn settle(core: Weak<Core>, mut told: mpsc::Receiver<Settlement>) {
    let mut batch = Vec::with_capacity(ACKS_MAX);
    while told.recv_many(&mut batch, ACKS_MAX).await > 0 {
        let Some(core) = core.upgrade() else { return };
        let mut acks = Vec::new();
        let mut retries = JoinSet::new();
        let mut flushes = Vec::new();
        for settlement in batch.drain(..) {
            match settlement {
                Settlement::Ack { held, number } => acks.push((held, number)),
                Settlement::Retry { held, number, wait } => {
                    let core = core.clone();
                    retries.spawn(async move {
                        let result = core.retry(&held, wait).await;
                        core.settled(number, &held, &result);
                    });
                }
                Settlement::GiveBack { held, number } => {
                    let core = core.clone();
                    retries.spawn(async move {
                        let result = core
                            .send_settle_request(&held, SettleRequest::VisibleAfter(Duration::ZERO))
                            .await;
                        core.settled(number, &held, &result);
                        core.returning.fetch_sub(1, Ordering::AcqRel);
                    });
                }
                Settlement::Flush(done) => flushes.push(done),
            }
        }
        let held: Vec<Arc<Held>> = acks.iter().map(|(held, _)| held.clone()).collect();
        if !held.is_empty() {
            let results = core.ack_all(&held).await;
            for ((held, number), result) in acks.iter().zip(results) {
                core.settled(*number, held, &result);
            }
        }
        while retries.join_next().await.is_some() {}
        for done in flushes {
            let _ = done.send(());
        }
    }
}

/// Renews deliveries when half of their invisible time is over, and notes expired ones.
async fn keep_leases(core: Weak<Core>) {
    loop {
        let tick = {
            let Some(core) = core.upgrade() else { return };
            let (invisible, renew_max) = (core.settings.invisible, core.settings.renew_max);
            let mut renewals = JoinSet::new();
            for held in core.leases.all() {
                match due(&held.times(), invisible, renew_max, Instant::now()) {
                    Due::Nothing => {}
                    Due::Lost => held.lose(),
                    Due::Renew => {
                        if renewals.len() >= RENEWALS_MAX {
                            renewals.join_next().await;
                        }
                        let core = core.clone();
                        renewals.spawn(async move {
                            if let Err(error) = core.renew(&held, invisible).await {
                                tracing::debug!(%error, "an invisible time was not renewed");
                            }
                        });
                    }
                }
            }
            while renewals.join_next().await.is_some() {}
            (invisible / 10).clamp(Duration::from_millis(20), Duration::from_secs(1))
        };
        tokio::time::sleep(tick).await;
    }
}
