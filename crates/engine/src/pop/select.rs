//! Picks the messages that a receive gets out of one queue. Changes nothing.

use std::cmp::Reverse;

use super::{Cursor, Flight, FlightState, Progress, cursor::LEVELS};
use crate::{
    Entry, QueueOffset, Timestamp,
    index::{Chunk, ColdPart, IndexError},
    record::{Blocked, Delivered, Proof},
};

/// Where a selection reads entries and asks whether a message passes the subscription's filter.
pub(crate) trait Source {
    fn chunk(&self, offset: QueueOffset) -> Result<Chunk<'_>, IndexError>;
    fn passes(&self, entry: &Entry, budget: &mut Budget) -> Passes;
    /// Whether a decision on its way ends a message in flight: no consumer gets it.
    fn is_dying(&self, offset: QueueOffset) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    Yes,
    No,
    /// Not decided: the budget for reading messages is used up.
    Later,
    /// Not decided: the read failed, and another may succeed.
    Unreadable,
    /// Proven to be lost: it can never be delivered.
    Lost(Proof),
    /// Not decided: the message is not in memory, and the caller does not wait for the disk.
    Cold(ColdPart),
}

/// How much one request may take and look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub messages: usize,
    pub entries: usize,
    pub reads: usize,
}

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    /// Only what was never delivered.
    New,
    /// Only what was.
    Retries,
}

/// The rules under which messages are picked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub ordered: bool,
    /// Not together with `ordered`.
    pub by_priority: bool,
    /// Of a selection by priority.
    pub part: Part,
    /// Deliveries with this number and later ones were made by the same request: they are no retries.
    pub retries_before: u64,
    /// At most one message of a message group; those without one are one group in each queue.
    pub one_per_group: bool,
    pub attempts_max: u32,
    pub attempt_tag: u64,
    pub flights_max: usize,
    pub blocked_max: usize,
    pub now: Timestamp,
}

/// What to deliver out of one queue, and what else the search found out.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub delivered: Vec<(Delivered, Option<Entry>)>,
    pub blocked: Vec<Blocked>,
    /// The new cursors; empty when they did not move.
    pub cursors: Vec<(u8, QueueOffset)>,
    /// Their last attempt has failed: they go to the dead-letter topic.
    pub exhausted: Vec<QueueOffset>,
    /// Passed over because they are proven to be lost.
    pub lost: Vec<(QueueOffset, Proof)>,
    /// The search ended because of the budget, not because there is nothing more.
    pub more: bool,
    /// The search ended before a message that could not be read this time.
    pub unreadable: bool,
    /// The search ended before a part that is not in memory.
    pub cold: Option<ColdPart>,
    /// The search ended because no further message may go into flight before one is done.
    pub flights_full: bool,
}

/// Picks what a group gets next out of one queue. Changes nothing.
pub(crate) fn select(
    progress: &Progress,
    end: QueueOffset,
    source: &impl Source,
    rules: Rules,
    budget: &mut Budget,
) -> Result<Selected, IndexError> {
    let mut selection = Selection { progress, end, source, rules, budget, out: Selected::default() };
    if rules.ordered {
        selection.same_attempt();
        selection.expired_in_order();
        selection.unlocked();
        selection.ahead_in_order()?;
    } else if rules.by_priority || matches!(progress.cursor, Cursor::Levels(_)) {
        selection.by_priority()?;
    } else {
        selection.expired(|_| true);
        selection.ahead()?;
    }
    Ok(selection.out)
}

struct Selection<'a, S> {
    progress: &'a Progress,
    end: QueueOffset,
    source: &'a S,
    rules: Rules,
    budget: &'a mut Budget,
    out: Selected,
}

