//! Decisions: they take effect once they are durable, in the order of the log.

use std::time::Duration;

use redstart_log::{Position, SegmentId};

use super::{put_record, unknown_kind};
use crate::{
    Entry, GroupConfig, GroupId, GroupName, Message, QueueId, QueueKey, QueueOffset, Timestamp, TopicConfig,
    TopicId, TopicName,
    codec::{Malformed, Put, Take},
    message::{self, DEDUP_KEY, MessageView},
    message_ref::MessageRef,
    pop::FlightKey,
    timer::TimerKey,
};

const MESSAGE: u8 = 1;
const LINK: u8 = 2;
const TRANSACTION_END: u8 = 3;
const TOPIC_PUT: u8 = 4;
const TOPIC_DELETE: u8 = 5;
const GROUP_PUT: u8 = 6;
const GROUP_DELETE: u8 = 7;
const RECALL: u8 = 8;
const SEND_BACK: u8 = 9;
const SETTING: u8 = 10;
const LEFT_BEHIND: u8 = 11;
const RETIRE: u8 = 12;
pub(super) const KINDS: std::ops::RangeInclusive<u8> = MESSAGE..=RETIRE;

const LINK_LEN: usize = 64;

/// What a decision changes: everything that [`Apply`](crate::apply::Apply) needs, and no body.
///
/// Layout of the record's body, by kind:
///
/// | kind | decision | body |
/// |---|---|---|
/// | 1 | stored | see [`StoredRecord`] |
/// | 2 | link, barrier | u32 count, then the links; none for a barrier |
/// | 3 | transaction end | id u64, then [`TransactionEnd`] |
/// | 4 | topic put | id u32, name, [`TopicConfig`] |
/// | 5 | topic delete | id u32 |
/// | 6 | group put | id u32, name, [`GroupConfig`] |
/// | 7 | group delete | id u32 |
/// | 8 | recall | timer key |
/// | 9 | send back | due u64, [`MessageRef`] |
/// | 10 | setting | namespace, key, u8 1 if there is a value or 0, value |
/// | 11 | send back of a flight left behind | [`FlightKey`], due u64, [`MessageRef`] |
/// | 12 | retire | segment u64 |
///
/// Names, keys and values are a u32 length and UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    Stored(Stored),
    /// Delayed messages that are due get their place. Not empty.
    Link(Vec<Link>),
    /// Changes nothing. Its outcome means that everything before it is durable. Stored as a link record without links.
    Barrier,
    TransactionEnd {
        id: Position,
        end: TransactionEnd,
    },
    TopicPut {
        id: TopicId,
        name: TopicName,
        config: TopicConfig,
    },
    TopicDelete {
        id: TopicId,
    },
    GroupPut {
        id: GroupId,
        name: GroupName,
        config: GroupConfig,
    },
    GroupDelete {
        id: GroupId,
    },
    /// A delayed message is cancelled.
    Recall {
        key: TimerKey,
    },
    /// A message comes again through the group's retry topic, without a second copy of its body: a consumer that pulls
    /// sent it back, or it is the flight `left` behind by a consumer that received it, which ends with this.
    SendBack {
        due: Timestamp,
        message: MessageRef,
        id: Position,
        left: Option<FlightKey>,
    },
    /// An operator's setting; without a value it is removed.
    Setting {
        namespace: String,
        key: String,
        value: Option<String>,
    },
    /// A segment, and everything before it, leaves the log: its messages count no more, and its files can be deleted.
    Retire {
        segment: SegmentId,
    },
}

/// How a transaction ended, and where its message goes.
///
/// Layout, by the first byte: u8 0 rolled back; u8 1 visible, queue key, queue offset u64, entry; u8 2 delayed, due u64,
/// message reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TransactionEnd {
    Rollback,
    Visible {
        queue: QueueKey,
        offset: QueueOffset,
        entry: Entry,
    },
    /// Committed, but to be delivered later.
    Delayed {
        due: Timestamp,
        message: MessageRef,
    },
}

/// A message record, without the message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    pub cause: Cause,
    pub queue: QueueKey,
    pub placement: Placement,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
    pub tag_hash: i32,
    pub group_hash: u32,
    pub priority: u8,
    pub deliver_at: Option<Timestamp>,
    pub keys: KeyHashes,
    pub dedup: Option<u128>,
}

