//! Delayed messages, in the order in which they become due.

use std::collections::{BTreeMap, BTreeSet};

use redstart_log::{Position, SegmentId};
use rustc_hash::FxHashMap;

use crate::{
    Entry, QueueKey, Timestamp, TopicId,
    codec::{Malformed, Put, Take},
    record::Stored,
    transaction::count_down,
};

/// When a timer is due, and which it is: the position of the record that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimerKey {
    pub due: Timestamp,
    pub id: Position,
}

/// Where the message goes when due. Kept small: there may be tens of millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timer {
    pub queue: QueueKey,
    pub position: Position,
    pub size: u32,
    pub tag_hash: i32,
    pub group_hash: u32,
    pub attempt: u16,
    pub priority: u8,
    pub state: TimerState,
}

/// A proposal that concerns the timer and is not yet durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TimerState {
    #[default]
    Waiting,
    Firing,
    Recalling,
}

impl Timer {
    pub const LEN: usize = 35;

    pub fn of(stored: &Stored) -> Timer {
        Timer {
            queue: stored.queue,
            position: stored.position,
            size: stored.size,
            tag_hash: stored.tag_hash,
            group_hash: stored.group_hash,
            attempt: 0,
            priority: stored.priority,
            state: TimerState::Waiting,
        }
    }

    /// The queue entry of the message once it is due.
    pub fn entry(&self, visible_at: Timestamp) -> Entry {
        Entry {
            position: self.position,
            size: self.size,
            stored_at: visible_at,
            tag_hash: self.tag_hash,
            group_hash: self.group_hash,
            attempt: self.attempt,
            priority: self.priority,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.queue.topic.0);
        out.put_u32(self.queue.queue.0);
        out.put_u64(self.position.0);
        out.put_u32(self.size);
        out.put_u32(self.tag_hash as u32);
        out.put_u32(self.group_hash);
        out.put_u16(self.attempt);
        out.put_u8(self.priority);
        out.put_u32(0);
    }

    pub fn decode(take: &mut Take<'_>) -> Result<Timer, Malformed> {
        let queue = crate::record::take_queue(take)?;
        let timer = Timer {
            queue,
            position: Position(take.u64()?),
            size: take.u32()?,
            tag_hash: take.u32()? as i32,
            group_hash: take.u32()?,
            attempt: take.u16()?,
            priority: take.u8()?,
            state: TimerState::Waiting,
        };
        take.u32()?;
        Ok(timer)
    }
}

