//! Sending messages.

mod batching;
mod builder;
mod faults;
mod limit;
mod request;
mod selector;
mod transaction;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use builder::ProducerBuilder;
pub use faults::FaultPolicy;
use faults::{Faults, Outcome};
use limit::Limit;
pub use request::{RequestError, Requester, RequesterCounters};
use selector::{Attempt, Turn};
pub use selector::{ChooseQueue, Selector};
use tokio::time::Instant;
pub use transaction::{
    Checker, ExecuteError, Executed, Prepared, TransactionError, TransactionProducer,
    TransactionProducerBuilder, Verdict,
};

use tracing::Instrument as _;

use crate::{
    Backoff, CallError, Client, Message, Queue, RouteError, SendError, ServerCode, ShutdownReport,
    body::pack,
    message::BODY_BYTES_MAX,
    message_id::now_ms,
    route::{Place, Route},
    trace,
    transport::{Outgoing, Purpose, Session, Stored, Transaction},
};

/// A message that a server has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// The id that the message got from this producer.
    pub id: String,
    /// The queue that it is in. Behind gRPC the server chooses the queue and does not say which.
    pub queue: Queue,
    /// Its place in the queue; `None` for a delayed message, and where the server does not say.
    pub offset: Option<i64>,
    /// What takes a delayed message back: see [`Producer::recall`].
    pub recall: Option<String>,
    /// How safe it is.
    pub status: SendStatus,
    /// The transaction that it has begun.
    pub(crate) transaction: Option<Transaction>,
}

/// How safe a stored message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendStatus {
    /// As safe as the server is configured to make it.
    Stored,
    /// Stored, and not yet known to be on the disk.
    FlushDiskTimeout,
    /// Stored, and not yet known to be on a second broker.
    FlushSlaveTimeout,
    /// Stored, and there is no second broker.
    SlaveNotAvailable,
}

/// What a producer has done since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProducerCounters {
    /// Messages that a server has stored.
    pub sent: u64,
    /// Messages that were not sent, whatever the reason.
    pub failed: u64,
    /// Attempts after a failed one.
    pub retries: u64,
}

/// Sends messages. Cheap to clone; all clones are the same producer.
///
/// A send whose future is dropped before it is done may have stored its message.
#[derive(Debug, Clone)]
pub struct Producer {
    core: Arc<Core>,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub timeout: Duration,
    pub attempts: u32,
    pub backoff: Backoff,
    pub faults: Option<FaultPolicy>,
    pub selector: Selector,
    pub compress_from: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Core {
    client: Client,
    session: Session,
    settings: Settings,
    limit: Limit,
    turn: Turn,
    faults: Mutex<Faults>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    failed: AtomicU64,
    retries: AtomicU64,
}

impl Producer {
    /// Sends a message and waits until a server has stored it. Failed attempts are repeated, at another broker if there is one,
    /// within the producer's time; the message keeps its id.
    pub async fn send(&self, message: Message) -> Result<Sent, SendError> {
        let result = self.core.send(message).await;
        self.core.count(&result);
        result
    }

    /// Sends a message without waiting for an answer: nothing says whether it was stored. An error says that it was not sent.
    pub async fn post(&self, message: Message) -> Result<(), SendError> {
        self.core.post(message).await
    }

    /// Sends messages of any topics, in as few requests as the protocol allows; one result for each, in their order. Messages
    /// of one message group keep their order. A message with a dedup key, or a delayed one, has a request of its own.
    pub async fn send_many(&self, mut messages: Vec<Message>) -> Vec<Result<Sent, SendError>> {
        let Some(first) = messages.first() else { return Vec::new() };
        let span = trace::send(first, messages.len());
        messages.iter_mut().for_each(|message| self.core.client.tracer().inject(message));
        let results = self.core.send_many(messages).instrument(span).await;
        results.iter().for_each(|result| self.core.count(result));
        results
    }

    /// Takes a delayed message back before it is due, by the handle that [`Sent::recall`] holds; the id of the message. Apache's
    /// brokers need `recallMessageEnable=true`.
    pub async fn recall(&self, topic: &str, handle: &str) -> Result<String, SendError> {
        self.core.recall(topic, handle).await
    }

    /// The queues of a topic that can be written to.
    pub async fn queues(&self, topic: &str) -> Result<Vec<Queue>, RouteError> {
        let route = self.core.client.route(topic).await?;
        Ok(route.writable.iter().map(|place| place.queue.clone()).collect())
    }