/// Why a message record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Send,
    /// The last attempt of the message for the group is over: stored in the dead-letter topic and done in its queue.
    /// `in_flight` says that it was in flight for the group, which ends with this.
    DeadLetter {
        flight: FlightKey,
        in_flight: bool,
    },
    /// Copied forward because its segment is about to be removed; `id` is the position it was first stored at.
    Relocated {
        id: Position,
    },
}

/// Where a stored message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Visible at once, at this offset.
    Visible(QueueOffset),
    /// In no queue until due.
    Delayed,
    /// In no queue until its transaction ends; asked about after `check_after`.
    Half { check_after: Duration },
}

/// Hashes under which a message can be found: its id, and its keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeyHashes {
    pub id: u64,
    pub keys: Vec<u64>,
}

/// A due message and its place.
///
/// Layout, 64 bytes: timer key, queue key, queue offset u64, entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub key: TimerKey,
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub entry: Entry,
}

/// Hash of a message key or id within its topic, for the segment's key index.
pub(crate) fn key_hash(topic: TopicId, key: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key.as_bytes(), u64::from(topic.0))
}

pub(crate) fn dedup_hash(topic: TopicId, key: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(key.as_bytes(), u64::from(topic.0))
}

/// A message record as it is read back.
///
/// Layout:
///
/// | field | size | |
/// |---|---|---|
/// | cause | u8 | 0 sent, 1 dead letter, 2 copied forward |
/// | of a dead letter | 21 | [`FlightKey`], u8 1 if it was in flight |
/// | of a copy | u64 | position at which the message was first stored |
/// | queue | u32, u32 | topic and queue it is stored for |
/// | placement | u8, u64 | 0 visible and its queue offset, 1 delayed and 0, 2 half and ms until the first check |
/// | stored at | u64 | |
/// | message | | see [`message::encode`] |
#[derive(Debug)]
pub(crate) struct StoredRecord<'a> {
    pub cause: Cause,
    pub queue: QueueKey,
    pub placement: Placement,
    pub stored_at: Timestamp,
    pub message: MessageView<'a>,
}

/// Encodes a message record and describes it. The position is relative to the payload until the frame is appended.
pub(crate) fn put_message(
    out: &mut Vec<u8>,
    message: &Message,
    cause: Cause,
    queue: QueueKey,
    placement: Placement,
    stored_at: Timestamp,
) -> Stored {
    let (at, size) = put_record(out, MESSAGE, |out| {
        put_cause(cause, out);
        put_queue(queue, out);
        let (kind, value) = match placement {
            Placement::Visible(offset) => (0, offset.0),
            Placement::Delayed => (1, 0),
            Placement::Half { check_after } => (2, check_after.as_millis() as u64),
        };
        out.put_u8(kind);
        out.put_u64(value);
        out.put_u64(stored_at.0);
        message::encode(message, out);
    });
    let topic = queue.topic;
    Stored {
        cause,
        queue,
        placement,
        position: Position(at as u64),
        size,
        stored_at,
        tag_hash: message.tag_hash(),
        group_hash: message.group_hash(),
        priority: message.priority.unwrap_or(0),
        deliver_at: message.deliver_at,
        keys: KeyHashes {
            id: key_hash(topic, &message.id),
            keys: message.keys.iter().map(|key| key_hash(topic, key)).collect(),
        },
        dedup: message.dedup_key().map(|key| dedup_hash(topic, key)),
    }
}

