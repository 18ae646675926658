//! How the records of the log change the state, and the index of the segment that they are in.

use std::time::Duration;

use redstart_log::{Position, SegmentId};

use crate::{
    Entry, GroupId, QueueKey, QueueOffset, Timestamp,
    dedup::{First, Placed},
    group::Group,
    index::Indexes,
    message_ref::MessageRef,
    open_transactions::Half,
    planted,
    pop::{FlightKey, Progress, Spared},
    record::{Cause, Decision, Fact, Link, Placement, Stored, TransactionEnd},
    speculation::Dying,
    state::{Effects, FinalAttempt, State, Subscription},
    timer::TimerKey,
};

/// The frame a record came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameContext {
    pub segment: SegmentId,
    pub timestamp: Timestamp,
}

impl FrameContext {
    /// The clock's time when something of this frame was stored. A store time that is later than the frame's own was moved
    /// up, so as not to be before an earlier message's: see `ops/time.rs`.
    fn clock_time(self, stored_at: Timestamp) -> Timestamp {
        stored_at.min(self.timestamp)
    }
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
    StateAndIndex,
}

/// Applies the decisions of one frame, in the order of the log.
pub(crate) struct Apply<'a> {
    pub state: &'a mut State,
    pub indexes: &'a mut Indexes,
    pub frame: FrameContext,
    pub scope: Scope,
    pub effects: &'a mut Effects,
}

