//! Messages on their way in: what is refused, which queue each gets, what a duplicate is answered.

use std::time::Duration;

use redstart_log::Position;

use super::{Engine, record_size_max};
use crate::{
    LiteName, Message, MessageType, QueueId, QueueKey, QueueOffset, Ticket, Timestamp, TopicId, TopicName,
    dedup::Placed,
    index::Unread,
    message::Invalid,
    name, planted,
    record::{Cause, Placement, dedup_hash, fetch_at, put_message},
    timer::TimerKey,
    topic::Topic,
};

/// How messages are to be stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions {
    /// The queue, when the client chose one. A message group is mapped to its queue here, and the choice is ignored.
    pub queue: Option<QueueId>,
    /// Store a half message, to be asked about after this time (or the default) when its producer is silent.
    pub half: Option<Half>,
    /// The client's protocol has no message types: every topic takes what it sends, but for LITE ones, whose messages name a
    /// lite topic. A message without a group is ordered by its queue.
    pub untyped: bool,
}

/// Whether the type of a message must be one that its topic takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeCheck {
    /// As the configuration and the options of the send say.
    Configured,
    /// Every topic takes every message.
    Skipped,
}

/// A half message's own setting.
#[derive(Debug, Clone, Copy, Default)]
pub struct Half {
    pub check_after: Option<Duration>,
}

/// Where and when a message was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendReceipt {
    pub queue: QueueKey,
    pub visibility: Visibility,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
}

/// Whether consumers can get a message, and how to name it while they cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    Visible(QueueOffset),
    /// In no queue until due; the key recalls it.
    Delayed(TimerKey),
    /// In no queue until the transaction ends; the receipt's position names it.
    Half,
}

/// A send that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Stored once the ticket's outcome says so.
    Proposed(Ticket),
    /// The same dedup key was stored before: this is what its message was given. Its size and store time are 0 when its
    /// record cannot be read.
    Duplicate(SendReceipt),
    /// The same dedup key is on its way under this ticket.
    DuplicateOf(Ticket),
}

/// A send that was refused. Nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("topic {topic} is being deleted")]
    Deleting { topic: TopicName },
    #[error("topic {topic} has no lite topic {lite} yet")]
    UnknownLiteTopic { topic: TopicName, lite: LiteName },
    #[error(transparent)]
    Name(#[from] name::Error),
    #[error("topic {topic} is not writable (permission {permission})")]
    NotWritable { topic: TopicName, permission: u8 },
    #[error("topic {topic} takes {expected} messages, this one is {found}")]
    TypeMismatch { topic: TopicName, expected: MessageType, found: MessageType },
    #[error("queue {queue} does not exist: topic {topic} has {queues} write queues")]
    UnknownQueue { topic: TopicName, queue: QueueId, queues: u32 },
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("a batch cannot carry dedup keys")]
    BatchDedup,
    #[error("the message that was sent first with this dedup key cannot be read, try again: {cause}")]
    FirstUnread { cause: String },
    #[error("{what}: {value} are held, the limit is {limit}")]
    TooMany { what: &'static str, value: usize, limit: usize },
    #[error("the disk is {percent} % full, from {limit} % on nothing is stored")]
    DiskFull { percent: u8, limit: u8 },
    #[error("the rest of the disk is kept for acks, there is no room for another segment: {cause}")]
    NoRoom { cause: String },
}

impl Engine {
    /// Proposes one message, or a batch of one topic that is stored whole or not at all.
    pub fn send(
        &mut self,
        topic: &TopicName,
        messages: &[Message],
        options: SendOptions,
        now: Timestamp,
    ) -> Result<Sent, SendError> {
        self.send_with(topic, messages, options, TypeCheck::Configured, now)
    }

