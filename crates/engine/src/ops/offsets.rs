//! Reading by offset, and a group's progress.

use redstart_log::Position;

use super::Engine;
use crate::{
    Filter, GroupId, GroupName, QueueId, QueueKey, QueueOffset, Ticket, Timestamp, TopicName,
    filter::Verdict,
    index::IndexError,
    record::{Decision, Fact},
};

/// A read of one queue from an offset. Changes nothing.
#[derive(Debug, Clone)]
pub struct Pull<'a> {
    pub topic: &'a TopicName,
    pub queue: QueueId,
    pub offset: QueueOffset,
    pub max: usize,
    pub bytes_max: usize,
    pub filter: &'a Filter,
}

/// The answer to a [`Pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    pub status: PullStatus,
    /// Messages that may pass the filter: the caller reads them and compares tags and properties.
    pub messages: Vec<PulledMessage>,
    /// Where to go on.
    pub next: QueueOffset,
    pub min: QueueOffset,
    pub end: QueueOffset,
}

/// A message found by a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulledMessage {
    pub offset: QueueOffset,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
    /// Deliveries before this one.
    pub attempt: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStatus {
    Found,
    /// The offset is the queue's end.
    NoNewMessage,
    /// Messages were there, none passed the filter.
    NoMatch,
    /// Below the minimum or beyond the end; `next` is the nearest valid offset.
    OffsetMoved,
}

/// A request about offsets that was refused.
#[derive(Debug, thiserror::Error)]
pub enum OffsetError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("consumer group {group} does not exist")]
    UnknownGroup { group: GroupName },
    #[error("topic {topic} is not readable (permission {permission})")]
    NotReadable { topic: TopicName, permission: u8 },
    #[error("queue {queue} does not exist: topic {topic} has {queues} read queues")]
    UnknownQueue { topic: TopicName, queue: QueueId, queues: u32 },
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl OffsetError {
    /// Whether the request needs a part that is not in memory.
    pub fn is_cold(&self) -> bool {
        matches!(self, OffsetError::Index(IndexError::Cold(_)))
    }
}

/// Where to move a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    Offset(QueueOffset),
    /// The first message that became visible at or after this time.
    Time(Timestamp),
    Earliest,
    Latest,
}

/// A group's progress in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueProgress {
    pub queue: QueueId,
    pub min: QueueOffset,
    pub end: QueueOffset,
    /// Everything below it is done.
    pub consumer: QueueOffset,
    pub in_flight: usize,
    /// When the oldest message that is not done became visible.
    pub oldest_unconsumed: Option<Timestamp>,
}

impl QueueProgress {
    pub fn lag(&self) -> u64 {
        self.end.0.saturating_sub(self.consumer.0)
    }
}

/// Messages that a pull allocates space for before it finds them.
const RESERVED_MAX: usize = 64;

