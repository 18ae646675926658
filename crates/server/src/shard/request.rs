//! What callers ask of the shard, as it travels through the channel to the owner thread.

use std::time::Duration;

use redstart_engine::{
    Engine, Filter, GroupName, Message, Outcome, Pop, PopError, Popped, Pull, Pulled, QueueId, QueueOffset,
    SendOptions, SendReceipt, Start, Ticket, Timestamp, TopicName,
};
use tokio::sync::oneshot;

use super::{
    cold_reads::Query,
    error::{ReceiveError, SendFailure},
    lite_subscriptions::{LiteChange, LiteNotice, TooManyLiteSubscriptions},
    pending_bytes::Permit,
};

/// A [`Pop`] that owns its parts, with the time that it may wait for a message.
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
    /// The pop is refused if its group has this attribute, which marks groups of other kinds of consumers.
    pub refused_attribute: Option<&'static str>,
    /// The pop is refused if its group has not begun in the topic here: [`Shards::pop`](crate::Shards) then decides where it begins.
    pub only_if_begun: bool,
    /// Deliver in order even if the group is not set to.
    pub in_order: bool,
    /// Deliver from the group's retry topic too.
    pub with_retry_topic: bool,
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
        match self.with_retry_topic && !self.in_order {
            true => engine.pop_with_retries(&self.pop(), now),
            false => engine.pop(&self.pop(), now),
        }
    }
}

/// Selects the waiting pops of a group for one queue, or for any (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedPops {
    pub group: GroupName,
    pub topic: TopicName,
    pub queue: Option<QueueId>,
}

/// A [`Pull`] that owns its parts, with the time that it may wait for a message.
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

/// A closure that runs on the owner thread, for requests that are neither sends nor receives.
pub(super) type Call = Box<dyn FnOnce(&mut Engine, Timestamp) -> Called + Send>;

/// Whether a call has been answered.
pub(super) enum Called {
    Answered,
    /// The caller is answered when this ticket has its outcome.
    Pending(Ticket, Box<dyn FnOnce(Outcome) + Send>),
}

/// A request to the owner thread.
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
    /// The pop of a lite consumer, over all lite topics that its client has subscribed to.
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
        reply: oneshot::Sender<Result<Vec<LiteNotice>, TooManyLiteSubscriptions>>,
    },
    LiteUpkeep {
        disconnected: Vec<String>,
        reply: oneshot::Sender<Vec<LiteNotice>>,
    },
    CountPops {
        of: Box<AwaitedPops>,
        reply: oneshot::Sender<usize>,
    },
    Call(Call),
    /// A read-only request, which is suspended while it needs parts of the log that are not in memory.
    Query(Box<dyn Query>),
    /// A connection task recorded facts through the engine slot: the owner has to schedule their append.
    WakeUp,
    /// Answers every waiting receive without messages.
    EndPolls,
    Stop,
}
