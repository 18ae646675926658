//! Facts: what was delivered and what became of it. They take effect at once and are logged afterwards; the loss of one
//! is at worst a redelivery. A fact names explicit offsets, so replaying it never decides anew.

use std::time::Duration;

use redstart_log::Position;

use super::{
    decision::{put_queue, take_queue},
    put_record, unknown_kind,
};
use crate::{
    GroupId, QueueKey, QueueOffset, Timestamp, TopicId,
    codec::{Malformed, Put, Take},
};

const POP: u8 = 64;
const ACK: u8 = 65;
const INVISIBLE: u8 = 66;
const OFFSET: u8 = 67;
const RESET: u8 = 68;
const CHECKED: u8 = 69;
const SUBSCRIBED: u8 = 70;
const KEYS_EXPIRED: u8 = 71;
const TIMES_MOVED: u8 = 72;
pub(super) const KINDS: std::ops::RangeInclusive<u8> = POP..=TIMES_MOVED;

/// Something that has taken effect already.
///
/// Layout of the record's body, by kind:
///
/// | kind | fact | body |
/// |---|---|---|
/// | 64 | pop | see [`PopFact`] |
/// | 65 | ack | group u32, queue key, reason u8, u32 count, then offsets u64 |
/// | 66 | invisible | group u32, queue key, offset u64, receipt number u64, visible at u64, flags u8 (1 given back, 2 uncounted) |
/// | 67 | offset | group u32, queue key, offset u64 |
/// | 68 | reset | group u32, queue key, offset u64 |
/// | 69 | checked | transaction id u64, checks u32, next check u64 |
/// | 70 | subscribed | group u32, topic u32, u32 count, then offsets u64 |
/// | 71 | keys expired | until u64 |
/// | 72 | times moved | now u64, ahead u64 in ms, log position u64 |
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    Pop(PopFact),
    Ack {
        group: GroupId,
        queue: QueueKey,
        reason: AckReason,
        offsets: Vec<QueueOffset>,
    },
    /// A delivery's invisible time was changed; `seq` is the number its receipt now carries. `given_back` means
    /// that the consumer gave the message back; `uncounted`, that this was no failure and the delivery does not count.
    Invisible {
        group: GroupId,
        queue: QueueKey,
        offset: QueueOffset,
        seq: u64,
        visible_at: Timestamp,
        given_back: bool,
        uncounted: bool,
    },
    /// A pull consumer stored its progress.
    Offset {
        group: GroupId,
        queue: QueueKey,
        offset: QueueOffset,
    },
    /// An operator moved the group.
    Reset {
        group: GroupId,
        queue: QueueKey,
        offset: QueueOffset,
    },
    /// An open transaction was asked about for the `checks`-th time.
    Checked {
        id: Position,
        checks: u32,
        next: Timestamp,
    },
    /// A group consumed a topic for the first time: where it starts, queue by queue.
    Subscribed {
        group: GroupId,
        topic: TopicId,
        offsets: Vec<QueueOffset>,
    },
    /// Dedup keys whose window ended up to `until` are forgotten.
    KeysExpired {
        until: Timestamp,
    },
    /// The owner's clock was `ahead` until it said `now`. Only transactions that began before a position of the log are
    /// meant: decisions about others were on their way.
    TimesMoved {
        now: Timestamp,
        ahead: Duration,
        before: Position,
    },
}

/// Why a message is done for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AckReason {
    Consumed = 0,
    /// Its body is gone or damaged: it can never be delivered.
    Unreadable = 1,
}

/// One pop out of one queue.
///
/// Layout: group u32, queue key, visible at u64, attempt tag u64, client (u32 length and UTF-8), ordered u8, number of the
/// first receipt u64, then three lists, each a u32 count and its items:
///
/// | list | item |
/// |---|---|
/// | cursors | level u8, next offset u64 |
/// | delivered | offset u64, attempt u16, lock u32, priority u8 |
/// | blocked | offset u64, lock u32 |
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PopFact {
    pub group: GroupId,
    pub queue: QueueKey,
    pub visible_at: Timestamp,
    /// Hash of the receive attempt that got the messages; 0 when the client names none.
    pub attempt_tag: u64,
    pub client: String,
    pub ordered: bool,
    /// Number of the first delivery's receipt; the others follow.
    pub seq: u64,
    /// The new cursors: (priority level, next offset).
    pub cursors: Vec<(u8, QueueOffset)>,
    pub delivered: Vec<Delivered>,
    /// Their message group is locked.
    pub blocked: Vec<Blocked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub offset: QueueOffset,
    pub attempt: u16,
    pub lock: u32,
    pub priority: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub offset: QueueOffset,
    pub lock: u32,
}

