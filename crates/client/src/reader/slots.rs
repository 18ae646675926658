//! The queues of a reader, how far each is read, and the batches that wait to be taken. No clock, no network.

use std::collections::{BTreeMap, VecDeque};

use super::QueueBatch;
use crate::Queue;

/// The queues that a reader has now.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: BTreeMap<Queue, Slot>,
    ready: VecDeque<QueueBatch>,
    /// Numbers seeks and assignments, so that what was asked for before one of them is told apart.
    epochs: u64,
}

#[derive(Debug)]
struct Slot {
    epoch: u64,
    /// Where the next pull begins; `None` until it is known.
    next: Option<i64>,
    /// Behind the last message that was given to the application.
    given: Option<i64>,
    paused: bool,
    /// The queue is about to be given away: nothing of it is given to the application any more.
    leaving: bool,
    waiting: usize,
}

/// What the task that pulls from a queue does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Finds out where to begin.
    Begin {
        epoch: u64,
    },
    Pull {
        epoch: u64,
        offset: i64,
    },
    /// Nothing, until something changes.
    Wait,
    /// The queue is not this reader's any more.
    End,
}

impl Turn {
    pub fn epoch(self) -> Option<u64> {
        match self {
            Turn::Begin { epoch } | Turn::Pull { epoch, .. } => Some(epoch),
            Turn::Wait | Turn::End => None,
        }
    }
}

/// How an assignment differs from the one before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub added: Vec<Queue>,
    pub removed: Vec<Queue>,
}

impl Slots {
    fn next_epoch(&mut self) -> u64 {
        self.epochs += 1;
        self.epochs
    }

    pub fn queues(&self) -> Vec<Queue> {
        self.slots.keys().cloned().collect()
    }

    pub fn has(&self, queue: &Queue) -> bool {
        self.slots.contains_key(queue)
    }

    /// What has to change for these queues to be the reader's.
    pub fn change_to(&self, target: &[Queue]) -> Change {
        Change {
            added: target.iter().filter(|queue| !self.slots.contains_key(*queue)).cloned().collect(),
            removed: self.slots.keys().filter(|queue| !target.contains(queue)).cloned().collect(),
        }
    }

    pub fn add(&mut self, queue: Queue) {
        let epoch = self.next_epoch();
        let new = Slot { epoch, next: None, given: None, paused: false, leaving: false, waiting: 0 };
        self.slots.entry(queue).or_insert(new);
    }

    /// Nothing of these queues is given to the application from now on.
    pub fn withhold(&mut self, queues: &[Queue]) {
        for queue in queues {
            if let Some(slot) = self.slots.get_mut(queue) {
                slot.leaving = true;
            }
        }
    }

    pub fn remove(&mut self, queue: &Queue) {
        self.slots.remove(queue);
        self.ready.retain(|batch| batch.queue != *queue);
    }

    /// Behind the last message of a queue that was given to the application.
    pub fn given(&self, queue: &Queue) -> Option<i64> {
        self.slots.get(queue)?.given
    }

    /// The queues of which nothing waits, and where they are read on.
    pub fn read_to(&self) -> Vec<(Queue, i64)> {
        let idle = self.slots.iter().filter(|(_, slot)| slot.waiting == 0);
        idle.filter_map(|(queue, slot)| Some((queue.clone(), slot.next?))).collect()
    }

    /// What to do for a queue when at most so many batches may wait.
    pub fn turn(&self, queue: &Queue, batches_max: usize) -> Turn {
        let Some(slot) = self.slots.get(queue) else { return Turn::End };
        match slot.next {
            _ if slot.paused || slot.leaving || slot.waiting >= batches_max => Turn::Wait,
            None => Turn::Begin { epoch: slot.epoch },
            Some(offset) => Turn::Pull { epoch: slot.epoch, offset },
        }
    }

    /// Whether what was asked for in an epoch is still wanted.
    pub fn is_current(&self, queue: &Queue, epoch: u64) -> bool {
        self.slots.get(queue).is_some_and(|slot| slot.epoch == epoch && !slot.leaving)
    }

    pub fn begin_at(&mut self, queue: &Queue, epoch: u64, offset: i64) {
        if let Some(slot) = self.slots.get_mut(queue).filter(|slot| slot.epoch == epoch) {
            slot.next = Some(offset);
        }
    }

    /// Takes in what a pull brought. Without messages only the position moves.
    pub fn put(&mut self, epoch: u64, batch: QueueBatch) {
        let Some(slot) = self.slots.get_mut(&batch.queue).filter(|slot| slot.epoch == epoch) else { return };
        slot.next = Some(batch.next_offset);
        if !batch.messages.is_empty() {
            slot.waiting += 1;
            self.ready.push_back(batch);
        }
    }

    /// The oldest batch that may be given to the application.
    pub fn take(&mut self) -> Option<QueueBatch> {
        let may_go = |batch: &QueueBatch| {
            self.slots.get(&batch.queue).is_some_and(|slot| !slot.paused && !slot.leaving)
        };
        let place = self.ready.iter().position(may_go)?;
        let batch = self.ready.remove(place)?;
        if let Some(slot) = self.slots.get_mut(&batch.queue) {
            slot.waiting -= 1;
            slot.given = Some(batch.next_offset);
        }
        Some(batch)
    }