impl<'a> StoredRecord<'a> {
    pub fn decode(kind: u8, take: &mut Take<'a>) -> Result<StoredRecord<'a>, Malformed> {
        match kind {
            MESSAGE => {}
            _ if super::is_known_kind(kind) => return Err(take.malformed()),
            _ => return Err(unknown_kind(kind)),
        }
        let cause = take_cause(take)?;
        let queue = take_queue(take)?;
        let (kind, value) = (take.u8()?, take.u64()?);
        let placement = match kind {
            0 => Placement::Visible(QueueOffset(value)),
            1 => Placement::Delayed,
            2 => Placement::Half { check_after: Duration::from_millis(value) },
            _ => return Err(take.malformed()),
        };
        let stored_at = Timestamp(take.u64()?);
        let message = MessageView::decode(take)?;
        take.end()?;
        Ok(StoredRecord { cause, queue, placement, stored_at, message })
    }

    fn describe(&self, position: Position, size: u32) -> Stored {
        let topic = self.queue.topic;
        let message = &self.message;
        Stored {
            cause: self.cause,
            queue: self.queue,
            placement: self.placement,
            position,
            size,
            stored_at: self.stored_at,
            tag_hash: message.tag.map_or(0, crate::filter::tag_hash),
            group_hash: message.group.map_or(0, message::group_hash),
            priority: message.priority.unwrap_or(0),
            deliver_at: message.deliver_at,
            keys: KeyHashes {
                id: key_hash(topic, message.id),
                keys: message.keys.iter().map(|key| key_hash(topic, key)).collect(),
            },
            dedup: message.property(DEDUP_KEY).map(|key| dedup_hash(topic, key)),
        }
    }
}

impl Decision {
    /// Encodes any decision but a message. Positions inside must be final.
    pub fn put(&self, out: &mut Vec<u8>) -> (usize, u32) {
        match self {
            Decision::Stored(_) => unreachable!("messages are encoded by put_message"),
            Decision::Link(links) => put_record(out, LINK, |out| {
                out.put_u32(links.len() as u32);
                for link in links {
                    put_timer_key(link.key, out);
                    put_queue(link.queue, out);
                    out.put_u64(link.offset.0);
                    link.entry.encode(out);
                }
            }),
            Decision::Barrier => put_record(out, LINK, |out| out.put_u32(0)),
            Decision::TransactionEnd { id, end } => put_record(out, TRANSACTION_END, |out| {
                out.put_u64(id.0);
                end.encode(out);
            }),
            Decision::TopicPut { id, name, config } => put_record(out, TOPIC_PUT, |out| {
                out.put_u32(id.0);
                out.put_str(name.as_str());
                config.encode(out);
            }),
            Decision::TopicDelete { id } => put_record(out, TOPIC_DELETE, |out| out.put_u32(id.0)),
            Decision::GroupPut { id, name, config } => put_record(out, GROUP_PUT, |out| {
                out.put_u32(id.0);
                out.put_str(name.as_str());
                config.encode(out);
            }),
            Decision::GroupDelete { id } => put_record(out, GROUP_DELETE, |out| out.put_u32(id.0)),
            Decision::Recall { key } => put_record(out, RECALL, |out| put_timer_key(*key, out)),
            Decision::SendBack { due, message, id: _, left } => {
                let kind = if left.is_some() { LEFT_BEHIND } else { SEND_BACK };
                put_record(out, kind, |out| {
                    if let Some(left) = left {
                        put_flight(*left, out);
                    }
                    out.put_u64(due.0);
                    message.encode(out);
                })
            }
            Decision::Setting { namespace, key, value } => put_record(out, SETTING, |out| {
                out.put_str(namespace);
                out.put_str(key);
                out.put_u8(u8::from(value.is_some()));
                out.put_str(value.as_deref().unwrap_or_default());
            }),
            Decision::Retire { segment } => put_record(out, RETIRE, |out| out.put_u64(segment.0)),
        }
    }

