//! Messages that become visible at a later time, in the order in which they are due.

use std::collections::{BTreeMap, BTreeSet};

use redstart_log::{Position, SegmentId};
use rustc_hash::FxHashMap;

use crate::{
    Timestamp, TopicId,
    codec::{Malformed, Put, Take},
    message_ref::MessageRef,
    open_transactions::count_down,
    record::{put_timer_key, take_timer_key},
};

/// When a timer is due, and which it is: the position of the record that made it.
///
/// Layout, 16 bytes: due u64, id u64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimerKey {
    pub due: Timestamp,
    pub id: Position,
}

/// All timers that have not fired.
///
/// They need no place in a checkpoint: each segment's index lists the timers made in it, and those above the
/// watermark that were not recalled are the live ones. Only the few made below the watermark (due so soon that
/// others fired first) are written out.
///
/// Layout in a checkpoint:
///
/// | field | size | |
/// |---|---|---|
/// | watermark | timer key | the largest key that has fired |
/// | recalled | u32, then (timer key, segment u64) | cancelled timers above the watermark, with the segment of the recall; before version 4 without it |
/// | late | u32, then (timer key, message reference) | timers up to the watermark that have not fired |
#[derive(Debug, Default)]
pub(crate) struct Timers {
    live: BTreeMap<TimerKey, MessageRef>,
    /// The largest key that has fired.
    watermark: TimerKey,
    /// Cancelled timers above the watermark, with the newest segment whose index may list them: when that is gone, nothing
    /// is left that a start could restore them from. `None` while a start from an old checkpoint has not found one.
    recalled: BTreeMap<TimerKey, Option<SegmentId>>,
    /// Live timers that share a message with a queue, or whose message is in an older segment than the record that
    /// made them, so that the index of the message's segment does not list them.
    borrowed_bodies: BTreeSet<(Position, TimerKey)>,
    /// The number of live timers of each topic.
    by_topic: FxHashMap<TopicId, usize>,
}

impl Timers {
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Cancelled timers that must be remembered.
    pub fn recalled(&self) -> usize {
        self.recalled.len()
    }

    pub fn get(&self, key: TimerKey) -> Option<&MessageRef> {
        self.live.get(&key)
    }

    /// Adds a timer whose record is in `segment`.
    pub fn insert(&mut self, key: TimerKey, message: MessageRef, segment: SegmentId) {
        if message.attempt > 0 || message.position.0 < segment.0 {
            self.borrowed_bodies.insert((message.position, key));
        }
        *self.by_topic.entry(message.queue.topic).or_default() += 1;
        if let Some(old) = self.live.insert(key, message) {
            count_down(&mut self.by_topic, old.queue.topic);
        }
    }

    pub fn by_topic(&self) -> &FxHashMap<TopicId, usize> {
        &self.by_topic
    }

    /// How many are due and have not fired, up to `max`, and since when the first is due.
    pub fn overdue(&self, now: Timestamp, max: usize) -> (usize, Option<Timestamp>) {
        let end = TimerKey { due: now, id: Position(u64::MAX) };
        let mut due = self.live.range(..=end).map(|(key, _)| key.due).take(max);
        let first = due.next();
        (due.count() + usize::from(first.is_some()), first)
    }

    /// A timer read from the index of `segment`: dropped when it has fired or was recalled.
    pub fn restore(&mut self, key: TimerKey, message: MessageRef, segment: SegmentId) {
        if let Some(listed_in) = self.recalled.get_mut(&key) {
            *listed_in = Some(segment).max(*listed_in);
        } else if key > self.watermark {
            self.forget(key);
            self.insert(key, message, segment);
        }
    }

    /// Timers that have not fired and need a message between two positions that was not stored for them.
    pub fn borrowed_within(
        &self,
        from: Position,
        end: Position,
    ) -> impl Iterator<Item = (TimerKey, MessageRef)> {
        let range = (from, TimerKey::default())..(end, TimerKey::default());
        self.borrowed_bodies.range(range).filter_map(|(_, key)| Some((*key, *self.live.get(key)?)))
    }

    /// Timers that have not fired and whose message is between two positions. Looks at all timers: only for a segment
    /// whose index is lost.
    pub fn all_within(&self, from: Position, end: Position) -> Vec<(TimerKey, MessageRef)> {
        let within = |message: &MessageRef| (from..end).contains(&message.position);
        self.live
            .iter()
            .filter(|(_, message)| within(message))
            .map(|(key, message)| (*key, *message))
            .collect()
    }

    /// Retries that are due after `at`.
    pub fn retries_after(&self, at: Timestamp) -> impl Iterator<Item = TimerKey> {
        let later = self.borrowed_bodies.iter().map(|(_, key)| *key).filter(move |key| key.due > at);
        later.filter(|key| self.live.get(key).is_some_and(|message| message.attempt > 0))
    }

    /// Timers that are due after `at`.
    pub fn after(&self, at: Timestamp) -> impl Iterator<Item = TimerKey> {
        self.live.range(TimerKey { due: at, id: Position(u64::MAX) }..).map(|(key, _)| *key)
    }

    fn forget(&mut self, key: TimerKey) -> bool {
        let Some(message) = self.live.remove(&key) else { return false };
        self.borrowed_bodies.remove(&(message.position, key));
        count_down(&mut self.by_topic, message.queue.topic);
        true
    }