    /// The next message of the queue is the one at this offset. `false` if the queue is not this reader's.
    pub fn seek(&mut self, queue: &Queue, offset: i64) -> bool {
        let epoch = self.next_epoch();
        let Some(slot) = self.slots.get_mut(queue) else { return false };
        (slot.epoch, slot.next, slot.given, slot.waiting) = (epoch, Some(offset), None, 0);
        self.ready.retain(|batch| batch.queue != *queue);
        true
    }

    pub fn pause(&mut self, queue: &Queue, paused: bool) -> bool {
        let slot = self.slots.get_mut(queue);
        slot.map(|slot| slot.paused = paused).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Received, received::tests::message};

    fn queue(id: i32) -> Queue {
        Queue::new("t", "b", id)
    }

    fn batch(id: i32, offsets: std::ops::Range<i64>) -> QueueBatch {
        let message = |offset: i64| Received { queue: queue(id), offset, ..message(&offset.to_string()) };
        QueueBatch { queue: queue(id), next_offset: offsets.end, messages: offsets.map(message).collect() }
    }

    fn with(ids: &[i32]) -> Slots {
        let mut slots = Slots::default();
        ids.iter().for_each(|id| slots.add(queue(*id)));
        slots
    }

    fn begin(slots: &mut Slots, id: i32, offset: i64) -> u64 {
        let Turn::Begin { epoch } = slots.turn(&queue(id), 2) else { panic!("it has begun") };
        slots.begin_at(&queue(id), epoch, offset);
        epoch
    }

    #[test]
    fn a_queue_is_read_on_from_where_the_last_pull_ended() {
        let mut slots = with(&[0]);
        let epoch = begin(&mut slots, 0, 5);
        assert_eq!(slots.turn(&queue(0), 2), Turn::Pull { epoch, offset: 5 });
        slots.put(epoch, batch(0, 5..8));
        slots.put(epoch, batch(0, 8..8));
        assert_eq!(slots.turn(&queue(0), 2), Turn::Pull { epoch, offset: 8 });
        slots.put(epoch, batch(0, 8..9));
        assert_eq!(slots.turn(&queue(0), 2), Turn::Wait, "two batches wait");
        assert_eq!(slots.given(&queue(0)), None);
        assert_eq!(slots.take().map(|batch| batch.messages.len()), Some(3));
        assert_eq!(slots.given(&queue(0)), Some(8));
        assert_eq!(slots.turn(&queue(0), 2), Turn::Pull { epoch, offset: 9 });
    }

    #[test]
    fn what_was_asked_for_before_a_seek_is_dropped() {
        let mut slots = with(&[0]);
        let epoch = begin(&mut slots, 0, 5);
        slots.put(epoch, batch(0, 5..8));
        assert!(slots.seek(&queue(0), 2));
        assert_eq!(slots.take(), None);
        assert!(!slots.is_current(&queue(0), epoch));
        slots.put(epoch, batch(0, 8..9));
        assert_eq!(slots.take(), None, "a pull of before");
        let Turn::Pull { epoch, offset: 2 } = slots.turn(&queue(0), 1) else { panic!("it goes on at 2") };
        slots.put(epoch, batch(0, 2..3));
        assert_eq!(slots.take().map(|batch| batch.next_offset), Some(3));
        assert!(!slots.seek(&queue(9), 0), "not this reader's");
    }

    #[test]
    fn a_paused_queue_keeps_what_it_has_and_the_others_go_on() {
        let mut slots = with(&[0, 1]);
        for id in [0, 1] {
            let epoch = begin(&mut slots, id, 0);
            slots.put(epoch, batch(id, 0..1));
        }
        assert!(slots.pause(&queue(0), true));
        assert_eq!(slots.turn(&queue(0), 9), Turn::Wait);
        assert_eq!(slots.take().map(|batch| batch.queue.id), Some(1));
        assert_eq!(slots.take(), None);
        slots.pause(&queue(0), false);
        assert_eq!(slots.take().map(|batch| batch.queue.id), Some(0));
    }

    #[test]
    fn a_queue_that_comes_back_is_a_new_one() {
        let mut slots = with(&[0, 1]);
        let epoch = begin(&mut slots, 0, 0);
        slots.put(epoch, batch(0, 0..1));
        let change = slots.change_to(&[queue(1), queue(2)]);
        assert_eq!(change, Change { added: vec![queue(2)], removed: vec![queue(0)] });
        slots.withhold(&change.removed);
        assert_eq!((slots.take(), slots.turn(&queue(0), 9)), (None, Turn::Wait), "before it is given away");
        slots.remove(&queue(0));
        assert_eq!(slots.turn(&queue(0), 9), Turn::End);
        slots.add(queue(0));
        slots.put(epoch, batch(0, 1..2));
        assert_eq!(slots.take(), None, "a pull of the time before");
        assert!(matches!(slots.turn(&queue(0), 9), Turn::Begin { .. }));
    }
}