    pub(super) fn send_with(
        &mut self,
        topic: &TopicName,
        messages: &[Message],
        options: SendOptions,
        types: TypeCheck,
        now: Timestamp,
    ) -> Result<Sent, SendError> {
        let now = self.advance(now);
        if self.deferred().dedup_keys >= self.config.limits.dedup_keys_max {
            self.forget_expired_keys(now);
        }
        self.check_send(topic, messages, options, types, now)?;
        let id = self.target(topic, messages)?;
        let deduplicates =
            self.state.topics.get(&id).is_some_and(|topic| topic.config.dedup_window.is_some());
        let mut dedup = None;
        if let ([message], true) = (messages, deduplicates)
            && let Some(key) = message.dedup_key()
        {
            let key = dedup_hash(id, key);
            if let Some(sent) = self.duplicate(key, now)? {
                return Ok(sent);
            }
            dedup = Some(key);
        }
        let ticket = self.ticket();
        if let Some(key) = dedup {
            self.speculation.dedup_keys.insert(key, ticket);
        }
        // A lite topic has one queue: a choice among its parent's queues is ignored.
        let mut queue = options.queue.filter(|_| self.topic_id(topic) == Some(id));
        for message in messages {
            let Some(topic) = self.state.topics.get_mut(&id) else { break };
            let chosen = choose_queue(topic, message, queue);
            // The messages of a batch share a queue.
            queue = Some(chosen);
            let options = planted::send_options(&self.config, options);
            let key = QueueKey { topic: id, queue: chosen };
            let Some(placement) = self.place(key, message, options, now) else { break };
            let stored =
                put_message(&mut self.batch.payload, message, Cause::Send, key, placement, self.time.stamp());
            self.propose_stored(Some(ticket), stored);
        }
        Ok(Sent::Proposed(ticket))
    }

    /// The topic in which messages are stored: for a lite message, its lite topic.
    fn target(&self, topic: &TopicName, messages: &[Message]) -> Result<TopicId, SendError> {
        let Some(found) = self.state.topic_by_name(topic) else {
            return Err(SendError::UnknownTopic { topic: topic.clone() });
        };
        let lite = messages.first().and_then(|message| message.lite_topic());
        let Some(lite) = lite.filter(|_| found.config.message_type == MessageType::Lite) else {
            return Ok(found.id);
        };
        let lite = LiteName::new(lite)?;
        let id = self.lite_id(topic, &lite);
        id.ok_or_else(|| SendError::UnknownLiteTopic { topic: topic.clone(), lite })
    }

    fn check_send(
        &self,
        name: &TopicName,
        messages: &[Message],
        options: SendOptions,
        types: TypeCheck,
        now: Timestamp,
    ) -> Result<(), SendError> {
        let Some(topic) = self.state.topic_by_name(name) else {
            return Err(SendError::UnknownTopic { topic: name.clone() });
        };
        // Its deletion comes before the message in the log: the message would be deleted with the topic.
        if self.speculation.deleting_topics.contains(&topic.id) {
            return Err(SendError::Deleting { topic: name.clone() });
        }
        if !topic.config.permission.write {
            let permission = topic.config.permission.bits();
            return Err(SendError::NotWritable { topic: name.clone(), permission });
        }
        if let Some(queue) = options.queue.filter(|queue| queue.0 >= topic.config.write_queues) {
            let queues = topic.config.write_queues;
            return Err(SendError::UnknownQueue { topic: name.clone(), queue, queues });
        }
        let limits = &self.config.limits;
        self.check_batch(topic, messages, options)?;
        for message in messages {
            message.validate(limits, now)?;
            let found = message.message_type(options.half.is_some());
            let expected = topic.config.message_type;
            let anything = options.untyped && expected != MessageType::Lite;
            let checked = types == TypeCheck::Configured && self.config.check_message_type && !anything;
            if checked && !expected.takes(found) {
                return Err(SendError::TypeMismatch { topic: name.clone(), expected, found });
            }
        }
        let held = self.deferred();
        let over = |what, value, limit| {
            if value >= limit { Err(SendError::TooMany { what, value, limit }) } else { Ok(()) }
        };
        // Only what would be deferred is refused: other messages are stored.
        if options.half.is_some() {
            over("open transactions", held.transactions, limits.transactions_open_max)?;
        }
        if messages.iter().any(|message| message.deliver_at.is_some_and(|at| at > now)) {
            // A recalled timer is remembered until its segment is gone.
            let remembered = held.delayed + self.state.timers.recalled();
            over("delayed messages", remembered, limits.timers_max)?;
        }
        if topic.config.dedup_window.is_some() && messages.iter().any(|message| message.dedup_key().is_some())
        {
            over("dedup keys", held.dedup_keys, limits.dedup_keys_max)?;
        }
        self.check_disk()
    }