/// All timers that have not fired.
///
/// They need no place in a checkpoint: each segment's index lists the timers made in it, and those above the
/// watermark that were not recalled are the live ones. Only the few made below the watermark (due so soon that
/// others fired first) are written out.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    live: BTreeMap<TimerKey, Timer>,
    /// The largest key that has fired.
    watermark: TimerKey,
    /// Cancelled timers above the watermark, with the newest segment whose index may list them: when that is gone, nothing
    /// is left that a start could restore them from. `None` while a start has not found one.
    recalled: BTreeMap<TimerKey, Option<SegmentId>>,
    /// Where the next search for due timers begins: everything before it is firing.
    proposed: TimerKey,
    /// Live timers that share a message with a queue, or whose message lies in an older segment than the record that
    /// made them, so that the index of the message's segment does not list them.
    lent: BTreeSet<(Position, TimerKey)>,
    /// How many there are.
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

    pub fn get(&self, key: TimerKey) -> Option<&Timer> {
        self.live.get(&key)
    }

    /// Adds a timer whose record is in `segment`.
    pub fn insert(&mut self, key: TimerKey, timer: Timer, segment: SegmentId) {
        if key < self.proposed {
            self.proposed = key;
        }
        if timer.attempt > 0 || timer.position.0 < segment.0 {
            self.lent.insert((timer.position, key));
        }
        *self.by_topic.entry(timer.queue.topic).or_default() += 1;
        if let Some(old) = self.live.insert(key, timer) {
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
    pub fn restore(&mut self, key: TimerKey, timer: Timer, segment: SegmentId) {
        if let Some(listed_in) = self.recalled.get_mut(&key) {
            *listed_in = Some(segment).max(*listed_in);
        } else if key > self.watermark {
            self.forget(key);
            self.insert(key, timer, segment);
        }
    }

    /// Timers that have not fired and need a message between two positions that was not stored for them.
    pub fn lent_within(&self, from: Position, end: Position) -> impl Iterator<Item = (TimerKey, Timer)> {
        let range = (from, TimerKey::default())..(end, TimerKey::default());
        self.lent.range(range).filter_map(|(_, key)| Some((*key, *self.live.get(key)?)))
    }

    /// Timers that have not fired and whose message is between two positions. Looks at all timers: only for a segment
    /// whose index is lost.
    pub fn all_within(&self, from: Position, end: Position) -> Vec<(TimerKey, Timer)> {
        let within = |timer: &Timer| (from..end).contains(&timer.position);
        self.live.iter().filter(|(_, timer)| within(timer)).map(|(key, timer)| (*key, *timer)).collect()
    }

    /// Retries that are due after `at`.
    pub fn retries_after(&self, at: Timestamp) -> impl Iterator<Item = TimerKey> {
        let retries = self.lent.iter().map(|(_, key)| *key).filter(move |key| key.due > at);
        retries.filter(|key| self.live.get(key).is_some_and(|timer| timer.attempt > 0))
    }

    /// Timers that are due after `at`.
    pub fn after(&self, at: Timestamp) -> impl Iterator<Item = TimerKey> {
        self.live.range(TimerKey { due: at, id: Position(u64::MAX) }..).map(|(key, _)| *key)
    }

    fn forget(&mut self, key: TimerKey) -> bool {
        let Some(timer) = self.live.remove(&key) else { return false };
        self.lent.remove(&(timer.position, key));
        count_down(&mut self.by_topic, timer.queue.topic);
        true
    }

    pub fn mark(&mut self, key: TimerKey, state: TimerState) {
        if let Some(timer) = self.live.get_mut(&key) {
            timer.state = state;
        }
        if state == TimerState::Waiting {
            self.proposed = self.proposed.min(key);
        }
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
    pub fn relocate(&mut self, key: TimerKey, copy: Timer, segment: SegmentId) {
        match self.live.get_mut(&key) {
            Some(timer) => {
                self.lent.remove(&(timer.position, key));
                timer.position = copy.position;
                timer.size = copy.size;
            }
            None => self.restore(key, copy, segment),
        }
    }

    /// Whether a timer should have fired before others that have.
    pub fn is_late(&self, key: TimerKey) -> bool {
        key <= self.watermark
    }

    /// Due timers that nothing has been proposed for, at most `max`; they count as firing from here on.
    pub fn take_due(&mut self, now: Timestamp, max: usize) -> Vec<(TimerKey, Timer)> {
        let end = TimerKey { due: now, id: Position(u64::MAX) };
        if self.proposed > end {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (key, timer) in self.live.range_mut(self.proposed..=end) {
            if due.len() == max {
                break;
            }
            self.proposed = *key;
            if timer.state == TimerState::Waiting {
                timer.state = TimerState::Firing;
                due.push((*key, *timer));
            }
        }
        due
    }

    /// When the next timer that nothing has been proposed for is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.live
            .range(self.proposed..)
            .find(|(_, timer)| timer.state == TimerState::Waiting)
            .map(|(key, _)| key.due)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        crate::record::put_timer_key(self.watermark, out);
        out.put_u32(self.recalled.len() as u32);
        for key in self.recalled.keys() {
            crate::record::put_timer_key(*key, out);
        }
        let stragglers: Vec<_> = self.live.range(..=self.watermark).collect();
        out.put_u32(stragglers.len() as u32);
        for (key, timer) in stragglers {
            crate::record::put_timer_key(*key, out);
            timer.encode(out);
        }
    }

    pub fn decode(take: &mut Take<'_>) -> Result<Timers, Malformed> {
        use crate::record::take_timer_key;
        let watermark = take_timer_key(take)?;
        let recalled = (0..take.count(16)?)
            .map(|_| Ok((take_timer_key(take)?, None)))
            .collect::<Result<_, Malformed>>()?;
        let live: BTreeMap<TimerKey, Timer> = (0..take.count(16 + Timer::LEN)?)
            .map(|_| Ok((take_timer_key(take)?, Timer::decode(take)?)))
            .collect::<Result<_, _>>()?;
        // Where their records are is not known; they are few and about to fire.
        let lent = live.iter().map(|(key, timer)| (timer.position, *key)).collect();
        let mut by_topic = FxHashMap::default();
        for timer in live.values() {
            *by_topic.entry(timer.queue.topic).or_default() += 1;
        }
        Ok(Timers { live, watermark, recalled, proposed: TimerKey::default(), lent, by_topic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(position: u64) -> Timer {
        Timer {
            queue: QueueKey::default(),
            position: Position(position),
            size: 1,
            tag_hash: 0,
            group_hash: 0,
            attempt: 0,
            priority: 0,
            state: TimerState::Waiting,
        }
    }

    #[test]
    fn a_recall_is_forgotten_with_the_last_segment_that_lists_its_timer() {
        let key = |id| TimerKey { due: Timestamp(1_000), id: Position(id) };
        let mut timers = Timers::default();
        for id in [1, 2] {
            timers.insert(key(id), timer(id), SegmentId(0));
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
        let mut timers = Timers::decode(&mut Take::new(&bytes, "timers")).unwrap();
        timers.restore(key(2), timer(2), SegmentId(100));
        timers.restored();
        assert_eq!((timers.len(), timers.recalled()), (0, 1), "the one in an index stays cancelled");
        timers.forget_segment(SegmentId(100));
        assert_eq!(timers.recalled(), 0);
    }
}
