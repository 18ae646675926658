use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use crossbeam_channel::{Sender, TrySendError};
use redstart_engine::{
    AdminError, Engine, GroupConfig, GroupName, KeyAnswer, Message, OffsetError, Outcome, PopError, Popped,
    Pulled, QueryError, QueryStep, SendError, SendOptions, SendReceipt, Ticket, Timestamp, TopicName,
};
use redstart_log::Reader;
use tokio::sync::{Semaphore, oneshot};

use super::{
    Counters, Flush,
    bodies::Bodies,
    budget::Budget,
    cold::Asked,
    lites::{LiteChange, LiteNotice, TooManyLites},
    request::{AwaitedPops, Called, PopRequest, PullRequest, Request, Unavailable},
    slot::EngineSlot,
};

/// Searches by key that run at a time: each step of each of them takes the owner up to a millisecond.
const SEARCHES_MAX: usize = 4;

/// Which messages a search by key is for: those of a topic that carry the key, or have it as their id, and became visible
/// in the given time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    pub topic: TopicName,
    pub key: String,
    pub from: Timestamp,
    pub to: Timestamp,
    pub max: usize,
}

/// A send that did not store its messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    #[error(transparent)]
    Refused(#[from] SendError),
    #[error("the log refused the messages: {0}")]
    Log(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A receive that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Pop(#[from] PopError),
    #[error("the consumer group is for other consumers: its {attribute} is {value}")]
    Other { attribute: &'static str, value: String },
    #[error(transparent)]
    Pull(#[from] OffsetError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A change that was refused, or could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<E> {
    #[error(transparent)]
    Refused(E),
    #[error("the log refused the change: {0}")]
    Log(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// An answer on its way: await it, or [`Reply::wait`] for it on a thread of your own.
#[derive(Debug)]
#[must_use = "the request runs either way, but its outcome is lost"]
pub struct Reply<T>(State<T>);

#[derive(Debug)]
enum State<T> {
    Answered(Option<T>),
    Asked(oneshot::Receiver<T>),
}

impl<T> Reply<T> {
    fn asked(answer: oneshot::Receiver<T>) -> Reply<T> {
        Reply(State::Asked(answer))
    }

    pub fn wait(self) -> Result<T, Unavailable> {
        match self.0 {
            State::Answered(answer) => answer.ok_or(Unavailable::Stopped),
            State::Asked(answer) => answer.blocking_recv().map_err(|_| Unavailable::Stopped),
        }
    }

    /// Gives the wait up. Returns the answer if it came and was not taken; none can come any more.
    pub(crate) fn abandon(&mut self) -> Option<T> {
        match &mut self.0 {
            State::Answered(answer) => answer.take(),
            State::Asked(answer) => {
                answer.close();
                answer.try_recv().ok()
            }
        }
    }
}

// Nothing in it is pinned.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Answered(answer) => Poll::Ready(answer.take().ok_or(Unavailable::Stopped)),
            State::Asked(answer) => Pin::new(answer).poll(context).map_err(|_| Unavailable::Stopped),
        }
    }
}

/// What front ends hold of a shard. Cheap to clone; usable from tasks and threads alike.
#[derive(Clone)]
pub struct ShardHandle {
    requests: Sender<Request>,
    /// The owner's: it goes with the owner.
    slot: Weak<EngineSlot>,
    budget: Arc<Budget>,
    bodies: Bodies,
    /// Searches by key that may run at a time.
    searches: Arc<Semaphore>,
    counters: Arc<Counters>,
    flush: Flush,
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
        budget: Arc<Budget>,
        reader: Arc<dyn Reader>,
        counters: Arc<Counters>,
        flush: Flush,
    ) -> ShardHandle {
        let bodies = Bodies::new(reader, counters.clone());
        let searches = Arc::new(Semaphore::new(SEARCHES_MAX));
        ShardHandle { requests, slot, budget, bodies, searches, counters, flush }
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Bytes accepted and not yet stored, and how many may be.
    pub fn pending_bytes(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// When what is sent counts as stored.
    pub fn flush(&self) -> Flush {
        self.flush
    }

    /// Requests that wait for the owner, and how many may.
    pub fn queued(&self) -> (usize, usize) {
        (self.requests.len(), self.requests.capacity().unwrap_or(0))
    }

    /// Reads of stored messages, which do not need the owner.
    pub fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// The log itself, for threads that may wait for the disk.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.bodies.shared_reader()
    }

    /// Stores messages of one topic, all or none. Answered when they are durable (or written, by the flush mode).
    pub fn send(
        &self,
        topic: TopicName,
        messages: Vec<Message>,
        options: SendOptions,
    ) -> Result<Reply<Result<Vec<SendReceipt>, SendFailure>>, Unavailable> {
        let bytes = messages.iter().map(message_bytes).sum();
        let permit = self.budget.take(bytes).map_err(|used| Unavailable::Overloaded {
            what: "bytes waiting to be stored",
            used,
            limit: self.budget.limit(),
        })?;
        let (reply, answer) = oneshot::channel();
        self.give(Request::Send { topic, messages, options, permit, reply })?;
        Ok(Reply::asked(answer))
    }

    /// Receives messages; with a waiting time, as soon as there are any.
    pub fn pop(&self, request: PopRequest) -> Result<Reply<Result<Popped, ReceiveError>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::Pop { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Receives messages of the lite topics that the request's client has subscribed to.
    pub fn pop_lite(&self, request: PopRequest) -> Result<Reply<Result<Popped, ReceiveError>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::PopLite { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Changes what a client has subscribed to. The answer says who must be told of what they lost.
    pub fn change_lites(
        &self,
        change: LiteChange,
    ) -> Result<Reply<Result<Vec<LiteNotice>, TooManyLites>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::ChangeLites { change: Box::new(change), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Forgets clients that are gone, and asks whose lite topics have gone.
    pub fn lite_upkeep(&self, gone: Vec<String>) -> Result<Reply<Vec<LiteNotice>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::LiteUpkeep { gone, reply })?;
        Ok(Reply::asked(answer))
    }

    pub fn pull(&self, request: PullRequest) -> Result<Reply<Result<Pulled, ReceiveError>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::Pull { request: Box::new(request), reply })?;
        Ok(Reply::asked(answer))
    }

    /// How many pops wait.
    pub fn count_pops(&self, of: AwaitedPops) -> Result<Reply<usize>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::CountPops { of: Box::new(of), reply })?;
        Ok(Reply::asked(answer))
    }

    /// Runs something short on the owner thread and answers at once.
    pub fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::Call(Box::new(move |engine, now| {
            // The caller may have lost interest.
            drop(reply.send(ask(engine, now)));
            Called::Answered
        })))?;
        Ok(Reply::asked(answer))
    }

    /// Asks for something that may need parts of the log which are not in memory: then it is asked again when they are.
    pub fn look<R: Send + 'static>(
        &self,
        ask: impl Fn(&Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::Question(Box::new(Asked { ask, found: None, reply })))?;
        Ok(Reply::asked(answer))
    }

    /// Looks for messages by key, step by step: the owner serves other requests between two steps. Few such searches run at
    /// a time, the others wait.
    pub async fn find_by_key(&self, wanted: WantedKey) -> Result<Result<KeyAnswer, QueryError>, Unavailable> {
        // Never closed.
        let _place = self.searches.acquire().await;
        let WantedKey { topic, key, from, to, max } = wanted;
        let mut step = self
            .look(move |engine, _| engine.query_step(&engine.key_query(&topic, &key, from, to, max)?))?
            .await?;
        loop {
            match step {
                Ok(QueryStep::Unfinished(query)) => {
                    step = self.look(move |engine, _| engine.query_step(&query))?.await?;
                }
                Ok(QueryStep::Done(answer)) => return Ok(Ok(answer)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Runs something very short in the caller's own thread, if the owner has nothing to do; else on the owner thread. It
    /// does not wait for the disk: what is not in memory is told, and has to be asked for by another request.
    /// What it records may be written some milliseconds later: nobody may rely on it.
    pub fn ask_here<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<Reply<R>, Unavailable> {
        let slot = self.slot.upgrade();
        let sound = self.requests.is_empty() && self.counters.condition().failure().is_none();
        let Some(mut runtime) = slot.as_ref().filter(|_| sound).and_then(|slot| slot.try_take()) else {
            return self.ask(|engine, _| engine.run_cached(Vec::new(), ask).result);
        };
        let (answer, owners_turn) = self.counters.condition().guard(|| runtime.ask_here(ask));
        drop(runtime);
        if owners_turn {
            // A full channel: then the owner looks anyway.
            drop(self.give(Request::Look));
        }
        Ok(Reply(State::Answered(Some(answer))))
    }

    /// Proposes a decision on the owner thread and answers when it is durable and in force.
    pub fn change<E: Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<Reply<Result<(), ChangeError<E>>>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.give(Request::Call(Box::new(move |engine, now| match propose(engine, now) {
            Ok(ticket) => Called::Durable(
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

    /// Makes sure that a group exists, as the broker does for a group that consumes for the first time.
    pub fn ensure_group(
        &self,
        group: GroupName,
    ) -> Result<Reply<Result<(), ChangeError<AdminError>>>, Unavailable> {
        self.change(move |engine, _| {
            if engine.group_id(&group).is_some() {
                return Ok(engine.barrier());
            }
            match engine.put_group(&group, GroupConfig::default()) {
                // Somebody else's creation is on its way: what comes after it in the log comes after it in time.
                Err(AdminError::Creating { .. }) => Ok(engine.barrier()),
                other => other,
            }
        })
    }

    /// Answers every held receive with nothing: the process is going down.
    pub fn end_polls(&self) {
        // A full channel or a stopped shard: then they end with the shard.
        drop(self.give(Request::EndPolls));
    }

    /// Returns when the owner is gone and no connection task has the engine any more.
    pub(super) fn await_end(&self) {
        while self.slot.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    pub(super) fn send_stop(&self) {
        // Waits for room: a stop must not be lost. The owner may have ended already.
        drop(self.requests.send(Request::Stop));
    }

    fn give(&self, request: Request) -> Result<(), Unavailable> {
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

fn message_bytes(message: &Message) -> usize {
    const OVERHEAD: usize = 256;
    let properties: usize = message.properties.iter().map(|(name, value)| name.len() + value.len()).sum();
    message.body.len() + properties + OVERHEAD
}
