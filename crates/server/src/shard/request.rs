use std::time::Duration;

use redstart_engine::{
    Engine, Filter, GroupName, Message, Outcome, Pop, PopError, Popped, Pull, Pulled, QueueId, QueueOffset,
    SendOptions, SendReceipt, Start, Ticket, Timestamp, TopicName,
};
use tokio::sync::oneshot;

use super::{
    budget::Permit,
    cold::Question,
    handle::{ReceiveError, SendFailure},
    lites::{LiteChange, LiteNotice, TooManyLites},
};

/// The shard could not take a request. Whether to try again is the caller's business; nothing has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("too many requests: {what} is at {used}, the limit is {limit}")]
    Overloaded { what: &'static str, used: usize, limit: usize },
    #[error("the shard has stopped; whether the request took effect is not known")]
    Stopped,
}

/// A [`Pop`] that owns its parts, and how long it may wait for a message.
#[derive(Debug, Clone)]
pub struct PopRequest {
    pub group: GroupName,
    pub topic: TopicName,
    pub queue: Option<QueueId>,
    pub max: usize,
    pub invisible: Duration,
    pub filter: Filter,
    pub attempt: Option<String>,
    pub client: String,
    pub start: Start,
    pub one_per_group: bool,
    /// A group with this attribute is for other consumers.
    pub not_with: Option<&'static str>,
    /// In order, also for a group whose setting does not ask for it.
    pub in_order: bool,
    /// Also what waits for the group in its retry topic.
    pub retries: bool,
    pub wait: Duration,
}

impl PopRequest {
    pub(super) fn pop(&self) -> Pop<'_> {
        Pop {
            group: &self.group,
            topic: &self.topic,
            queue: self.queue,
            max: self.max,
            invisible: self.invisible,
            filter: &self.filter,
            attempt: self.attempt.as_deref(),
            client: &self.client,
            start: self.start,
            one_per_group: self.one_per_group,
            in_order: self.in_order,
        }
    }

    pub(super) fn run(&self, engine: &mut Engine, now: Timestamp) -> Result<Popped, PopError> {
        match self.retries && !self.in_order {
            true => engine.pop_with_retries(&self.pop(), now),
            false => engine.pop(&self.pop(), now),
        }
    }
}

/// Pops of a group that wait for messages of one queue, or of any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedPops {
    pub group: GroupName,
    pub topic: TopicName,
    pub queue: Option<QueueId>,
}

/// A [`Pull`] that owns its parts, and how long it may wait for a message.
#[derive(Debug, Clone)]
pub struct PullRequest {
    pub topic: TopicName,
    pub queue: QueueId,
    pub offset: QueueOffset,
    pub max: usize,
    pub bytes_max: usize,
    pub filter: Filter,
    pub wait: Duration,
}

impl PullRequest {
    pub(crate) fn pull(&self) -> Pull<'_> {
        Pull {
            topic: &self.topic,
            queue: self.queue,
            offset: self.offset,
            max: self.max,
            bytes_max: self.bytes_max,
            filter: &self.filter,
        }
    }
}

pub(super) type SendReply = oneshot::Sender<Result<Vec<SendReceipt>, SendFailure>>;
pub(super) type PopReply = oneshot::Sender<Result<Popped, ReceiveError>>;
pub(super) type PullReply = oneshot::Sender<Result<Pulled, ReceiveError>>;

/// What runs on the owner thread when neither a send nor a receive is asked for.
pub(super) type Call = Box<dyn FnOnce(&mut Engine, Timestamp) -> Called + Send>;

/// What is left to do after a call.
pub(super) enum Called {
    Answered,
    /// The caller waits until this ticket has its outcome.
    Durable(Ticket, Box<dyn FnOnce(Outcome) + Send>),
}

/// A request on its way to the owner.
pub(super) enum Request {
    Send {
        topic: TopicName,
        messages: Vec<Message>,
        options: SendOptions,
        permit: Permit,
        reply: SendReply,
    },
    Pop {
        request: Box<PopRequest>,
        reply: PopReply,
    },
    /// Of a lite consumer: over all lite topics of the topic that its client has subscribed to.
    PopLite {
        request: Box<PopRequest>,
        reply: PopReply,
    },
    Pull {
        request: Box<PullRequest>,
        reply: PullReply,
    },
    ChangeLites {
        change: Box<LiteChange>,
        reply: oneshot::Sender<Result<Vec<LiteNotice>, TooManyLites>>,
    },
    LiteUpkeep {
        gone: Vec<String>,
        reply: oneshot::Sender<Vec<LiteNotice>>,
    },
    CountPops {
        of: Box<AwaitedPops>,
        reply: oneshot::Sender<usize>,
    },
    Call(Call),
    /// Something that is asked and changes nothing.
    Question(Box<dyn Question>),
    /// A connection task recorded something through the engine slot.
    Look,
    /// Answers every held receive with nothing.
    EndPolls,
    Stop,
}
