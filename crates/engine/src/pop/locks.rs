use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::QueueOffset;

/// Locks of message groups, for one ordered consumer group and queue. A message group is locked while one of its
/// messages is in flight; the cursor passes over its further messages and they wait here, in order.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_group: FxHashMap<u32, Lock>,
    /// First waiting message of every group that is free: what can be delivered before going on at the cursor.
    ready: BTreeMap<QueueOffset, u32>,
    blocked: usize,
}

#[derive(Debug, Default)]
struct Lock {
    /// In flight, ascending.
    flights: Vec<QueueOffset>,
    waiting: VecDeque<QueueOffset>,
}

impl Locks {
    pub fn blocked(&self) -> usize {
        self.blocked
    }

    pub fn is_free(&self, lock: u32) -> bool {
        !self.by_group.contains_key(&lock)
    }

    /// Whether an earlier message of the same group than `offset` is in flight.
    pub fn earlier_flights(&self, lock: u32, offset: QueueOffset) -> &[QueueOffset] {
        let flights = self.by_group.get(&lock).map_or(&[][..], |lock| &lock.flights);
        &flights[..flights.partition_point(|flight| *flight < offset)]
    }

    /// Groups that are free and have a message waiting, by that message's offset.
    pub fn ready(&self) -> impl Iterator<Item = (QueueOffset, u32)> {
        self.ready.iter().map(|(offset, lock)| (*offset, *lock))
    }

    pub fn waiting(&self, lock: u32) -> impl Iterator<Item = QueueOffset> {
        self.by_group.get(&lock).into_iter().flat_map(|lock| lock.waiting.iter().copied())
    }

    pub fn block(&mut self, lock: u32, offset: QueueOffset) {
        self.unready(lock);
        let waiting = &mut self.by_group.entry(lock).or_default().waiting;
        // A replayed fact may name what is already here.
        if let Err(at) = waiting.binary_search(&offset) {
            waiting.insert(at, offset);
            self.blocked += 1;
        }
        self.update_ready(lock);
    }

    /// A message goes into flight; it may have been waiting.
    pub fn fly(&mut self, lock: u32, offset: QueueOffset) {
        self.unready(lock);
        let entry = self.by_group.entry(lock).or_default();
        if let Ok(at) = entry.waiting.binary_search(&offset) {
            entry.waiting.remove(at);
            self.blocked -= 1;
        }
        if let Err(at) = entry.flights.binary_search(&offset) {
            entry.flights.insert(at, offset);
        }
    }

    /// A message in flight is done.
    pub fn land(&mut self, lock: u32, offset: QueueOffset) {
        if let Some(entry) = self.by_group.get_mut(&lock)
            && let Ok(at) = entry.flights.binary_search(&offset)
        {
            entry.flights.remove(at);
        }
        self.update_ready(lock);
    }

    /// All waiting messages, taken out.
    pub fn dissolve(self) -> Vec<(QueueOffset, u32)> {
        self.by_group
            .into_iter()
            .flat_map(|(lock, entry)| entry.waiting.into_iter().map(move |offset| (offset, lock)))
            .collect()
    }

    /// Whether a message waits for its group's lock.
    pub fn is_waiting(&self, offset: QueueOffset) -> bool {
        self.by_group.values().any(|entry| entry.waiting.binary_search(&offset).is_ok())
    }

    /// Forgets waiting messages from `offset` on: the cursor goes back there and will meet them again.
    pub fn forget_from(&mut self, offset: QueueOffset) {
        self.retain(|waiting| waiting < offset);
    }

    /// Forgets waiting messages before `offset`: the cursor has been moved past them.
    pub fn forget_before(&mut self, offset: QueueOffset) {
        self.retain(|waiting| waiting >= offset);
    }

    fn retain(&mut self, keep: impl Fn(QueueOffset) -> bool) {
        for entry in self.by_group.values_mut() {
            entry.waiting.retain(|waiting| keep(*waiting));
        }
        self.by_group.retain(|_, entry| !entry.flights.is_empty() || !entry.waiting.is_empty());
        self.blocked = self.by_group.values().map(|entry| entry.waiting.len()).sum();
        self.ready = self
            .by_group
            .iter()
            .filter(|(_, entry)| entry.flights.is_empty())
            .filter_map(|(lock, entry)| Some((*entry.waiting.front()?, *lock)))
            .collect();
    }

    /// All (lock, waiting offset) pairs, in a fixed order.
    pub fn all_waiting(&self) -> Vec<(QueueOffset, u32)> {
        let mut all: Vec<_> = self
            .by_group
            .iter()
            .flat_map(|(lock, entry)| entry.waiting.iter().map(|offset| (*offset, *lock)))
            .collect();
        all.sort_unstable();
        all
    }

    pub fn first_waiting(&self) -> Option<QueueOffset> {
        self.by_group.values().filter_map(|entry| entry.waiting.front().copied()).min()
    }

    fn unready(&mut self, lock: u32) {
        if let Some(first) = self.by_group.get(&lock).and_then(|entry| entry.waiting.front())
            && self.ready.get(first) == Some(&lock)
        {
            let first = *first;
            self.ready.remove(&first);
        }
    }

    fn update_ready(&mut self, lock: u32) {
        let Some(entry) = self.by_group.get(&lock) else { return };
        match (entry.flights.is_empty(), entry.waiting.front()) {
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
