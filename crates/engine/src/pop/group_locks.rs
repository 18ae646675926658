//! Locks of message groups: in an ordered consumer group, one consumer at a time has messages of a message group.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::QueueOffset;

/// Locks of message groups, for one ordered consumer group and queue. A message group is locked while one of its
/// messages is in flight. Its further messages are *blocked*: the cursor passes over them, and they are listed here in
/// order. A lock is named by the hash of its message group; messages without one share lock 0 of their queue.
#[derive(Debug, Default)]
pub(crate) struct GroupLocks {
    by_group: FxHashMap<u32, GroupLock>,
    /// First blocked message of every group that is free: what can be delivered before going on at the cursor.
    ready: BTreeMap<QueueOffset, u32>,
    /// Blocked messages of all groups.
    blocked_count: usize,
}

#[derive(Debug, Default)]
struct GroupLock {
    /// In flight, ascending.
    flights: Vec<QueueOffset>,
    /// Ascending.
    blocked: VecDeque<QueueOffset>,
}

impl GroupLocks {
    pub fn blocked_count(&self) -> usize {
        self.blocked_count
    }

    /// Whether no message of the group is in flight or blocked.
    pub fn is_free(&self, lock: u32) -> bool {
        !self.by_group.contains_key(&lock)
    }

    /// Messages of the same group before `offset` that are in flight.
    pub fn earlier_flights(&self, lock: u32, offset: QueueOffset) -> &[QueueOffset] {
        let flights = self.by_group.get(&lock).map_or(&[][..], |lock| &lock.flights);
        &flights[..flights.partition_point(|flight| *flight < offset)]
    }

    /// Groups that are free and have a blocked message, by that message's offset.
    pub fn ready(&self) -> impl Iterator<Item = (QueueOffset, u32)> {
        self.ready.iter().map(|(offset, lock)| (*offset, *lock))
    }

    /// The blocked messages of one group, in order.
    pub fn blocked(&self, lock: u32) -> impl Iterator<Item = QueueOffset> {
        self.by_group.get(&lock).into_iter().flat_map(|lock| lock.blocked.iter().copied())
    }

    pub fn block(&mut self, lock: u32, offset: QueueOffset) {
        self.unready(lock);
        let blocked = &mut self.by_group.entry(lock).or_default().blocked;
        // A replayed fact may name what is already here.
        if let Err(at) = blocked.binary_search(&offset) {
            blocked.insert(at, offset);
            self.blocked_count += 1;
        }
        self.update_ready(lock);
    }

    /// A message goes into flight; it may have been blocked.
    pub fn delivered(&mut self, lock: u32, offset: QueueOffset) {
        self.unready(lock);
        let entry = self.by_group.entry(lock).or_default();
        if let Ok(at) = entry.blocked.binary_search(&offset) {
            entry.blocked.remove(at);
            self.blocked_count -= 1;
        }
        if let Err(at) = entry.flights.binary_search(&offset) {
            entry.flights.insert(at, offset);
        }
    }

    /// A message in flight is done.
    pub fn done(&mut self, lock: u32, offset: QueueOffset) {
        if let Some(entry) = self.by_group.get_mut(&lock)
            && let Ok(at) = entry.flights.binary_search(&offset)
        {
            entry.flights.remove(at);
        }
        self.update_ready(lock);
    }

    /// The blocked messages of all groups, in no order.
    pub fn into_blocked(self) -> Vec<(QueueOffset, u32)> {
        self.by_group
            .into_iter()
            .flat_map(|(lock, entry)| entry.blocked.into_iter().map(move |offset| (offset, lock)))
            .collect()
    }

    pub fn is_blocked(&self, offset: QueueOffset) -> bool {
        self.by_group.values().any(|entry| entry.blocked.binary_search(&offset).is_ok())
    }

    /// Forgets blocked messages from `offset` on: the cursor goes back there and will meet them again.
    pub fn forget_from(&mut self, offset: QueueOffset) {
        self.retain(|blocked| blocked < offset);
    }

    /// Forgets blocked messages before `offset`: the cursor has been moved past them.
    pub fn forget_before(&mut self, offset: QueueOffset) {
        self.retain(|blocked| blocked >= offset);
    }

    fn retain(&mut self, keep: impl Fn(QueueOffset) -> bool) {
        for entry in self.by_group.values_mut() {
            entry.blocked.retain(|blocked| keep(*blocked));
        }
        self.by_group.retain(|_, entry| !entry.flights.is_empty() || !entry.blocked.is_empty());
        self.blocked_count = self.by_group.values().map(|entry| entry.blocked.len()).sum();
        self.ready = self
            .by_group
            .iter()
            .filter(|(_, entry)| entry.flights.is_empty())
            .filter_map(|(lock, entry)| Some((*entry.blocked.front()?, *lock)))
            .collect();
    }

    /// The blocked messages of all groups, in queue order.
    pub fn all_blocked(&self) -> Vec<(QueueOffset, u32)> {
        let mut all: Vec<_> = self
            .by_group
            .iter()
            .flat_map(|(lock, entry)| entry.blocked.iter().map(|offset| (*offset, *lock)))
            .collect();
        all.sort_unstable();
        all
    }

    pub fn first_blocked(&self) -> Option<QueueOffset> {
        self.by_group.values().filter_map(|entry| entry.blocked.front().copied()).min()
    }

    fn unready(&mut self, lock: u32) {
        if let Some(first) = self.by_group.get(&lock).and_then(|entry| entry.blocked.front())
            && self.ready.get(first) == Some(&lock)
        {
            let first = *first;
            self.ready.remove(&first);
        }
    }

    fn update_ready(&mut self, lock: u32) {
        let Some(entry) = self.by_group.get(&lock) else { return };
        match (entry.flights.is_empty(), entry.blocked.front()) {
            (true, Some(first)) => {
                self.ready.insert(*first, lock);
            }
            (true, None) => {
                self.by_group.remove(&lock);
            }
            (false, _) => {}
        }
    }
}