    fn check_batch(
        &self,
        topic: &Topic,
        messages: &[Message],
        options: SendOptions,
    ) -> Result<(), SendError> {
        let limits = &self.config.limits;
        if let [_] = messages {
            return Ok(());
        }
        if messages.is_empty() || messages.len() > limits.batch_messages_max {
            let limit = limits.batch_messages_max;
            return Err(Invalid::BatchCount { count: messages.len(), limit }.into());
        }
        let size = messages.iter().map(|message| message.body.len()).sum();
        if size > limits.batch_bytes_max {
            return Err(Invalid::BatchTooLarge { size, limit: limits.batch_bytes_max }.into());
        }
        let first = messages[0].message_type(options.half.is_some());
        if matches!(first, MessageType::Delay | MessageType::Transaction) {
            return Err(Invalid::BatchType { found: first }.into());
        }
        for (index, message) in messages.iter().enumerate() {
            let found = message.message_type(false);
            if found != first {
                return Err(Invalid::BatchMixed { index, found, first }.into());
            }
            if message.lite_topic() != messages[0].lite_topic() {
                return Err(Invalid::BatchLiteTopics { index }.into());
            }
            if topic.config.dedup_window.is_some() && message.dedup_key().is_some() {
                return Err(SendError::BatchDedup);
            }
        }
        Ok(())
    }

    fn check_disk(&self) -> Result<(), SendError> {
        let limit = self.config.retention.refuse_percent;
        match self.disk_percent() {
            Some(percent) if percent >= limit => return Err(SendError::DiskFull { percent, limit }),
            _ => {}
        }
        self.log.scarcity().map_or(Ok(()), |cause| Err(SendError::NoRoom { cause: cause.to_owned() }))
    }

    /// Where a message goes; `None` if its topic is gone.
    fn place(
        &mut self,
        key: QueueKey,
        message: &Message,
        options: SendOptions,
        now: Timestamp,
    ) -> Option<Placement> {
        if let Some(half) = options.half {
            let rules = &self.config.transactions;
            // Past that time it is given up without having been asked about.
            let check_after = half.check_after.unwrap_or(rules.first_check_after).min(rules.open_max);
            return Some(Placement::Half { check_after });
        }
        if message.deliver_at.is_some_and(|at| at > now) {
            return Some(Placement::Delayed);
        }
        self.propose_offset(key).map(Placement::Visible)
    }

    /// What the first message with a dedup key was given, if there is one.
    fn duplicate(&self, key: u128, now: Timestamp) -> Result<Option<Sent>, SendError> {
        if !planted::looks_up_dedup_keys(&self.config) {
            return Ok(None);
        }
        if let Some(ticket) = self.speculation.dedup_keys.get(&key) {
            return Ok(Some(Sent::DuplicateOf(*ticket)));
        }
        let Some(first) = self.state.dedup.first(key, now).copied() else { return Ok(None) };
        let size_max = record_size_max(&self.config);
        let fetched = match first.placed {
            // Needed for the answer.
            Placed::Hidden => fetch_at(&*self.reader, first.position, size_max).map_err(Unread::from),
            _ => self.indexes.record_at(first.position, size_max),
        };
        let stored = fetched.as_ref().map_err(|error| error.to_string()).and_then(|fetched| {
            let stored = fetched.stored().map_err(|error| error.to_string())?;
            Ok((fetched.size(), stored))
        });
        let delayed = |due| Visibility::Delayed(TimerKey { due, id: first.position });
        let visibility = match (first.placed, &stored) {
            (Placed::Visible(offset), _) => Visibility::Visible(offset),
            (Placed::Delayed(due), _) => delayed(due),
            (Placed::Half, _) => Visibility::Half,
            (Placed::Hidden, Ok((_, stored))) => match stored.placement {
                Placement::Delayed => delayed(stored.message.deliver_at.unwrap_or_default()),
                Placement::Half { .. } | Placement::Visible(_) => Visibility::Half,
            },
            // Without the record it is not known how the producer can recall the message.
            (Placed::Hidden, Err(cause)) => return Err(SendError::FirstUnread { cause: cause.clone() }),
        };
        // The record may be gone before its key is.
        let (size, stored_at) = stored.map_or((0, Timestamp(0)), |(size, stored)| (size, stored.stored_at));
        let position = first.position;
        Ok(Some(Sent::Duplicate(SendReceipt { queue: first.queue, visibility, position, size, stored_at })))
    }
}

/// The one place that decides on a queue: by message group, by priority, else as the client wants, else in turn.
pub(super) fn choose_queue(topic: &mut Topic, message: &Message, wanted: Option<QueueId>) -> QueueId {
    let queues = topic.config.write_queues;
    // Receives go from the highest queue down, so that a priority counts in the whole topic.
    if topic.config.message_type == MessageType::Priority {
        return QueueId(u32::from(message.priority.unwrap_or(0)).min(queues - 1));
    }
    if message.group.is_some() {
        return QueueId(message.group_hash() % queues);
    }
    wanted.unwrap_or_else(|| {
        topic.round_robin = (topic.round_robin + 1) % queues;
        QueueId(topic.round_robin)
    })
}