    pub fn fired(&mut self, key: TimerKey) -> bool {
        self.watermark = self.watermark.max(key);
        while self.recalled.first_key_value().is_some_and(|(first, _)| *first <= self.watermark) {
            self.recalled.pop_first();
        }
        self.forget(key)
    }

    /// Cancels a timer by a record in `segment`: no later segment lists it.
    pub fn recall(&mut self, key: TimerKey, segment: SegmentId) -> bool {
        if key > self.watermark {
            self.recalled.insert(key, Some(segment));
        }
        self.forget(key)
    }

    /// `segment`, the oldest of the log, is gone.
    pub fn forget_segment(&mut self, segment: SegmentId) {
        self.recalled.retain(|_, listed_in| *listed_in > Some(segment));
    }

    /// A start has read every segment: what none of them lists need not be remembered.
    pub fn restored(&mut self) {
        self.recalled.retain(|_, listed_in| listed_in.is_some());
    }

    /// Moves the body of a live timer. At a start, the index that listed it may have gone with its segment: then this
    /// is all that is left of it.
    pub fn relocate(&mut self, key: TimerKey, copy: MessageRef, segment: SegmentId) {
        match self.live.get_mut(&key) {
            Some(message) => {
                self.borrowed_bodies.remove(&(message.position, key));
                message.position = copy.position;
                message.size = copy.size;
            }
            None => self.restore(key, copy, segment),
        }
    }

    /// Whether a timer should have fired before others that have.
    pub fn is_late(&self, key: TimerKey) -> bool {
        key <= self.watermark
    }

    /// Timers between two keys, both included, in order.
    pub fn range(&self, from: TimerKey, to: TimerKey) -> impl Iterator<Item = (TimerKey, &MessageRef)> {
        // An empty range may not be asked for the wrong way round.
        let to = to.max(from);
        self.live.range(from..=to).map(|(key, message)| (*key, message))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_timer_key(self.watermark, out);
        out.put_u32(self.recalled.len() as u32);
        for (key, listed_in) in &self.recalled {
            put_timer_key(*key, out);
            out.put_u64(listed_in.unwrap_or_default().0);
        }
        let late: Vec<_> = self.live.range(..=self.watermark).collect();
        out.put_u32(late.len() as u32);
        for (key, message) in late {
            put_timer_key(*key, out);
            message.encode(out);
        }
    }

    /// `segments` says whether recalled timers have one.
    pub fn decode(take: &mut Take<'_>, segments: bool) -> Result<Timers, Malformed> {
        let watermark = take_timer_key(take)?;
        let recalled = (0..take.count(if segments { 24 } else { 16 })?)
            .map(|_| {
                let key = take_timer_key(take)?;
                Ok((key, if segments { Some(SegmentId(take.u64()?)) } else { None }))
            })
            .collect::<Result<_, Malformed>>()?;
        let live: BTreeMap<TimerKey, MessageRef> = (0..take.count(16 + MessageRef::LEN)?)
            .map(|_| Ok((take_timer_key(take)?, MessageRef::decode(take)?)))
            .collect::<Result<_, _>>()?;
        // Where their records are is not known; they are few and about to fire.
        let borrowed_bodies = live.iter().map(|(key, message)| (message.position, *key)).collect();
        let mut by_topic = FxHashMap::default();
        for message in live.values() {
            *by_topic.entry(message.queue.topic).or_default() += 1;
        }
        Ok(Timers { live, watermark, recalled, borrowed_bodies, by_topic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueKey;

    fn message(position: u64) -> MessageRef {
        MessageRef {
            queue: QueueKey::default(),
            position: Position(position),
            size: 1,
            tag_hash: 0,
            group_hash: 0,
            attempt: 0,
            priority: 0,
        }
    }

    #[test]
    fn a_recall_is_forgotten_with_the_last_segment_that_lists_its_timer() {
        let key = |id| TimerKey { due: Timestamp(1_000), id: Position(id) };
        let mut timers = Timers::default();
        for id in [1, 2] {
            timers.insert(key(id), message(id), SegmentId(0));
        }
        timers.recall(key(1), SegmentId(0));
        timers.recall(key(2), SegmentId(100));
        timers.forget_segment(SegmentId(0));
        assert_eq!(timers.recalled(), 1);
        timers.forget_segment(SegmentId(100));
        assert_eq!(timers.recalled(), 0);
    }

    #[test]
    fn a_start_keeps_the_recalls_that_a_segment_lists_and_no_others() {
        let key = |id| TimerKey { due: Timestamp(1_000), id: Position(id) };
        let mut timers = Timers::default();
        for id in [1, 2] {
            timers.recall(key(id), SegmentId(0));
        }
        let mut bytes = Vec::new();
        timers.encode(&mut bytes);
        // As an old checkpoint has them: without their segments.
        let old: Vec<u8> = [&bytes[..36], &bytes[44..60], &bytes[68..]].concat();
        let mut timers = Timers::decode(&mut Take::new(&old, "timers"), false).unwrap();
        timers.restore(key(2), message(2), SegmentId(100));
        timers.restored();
        assert_eq!((timers.len(), timers.recalled()), (0, 1), "the one in an index stays cancelled");
        timers.forget_segment(SegmentId(100));
        assert_eq!(timers.recalled(), 0);
    }
}