impl Apply<'_> {
    /// Applies one decision. An error means that nothing after it may be applied.
    pub fn decision(&mut self, decision: &Decision) -> Result<(), OffsetGap> {
        match decision {
            Decision::Stored(stored) => self.stored(stored)?,
            Decision::Link(links) => {
                for link in links {
                    self.link(link)?;
                }
            }
            Decision::Barrier => {}
            Decision::TransactionEnd { id, end } => self.transaction_end(*id, end)?,
            Decision::SendBack { due, message, id, left } => {
                self.add_timer(TimerKey { due: *due, id: *id }, *message);
                if self.changes_state() {
                    self.note_use(message.position, *due);
                    if let Some(left) = left {
                        self.state.done(*left, self.effects);
                    }
                }
            }
            _ if !self.changes_state() => {}
            Decision::TopicPut { id, name, config } => {
                self.state.put_topic(*id, name, config.clone(), self.frame.timestamp);
            }
            Decision::TopicDelete { id } => self.state.delete_topic(*id),
            Decision::GroupPut { id, name, config } => {
                let (name, config) = (name.clone(), config.clone());
                let freed = self.state.put_group(Group { id: *id, name, config });
                self.effects.released.extend(freed);
            }
            Decision::GroupDelete { id } => self.state.delete_group(*id),
            Decision::Recall { key } => {
                self.state.timers.recall(*key, self.frame.segment);
                self.state.dedup.forget(key.id);
            }
            Decision::Setting { namespace, key, value } => {
                self.state.put_setting(namespace, key, value.as_deref());
            }
            Decision::Retire { segment } => {
                self.indexes.forget_until(*segment);
                let freed = self.state.retire(*segment);
                self.effects.retired.extend(freed);
            }
        }
        Ok(())
    }

    fn changes_state(&self) -> bool {
        self.scope == Scope::StateAndIndex
    }

    fn stored(&mut self, stored: &Stored) -> Result<(), OffsetGap> {
        self.indexes.live_mut(self.frame.segment).add_keys(&stored.keys, stored.position);
        match (stored.cause, stored.placement) {
            (_, Placement::Visible(offset)) => {
                let entry = MessageRef::of(stored).entry(stored.stored_at);
                self.grow(stored.queue, offset, entry)?;
            }
            (Cause::Relocated { id }, placement) => self.relocated(id, stored, placement),
            (_, Placement::Delayed) => {
                let key = TimerKey { due: stored.deliver_at.unwrap_or_default(), id: stored.position };
                self.add_timer(key, MessageRef::of(stored));
            }
            (_, Placement::Half { check_after }) if self.changes_state() => {
                let opened_at = self.frame.clock_time(stored.stored_at);
                let half = Half {
                    message: MessageRef::of(stored),
                    opened_at,
                    deliver_at: stored.deliver_at,
                    next_check: opened_at.after(planted::check_after(self.state, check_after)),
                    checks: 0,
                };
                self.state.transactions.insert(stored.position, half);
            }
            (_, Placement::Half { .. }) => {}
        }
        if !self.changes_state() {
            return Ok(());
        }
        if let Cause::DeadLetter { flight, in_flight: true } = stored.cause {
            self.state.done(flight, self.effects);
        }
        self.remember_dedup_key(stored);
        Ok(())
    }

    fn remember_dedup_key(&mut self, stored: &Stored) {
        if let (Some(key), Some(topic)) = (stored.dedup, self.state.topics.get(&stored.queue.topic))
            && let (Cause::Send, Some(window)) = (stored.cause, topic.config.dedup_window)
        {
            let placed = match stored.placement {
                Placement::Visible(offset) => Placed::Visible(offset),
                Placement::Delayed => Placed::Delayed(stored.deliver_at.unwrap_or_default()),
                Placement::Half { .. } => Placed::Half,
            };
            let expires = self.frame.clock_time(stored.stored_at).after(window);
            let first = First { queue: stored.queue, placed, position: stored.position, expires };
            self.state.dedup.insert(key, first);
        }
    }

    fn relocated(&mut self, id: Position, stored: &Stored, placement: Placement) {
        if let Placement::Delayed = placement {
            let key = TimerKey { due: stored.deliver_at.unwrap_or_default(), id };
            self.indexes.live_mut(self.frame.segment).timers.push((key, MessageRef::of(stored)));
            if self.changes_state() {
                self.state.timers.relocate(key, MessageRef::of(stored), self.frame.segment);
                self.effects.timer_added(key);
            }
        } else if self.changes_state() {
            self.state.transactions.relocate(id, stored.position, stored.size);
        }
    }

    fn link(&mut self, link: &Link) -> Result<(), OffsetGap> {
        if self.changes_state() {
            self.state.timers.fired(link.key);
            self.state.dedup.made_visible(link.key.id);
            self.note_use(link.entry.position, link.entry.stored_at);
        }
        self.grow(link.queue, link.offset, link.entry)
    }

    fn transaction_end(&mut self, id: Position, end: &TransactionEnd) -> Result<(), OffsetGap> {
        if self.changes_state() {
            self.state.transactions.end(id, *end != TransactionEnd::Rollback);
        }
        match end {
            TransactionEnd::Rollback => {
                if self.changes_state() {
                    self.state.dedup.forget(id);
                }
                Ok(())
            }
            TransactionEnd::Visible { queue, offset, entry } => {
                if self.changes_state() {
                    self.state.dedup.made_visible(id);
                    self.note_use(entry.position, entry.stored_at);
                }
                self.grow(*queue, *offset, *entry)
            }
            TransactionEnd::Delayed { due, message } => {
                self.add_timer(TimerKey { due: *due, id }, *message);
                Ok(())
            }
        }
    }

    fn add_timer(&mut self, key: TimerKey, message: MessageRef) {
        self.indexes.live_mut(self.frame.segment).timers.push((key, message));
        if self.changes_state() {
            self.state.timers.insert(key, message, self.frame.segment);
            self.effects.timer_added(key);
        }
    }

    /// A queue gets its next entry.
    fn grow(&mut self, key: QueueKey, offset: QueueOffset, entry: Entry) -> Result<(), OffsetGap> {
        if self.changes_state() {
            // A topic deleted meanwhile: its messages have nowhere to go.
            let Some(topic) = self.state.topics.get_mut(&key.topic) else { return Ok(()) };
            let queue = topic.queue_mut(key.queue);
            if offset != queue.end() {
                return Err(OffsetGap { queue: key, found: offset, expected: queue.end() });
            }
            queue.grow(self.frame.segment);
            self.state.lite_topics.touch(key.topic, self.frame.clock_time(entry.stored_at));
            self.effects.grown.push(key);
        }
        self.indexes.live_mut(self.frame.segment).push(key, offset, entry);
        Ok(())
    }

    /// A message became visible long after it was stored: its segment is kept for as long as a fresh one.
    fn note_use(&mut self, position: Position, at: Timestamp) {
        let segment = self.indexes.segment_of(position);
        if let Some(segment) = segment.filter(|segment| *segment < self.frame.segment) {
            let last = self.state.last_use.entry(segment).or_default();
            *last = (*last).max(at);
        }
    }
}

/// The dying flights of one group in one queue.
struct DyingIn<'a> {
    dying: &'a mut Dying,
    group: GroupId,
    queue: QueueKey,
}

impl DyingIn<'_> {
    fn flight(&self, offset: QueueOffset) -> FlightKey {
        FlightKey { group: self.group, queue: self.queue, offset }
    }
}