impl<S: Source> Selection<'_, S> {
    /// The answer has as many messages as were asked for.
    fn is_enough(&self) -> bool {
        self.budget.messages == 0
    }

    /// One more may go into flight.
    fn may_fly(&self) -> bool {
        self.progress.in_flight() + self.out.delivered.len() < self.rules.flights_max
    }

    fn deliver_again(&mut self, offset: QueueOffset, flight: &Flight, attempt: u16) {
        self.budget.messages -= 1;
        let delivered = Delivered { offset, attempt, lock: flight.lock, priority: flight.priority };
        self.out.delivered.push((delivered, None));
    }

    /// Delivers again what has timed out, unless its attempts are used up.
    fn retry(&mut self, offset: QueueOffset, flight: &Flight) {
        if u32::from(flight.attempt) >= self.rules.attempts_max {
            self.out.exhausted.push(offset);
        } else {
            self.deliver_again(offset, flight, flight.attempt + 1);
        }
    }

    fn deliver(&mut self, offset: QueueOffset, entry: &Entry) {
        self.budget.messages -= 1;
        let delivered = Delivered {
            offset,
            attempt: entry.attempt.saturating_add(1),
            lock: entry.group_hash,
            priority: entry.priority,
        };
        self.out.delivered.push((delivered, Some(*entry)));
    }

    /// Delivers unless the limit of flights is reached. Says whether it did.
    fn deliver_if_may_fly(&mut self, offset: QueueOffset, entry: &Entry) -> bool {
        let may_fly = self.may_fly();
        if may_fly {
            self.deliver(offset, entry);
        } else {
            self.out.flights_full = true;
        }
        may_fly
    }

    /// Delivers what has timed out and is among `these`.
    fn expired(&mut self, these: impl Fn(&Flight) -> bool) {
        let progress = self.progress;
        for offset in progress.expired(self.rules.now) {
            if let Some(flight) = progress.flight(offset)
                && flight.seq < self.rules.retries_before
                && these(flight)
                && !self.source.is_dying(offset)
            {
                if self.is_enough() {
                    self.out.more = true;
                    return;
                }
                self.retry(offset, flight);
            }
        }
    }

    /// Goes from the cursor over entries until the budget or the queue ends. `take` says what becomes of an entry
    /// that passes the filter; `false` stops before it.
    fn scan(
        &mut self,
        from: QueueOffset,
        skip: impl Fn(&Entry) -> bool,
        mut take: impl FnMut(&mut Self, QueueOffset, &Entry) -> bool,
    ) -> Result<QueueOffset, IndexError> {
        let mut next = from;
        while next < self.end {
            let source = self.source;
            let chunk = match source.chunk(next) {
                Err(IndexError::Cold(part)) => {
                    self.out.cold = Some(part);
                    return Ok(next);
                }
                chunk => chunk?,
            };
            if chunk.is_empty() {
                break;
            }
            for entry in chunk.iter() {
                if next >= self.end {
                    break;
                }
                if self.is_enough() || self.budget.entries == 0 {
                    self.out.more = true;
                    return Ok(next);
                }
                self.budget.entries -= 1;
                // With a cursor for each level, messages of high levels are done before those of lower ones.
                let done = next < self.progress.cursor.level(level_of(entry.priority));
                if !done && !skip(entry) && self.progress.flight(next).is_none() {
                    match source.passes(entry, self.budget) {
                        Passes::No => {}
                        Passes::Lost(proof) => self.out.lost.push((next, proof)),
                        Passes::Later => {
                            self.out.more = true;
                            return Ok(next);
                        }
                        Passes::Cold(part) => {
                            self.out.cold = Some(part);
                            return Ok(next);
                        }
                        Passes::Unreadable => {
                            self.out.unreadable = true;
                            return Ok(next);
                        }
                        Passes::Yes if take(self, next, entry) => {}
                        Passes::Yes => return Ok(next),
                    }
                }
                next = next.next();
            }
        }
        Ok(next)
    }

    fn ahead(&mut self) -> Result<(), IndexError> {
        let from = self.progress.cursor.low();
        let next = self.scan(from, |_| false, Self::deliver_if_may_fly)?;
        if next != from {
            self.out.cursors.push((0, next));
        }
        Ok(())
    }

    /// New messages, the highest level first. What failed before comes last, whatever its priority: it must not hold up
    /// the others again.
    fn by_priority(&mut self) -> Result<(), IndexError> {
        if self.rules.part != Part::Retries {
            self.ahead_by_level()?;
        }
        if self.rules.part != Part::New {
            self.expired(|flight| !flight.is_new());
        }
        Ok(())
    }

    fn ahead_by_level(&mut self) -> Result<(), IndexError> {
        let mut moved = false;
        let mut cursors: Vec<(u8, QueueOffset)> = Vec::with_capacity(LEVELS.into());
        for level in (0..LEVELS).rev() {
            let from = self.progress.cursor.level(level);
            let mut next = from;
            // Given back before a consumer saw it: it has its place among the new ones of its level.
            self.expired(|flight| flight.is_new() && level_of(flight.priority) == level);
            if !self.is_enough() {
                next =
                    self.scan(from, |entry| level_of(entry.priority) != level, Self::deliver_if_may_fly)?;
                moved |= next != from;
            }
            cursors.push((level, next));
        }
        if moved {
            self.out.cursors = cursors;
        }
        Ok(())
    }

    /// A client that lost the answer to a receive asks again under the same attempt: it gets the same messages.
    fn same_attempt(&mut self) {
        if self.rules.attempt_tag == 0 {
            return;
        }
        let progress = self.progress;
        for (offset, flight) in progress.flights() {
            if self.is_enough() {
                return;
            }
            let current = flight.state == FlightState::WithConsumer && flight.visible_at > self.rules.now;
            let current = current && !self.source.is_dying(offset);
            if current && flight.attempt_tag == self.rules.attempt_tag && self.may_deliver(flight.lock) {
                self.deliver_again(offset, flight, flight.attempt);
            }
        }
    }

    /// Timed-out messages, in queue order; none whose predecessor in the message group is still in flight elsewhere.
    fn expired_in_order(&mut self) {
        let progress = self.progress;
        let Some(locks) = &progress.locks else { return };
        let mut expired: Vec<QueueOffset> = progress.expired(self.rules.now).collect();
        expired.sort_unstable();
        for offset in expired {
            if self.is_enough() {
                self.out.more = true;
                return;
            }
            let Some(flight) = progress.flight(offset).filter(|_| !self.source.is_dying(offset)) else {
                continue;
            };
            let earlier = locks.earlier_flights(flight.lock, offset);
            if earlier.iter().all(|earlier| self.delivers(*earlier)) && self.may_deliver(flight.lock) {
                self.retry(offset, flight);
            }
        }
    }

    fn delivers(&self, offset: QueueOffset) -> bool {
        self.out.delivered.iter().any(|(delivered, _)| delivered.offset == offset)
    }

    /// Whether this answer may carry one more message of the group.
    fn may_deliver(&self, lock: u32) -> bool {
        !self.rules.one_per_group || !self.delivers_lock(lock)
    }

    fn delivers_lock(&self, lock: u32) -> bool {
        self.out.delivered.iter().any(|(delivered, _)| delivered.lock == lock)
    }

    /// Blocked messages whose message group is free now.
    fn unlocked(&mut self) {
        let Some(locks) = &self.progress.locks else { return };
        for (_, lock) in locks.ready() {
            for offset in locks.blocked(lock) {
                if !self.may_deliver(lock) {
                    break;
                }
                if self.is_enough() {
                    self.out.more = true;
                    return;
                }
                if !self.may_fly() {
                    self.out.flights_full = true;
                    return;
                }
                let delivered = Delivered { offset, attempt: 1, lock, priority: 0 };
                self.budget.messages -= 1;
                self.out.delivered.push((delivered, None));
            }
        }
    }

    fn ahead_in_order(&mut self) -> Result<(), IndexError> {
        let from = self.progress.cursor.low();
        let Some(locks) = &self.progress.locks else { return Ok(()) };
        let next = self.scan(
            from,
            |_| false,
            |this, offset, entry| {
                let lock = entry.group_hash;
                // A group that this very answer locked may go on: its messages come in order and block the rest.
                let ours = !this.rules.one_per_group
                    && this.delivers_lock(lock)
                    && !this.out.blocked.iter().any(|blocked| blocked.lock == lock)
                    && locks.is_free(lock);
                let free = locks.is_free(lock) && !this.delivers_lock(lock);
                if (ours || free) && this.deliver_if_may_fly(offset, entry) {
                    return true;
                }
                let may_block = locks.blocked_count() + this.out.blocked.len() < this.rules.blocked_max;
                if may_block {
                    this.out.blocked.push(Blocked { offset, lock });
                }
                may_block
            },
        )?;
        let cursor = &self.progress.cursor;
        match cursor {
            _ if next == from => {}
            Cursor::Single(_) => self.out.cursors.push((0, next)),
            Cursor::Levels(_) => {
                self.out.cursors.extend((0..LEVELS).map(|level| (level, cursor.level(level).max(next))));
            }
        }
        Ok(())
    }
}

fn level_of(priority: u8) -> u8 {
    priority.min(LEVELS - 1)
}

/// Sorts an answer that mixes retries and new messages: higher priorities first, then by place.
pub(crate) fn in_delivery_order(by_priority: bool, delivered: &mut [(Delivered, Option<Entry>)]) {
    if by_priority {
        delivered.sort_by_key(|(delivered, _)| (Reverse(level_of(delivered.priority)), delivered.offset));
    } else {
        delivered.sort_by_key(|(delivered, _)| delivered.offset);
    }
}
