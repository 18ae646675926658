//! Messages found by their place, their position or as dead letters.

use redstart_log::Position;

use super::{Engine, record_size_max, send::TypeCheck};
use crate::{
    QueueId, QueueKey, QueueOffset, SendError, Ticket, Timestamp, TopicName,
    index::{IndexError, Unread},
    ops::{DLQ_ORIGIN_TOPIC, SendOptions, Sent},
    record::{FetchError, Fetched, Placement, StoredRecord},
};

/// Entries looked through for the place of a message that became visible after it was stored.
const PLACE_SCAN_MAX: usize = 100_000;

/// Entries of an index in memory that are looked at together.
const ENTRIES_PER_LOOK: usize = 4096;

/// Where the entry of a message is that became visible after it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    At(QueueOffset, Timestamp),
    /// Not among the next so many entries.
    Beyond {
        entries: usize,
    },
    /// There are no further entries.
    Missing,
}

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

impl From<Unread> for QueryError {
    fn from(error: Unread) -> QueryError {
        match error {
            Unread::Fetch(error) => error.into(),
            Unread::Cold(part) => IndexError::Cold(part).into(),
        }
    }
}

impl Engine {
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
        let fetched = self.indexes.record_at(position, record_size_max(&self.config))?;
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
        let Some(mut offset) = self.linked_from(stored)? else { return Ok(None) };
        let mut entries_left = PLACE_SCAN_MAX;
        loop {
            match self.find_linked(key, fetched.position(), offset, entries_left)? {
                Linked::At(offset, stored_at) => return Ok(Some(place(offset, stored_at))),
                Linked::Beyond { entries } if entries < entries_left => {
                    offset = QueueOffset(offset.0 + entries as u64);
                    entries_left -= entries;
                }
                Linked::Beyond { .. } | Linked::Missing => return Ok(None),
            }
        }
    }

    /// The first offset at which a message can be that became visible after it was stored: its entry is among those that
    /// became visible from its due time on.
    pub(super) fn linked_from(&self, stored: &StoredRecord<'_>) -> Result<Option<QueueOffset>, IndexError> {
        let key = stored.queue;
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Ok(None);
        };
        let from = stored.message.deliver_at.unwrap_or_default().max(stored.stored_at);
        self.indexes.offset_at(key, queue, from).map(Some)
    }

    /// Looks for the entry of the message at `position` in one block of entries, and in not more than `entries_max`.
    pub(super) fn find_linked(
        &self,
        key: QueueKey,
        position: Position,
        offset: QueueOffset,
        entries_max: usize,
    ) -> Result<Linked, IndexError> {
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        let Some(queue) = queue else { return Ok(Linked::Missing) };
        let chunk = self.indexes.chunk(key, queue, offset)?;
        let entries = &chunk[..chunk.len().min(entries_max).min(ENTRIES_PER_LOOK)];
        let found = entries.iter().zip(offset.0..).find(|(entry, _)| entry.position == position);
        Ok(match found {
            Some((entry, offset)) => Linked::At(QueueOffset(offset), entry.stored_at),
            None if entries.is_empty() => Linked::Missing,
            None => Linked::Beyond { entries: entries.len() },
        })
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
        let options = SendOptions::default();
        match self.send_with(&origin, &[message], options, TypeCheck::Skipped, now)? {
            Sent::Proposed(ticket) | Sent::DuplicateOf(ticket) => Ok(ticket),
            Sent::Duplicate(_) => Err(QueryError::NoOrigin),
        }
    }
}
