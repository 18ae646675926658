use redstart_log::Position;

use super::{Engine, record_size_max};
use crate::{
    QueueId, QueueKey, QueueOffset, SendError, Ticket, Timestamp, TopicName,
    engine::{DLQ_ORIGIN_TOPIC, SendOptions, Sent},
    index::IndexError,
    record::{FetchError, Fetched, Placement, StoredRecord, fetch_at, key_hash},
};

/// Candidates one query may read, so that a popular key cannot hold the shard.
const CANDIDATES_MAX: usize = 1024;
/// Entries looked through for the place of a message that became visible after it was stored.
const PLACE_SCAN_MAX: usize = 100_000;

/// A stored message that a query found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub position: Position,
    pub size: u32,
    /// When it became visible.
    pub stored_at: Timestamp,
}

/// A query that could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("topic {topic} queue {queue} has no message at offset {offset}")]
    UnknownOffset { topic: TopicName, queue: QueueId, offset: QueueOffset },
    #[error("there is no message at log position {position}")]
    UnknownPosition { position: Position },
    #[error("the message names no topic it came from")]
    NoOrigin,
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Send(#[from] SendError),
}

impl Engine {
    /// Visible messages of a topic that carry `key`, as a key or as their id, and became visible in the given time;
    /// newest first.
    pub fn query(
        &self,
        topic: &TopicName,
        key: &str,
        from: Timestamp,
        to: Timestamp,
        max: usize,
    ) -> Result<Vec<Found>, QueryError> {
        let Some(id) = self.state.topic_names.get(topic).copied() else {
            return Err(QueryError::UnknownTopic { topic: topic.clone() });
        };
        let mut found = Vec::new();
        let mut candidates = self.indexes.find_key(key_hash(id, key), to)?;
        // A message that names a key twice, or its own id as a key, is still one message. Newest records first.
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.dedup();
        for position in candidates.into_iter().take(CANDIDATES_MAX) {
            let fetched = match fetch_at(&*self.reader, position, record_size_max(&self.config)) {
                Ok(fetched) => fetched,
                Err(error) if error.proof().is_some() => continue,
                Err(error) => return Err(error.into()),
            };
            let Ok(stored) = fetched.stored() else { continue };
            let carries = stored.message.id == key || stored.message.keys.contains(&key);
            if carries && let Some(place) = self.place_of(&fetched, &stored)? {
                found.extend(Some(place).filter(|place| place.stored_at >= from && place.stored_at <= to));
            }
        }
        found.sort_by_key(|found: &Found| std::cmp::Reverse((found.stored_at, found.position)));
        found.truncate(max);
        Ok(found)
    }

    /// Stored indexes that were found damaged and wait to be built again by the next tick.
    pub fn damaged_indexes(&self) -> usize {
        self.indexes.damaged()
    }

    /// The message at a place of a queue.
    pub fn message_at(
        &self,
        topic: &TopicName,
        queue: QueueId,
        offset: QueueOffset,
    ) -> Result<Found, QueryError> {
        let unknown = || QueryError::UnknownOffset { topic: topic.clone(), queue, offset };
        let key =
            self.queue_key(topic, queue).ok_or_else(|| QueryError::UnknownTopic { topic: topic.clone() })?;
        let queue =
            self.state.topics.get(&key.topic).and_then(|topic| topic.queue(queue)).ok_or_else(unknown)?;
        let entry = self.indexes.entry(key, queue, offset)?.ok_or_else(unknown)?;
        Ok(Found {
            queue: key,
            offset,
            position: entry.position,
            size: entry.size,
            stored_at: entry.stored_at,
        })
    }

    /// The visible message whose record begins at `position`.
    pub fn message_by_position(&self, position: Position) -> Result<Found, QueryError> {
        let fetched = fetch_at(&*self.reader, position, record_size_max(&self.config))?;
        let stored = fetched.stored()?;
        self.place_of(&fetched, &stored)?.ok_or(QueryError::UnknownPosition { position })
    }

    /// Where a stored message is visible; `None` when it is not, or no longer.
    pub(super) fn place_of(
        &self,
        fetched: &Fetched,
        stored: &StoredRecord<'_>,
    ) -> Result<Option<Found>, IndexError> {
        let key = stored.queue;
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Ok(None);
        };
        let place = |offset, stored_at| Found {
            queue: key,
            offset,
            position: fetched.position(),
            size: fetched.size(),
            stored_at,
        };
        if let Placement::Visible(offset) = stored.placement {
            let visible = offset >= queue.min() && offset < queue.end();
            return Ok(visible.then(|| place(offset, stored.stored_at)));
        }
        // Linked later: its entry lies among those that became visible from its time on.
        let from = stored.message.deliver_at.unwrap_or_default().max(stored.stored_at);
        let mut offset = self.indexes.offset_at(key, queue, from)?;
        for _ in 0..PLACE_SCAN_MAX {
            match self.indexes.entry(key, queue, offset)? {
                Some(entry) if entry.position == fetched.position() => {
                    return Ok(Some(place(offset, entry.stored_at)));
                }
                Some(_) => offset = offset.next(),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Sends a dead letter to the topic it came from, as a new message with the same id.
    pub fn resend_dead_letter(
        &mut self,
        dead_letters: &TopicName,
        queue: QueueId,
        offset: QueueOffset,
        now: Timestamp,
    ) -> Result<Ticket, QueryError> {
        let found = self.message_at(dead_letters, queue, offset)?;
        let fetched = crate::record::fetch(&*self.reader, found.position, found.size)?;
        let view = fetched.message()?;
        let origin = view.property(DLQ_ORIGIN_TOPIC).and_then(|name| TopicName::new(name).ok());
        let origin = origin.ok_or(QueryError::NoOrigin)?;
        let mut message = view.to_message();
        message.properties.retain(|(name, _)| !name.starts_with("DLQ_") && name != crate::message::DEDUP_KEY);
        // A transactional or delayed message was decided and due long ago: it goes straight to its queue.
        match self.send_unchecked(&origin, message, now)? {
            Sent::Proposed(ticket) | Sent::DuplicateOf(ticket) => Ok(ticket),
            Sent::Duplicate(_) => Err(QueryError::NoOrigin),
        }
    }

    /// Stores a message whatever the topic's type.
    fn send_unchecked(
        &mut self,
        topic: &TopicName,
        message: crate::Message,
        now: Timestamp,
    ) -> Result<Sent, SendError> {
        let checks = std::mem::replace(&mut self.config.check_message_type, false);
        let sent = self.send(topic, &[message], SendOptions::default(), now);
        self.config.check_message_type = checks;
        sent
    }
}
