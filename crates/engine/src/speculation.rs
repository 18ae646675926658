//! What has been proposed and is not yet committed.
//!
//! The derived [`State`](crate::state::State) changes only by records. Everything that the owner has to remember of proposals
//! until their frame is committed stands here: offsets and ids that were given out, and what a decision on its way is
//! about to end. Losing all of it leaves the state as it was, which is what happens to an owner that no longer leads.

use std::collections::hash_map::Entry;

use redstart_log::{Position, SegmentId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    GroupId, GroupName, QueueKey, QueueOffset, Ticket, Timestamp, TopicId, TopicName,
    message_ref::MessageRef,
    pop::FlightKey,
    timer::{TimerKey, Timers},
};

#[derive(Debug, Default)]
pub(crate) struct Speculation {
    /// The offset that the next message proposed for a queue gets, if that is behind the queue's end. A place that is not is
    /// left from messages that are visible by now.
    offsets: FxHashMap<QueueKey, QueueOffset>,
    /// At so many places those that are left over are looked for.
    offsets_max: usize,
    topic_next: u32,
    group_next: u32,
    /// Names under creation.
    pub creating_topics: FxHashSet<TopicName>,
    pub creating_groups: FxHashSet<GroupName>,
    pub deleting_topics: FxHashSet<TopicId>,
    pub deleting_groups: FxHashSet<GroupId>,
    pub timers: TimerEnds,
    /// Due messages have been proposed for their queues.
    pub linking: bool,
    /// Transactions whose end has been proposed.
    pub ending_transactions: FxHashSet<Position>,
    pub dying: Dying,
    /// Dedup keys of proposed messages, and whose ticket they have.
    pub dedup_keys: FxHashMap<u128, Ticket>,
    /// The newest segment whose removal has been proposed.
    pub retiring: Option<SegmentId>,
}

/// Below this many places none is looked for that is left over.
const OFFSETS_MIN: usize = 4096;

impl Speculation {
    /// Forgets places that are left over, if there may be many. `end` is the end of a queue, if there is such a queue.
    pub fn prune_offsets(&mut self, end: impl Fn(QueueKey) -> Option<QueueOffset>) {
        if self.offsets.len() >= self.offsets_max.max(OFFSETS_MIN) {
            self.offsets.retain(|key, next| end(*key).is_some_and(|end| *next > end));
            self.offsets_max = 2 * self.offsets.len();
        }
    }

    /// Gives out the next offset of a queue whose messages end at `end`.
    pub fn propose_offset(&mut self, key: QueueKey, end: QueueOffset) -> QueueOffset {
        let next = self.offsets.entry(key).or_default();
        let offset = end.max(*next);
        *next = offset.next();
        offset
    }

    /// Takes back proposals from `offset` on: their frame was refused.
    pub fn withdraw_offset(&mut self, key: QueueKey, offset: QueueOffset) {
        if let Some(next) = self.offsets.get_mut(&key) {
            *next = offset.min(*next);
        }
    }

    /// Whether a message has been proposed for the queue that is not visible yet.
    pub fn has_proposals(&self, key: QueueKey, end: QueueOffset) -> bool {
        self.offsets.get(&key).is_some_and(|next| *next > end)
    }

    /// The id of a new topic; `known` is the next one that no topic has.
    pub fn topic_id(&mut self, known: u32) -> TopicId {
        let id = self.topic_next.max(known);
        self.topic_next = id + 1;
        TopicId(id)
    }

    /// The id of a new group; `known` is the next one that no group has.
    pub fn group_id(&mut self, known: u32) -> GroupId {
        let id = self.group_next.max(known);
        self.group_next = id + 1;
        GroupId(id)
    }
}

/// A decision that ends a timer and is not yet committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerEnd {
    Fire,
    Recall,
}

/// Timers whose end has been proposed. Few: only those of decisions that are not yet committed.
#[derive(Debug, Default)]
pub(crate) struct TimerEnds {
    ending: FxHashMap<TimerKey, TimerEnd>,
    /// Where the next search for due timers begins: the end of every timer before it has been proposed.
    search_from: TimerKey,
}

impl TimerEnds {
    /// How a timer is about to end, if that has been proposed.
    pub fn get(&self, key: TimerKey) -> Option<TimerEnd> {
        self.ending.get(&key).copied()
    }

    /// The recall of a timer has been proposed.
    pub fn propose_recall(&mut self, key: TimerKey) {
        self.ending.insert(key, TimerEnd::Recall);
    }