    /// What this producer has done.
    pub fn counters(&self) -> ProducerCounters {
        self.core.counters()
    }

    /// Takes no more messages and waits for those on their way, until the time is over. The report says how many were left.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}

impl Core {
    fn count(&self, result: &Result<Sent, SendError>) {
        let counter = if result.is_ok() { &self.counters.sent } else { &self.counters.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn counters(&self) -> ProducerCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { sent, failed, retries } = &self.counters;
        ProducerCounters { sent: read(sent), failed: read(failed), retries: read(retries) }
    }

    /// Tells the brokers of a topic who this client is, if this is the first that it has to do with them.
    async fn introduce(&self, topic: &str) {
        if self.client.known_route(topic).is_none()
            && let Ok(route) = self.client.route(topic).await
        {
            self.client.net().heartbeat(&route.addresses).await;
        }
    }

    async fn send(&self, message: Message) -> Result<Sent, SendError> {
        self.send_for(message, Purpose::Plain).await
    }

    async fn send_for(&self, mut message: Message, purpose: Purpose) -> Result<Sent, SendError> {
        self.client.tracer().inject(&mut message);
        let span = trace::send(&message, 1);
        let result = self.send_traced(message, purpose).instrument(span.clone()).await;
        trace::sent(&span, &result);
        result
    }

    async fn send_traced(&self, message: Message, purpose: Purpose) -> Result<Sent, SendError> {
        let deadline = Instant::now() + self.settings.timeout;
        message.check(self.body_bytes_max())?;
        if matches!(purpose, Purpose::Half { .. }) {
            message.check_transactional()?;
        }
        let _room = self.limit.take(1, message.weight(), deadline).await?;
        let outgoing = [Outgoing { purpose, ..self.outgoing(message) }];
        self.deliver(&outgoing, deadline).await?.pop().unwrap_or(Err(SendError::ShutDown))
    }

    fn body_bytes_max(&self) -> usize {
        self.session.body_bytes_max().unwrap_or(BODY_BYTES_MAX)
    }

    /// Gives the message its id and packs its body.
    fn outgoing(&self, message: Message) -> Outgoing {
        let pack_it = self.settings.compress_from.is_some_and(|from| message.body.len() >= from);
        let packed = pack_it.then(|| pack(&message.body, self.session.packing())).flatten();
        Outgoing {
            id: self.session.new_message_id(),
            packed: packed.is_some(),
            body: packed.unwrap_or_else(|| message.body.clone()),
            born_at: now_ms(),
            purpose: Purpose::Plain,
            message,
        }
    }

    /// The queue for an attempt.
    fn choose<'r>(
        &self,
        route: &'r Route,
        message: &Message,
        last_broker: Option<&str>,
    ) -> Result<&'r Place, SendError> {
        let selector = &self.settings.selector;
        let chosen = {
            let faults = self.settings.faults.is_some().then(|| self.faults());
            let attempt = Attempt { last_broker, faults: faults.as_deref(), now: std::time::Instant::now() };
            selector.choose(&route.writable, message, &self.turn, attempt)
        };
        chosen.and_then(|chosen| route.writable.get(chosen)).ok_or_else(|| SendError::NoQueue {
            topic: message.topic.clone(),
            selector: (!route.writable.is_empty()).then(|| selector.name()),
        })
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, address: &str, outcome: Outcome) {
        if let Some(policy) = &self.settings.faults {
            self.faults().record(policy, address, outcome, std::time::Instant::now());
        }
    }

