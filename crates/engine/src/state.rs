//! Everything that is derived from the log, and how each record changes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redstart_log::{Position, SegmentId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Entry, GroupId, GroupName, QueueKey, QueueOffset, Timestamp, TopicId, TopicName,
    config::Transactions as TransactionConfig,
    dedup::{DedupKeys, First, Placed},
    engine::Settings,
    group::Group,
    index::Indexes,
    lite::Lites,
    pop::Progress,
    record::{Cause, Decision, Fact, Left, Link, Placement, Stored, TransactionEnd},
    timer::{Timer, TimerKey, Timers},
    topic::Topic,
    transaction::{Half, Transactions},
};

/// A group's place in every queue of a topic.
#[derive(Debug, Default)]
pub(crate) struct Subscription {
    pub queues: Vec<Progress>,
    /// Where the next pop begins to look.
    pub round_robin: u32,
}

/// The derived state. Everything here comes back by replaying the log.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub topics: FxHashMap<TopicId, Topic>,
    pub topic_names: HashMap<TopicName, TopicId>,
    pub topic_next: u32,
    pub groups: FxHashMap<GroupId, Group>,
    pub group_names: HashMap<GroupName, GroupId>,
    pub group_next: u32,
    /// The retry topics of groups that have one.
    pub retry_topics: FxHashMap<GroupId, TopicId>,
    pub subscriptions: FxHashMap<(GroupId, TopicId), Subscription>,
    pub timers: Timers,
    pub transactions: Transactions,
    pub dedup: DedupKeys,
    /// Flights to look at when their time is out, also if no consumer asks: those on their last attempt are dead letters
    /// then, and those that a consumer which pulls has left behind go to the retry topic. Of these, the next one of
    /// each queue is here.
    pub last_chances: BTreeSet<(Timestamp, GroupId, QueueKey, QueueOffset)>,
    pub settings: Settings,
    /// When a message last became visible whose body lies in an older segment than its entry.
    pub last_use: BTreeMap<SegmentId, Timestamp>,
    pub lites: Lites,
}

/// The frame a record came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameContext {
    pub segment: SegmentId,
    pub timestamp: Timestamp,
}

impl FrameContext {
    /// What the clock said when something of this frame was stored. A store time that is later than the frame's own was moved
    /// up, so as not to be before an earlier message's: see `engine/time.rs`.
    fn said(self, stored_at: Timestamp) -> Timestamp {
        stored_at.min(self.timestamp)
    }
}

/// What applying a decision made known.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Queues that gained a message.
    pub grown: Vec<QueueKey>,
    /// Groups for which something became free: a lock opened.
    pub released: Vec<(GroupId, TopicId)>,
}

/// A record that does not fit the state: the log and the state have parted ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topic {} queue {}: a message at offset {found} where {expected} is next", .queue.topic.0, .queue.queue.0)]
pub struct OffsetGap {
    pub queue: QueueKey,
    pub found: QueueOffset,
    pub expected: QueueOffset,
}

/// Which parts do not have a record yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The checkpoint has it; only the segment's index is being built again.
    IndexOnly,
    Both,
}

impl Scope {
    fn state(self) -> bool {
        self == Scope::Both
    }
}

impl State {
    pub fn topic_by_name(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(self.topic_names.get(name)?)
    }

    pub fn group_by_name(&self, name: &GroupName) -> Option<&Group> {
        self.groups.get(self.group_names.get(name)?)
    }

    pub fn progress(&self, group: GroupId, queue: QueueKey) -> Option<&Progress> {
        self.subscriptions.get(&(group, queue.topic))?.queues.get(queue.queue.0 as usize)
    }

    /// The progress of a group in a queue, made at the queue's minimum when there is none yet.
    pub fn progress_mut(&mut self, group: GroupId, queue: QueueKey) -> Option<&mut Progress> {
        let topic = self.topics.get(&queue.topic)?;
        self.groups.get(&group)?;
        let queues = &mut self.subscriptions.entry((group, queue.topic)).or_default().queues;
        for n in queues.len()..=queue.queue.0 as usize {
            let min = topic.queues.get(n).map_or(QueueOffset(0), |queue| queue.min());
            queues.push(Progress::not_started(min));
        }
        queues.get_mut(queue.queue.0 as usize)
    }