impl Engine {
    pub fn pull(&self, pull: &Pull<'_>) -> Result<Pulled, OffsetError> {
        let key = self.check_queue(pull.topic, pull.queue)?;
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Ok(empty_queue(pull.offset));
        };
        let (min, end) = (queue.min(), queue.end());
        let mut pulled =
            Pulled { status: PullStatus::NoNewMessage, messages: Vec::new(), next: pull.offset, min, end };
        if pull.offset < min || pull.offset > end {
            pulled.status = PullStatus::OffsetMoved;
            pulled.next = pull.offset.max(min).min(end);
            return Ok(pulled);
        }
        let mut scanned = 0;
        let mut bytes = 0;
        let available = usize::try_from(end.0 - pulled.next.0).unwrap_or(usize::MAX);
        pulled.messages.reserve(pull.max.min(available).min(RESERVED_MAX));
        'queue: while pulled.next < end {
            let chunk = match self.indexes.chunk(key, queue, pulled.next) {
                // What came before it is an answer.
                Err(IndexError::Cold(_)) if scanned > 0 => break,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                break;
            }
            for entry in chunk.iter() {
                let full = pulled.messages.len() >= pull.max
                    || (!pulled.messages.is_empty() && bytes + entry.size as usize > pull.bytes_max);
                if full || scanned >= self.config.limits.scan_entries_max || pulled.next >= end {
                    break 'queue;
                }
                scanned += 1;
                if pull.filter.by_tag_hash(entry.tag_hash) != Verdict::No {
                    bytes += entry.size as usize;
                    pulled.messages.push(PulledMessage {
                        offset: pulled.next,
                        position: entry.position,
                        size: entry.size,
                        stored_at: entry.stored_at,
                        attempt: entry.attempt,
                    });
                }
                pulled.next = pulled.next.next();
            }
        }
        pulled.status = match (pulled.messages.is_empty(), scanned) {
            (false, _) => PullStatus::Found,
            (true, 0) => PullStatus::NoNewMessage,
            (true, _) => PullStatus::NoMatch,
        };
        Ok(pulled)
    }

    fn check_queue(&self, name: &TopicName, queue: QueueId) -> Result<QueueKey, OffsetError> {
        let Some(topic) = self.state.topic_by_name(name) else {
            return Err(OffsetError::UnknownTopic { topic: name.clone() });
        };
        if !topic.config.permission.read {
            let permission = topic.config.permission.bits();
            return Err(OffsetError::NotReadable { topic: name.clone(), permission });
        }
        let queues = topic.readable();
        if queue.0 >= queues {
            return Err(OffsetError::UnknownQueue { topic: name.clone(), queue, queues });
        }
        Ok(QueueKey { topic: topic.id, queue })
    }

    fn known_group(&self, group: &GroupName) -> Result<GroupId, OffsetError> {
        self.group_id(group).ok_or_else(|| OffsetError::UnknownGroup { group: group.clone() })
    }

    /// The group whose progress is to change.
    fn moving_group(&self, group: &GroupName) -> Result<GroupId, OffsetError> {
        let found = self.lasting_group(group).map(|group| group.id);
        found.ok_or_else(|| OffsetError::UnknownGroup { group: group.clone() })
    }

    /// First offset of a queue, and the one after its last.
    pub fn offset_range(
        &self,
        topic: &TopicName,
        queue: QueueId,
    ) -> Result<(QueueOffset, QueueOffset), OffsetError> {
        let key = self.check_queue(topic, queue)?;
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        Ok(queue.map_or((QueueOffset(0), QueueOffset(0)), |queue| (queue.min(), queue.end())))
    }

    /// The first offset whose message became visible at or after `at`.
    pub fn offset_at(
        &self,
        topic: &TopicName,
        queue: QueueId,
        at: Timestamp,
    ) -> Result<QueueOffset, OffsetError> {
        let key = self.check_queue(topic, queue)?;
        match self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) {
            Some(queue) => Ok(self.indexes.offset_at(key, queue, at)?),
            None => Ok(QueueOffset(0)),
        }
    }

    /// The offset that a reset would move a group to.
    pub fn find_offset(
        &self,
        topic: &TopicName,
        queue: QueueId,
        to: ResetTo,
    ) -> Result<QueueOffset, OffsetError> {
        let (min, end) = self.offset_range(topic, queue)?;
        Ok(match to {
            ResetTo::Offset(offset) => offset.max(min).min(end),
            ResetTo::Time(at) => self.offset_at(topic, queue, at)?,
            ResetTo::Earliest => min,
            ResetTo::Latest => end,
        })
    }

    /// Where a group goes on in a queue; `None` when it has never consumed it.
    pub fn consumer_offset(
        &self,
        group: &GroupName,
        topic: &TopicName,
        queue: QueueId,
    ) -> Result<Option<QueueOffset>, OffsetError> {
        let key = self.check_queue(topic, queue)?;
        let group = self.known_group(group)?;
        let (min, end) = self.offset_range(topic, queue)?;
        let progress = self.state.progress(group, key).filter(|progress| progress.started);
        Ok(progress.map(|progress| progress.low_watermark().max(min).min(end)))
    }

    /// Where a consumer that pulls goes on in a queue; `None` when its group has never consumed it. From here on what is in
    /// flight there comes to consumers that pull, unless the group consumes in order: then it starts with that.
    pub fn pull_from(
        &mut self,
        group: &GroupName,
        topic: &TopicName,
        queue: QueueId,
    ) -> Result<Option<QueueOffset>, OffsetError> {
        let key = self.check_queue(topic, queue)?;
        let group = self.known_group(group)?;
        let (min, end) = self.offset_range(topic, queue)?;
        let Some(progress) = self.state.progress(group, key).filter(|progress| progress.started) else {
            return Ok(None);
        };
        let offset = progress.pulls_from().max(min).min(end);
        if progress.in_flight() > 0 && !progress.pulled && progress.locks.is_none() {
            self.record(&Fact::Offset { group, queue: key, offset });
        }
        Ok(Some(offset))
    }

    /// A pull consumer stores where it goes on. An offset out of range is corrected.
    pub fn commit_offset(
        &mut self,
        group: &GroupName,
        topic: &TopicName,
        queue: QueueId,
        offset: QueueOffset,
    ) -> Result<(), OffsetError> {
        let key = self.check_queue(topic, queue)?;
        let group = self.moving_group(group)?;
        let (min, end) = self.offset_range(topic, queue)?;
        self.record(&Fact::Offset { group, queue: key, offset: offset.max(min).min(end) });
        Ok(())
    }

    /// Moves a group in one queue, or in all queues of a topic. Returns the new offsets.
    pub fn reset(
        &mut self,
        group: &GroupName,
        topic: &TopicName,
        queue: Option<QueueId>,
        to: ResetTo,
    ) -> Result<Vec<(QueueId, QueueOffset)>, OffsetError> {
        let group = self.moving_group(group)?;
        let targets = self.reset_targets(topic, queue, to)?;
        for (queue, offset) in &targets {
            let queue = self.check_queue(topic, *queue)?;
            self.record(&Fact::Reset { group, queue, offset: *offset });
        }
        Ok(targets)
    }

    /// The offsets that a reset of one queue, or of all queues of a topic, would move a group to.
    pub fn reset_targets(
        &self,
        topic: &TopicName,
        queue: Option<QueueId>,
        to: ResetTo,
    ) -> Result<Vec<(QueueId, QueueOffset)>, OffsetError> {
        let queues = match queue {
            Some(queue) => queue.0..queue.0 + 1,
            None => {
                let Some(topic) = self.state.topic_by_name(topic) else {
                    return Err(OffsetError::UnknownTopic { topic: topic.clone() });
                };
                0..topic.readable()
            }
        };
        queues.map(QueueId).map(|queue| Ok((queue, self.find_offset(topic, queue, to)?))).collect()
    }

    /// A ticket that is answered when everything recorded so far is durable: for facts that must not be lost.
    pub fn barrier(&mut self) -> Ticket {
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::Barrier);
        ticket
    }

    /// A group's progress in every readable queue of a topic.
    pub fn progress(&self, group: &GroupName, topic: &TopicName) -> Result<Vec<QueueProgress>, OffsetError> {
        let group = self.known_group(group)?;
        let Some(found) = self.state.topic_by_name(topic) else {
            return Err(OffsetError::UnknownTopic { topic: topic.clone() });
        };
        let mut all = Vec::new();
        for n in 0..found.readable() {
            let key = QueueKey { topic: found.id, queue: QueueId(n) };
            let queue = found.queue(key.queue);
            let (min, end) =
                queue.map_or((QueueOffset(0), QueueOffset(0)), |queue| (queue.min(), queue.end()));
            let progress = self.state.progress(group, key);
            let consumer = progress.map_or(min, |progress| progress.low_watermark()).max(min).min(end);
            let oldest = match queue {
                Some(queue) => self.indexes.entry(key, queue, consumer)?.map(|entry| entry.stored_at),
                None => None,
            };
            all.push(QueueProgress {
                queue: key.queue,
                min,
                end,
                consumer,
                in_flight: progress.map_or(0, |progress| progress.delivered()),
                oldest_unconsumed: oldest,
            });
        }
        Ok(all)
    }
}

fn empty_queue(offset: QueueOffset) -> Pulled {
    let zero = QueueOffset(0);
    let status = if offset == zero { PullStatus::NoNewMessage } else { PullStatus::OffsetMoved };
    Pulled { status, messages: Vec::new(), next: zero, min: zero, end: zero }
}
