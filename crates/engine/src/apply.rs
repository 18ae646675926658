//! How the records of the log change the state, and the index of the segment that they are in.

use redstart_log::{Position, SegmentId};

use crate::{
    Entry, QueueKey, QueueOffset, Timestamp,
    config::Transactions as TransactionConfig,
    dedup::{First, Placed},
    group::Group,
    index::Indexes,
    message_ref::MessageRef,
    open_transactions::Half,
    pop::{FlightKey, Progress},
    record::{Cause, Decision, Fact, Link, Placement, Stored, TransactionEnd},
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
    pub transactions: &'a TransactionConfig,
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
                self.state.put_group(Group { id: *id, name, config });
            }
            Decision::GroupDelete { id } => self.state.delete_group(*id),
            Decision::Recall { key } => {
                self.state.timers.recall(*key, self.frame.segment);
                self.state.dedup.forget(key.id);
            }
            Decision::Setting { namespace, key, value } => {
                self.state.put_setting(namespace, key, value.as_deref());
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
                    next_check: opened_at.after(check_after.min(self.transactions.open_max)),
                    checks: 0,
                    ending: false,
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
            self.state.dedup.insert(key, first, self.frame.timestamp);
        }
    }

    fn relocated(&mut self, id: Position, stored: &Stored, placement: Placement) {
        if let Placement::Delayed = placement {
            let key = TimerKey { due: stored.deliver_at.unwrap_or_default(), id };
            self.indexes.live_mut(self.frame.segment).timers.push((key, MessageRef::of(stored)));
            if self.changes_state() {
                self.state.timers.relocate(key, MessageRef::of(stored), self.frame.segment);
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

impl State {
    /// Applies one fact: on the owner at once, elsewhere when it is read back. What it names may be gone by now.
    pub fn apply_fact(&mut self, fact: &Fact, effects: &mut Effects) {
        match fact {
            Fact::Pop(pop) => {
                if let Some(progress) = self.progress_mut(pop.group, pop.queue) {
                    progress.apply_pop(pop);
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
                if let Some(progress) = self.progress_mut(*group, *queue) {
                    if *uncounted {
                        progress.uncount(*offset);
                    }
                    progress.change_invisible(*offset, *seq, *visible_at, *given_back);
                    self.note_final_attempts(*group, *queue, &[*offset]);
                    effects.released.push((*group, queue.topic));
                }
            }
            Fact::Offset { group, queue, offset } => {
                if let Some(progress) = self.progress_mut(*group, *queue) {
                    if progress.commit(*offset) {
                        effects.released.push((*group, queue.topic));
                    }
                    let first = progress.next_due(None);
                    self.final_attempts.extend(first.map(|first| FinalAttempt::of(*group, *queue, first)));
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
}
