//! How front ends reach the shard: a bounded channel to the owner thread, a bound on the bytes that wait to be stored, and the engine
//! slot for very short requests.

use std::sync::{Arc, Weak};

use crossbeam_channel::{Sender, TrySendError};
use redstart_engine::{
    AdminError, Engine, GroupConfig, GroupName, KeyAnswer, Message, Outcome, Popped, Pulled, QueryError,
    QueryStep, SendOptions, SendReceipt, Ticket, Timestamp, TopicName,
};
use redstart_log::Reader;
use tokio::sync::{Semaphore, oneshot};

use super::{
    ChangeError, Config, Counters, Flush, ReceiveError, Reply, SendFailure, Unavailable,
    bodies::Bodies,
    cold_reads::ClosureQuery,
    engine_slot::EngineSlot,
    lite_subscriptions::{LiteChange, LiteNotice, TooManyLiteSubscriptions},
    pending_bytes::PendingBytes,
    request::{AwaitedPops, Called, PopRequest, PullRequest, Request},
};

/// Searches by key that run at the same time. Each step of a search takes the owner thread up to a millisecond.
const SEARCHES_MAX: usize = 4;

/// What a search by key looks for: messages of a topic that have the key, or have it as their id, and became visible between `from`
/// and `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    pub topic: TopicName,
    pub key: String,
    pub from: Timestamp,
    pub to: Timestamp,
    pub max: usize,
}

/// Sends requests to a shard. Cheap to clone; usable from tasks and threads alike.
#[derive(Clone)]
pub struct ShardHandle {
    requests: Sender<Request>,
    /// Owned by the owner thread: gone when that has ended.
    slot: Weak<EngineSlot>,
    pending_bytes: Arc<PendingBytes>,
    bodies: Bodies,
    /// Bounds the searches by key that run at the same time.
    searches: Arc<Semaphore>,
    counters: Arc<Counters>,
    flush: Flush,
    refused_bytes_max: usize,
}

impl std::fmt::Debug for ShardHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardHandle").field("queued", &self.requests.len()).finish_non_exhaustive()
    }
}

impl ShardHandle {
    pub(super) fn new(
        requests: Sender<Request>,
        slot: Weak<EngineSlot>,
        pending_bytes: Arc<PendingBytes>,
        reader: Arc<dyn Reader>,
        counters: Arc<Counters>,
        config: &Config,
    ) -> ShardHandle {
        let (flush, refused_bytes_max) = (config.flush, config.refused_bytes_max);
        let bodies = Bodies::new(reader, counters.clone());
        let searches = Arc::new(Semaphore::new(SEARCHES_MAX));
        ShardHandle { requests, slot, pending_bytes, bodies, searches, counters, flush, refused_bytes_max }
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Bytes accepted and not yet stored, and their limit.
    pub fn pending_bytes(&self) -> (usize, usize) {
        (self.pending_bytes.used(), self.pending_bytes.limit())
    }

    /// When a message counts as stored.
    pub fn flush(&self) -> Flush {
        self.flush
    }

    /// Requests that wait for the owner thread, and their limit.
    pub fn queued(&self) -> (usize, usize) {
        (self.requests.len(), self.requests.capacity().unwrap_or(0))
    }

    /// Reads of stored messages, which do not need the owner thread.
    pub fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// Reads of the log, for threads that may wait for the disk.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.bodies.shared_reader()
    }