    pub fn decode(
        kind: u8,
        take: &mut Take<'_>,
        position: Position,
        size: u32,
    ) -> Result<Decision, Malformed> {
        let decision = match kind {
            MESSAGE => {
                return Ok(Decision::Stored(StoredRecord::decode(kind, take)?.describe(position, size)));
            }
            LINK => match take.count(LINK_LEN)? {
                0 => Decision::Barrier,
                count => Decision::Link((0..count).map(|_| take_link(take)).collect::<Result<_, _>>()?),
            },
            TRANSACTION_END => {
                Decision::TransactionEnd { id: Position(take.u64()?), end: TransactionEnd::decode(take)? }
            }
            TOPIC_PUT => Decision::TopicPut {
                id: TopicId(take.u32()?),
                name: TopicName::stored(take.str()?).map_err(|_| take.malformed())?,
                config: TopicConfig::decode(take)?,
            },
            TOPIC_DELETE => Decision::TopicDelete { id: TopicId(take.u32()?) },
            GROUP_PUT => Decision::GroupPut {
                id: GroupId(take.u32()?),
                name: GroupName::new(take.str()?).map_err(|_| take.malformed())?,
                config: GroupConfig::decode(take)?,
            },
            GROUP_DELETE => Decision::GroupDelete { id: GroupId(take.u32()?) },
            RECALL => Decision::Recall { key: take_timer_key(take)? },
            SEND_BACK | LEFT_BEHIND => {
                let left = if kind == LEFT_BEHIND { Some(take_flight(take)?) } else { None };
                let (due, message) = (Timestamp(take.u64()?), MessageRef::decode(take)?);
                Decision::SendBack { due, message, id: position, left }
            }
            SETTING => {
                let (namespace, key) = (take.str()?.to_owned(), take.str()?.to_owned());
                let (is_set, value) = (take.u8()? != 0, take.str()?.to_owned());
                Decision::Setting { namespace, key, value: is_set.then_some(value) }
            }
            RETIRE => Decision::Retire { segment: SegmentId(take.u64()?) },
            _ => return Err(unknown_kind(kind)),
        };
        take.end()?;
        Ok(decision)
    }
}

impl TransactionEnd {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            TransactionEnd::Rollback => out.put_u8(0),
            TransactionEnd::Visible { queue, offset, entry } => {
                out.put_u8(1);
                put_queue(*queue, out);
                out.put_u64(offset.0);
                entry.encode(out);
            }
            TransactionEnd::Delayed { due, message } => {
                out.put_u8(2);
                out.put_u64(due.0);
                message.encode(out);
            }
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<TransactionEnd, Malformed> {
        Ok(match take.u8()? {
            0 => TransactionEnd::Rollback,
            1 => TransactionEnd::Visible {
                queue: take_queue(take)?,
                offset: QueueOffset(take.u64()?),
                entry: Entry::decode(take)?,
            },
            2 => TransactionEnd::Delayed { due: Timestamp(take.u64()?), message: MessageRef::decode(take)? },
            _ => return Err(take.malformed()),
        })
    }
}

fn put_cause(cause: Cause, out: &mut Vec<u8>) {
    match cause {
        Cause::Send => out.put_u8(0),
        Cause::DeadLetter { flight, in_flight } => {
            out.put_u8(1);
            put_flight(flight, out);
            out.put_u8(u8::from(in_flight));
        }
        Cause::Relocated { id } => {
            out.put_u8(2);
            out.put_u64(id.0);
        }
    }
}

fn take_cause(take: &mut Take<'_>) -> Result<Cause, Malformed> {
    Ok(match take.u8()? {
        0 => Cause::Send,
        1 => Cause::DeadLetter { flight: take_flight(take)?, in_flight: take.u8()? != 0 },
        2 => Cause::Relocated { id: Position(take.u64()?) },
        _ => return Err(take.malformed()),
    })
}

fn take_link(take: &mut Take<'_>) -> Result<Link, Malformed> {
    Ok(Link {
        key: take_timer_key(take)?,
        queue: take_queue(take)?,
        offset: QueueOffset(take.u64()?),
        entry: Entry::decode(take)?,
    })
}

pub(crate) fn put_queue(queue: QueueKey, out: &mut Vec<u8>) {
    out.put_u32(queue.topic.0);
    out.put_u32(queue.queue.0);
}

pub(crate) fn take_queue(take: &mut Take<'_>) -> Result<QueueKey, Malformed> {
    Ok(QueueKey { topic: TopicId(take.u32()?), queue: QueueId(take.u32()?) })
}

fn put_flight(flight: FlightKey, out: &mut Vec<u8>) {
    out.put_u32(flight.group.0);
    put_queue(flight.queue, out);
    out.put_u64(flight.offset.0);
}

fn take_flight(take: &mut Take<'_>) -> Result<FlightKey, Malformed> {
    Ok(FlightKey { group: GroupId(take.u32()?), queue: take_queue(take)?, offset: QueueOffset(take.u64()?) })
}

pub(crate) fn put_timer_key(key: TimerKey, out: &mut Vec<u8>) {
    out.put_u64(key.due.0);
    out.put_u64(key.id.0);
}

pub(crate) fn take_timer_key(take: &mut Take<'_>) -> Result<TimerKey, Malformed> {
    Ok(TimerKey { due: Timestamp(take.u64()?), id: Position(take.u64()?) })
}
