//! Open transactions: half messages that are durable and in no queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redstart_log::Position;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Timestamp, TopicId,
    codec::{Malformed, Put, Take},
    message_ref::MessageRef,
};

/// A half message and when its producer is asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Half {
    pub message: MessageRef,
    pub opened_at: Timestamp,
    pub deliver_at: Option<Timestamp>,
    pub next_check: Timestamp,
    pub checks: u32,
}

/// All open transactions, by the position their half message was first stored at.
///
/// Layout in a checkpoint: u32 count, then for each
///
/// | field | size | |
/// |---|---|---|
/// | id | u64 | position at which the half message was first stored |
/// | message | message reference | |
/// | opened at | u64 | |
/// | deliver at | u64 | all ones for none |
/// | next check | u64 | |
/// | checks | u32 | so far |
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions {
    open: BTreeMap<Position, Half>,
    due: BTreeSet<(Timestamp, Position)>,
    /// How many are open.
    by_topic: FxHashMap<TopicId, usize>,
    /// How the last transactions ended, oldest first: a producer that ends one twice gets an answer that says so. Not kept over a start.
    ended: FxHashMap<Position, Ended>,
    ended_order: VecDeque<Position>,
}

const ENDED_MAX: usize = 16_384;

/// A transaction that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub committed: bool,
    /// The topic of its message.
    pub topic: TopicId,
}

impl OpenTransactions {
    /// Remembers how a transaction ended and forgets it as an open one.
    pub fn end(&mut self, id: Position, committed: bool) {
        let Some(Half { message, .. }) = self.remove(id) else { return };
        if self.ended_order.len() == ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.ended.insert(id, Ended { committed, topic: message.queue.topic });
        self.ended_order.push_back(id);
    }

    /// A transaction that has ended, as far as it is remembered.
    pub fn ended(&self, id: Position) -> Option<Ended> {
        self.ended.get(&id).copied()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn get(&self, id: Position) -> Option<&Half> {
        self.open.get(&id)
    }

    pub fn insert(&mut self, id: Position, half: Half) {
        self.remove(id);
        self.due.insert((half.next_check, id));
        *self.by_topic.entry(half.message.queue.topic).or_default() += 1;
        self.open.insert(id, half);
    }

    fn remove(&mut self, id: Position) -> Option<Half> {
        let half = self.open.remove(&id)?;
        self.due.remove(&(half.next_check, id));
        count_down(&mut self.by_topic, half.message.queue.topic);
        Some(half)
    }

    pub fn by_topic(&self) -> &FxHashMap<TopicId, usize> {
        &self.by_topic
    }

    pub fn checked(&mut self, id: Position, checks: u32, next: Timestamp) {
        if let Some(half) = self.open.get_mut(&id) {
            self.due.remove(&(half.next_check, id));
            half.checks = checks;
            half.next_check = next;
            self.due.insert((next, id));
        }
    }

    /// Gives those that began before a position another time to be asked about, and to have been opened at.
    pub fn move_times(&mut self, before: Position, to: impl Fn(Timestamp) -> Timestamp) {
        let moved: Vec<_> = self.open.range(..before).map(|(id, half)| (*id, *half)).collect();
        for (id, half) in moved {
            self.insert(id, Half { next_check: to(half.next_check), opened_at: to(half.opened_at), ..half });
        }
    }

    pub fn relocate(&mut self, id: Position, position: Position, size: u32) {
        if let Some(half) = self.open.get_mut(&id) {
            half.message.position = position;
            half.message.size = size;
        }
    }

    /// Transactions to be asked about or given up, at most `max`, without those whose end is under way.
    pub fn due(&self, ending: &FxHashSet<Position>, now: Timestamp, max: usize) -> Vec<(Position, Half)> {
        self.due
            .range(..=(now, Position(u64::MAX)))
            .filter(|(_, id)| !ending.contains(id))
            .take(max)
            .filter_map(|(_, id)| Some((*id, *self.open.get(id)?)))
            .collect()
    }

    /// When the next one is due, without those whose end is under way.
    pub fn next_due(&self, ending: &FxHashSet<Position>) -> Option<Timestamp> {
        self.due.iter().find(|(_, id)| !ending.contains(id)).map(|(at, _)| *at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Position, &Half)> {
        self.open.iter().map(|(id, half)| (*id, half))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.open.len() as u32);
        for (id, half) in &self.open {
            out.put_u64(id.0);
            half.message.encode(out);
            out.put_u64(half.opened_at.0);
            out.put_u64(half.deliver_at.map_or(u64::MAX, |at| at.0));
            out.put_u64(half.next_check.0);
            out.put_u32(half.checks);
        }
    }

    pub fn decode(take: &mut Take<'_>) -> Result<OpenTransactions, Malformed> {
        let mut transactions = OpenTransactions::default();
        for _ in 0..take.count(36 + MessageRef::LEN)? {
            let id = Position(take.u64()?);
            let half = Half {
                message: MessageRef::decode(take)?,
                opened_at: Timestamp(take.u64()?),
                deliver_at: Some(Timestamp(take.u64()?)).filter(|at| *at != Timestamp::MAX),
                next_check: Timestamp(take.u64()?),
                checks: take.u32()?,
            };
            transactions.insert(id, half);
        }
        Ok(transactions)
    }
}

/// One less of a topic; those with none are not kept.
pub(crate) fn count_down(counts: &mut FxHashMap<TopicId, usize>, topic: TopicId) {
    if let Some(count) = counts.get_mut(&topic) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&topic);
        }
    }
}