    /// The progress of a group in a queue, if there is one.
    pub fn known_progress_mut(&mut self, group: GroupId, queue: QueueKey) -> Option<&mut Progress> {
        self.subscriptions.get_mut(&(group, queue.topic))?.queues.get_mut(queue.queue.0 as usize)
    }

    /// Applies one decision. `scope` tells which parts do not have it yet.
    pub fn apply(
        &mut self,
        decision: &Decision,
        frame: FrameContext,
        config: &TransactionConfig,
        indexes: &mut Indexes,
        scope: Scope,
        effects: &mut Effects,
    ) -> Result<(), OffsetGap> {
        match decision {
            Decision::Stored(stored) => self.apply_stored(stored, frame, config, indexes, scope, effects)?,
            Decision::Link(links) => {
                for link in links {
                    self.apply_link(link, frame, indexes, scope, effects)?;
                }
            }
            Decision::TransactionEnd { id, end } => {
                self.apply_transaction_end(*id, end, frame, indexes, scope, effects)?;
            }
            Decision::SendBack { due, timer, id, left } => {
                let key = TimerKey { due: *due, id: *id };
                self.add_timer(key, *timer, frame, indexes, scope);
                if scope.state() {
                    self.note_use(timer.position, frame.segment, *due, indexes);
                    if let Some(Left { group, queue, offset }) = left {
                        self.done(*group, *queue, *offset, effects);
                    }
                }
            }
            _ if !scope.state() => {}
            Decision::TopicPut { id, name, config } => {
                self.put_topic(*id, name, config.clone(), frame.timestamp);
            }
            Decision::TopicDelete { id } => self.delete_topic(*id),
            Decision::GroupPut { id, name, config } => {
                self.group_next = self.group_next.max(id.0 + 1);
                self.group_names.insert(name.clone(), *id);
                self.groups.insert(*id, Group { id: *id, name: name.clone(), config: config.clone() });
                self.note_retry_topic(&name.retry_topic());
                // With fewer retries allowed, a message may be at its last attempt already.
                self.restore_last_chances(Some(*id));
            }
            Decision::GroupDelete { id } => self.delete_group(*id),
            Decision::Recall { key } => {
                self.timers.recall(*key, frame.segment);
                self.dedup.forget(key.id);
            }
            Decision::Setting { namespace, key, value } => self.put_setting(namespace, key, value.as_deref()),
        }
        Ok(())
    }

    fn put_setting(&mut self, namespace: &str, key: &str, value: Option<&str>) {
        let settings = self.settings.entry(namespace.to_owned()).or_default();
        match value {
            Some(value) => drop(settings.insert(key.to_owned(), value.to_owned())),
            None => drop(settings.remove(key)),
        }
        self.settings.retain(|_, settings| !settings.is_empty());
    }