    /// Sends messages that share a queue, with one request for each attempt.
    async fn deliver(
        &self,
        messages: &[Outgoing],
        deadline: Instant,
    ) -> Result<Vec<Result<Sent, SendError>>, SendError> {
        let Some(first) = messages.first() else { return Ok(Vec::new()) };
        let topic = &first.message.topic;
        let mut last_broker: Option<String> = None;
        let mut earlier_may_have_happened = false;
        let mut attempts = 0;
        loop {
            let route = self.route(topic, deadline).await?;
            let place = self.choose(&route, &first.message, last_broker.as_deref())?;
            attempts += 1;
            let began = Instant::now();
            let within = deadline.saturating_duration_since(began);
            let error = match self.session.send(place, messages, within).await {
                Ok(stored) => {
                    self.record(&place.address, Outcome::Answered(began.elapsed()));
                    if route.provisional {
                        // The message has made the topic, which has a route of its own now.
                        self.client.forget_route(topic);
                    }
                    let failed = |last| SendError::Call { attempts, earlier_may_have_happened, last };
                    let sent = stored
                        .into_iter()
                        .map(|stored| stored.map(|stored| sent(place, stored)).map_err(failed));
                    return Ok(sent.collect());
                }
                Err(error) => error,
            };
            self.after_failure(topic, &error).await;
            let given_up = !error.retryable() || attempts >= self.settings.attempts;
            let pause = if error.is_busy() { self.settings.backoff.wait(attempts) } else { Duration::ZERO };
            if given_up || Instant::now() + pause >= deadline {
                return Err(SendError::Call { attempts, earlier_may_have_happened, last: error });
            }
            tracing::debug!(%error, attempts, "a send is tried again");
            earlier_may_have_happened |= error.may_have_happened();
            last_broker = Some(place.queue.broker.clone());
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn route(&self, topic: &str, deadline: Instant) -> Result<Arc<Route>, SendError> {
        if let Some(route) = self.client.known_route(topic) {
            return Ok(route);
        }
        match tokio::time::timeout_at(deadline, self.client.route(topic)).await {
            Ok(route) => Ok(route?),
            Err(_) => {
                let error = CallError::Timeout {
                    address: "the name service".to_owned(),
                    within: self.settings.timeout,
                };
                Err(RouteError::Call { topic: topic.to_owned(), error }.into())
            }
        }
    }

    /// Notes a failed attempt. A broker that does not have the topic has proved the route wrong.
    async fn after_failure(&self, topic: &str, error: &CallError) {
        // A refusal for good says nothing against the broker.
        if error.retryable() {
            self.record(error.address(), Outcome::Failed);
        }
        if error.code().is_some_and(ServerCode::is_unknown_topic) {
            drop(self.client.refresh_route(topic).await);
        }
    }

    async fn post(&self, mut message: Message) -> Result<(), SendError> {
        self.client.tracer().inject(&mut message);
        let deadline = Instant::now() + self.settings.timeout;
        message.check(self.body_bytes_max())?;
        let _room = self.limit.take(1, message.weight(), deadline).await?;
        let outgoing = self.outgoing(message);
        let route = self.route(&outgoing.message.topic, deadline).await?;
        let place = self.choose(&route, &outgoing.message, None)?;
        let posted = self.session.post(place, &outgoing).await;
        posted.map_err(|last| SendError::Call { attempts: 1, earlier_may_have_happened: false, last })
    }

    async fn recall(&self, topic: &str, handle: &str) -> Result<String, SendError> {
        let deadline = Instant::now() + self.settings.timeout;
        if self.limit.is_closed() {
            return Err(SendError::ShutDown);
        }
        let route = self.route(topic, deadline).await?;
        // The handle names the broker that has the message.
        let broker = recall_broker(handle);
        let named = route.writable.iter().find(|place| Some(&place.queue.broker) == broker.as_ref());
        let place = named.or(route.writable.first());
        let place = place.ok_or_else(|| SendError::NoQueue { topic: topic.to_owned(), selector: None })?;
        let within = deadline.saturating_duration_since(Instant::now());
        let recalled = self.session.recall(place, topic, handle, within).await;
        recalled.map_err(|last| SendError::Call { attempts: 1, earlier_may_have_happened: false, last })
    }

    pub async fn shutdown(&self, deadline: Instant) -> ShutdownReport {
        let abandoned = self.limit.close(deadline).await;
        drop(tokio::time::timeout_at(deadline, self.session.close(&self.client.addresses())).await);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShutdownReport { finished: read(&self.counters.sent), returned: 0, abandoned: abandoned as u64 }
    }
}

fn sent(place: &Place, stored: Stored) -> Sent {
    Sent {
        id: stored.id,
        queue: Queue { id: stored.queue, ..place.queue.clone() },
        offset: stored.offset,
        recall: stored.recall,
        status: stored.status,
        transaction: stored.transaction,
    }
}

/// The broker's name in a handle: base64 of `v1 topic broker time id`.
fn recall_broker(handle: &str) -> Option<String> {
    use base64::{Engine, engine::general_purpose::URL_SAFE};
    let text = String::from_utf8(URL_SAFE.decode(handle).ok()?).ok()?;
    text.split(' ').nth(2).map(str::to_owned)
}