    /// Stores messages of one topic, all or none. Answered when they are durable (with `flush = "async"`: appended).
    pub fn send(
        &self,
        topic: TopicName,
        messages: Vec<Message>,
        options: SendOptions,
    ) -> Result<Reply<Result<Vec<SendReceipt>, SendFailure>>, Unavailable> {
        let bytes = messages.iter().map(message_bytes).sum();
        let permit = self.pending_bytes.take(bytes).map_err(|used| Unavailable::Overloaded {
            what: "bytes waiting to be stored",
            used,
            limit: self.pending_bytes.limit(),
        })?;
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Send { topic, messages, options, permit, reply })?;
        Ok(Reply::asked(answer))
    }

    /// Whether facts can be recorded. They cannot while the log refuses frames and those that wait for it fill their memory.
    pub fn check_recording(&self) -> Result<(), Unavailable> {
        let full = self.counters.condition().refused_bytes();
        full.map_or(Ok(()), |used| Err(Unavailable::log_refuses(used, self.refused_bytes_max)))
    }

    /// Receives messages; with a waiting time, as soon as there are any.
    pub fn pop(&self, request: PopRequest) -> Result<Reply<Result<Popped, ReceiveError>>, Unavailable> {
        self.check_recording()?;
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Pop { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Receives messages of the lite topics that the request's client has subscribed to.
    pub fn pop_lite(&self, request: PopRequest) -> Result<Reply<Result<Popped, ReceiveError>>, Unavailable> {
        self.check_recording()?;
        let (reply, answer) = oneshot::channel();
        self.submit(Request::PopLite { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Changes the subscriptions of a client. The answer lists the subscriptions that other clients have lost by it.
    pub fn change_lites(
        &self,
        change: LiteChange,
    ) -> Result<Reply<Result<Vec<LiteNotice>, TooManyLiteSubscriptions>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::ChangeLites { change: Box::new(change), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Removes the subscriptions of disconnected clients. The answer lists the subscriptions that ended because their lite topic
    /// expired.
    pub fn lite_upkeep(&self, disconnected: Vec<String>) -> Result<Reply<Vec<LiteNotice>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::LiteUpkeep { disconnected, reply })?;
        Ok(Reply::asked(answer))
    }

    pub fn pull(&self, request: PullRequest) -> Result<Reply<Result<Pulled, ReceiveError>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Pull { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// The number of waiting pops.
    pub fn count_pops(&self, of: AwaitedPops) -> Result<Reply<usize>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::CountPops { of: Box::new(of), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Runs a short closure on the owner thread and answers with its result.
    pub fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Call(Box::new(move |engine, now| {
            // The caller may have given up.
            drop(reply.send(ask(engine, now)));
            Called::Answered
        })))?;
        Ok(Reply::asked(answer))
    }

    /// The same for a closure that records facts, such as acks. Refused while these could not be kept until the log takes them.
    pub fn record<R: Send + 'static>(
        &self,
        record: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        self.check_recording()?;
        self.ask(record)
    }

    /// Runs a read-only closure on the owner thread. If it needs parts of the log that are not in memory, it runs again when they have
    /// been read.
    pub fn query<R: Send + 'static>(
        &self,
        query: impl Fn(&Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Query(Box::new(ClosureQuery { query, result: None, reply })))?;
        Ok(Reply::asked(answer))
    }

    /// Finds messages by key, step by step: the owner thread serves other requests between two steps. [`SEARCHES_MAX`] searches run at
    /// the same time, further ones wait.
    pub async fn find_by_key(&self, wanted: WantedKey) -> Result<Result<KeyAnswer, QueryError>, Unavailable> {
        // The semaphore is never closed.
        let _permit = self.searches.acquire().await;
        let WantedKey { topic, key, from, to, max } = wanted;
        let mut step = self
            .query(move |engine, _| engine.query_step(&engine.key_query(&topic, &key, from, to, max)?))?
            .await?;
        loop {
            match step {
                Ok(QueryStep::Unfinished(query)) => {
                    step = self.query(move |engine, _| engine.query_step(&query))?.await?;
                }
                Ok(QueryStep::Done(answer)) => return Ok(Ok(answer)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Runs a very short closure on the caller's thread if the owner thread is idle or waits for the disk, else on the owner thread. It
    /// does not wait for the disk: it sees an error for what is not in memory, and the caller has to send another request for that.
    /// The facts that it records may be written some milliseconds later, so the answer does not mean that they are stored.
    pub fn ask_here<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let slot = self.slot.upgrade();
        let usable = self.requests.is_empty() && self.counters.condition().failure().is_none();
        let Some(mut runtime) = slot.as_ref().filter(|_| usable).and_then(|slot| slot.try_take()) else {
            return self.ask(|engine, _| engine.run_cached(Vec::new(), ask).result);
        };
        let (answer, wake_owner) = self.counters.condition().guard(|| runtime.ask_here(ask));
        drop(runtime);
        if wake_owner {
            // If the channel is full, the owner is awake.
            drop(self.submit(Request::WakeUp));
        }
        Ok(Reply::answered(answer))
    }

    /// Proposes a decision on the owner thread. Answered when it is durable (with `flush = "async"`: appended) and in force.
    pub fn change<E: Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<Reply<Result<(), ChangeError<E>>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.submit(Request::Call(Box::new(move |engine, now| match propose(engine, now) {
            Ok(ticket) => Called::Pending(
                ticket,
                Box::new(move |outcome| {
                    drop(reply.send(match outcome {
                        Outcome::Refused(why) => Err(ChangeError::Log(why)),
                        Outcome::Stored(_) | Outcome::Done => Ok(()),
                    }));
                }),
            ),
            Err(error) => {
                drop(reply.send(Err(ChangeError::Refused(error))));
                Called::Answered
            }
        })))?;
        Ok(Reply::asked(answer))
    }

    /// Creates a group with the default settings unless it exists. Front ends call it when a group consumes for the first time.
    pub fn ensure_group(
        &self,
        group: GroupName,
    ) -> Result<Reply<Result<(), ChangeError<AdminError>>>, Unavailable> {
        self.change(move |engine, _| {
            if engine.group_id(&group).is_some() {
                return Ok(engine.barrier());
            }
            match engine.put_group(&group, GroupConfig::default()) {
                // Another request is creating the group: a barrier behind it in the log has its outcome after it.
                Err(AdminError::Creating { .. }) => Ok(engine.barrier()),
                other => other,
            }
        })
    }

    /// Answers every waiting receive without messages, because the process is stopping.
    pub fn end_polls(&self) {
        // If the channel is full or the shard has stopped, the receives end with the shard.
        drop(self.submit(Request::EndPolls));
    }

    /// Returns when the owner thread has ended and no connection task uses the engine any more.
    pub(super) fn await_end(&self) {
        while self.slot.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    pub(super) fn send_stop(&self) {
        // Waits while the channel is full: a stop must not be lost. The owner may have ended already.
        drop(self.requests.send(Request::Stop));
    }

    fn submit(&self, request: Request) -> Result<(), Unavailable> {
        self.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Unavailable::Overloaded {
                what: "requests waiting for the shard",
                used: self.requests.len(),
                limit: self.requests.capacity().unwrap_or(0),
            },
            TrySendError::Disconnected(_) => Unavailable::Stopped,
        })
    }
}

/// What a message counts against the bytes that may be pending.
fn message_bytes(message: &Message) -> usize {
    const OVERHEAD: usize = 256;
    let properties: usize = message.properties.iter().map(|(name, value)| name.len() + value.len()).sum();
    message.body.len() + properties + OVERHEAD
}