    fn apply_stored(
        &mut self,
        stored: &Stored,
        frame: FrameContext,
        config: &TransactionConfig,
        indexes: &mut Indexes,
        scope: Scope,
        effects: &mut Effects,
    ) -> Result<(), OffsetGap> {
        indexes.live_mut(frame.segment).add_keys(&stored.keys, stored.position);
        match (stored.cause, stored.placement) {
            (_, Placement::Visible(offset)) => {
                let entry = Timer::of(stored).entry(stored.stored_at);
                self.grow(stored.queue, offset, entry, frame, indexes, scope, effects)?;
            }
            (Cause::Relocated { id }, placement) => {
                self.apply_relocated(id, stored, placement, frame, indexes, scope);
            }
            (_, Placement::Delayed) => {
                let key = TimerKey { due: stored.deliver_at.unwrap_or_default(), id: stored.position };
                self.add_timer(key, Timer::of(stored), frame, indexes, scope);
            }
            (_, Placement::Half { check_after }) if scope.state() => {
                let half = Half {
                    message: Timer::of(stored),
                    opened_at: frame.said(stored.stored_at),
                    deliver_at: stored.deliver_at,
                    next_check: frame.said(stored.stored_at).after(check_after.min(config.open_max)),
                    checks: 0,
                    ending: false,
                };
                self.transactions.insert(stored.position, half);
            }
            (_, Placement::Half { .. }) => {}
        }
        if !scope.state() {
            return Ok(());
        }
        if let Cause::DeadLetter { group, queue, offset, held: true } = stored.cause {
            self.done(group, queue, offset, effects);
        }
        if let (Some(key), Some(topic)) = (stored.dedup, self.topics.get(&stored.queue.topic))
            && let (Cause::Send, Some(window)) = (stored.cause, topic.config.dedup_window)
        {
            let placed = match stored.placement {
                Placement::Visible(offset) => Placed::Visible(offset),
                Placement::Delayed => Placed::Delayed(stored.deliver_at.unwrap_or_default()),
                Placement::Half { .. } => Placed::Half,
            };
            let expires = frame.said(stored.stored_at).after(window);
            let first = First { queue: stored.queue, placed, position: stored.position, expires };
            self.dedup.insert(key, first, frame.timestamp);
        }
        Ok(())
    }

    fn apply_relocated(
        &mut self,
        id: Position,
        stored: &Stored,
        placement: Placement,
        frame: FrameContext,
        indexes: &mut Indexes,
        scope: Scope,
    ) {
        if let Placement::Delayed = placement {
            let key = TimerKey { due: stored.deliver_at.unwrap_or_default(), id };
            indexes.live_mut(frame.segment).timers.push((key, Timer::of(stored)));
            if scope.state() {
                self.timers.relocate(key, Timer::of(stored), frame.segment);
            }
        } else if scope.state() {
            self.transactions.relocate(id, stored.position, stored.size);
        }
    }

    fn apply_link(
        &mut self,
        link: &Link,
        frame: FrameContext,
        indexes: &mut Indexes,
        scope: Scope,
        effects: &mut Effects,
    ) -> Result<(), OffsetGap> {
        if scope.state() {
            self.timers.fired(link.key);
            self.dedup.settle(link.key.id);
            self.note_use(link.entry.position, frame.segment, link.entry.stored_at, indexes);
        }
        self.grow(link.queue, link.offset, link.entry, frame, indexes, scope, effects)
    }

    fn apply_transaction_end(
        &mut self,
        id: Position,
        end: &TransactionEnd,
        frame: FrameContext,
        indexes: &mut Indexes,
        scope: Scope,
        effects: &mut Effects,
    ) -> Result<(), OffsetGap> {
        if scope.state() {
            self.transactions.end(id, *end != TransactionEnd::Rollback);
        }
        match end {
            TransactionEnd::Rollback => {
                if scope.state() {
                    self.dedup.forget(id);
                }
                Ok(())
            }
            TransactionEnd::Visible { queue, offset, entry } => {
                if scope.state() {
                    self.dedup.settle(id);
                    self.note_use(entry.position, frame.segment, entry.stored_at, indexes);
                }
                self.grow(*queue, *offset, *entry, frame, indexes, scope, effects)
            }
            TransactionEnd::Delayed { due, timer } => {
                self.add_timer(TimerKey { due: *due, id }, *timer, frame, indexes, scope);
                Ok(())
            }
        }
    }

