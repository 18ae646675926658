//! Dedup keys that are still within their window, and the message that first carried each.

use std::collections::VecDeque;

use redstart_log::Position;
use rustc_hash::FxHashMap;

use crate::{
    QueueKey, QueueOffset, Ticket, Timestamp,
    codec::{Malformed, Put, Take},
    record::{put_queue, take_queue},
};

/// What the first message with a key was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub queue: QueueKey,
    /// `None` when the first message was not visible at once.
    pub offset: Option<QueueOffset>,
    pub position: Position,
    pub expires: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct DedupKeys {
    seen: FxHashMap<u128, First>,
    /// Keys in the order in which they came; windows differ by topic, so a key may outstay its time behind another.
    by_age: VecDeque<(Timestamp, u128)>,
    /// Keys of messages that are not yet durable, and whose ticket they have.
    pending: FxHashMap<u128, Ticket>,
}

impl DedupKeys {
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    pub fn first(&self, key: u128, now: Timestamp) -> Option<&First> {
        self.seen.get(&key).filter(|first| first.expires > now)
    }

    pub fn pending(&self, key: u128) -> Option<Ticket> {
        self.pending.get(&key).copied()
    }

    pub fn propose(&mut self, key: u128, ticket: Ticket) {
        self.pending.insert(key, ticket);
    }

    pub fn withdraw(&mut self, key: u128) {
        self.pending.remove(&key);
    }

    pub fn insert(&mut self, key: u128, first: First, now: Timestamp) {
        self.pending.remove(&key);
        self.by_age.push_back((first.expires, key));
        self.seen.insert(key, first);
        self.expire(now);
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some((expires, key)) = self.by_age.front().copied().filter(|(expires, _)| *expires <= now) {
            self.by_age.pop_front();
            // The key may have come again since, with a later end.
            if self.seen.get(&key).is_some_and(|first| first.expires == expires) {
                self.seen.remove(&key);
            }
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let live: Vec<_> = self
            .by_age
            .iter()
            .filter_map(|(expires, key)| {
                Some((*key, self.seen.get(key).filter(|first| first.expires == *expires)?))
            })
            .collect();
        out.put_u32(live.len() as u32);
        for (key, first) in live {
            out.put_u64((key >> 64) as u64);
            out.put_u64(key as u64);
            put_queue(first.queue, out);
            out.put_u64(first.offset.map_or(u64::MAX, |offset| offset.0));
            out.put_u64(first.position.0);
            out.put_u64(first.expires.0);
        }
    }

    pub fn decode(take: &mut Take<'_>) -> Result<DedupKeys, Malformed> {
        let mut keys = DedupKeys::default();
        for _ in 0..take.count(48)? {
            let key = (u128::from(take.u64()?) << 64) | u128::from(take.u64()?);
            let first = First {
                queue: take_queue(take)?,
                offset: Some(QueueOffset(take.u64()?)).filter(|offset| offset.0 != u64::MAX),
                position: Position(take.u64()?),
                expires: Timestamp(take.u64()?),
            };
            keys.by_age.push_back((first.expires, key));
            keys.seen.insert(key, first);
        }
        Ok(keys)
    }
}