    /// The decision that ends the timer has been applied.
    pub fn ended(&mut self, key: TimerKey) {
        self.ending.remove(&key);
    }

    /// The end of a timer was refused: it is due as before.
    pub fn withdraw(&mut self, key: TimerKey) {
        self.ending.remove(&key);
        self.added(key);
    }

    /// There is a new timer.
    pub fn added(&mut self, key: TimerKey) {
        self.search_from = self.search_from.min(key);
    }

    /// Due timers whose end has not been proposed, at most `max`; the caller proposes it.
    pub fn take_due(&mut self, timers: &Timers, now: Timestamp, max: usize) -> Vec<(TimerKey, MessageRef)> {
        let end = TimerKey { due: now, id: Position(u64::MAX) };
        if self.search_from > end {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (key, message) in timers.range(self.search_from, end) {
            if due.len() == max {
                break;
            }
            self.search_from = key;
            if let Entry::Vacant(ending) = self.ending.entry(key) {
                ending.insert(TimerEnd::Fire);
                due.push((key, *message));
            }
        }
        due
    }

    /// When the next timer whose end has not been proposed is due.
    pub fn next_due(&self, timers: &Timers) -> Option<Timestamp> {
        let end = TimerKey { due: Timestamp::MAX, id: Position(u64::MAX) };
        let mut keys = timers.range(self.search_from, end).map(|(key, _)| key);
        keys.find(|key| !self.ending.contains_key(key)).map(|key| key.due)
    }
}

/// Messages in flight whose end has been proposed: their dead letter, or their way to the retry topic. No consumer gets them
/// until then.
///
/// A fact that takes messages out of flight leaves these: the decision before it in the log ends them. If that decision is
/// refused instead, the fact is all that the log has; so what it would have taken is remembered.
#[derive(Debug, Default)]
pub(crate) struct Dying {
    /// Whether a fact since would have ended the flight.
    passed: FxHashMap<FlightKey, bool>,
}

impl Dying {
    pub fn contains(&self, flight: FlightKey) -> bool {
        !self.passed.is_empty() && self.passed.contains_key(&flight)
    }

    pub fn insert(&mut self, flight: FlightKey) {
        self.passed.insert(flight, false);
    }

    /// The decision was applied or refused. Says whether a fact since would have ended the flight.
    pub fn remove(&mut self, flight: FlightKey) -> bool {
        self.passed.remove(&flight).unwrap_or(false)
    }

    /// A fact would have ended the flight.
    pub fn pass(&mut self, flight: FlightKey) {
        if let Some(passed) = self.passed.get_mut(&flight) {
            *passed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_each_other_and_are_given_again_after_a_refusal() {
        let (mut speculation, key) = (Speculation::default(), QueueKey::default());
        let mut give = |end| speculation.propose_offset(key, QueueOffset(end)).0;
        assert_eq!([give(5), give(5), give(6)], [5, 6, 7]);
        speculation.withdraw_offset(key, QueueOffset(6));
        assert!(speculation.has_proposals(key, QueueOffset(5)));
        assert!(!speculation.has_proposals(key, QueueOffset(6)));
        assert_eq!(speculation.propose_offset(key, QueueOffset(6)).0, 6);
        // What another owner stored comes before what this one gives out.
        assert_eq!(speculation.propose_offset(key, QueueOffset(20)).0, 20);
    }

    #[test]
    fn places_of_visible_messages_do_not_pile_up() {
        let mut speculation = Speculation::default();
        let key = |n| QueueKey { topic: TopicId(n), queue: crate::QueueId(0) };
        for n in 0..3 * OFFSETS_MIN as u32 {
            // Every hundredth message is not visible yet.
            speculation.prune_offsets(|key| Some(QueueOffset(u64::from(key.topic.0 % 100 != 0))));
            speculation.propose_offset(key(n), QueueOffset(0));
        }
        assert!(speculation.offsets.len() <= OFFSETS_MIN + OFFSETS_MIN / 10, "{}", speculation.offsets.len());
        assert!(
            (0..3 * OFFSETS_MIN as u32)
                .step_by(100)
                .all(|n| speculation.has_proposals(key(n), QueueOffset(0)))
        );
    }

    #[test]
    fn ids_are_never_given_twice() {
        let mut speculation = Speculation::default();
        assert_eq!([speculation.topic_id(3).0, speculation.topic_id(3).0], [3, 4]);
        assert_eq!([speculation.topic_id(9).0, speculation.group_id(2).0], [9, 2]);
    }
}