impl Spared for DyingIn<'_> {
    fn is_dying(&self, offset: QueueOffset) -> bool {
        self.dying.contains(self.flight(offset))
    }

    fn pass(&mut self, offset: QueueOffset) {
        self.dying.pass(self.flight(offset));
    }
}

impl State {
    /// Applies one fact: on the owner at once, elsewhere when it is read back. What it names may be gone by now.
    ///
    /// The owner applies a fact before the decisions that are on their way, which stand before it in the log. Both orders
    /// must lead to the same state. So a fact leaves alone what such a decision ends (`dying`), and brings nothing
    /// back that has left the log.
    pub fn apply_fact(&mut self, fact: &Fact, dying: &mut Dying, effects: &mut Effects) {
        match fact {
            Fact::Pop(pop) => {
                if let Some((progress, min)) = self.progress_mut(pop.group, pop.queue) {
                    progress.apply_pop(pop);
                    if pop.lowest() < min {
                        progress.raise_to(min);
                    }
                    let offsets: Vec<QueueOffset> = pop.delivered.iter().map(|d| d.offset).collect();
                    self.note_final_attempts(pop.group, pop.queue, &offsets);
                }
            }
            Fact::Ack { group, queue, reason: _, offsets } => {
                for offset in offsets {
                    self.done(FlightKey { group: *group, queue: *queue, offset: *offset }, effects);
                }
            }
            Fact::Invisible { group, queue, offset, seq, visible_at, given_back, uncounted } => {
                if let Some((progress, _)) = self.progress_mut(*group, *queue) {
                    if *uncounted {
                        progress.uncount(*offset);
                    }
                    progress.change_invisible(*offset, *seq, *visible_at, *given_back);
                    self.note_final_attempts(*group, *queue, &[*offset]);
                    effects.released.push((*group, queue.topic));
                }
            }
            Fact::Offset { group, queue, offset } => {
                let dying = DyingIn { dying, group: *group, queue: *queue };
                if let Some((progress, min)) = self.progress_mut(*group, *queue) {
                    if progress.commit(*offset, dying) {
                        effects.released.push((*group, queue.topic));
                    }
                    if *offset < min {
                        progress.raise_to(min);
                    }
                    let first = progress.next_due(None);
                    self.final_attempts.extend(first.map(|first| FinalAttempt::of(*group, *queue, first)));
                }
            }
            Fact::Reset { group, queue, offset } => {
                let dying = DyingIn { dying, group: *group, queue: *queue };
                if let Some((progress, min)) = self.progress_mut(*group, *queue) {
                    progress.reset(*offset, dying);
                    if *offset < min {
                        progress.raise_to(min);
                    }
                    effects.released.push((*group, queue.topic));
                }
            }
            Fact::Checked { id, checks, next } => self.transactions.checked(*id, *checks, *next),
            Fact::Subscribed { group, topic, offsets } => {
                let Some(found) = self.topics.get(topic).filter(|_| self.groups.contains_key(group)) else {
                    return;
                };
                let min = |n: usize| found.queues.get(n).map_or(QueueOffset(0), |queue| queue.min());
                let starts = offsets.iter().enumerate().map(|(n, offset)| min(n).max(*offset));
                let queues = starts.map(Progress::starting_at).collect();
                let subscription = Subscription { queues, round_robin: 0 };
                self.subscriptions.entry((*group, *topic)).or_insert(subscription);
            }
            Fact::KeysExpired { until } => self.dedup.expire(*until),
            Fact::TimesMoved { now, ahead, before } => self.move_times(*now, *ahead, *before, effects),
        }
    }

    /// The owner's clock was `ahead` until it said `now`: a time that was set relative to the wrong time is moved to be as
    /// far after the right one. Transactions that began at `before` or behind it were not known yet.
    fn move_times(&mut self, now: Timestamp, ahead: Duration, before: Position, effects: &mut Effects) {
        let earlier = |at| moved_back(at, ahead, now);
        for ((group, topic), subscription) in &mut self.subscriptions {
            let mut moved = false;
            for progress in &mut subscription.queues {
                moved |= progress.move_times(earlier);
            }
            if moved {
                effects.released.push((*group, *topic));
            }
        }
        self.final_attempts.clear();
        self.restore_final_attempts(None);
        self.transactions.move_times(before, earlier);
    }
}

/// A time that a clock has set which was `ahead` until it said `now`.
pub(crate) fn moved_back(at: Timestamp, ahead: Duration, now: Timestamp) -> Timestamp {
    if at > now { at.before(ahead).max(now) } else { at }
}