    fn add_timer(
        &mut self,
        key: TimerKey,
        timer: Timer,
        frame: FrameContext,
        indexes: &mut Indexes,
        scope: Scope,
    ) {
        indexes.live_mut(frame.segment).timers.push((key, timer));
        if scope.state() {
            self.timers.insert(key, timer, frame.segment);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an entry, its place, and where to record it")]
    fn grow(
        &mut self,
        key: QueueKey,
        offset: QueueOffset,
        entry: Entry,
        frame: FrameContext,
        indexes: &mut Indexes,
        scope: Scope,
        effects: &mut Effects,
    ) -> Result<(), OffsetGap> {
        if scope.state() {
            // A topic deleted meanwhile: its messages have nowhere to go.
            let Some(topic) = self.topics.get_mut(&key.topic) else { return Ok(()) };
            let queue = topic.queue_mut(key.queue);
            if offset != queue.end() {
                return Err(OffsetGap { queue: key, found: offset, expected: queue.end() });
            }
            queue.grow(frame.segment);
            self.lites.touch(key.topic, frame.said(entry.stored_at));
            effects.grown.push(key);
        }
        indexes.live_mut(frame.segment).push(key, offset, entry);
        Ok(())
    }

    /// A message became visible long after it was stored: its segment is kept for as long as a fresh one.
    fn note_use(&mut self, position: Position, entry_in: SegmentId, at: Timestamp, indexes: &Indexes) {
        if let Some(segment) = indexes.segment_of(position).filter(|segment| *segment < entry_in) {
            let last = self.last_use.entry(segment).or_default();
            *last = (*last).max(at);
        }
    }

    /// Messages that have left the log are no longer in flight, and no message waits for their locks. Returns the groups that
    /// may get something which they could not get before.
    pub fn raise_progress(&mut self) -> Vec<(GroupId, TopicId)> {
        let mut freed = Vec::new();
        for ((group, id), subscription) in &mut self.subscriptions {
            let Some(topic) = self.topics.get(id) else { continue };
            let mut raised = false;
            for (progress, queue) in subscription.queues.iter_mut().zip(&topic.queues) {
                if progress.low_watermark() < queue.min() {
                    raised |= progress.raise_to(queue.min());
                }
            }
            if raised {
                freed.push((*group, *id));
            }
        }
        freed
    }

    fn put_topic(&mut self, id: TopicId, name: &TopicName, config: crate::TopicConfig, at: Timestamp) {
        self.lites.add(id, name, at);
        self.topic_next = self.topic_next.max(id.0 + 1);
        self.topic_names.insert(name.clone(), id);
        self.note_retry_topic(name);
        match self.topics.get_mut(&id) {
            Some(topic) => topic.config = config,
            None => {
                self.topics.insert(id, Topic::new(id, name.clone(), config));
            }
        }
    }

    /// Finds the group of a retry topic, when both are there.
    pub fn note_retry_topic(&mut self, name: &TopicName) {
        let group = name.retried_group().and_then(|group| self.group_names.get(group));
        if let (Some(group), Some(topic)) = (group, self.topic_names.get(name)) {
            self.retry_topics.insert(*group, *topic);
        }
    }

    /// Its lite topics go with it.
    fn delete_topic(&mut self, id: TopicId) {
        let Some(name) = self.topics.get(&id).map(|topic| &topic.name) else { return };
        let mut gone: FxHashSet<TopicId> = self.lites.children(name).into_iter().collect();
        gone.insert(id);
        self.retry_topics.retain(|_, topic| *topic != id);
        for id in &gone {
            self.lites.remove(*id);
            if let Some(topic) = self.topics.remove(id) {
                self.topic_names.remove(&topic.name);
            }
        }
        // Of many lite topics one goes after the other: looking at every subscription each time would take long.
        if gone.len().saturating_mul(self.groups.len()) < self.subscriptions.len() {
            for group in self.groups.keys() {
                for id in &gone {
                    self.subscriptions.remove(&(*group, *id));
                }
            }
        } else {
            self.subscriptions.retain(|(_, topic), _| !gone.contains(topic));
        }
    }

    fn delete_group(&mut self, id: GroupId) {
        if let Some(group) = self.groups.remove(&id) {
            self.group_names.remove(&group.name);
        }
        self.retry_topics.remove(&id);
        self.subscriptions.retain(|(group, _), _| *group != id);
    }

    /// Applies one fact: on the owner at once, elsewhere when it is read back. What it names may be gone by now.
    pub fn apply_fact(&mut self, fact: &Fact, effects: &mut Effects) {
        match fact {
            Fact::Pop(pop) => {
                if let Some(progress) = self.progress_mut(pop.group, pop.queue) {
                    progress.apply_pop(pop);
                    let offsets: Vec<QueueOffset> = pop.delivered.iter().map(|d| d.offset).collect();
                    self.note_last_chances(pop.group, pop.queue, &offsets);
                }
            }
            Fact::Ack { group, queue, reason: _, offsets } => {
                for offset in offsets {
                    self.done(*group, *queue, *offset, effects);
                }
            }
            Fact::Invisible { group, queue, offset, seq, visible_at, waiting, suspended } => {
                if let Some(progress) = self.progress_mut(*group, *queue) {
                    if *suspended {
                        progress.forgive(*offset);
                    }
                    progress.change_invisible(*offset, *seq, *visible_at, *waiting);
                    self.note_last_chances(*group, *queue, &[*offset]);
                    effects.released.push((*group, queue.topic));
                }
            }
            Fact::Offset { group, queue, offset } => {
                if let Some(progress) = self.progress_mut(*group, *queue) {
                    if progress.commit(*offset) {
                        effects.released.push((*group, queue.topic));
                    }
                    let first = progress.next_due(None);
                    self.last_chances.extend(first.map(|(at, offset)| (at, *group, *queue, offset)));
                }
            }
            Fact::Reset { group, queue, offset } => {
                if let Some(progress) = self.progress_mut(*group, *queue) {
                    progress.reset(*offset);
                    effects.released.push((*group, queue.topic));
                }
            }
            Fact::Checked { id, checks, next } => self.transactions.checked(*id, *checks, *next),
            Fact::Subscribed { group, topic, offsets } => {
                if self.topics.contains_key(topic) && self.groups.contains_key(group) {
                    let queues = offsets.iter().map(|offset| Progress::starting_at(*offset)).collect();
                    let subscription = Subscription { queues, round_robin: 0 };
                    self.subscriptions.entry((*group, *topic)).or_insert(subscription);
                }
            }
        }
    }

    fn done(&mut self, group: GroupId, queue: QueueKey, offset: QueueOffset, effects: &mut Effects) {
        let Some(subscription) = self.subscriptions.get_mut(&(group, queue.topic)) else { return };
        let Some(progress) = subscription.queues.get_mut(queue.queue.0 as usize) else { return };
        if progress.done(offset) && (std::mem::take(&mut progress.full) || progress.locks.is_some()) {
            effects.released.push((group, queue.topic));
        }
    }

    fn note_last_chances(&mut self, group: GroupId, queue: QueueKey, offsets: &[QueueOffset]) {
        let Some(max) = self.groups.get(&group).map(|group| group.config.attempts_max()) else { return };
        let Some(progress) = self
            .subscriptions
            .get(&(group, queue.topic))
            .and_then(|subscription| subscription.queues.get(queue.queue.0 as usize))
        else {
            return;
        };
        for offset in offsets {
            if let Some(flight) = progress.flight(*offset)
                && (u32::from(flight.attempt) >= max || progress.is_left_behind(*offset))
            {
                self.last_chances.insert((flight.visible_at, group, queue, *offset));
            }
        }
    }

    /// Rebuilds what follows from the flights and the configuration, for one group or all.
    pub fn restore_last_chances(&mut self, only: Option<GroupId>) {
        let flights: Vec<(GroupId, QueueKey, Vec<QueueOffset>)> = self
            .subscriptions
            .iter()
            .filter(|((group, _), _)| only.is_none_or(|only| only == *group))
            .flat_map(|((group, topic), subscription)| {
                subscription.queues.iter().enumerate().map(|(n, progress)| {
                    let queue = QueueKey { topic: *topic, queue: crate::QueueId(n as u32) };
                    (*group, queue, progress.flights().map(|(offset, _)| offset).collect())
                })
            })
            .collect();
        for (group, queue, offsets) in flights {
            self.note_last_chances(group, queue, &offsets);
        }
    }
}