impl Fact {
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Fact::Pop(pop) => put_record(out, POP, |out| pop.encode(out)),
            Fact::Ack { group, queue, reason, offsets } => put_record(out, ACK, |out| {
                out.put_u32(group.0);
                put_queue(*queue, out);
                out.put_u8(*reason as u8);
                put_offsets(offsets, out);
            }),
            Fact::Invisible { group, queue, offset, seq, visible_at, given_back, uncounted } => {
                put_record(out, INVISIBLE, |out| {
                    out.put_u32(group.0);
                    put_queue(*queue, out);
                    out.put_u64(offset.0);
                    out.put_u64(*seq);
                    out.put_u64(visible_at.0);
                    out.put_u8(u8::from(*given_back) | (u8::from(*uncounted) << 1));
                })
            }
            Fact::Offset { group, queue, offset } => put_record(out, OFFSET, |out| {
                out.put_u32(group.0);
                put_queue(*queue, out);
                out.put_u64(offset.0);
            }),
            Fact::Reset { group, queue, offset } => put_record(out, RESET, |out| {
                out.put_u32(group.0);
                put_queue(*queue, out);
                out.put_u64(offset.0);
            }),
            Fact::Checked { id, checks, next } => put_record(out, CHECKED, |out| {
                out.put_u64(id.0);
                out.put_u32(*checks);
                out.put_u64(next.0);
            }),
            Fact::Subscribed { group, topic, offsets } => put_record(out, SUBSCRIBED, |out| {
                out.put_u32(group.0);
                out.put_u32(topic.0);
                put_offsets(offsets, out);
            }),
            Fact::KeysExpired { until } => put_record(out, KEYS_EXPIRED, |out| out.put_u64(until.0)),
            Fact::TimesMoved { now, ahead, before } => put_record(out, TIMES_MOVED, |out| {
                out.put_u64(now.0);
                out.put_u64(ahead.as_millis() as u64);
                out.put_u64(before.0);
            }),
        };
    }

    pub fn decode(kind: u8, take: &mut Take<'_>) -> Result<Fact, Malformed> {
        let fact = match kind {
            POP => Fact::Pop(PopFact::decode(take)?),
            ACK => Fact::Ack {
                group: GroupId(take.u32()?),
                queue: take_queue(take)?,
                reason: match take.u8()? {
                    0 => AckReason::Consumed,
                    1 => AckReason::Unreadable,
                    _ => return Err(take.malformed()),
                },
                offsets: take_offsets(take)?,
            },
            INVISIBLE => {
                let (group, queue) = (GroupId(take.u32()?), take_queue(take)?);
                let (offset, seq) = (QueueOffset(take.u64()?), take.u64()?);
                let (visible_at, flags) = (Timestamp(take.u64()?), take.u8()?);
                let (given_back, uncounted) = (flags & 1 != 0, flags & 2 != 0);
                Fact::Invisible { group, queue, offset, seq, visible_at, given_back, uncounted }
            }
            OFFSET => Fact::Offset {
                group: GroupId(take.u32()?),
                queue: take_queue(take)?,
                offset: QueueOffset(take.u64()?),
            },
            RESET => Fact::Reset {
                group: GroupId(take.u32()?),
                queue: take_queue(take)?,
                offset: QueueOffset(take.u64()?),
            },
            CHECKED => {
                Fact::Checked { id: Position(take.u64()?), checks: take.u32()?, next: Timestamp(take.u64()?) }
            }
            SUBSCRIBED => Fact::Subscribed {
                group: GroupId(take.u32()?),
                topic: TopicId(take.u32()?),
                offsets: take_offsets(take)?,
            },
            KEYS_EXPIRED => Fact::KeysExpired { until: Timestamp(take.u64()?) },
            TIMES_MOVED => Fact::TimesMoved {
                now: Timestamp(take.u64()?),
                ahead: Duration::from_millis(take.u64()?),
                before: Position(take.u64()?),
            },
            _ => return Err(unknown_kind(kind)),
        };
        take.end()?;
        Ok(fact)
    }
}

impl PopFact {
    /// The lowest offset that it names.
    pub fn lowest(&self) -> QueueOffset {
        let cursors = self.cursors.iter().map(|(_, next)| *next);
        let blocked = self.blocked.iter().map(|blocked| blocked.offset);
        let delivered = self.delivered.iter().map(|delivered| delivered.offset);
        delivered.chain(cursors).chain(blocked).min().unwrap_or(QueueOffset(u64::MAX))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.group.0);
        put_queue(self.queue, out);
        out.put_u64(self.visible_at.0);
        out.put_u64(self.attempt_tag);
        out.put_str(&self.client);
        out.put_u8(u8::from(self.ordered));
        out.put_u64(self.seq);
        out.put_u32(self.cursors.len() as u32);
        for (level, next) in &self.cursors {
            out.put_u8(*level);
            out.put_u64(next.0);
        }
        out.put_u32(self.delivered.len() as u32);
        for delivered in &self.delivered {
            out.put_u64(delivered.offset.0);
            out.put_u16(delivered.attempt);
            out.put_u32(delivered.lock);
            out.put_u8(delivered.priority);
        }
        out.put_u32(self.blocked.len() as u32);
        for blocked in &self.blocked {
            out.put_u64(blocked.offset.0);
            out.put_u32(blocked.lock);
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<PopFact, Malformed> {
        Ok(PopFact {
            group: GroupId(take.u32()?),
            queue: take_queue(take)?,
            visible_at: Timestamp(take.u64()?),
            attempt_tag: take.u64()?,
            client: take.str()?.to_owned(),
            ordered: take.u8()? != 0,
            seq: take.u64()?,
            cursors: (0..take.count(9)?)
                .map(|_| Ok((take.u8()?, QueueOffset(take.u64()?))))
                .collect::<Result<_, _>>()?,
            delivered: (0..take.count(15)?)
                .map(|_| {
                    Ok(Delivered {
                        offset: QueueOffset(take.u64()?),
                        attempt: take.u16()?,
                        lock: take.u32()?,
                        priority: take.u8()?,
                    })
                })
                .collect::<Result<_, _>>()?,
            blocked: (0..take.count(12)?)
                .map(|_| Ok(Blocked { offset: QueueOffset(take.u64()?), lock: take.u32()? }))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn put_offsets(offsets: &[QueueOffset], out: &mut Vec<u8>) {
    out.put_u32(offsets.len() as u32);
    for offset in offsets {
        out.put_u64(offset.0);
    }
}

fn take_offsets(take: &mut Take<'_>) -> Result<Vec<QueueOffset>, Malformed> {
    (0..take.count(8)?).map(|_| Ok(QueueOffset(take.u64()?))).collect()
}
