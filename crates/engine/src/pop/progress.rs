//! The place of one group in one queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{Cursor, group_locks::GroupLocks};
use crate::{
    QueueOffset, Timestamp,
    codec::{Malformed, Put, Take},
    record::PopFact,
};

/// A message that was delivered and is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    pub visible_at: Timestamp,
    /// Hash of the receive attempt that delivered it last; a client that lost the answer may ask for the same again.
    pub attempt_tag: u64,
    /// Number of its current receipt.
    pub seq: u64,
    /// Hash of its message group, which is locked for an ordered group. In a retry topic it may name the topic that the message
    /// was sent to instead, see `ops/retries.rs`.
    pub lock: u32,
    /// Deliveries so far.
    pub attempt: u16,
    pub priority: u8,
    pub state: FlightState,
}

impl Flight {
    /// No delivery of it has counted: it was only blocked by a lock, or was given back uncounted.
    pub fn is_new(&self) -> bool {
        self.attempt == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FlightState {
    /// A consumer has it until `visible_at`.
    WithConsumer = 0,
    /// It was given back, and is delivered again from `visible_at` on.
    GivenBack = 1,
}

/// Flights that facts leave alone, because a decision on its way ends them. See [`Dying`](crate::speculation::Dying).
pub(crate) trait Spared {
    fn is_dying(&self, offset: QueueOffset) -> bool;
    /// A fact would have ended this one.
    fn pass(&mut self, offset: QueueOffset);
}

/// No decision is on its way.
#[cfg(test)]
pub(crate) struct NoneSpared;

#[cfg(test)]
impl Spared for NoneSpared {
    fn is_dying(&self, _: QueueOffset) -> bool {
        false
    }

    fn pass(&mut self, _: QueueOffset) {}
}

/// The place of one group in one queue.
///
/// Layout in a checkpoint:
///
/// | field | size | |
/// |---|---|---|
/// | cursor | 9 or 81 | see [`Cursor`] |
/// | seq | u64 | number of the next receipt |
/// | flights | u32, then 40 bytes each | offset u64, visible at u64, attempt tag u64, receipt number u64, lock u32, attempt u16, priority u8, u8 1 if given back |
/// | flags | u8 | 1 ordered, 2 started, 4 last used by a consumer that pulls |
/// | blocked | u32, then 12 bytes each | offset u64, lock u32 |
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub cursor: Cursor,
    flights: BTreeMap<QueueOffset, Flight>,
    /// Flights by the time they become visible.
    due: BTreeSet<(Timestamp, QueueOffset)>,
    /// Only while the group consumes in order.
    pub locks: Option<Box<GroupLocks>>,
    /// Number of the next receipt.
    pub seq: u64,
    /// The group has consumed this queue: not only others of the same topic.
    pub started: bool,
    /// A consumer that pulls was the last to go on here. It does not ask for messages in flight: when their time is out
    /// they go to the group's retry topic.
    pub pulled: bool,
    /// A search ended at the limit of flights: it goes on when one message is done. Not kept over a start.
    pub flights_full: bool,
}

impl Progress {
    pub fn starting_at(offset: QueueOffset) -> Progress {
        Progress { started: true, ..Progress::not_started(offset) }
    }

    /// The place at which the group would start.
    pub fn not_started(offset: QueueOffset) -> Progress {
        Progress { cursor: Cursor::Single(offset), ..Progress::default() }
    }

    /// As a group finds a queue that is new to it.
    pub fn fresh(min: QueueOffset, ordered: bool) -> Progress {
        let mut progress = Progress::not_started(min);
        progress.set_ordered(ordered);
        progress
    }

    /// The consumer offset: everything below it is done.
    pub fn low_watermark(&self) -> QueueOffset {
        let flight = self.flights.keys().next().copied();
        let blocked = self.locks.as_ref().and_then(|locks| locks.first_blocked());
        [flight, blocked].into_iter().flatten().fold(self.cursor.low(), QueueOffset::min)
    }

    pub fn flights(&self) -> impl Iterator<Item = (QueueOffset, &Flight)> {
        self.flights.iter().map(|(offset, flight)| (*offset, flight))
    }

    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// In flight, without those that were only blocked.
    pub fn delivered(&self) -> usize {
        self.flights.values().filter(|flight| flight.attempt > 0).count()
    }

    pub fn flight(&self, offset: QueueOffset) -> Option<&Flight> {
        self.flights.get(&offset)
    }

    /// Passed by the cursor, and neither in flight nor blocked.
    pub fn is_done(&self, offset: QueueOffset) -> bool {
        let blocked = || self.locks.as_ref().is_some_and(|locks| locks.is_blocked(offset));
        offset < self.cursor.high() && !self.flights.contains_key(&offset) && !blocked()
    }

    /// Offsets whose time is out, in order of time.
    pub fn expired(&self, now: Timestamp) -> impl Iterator<Item = QueueOffset> {
        self.due.range(..=(now, QueueOffset(u64::MAX))).map(|(_, offset)| *offset)
    }

    /// When something becomes visible after `now`. What is visible already and was not delivered needs another event.
    pub fn next_visible_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.due.range((now, QueueOffset(u64::MAX))..).map(|(at, _)| *at).find(|at| *at > now)
    }

    #[cfg(test)]
    pub fn next_visible(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Switches between ordered and concurrent delivery when the group's setting changed.
    pub fn set_ordered(&mut self, ordered: bool) {
        match (ordered, self.locks.take()) {
            (true, Some(locks)) => self.locks = Some(locks),
            (true, None) => {
                let mut locks = GroupLocks::default();
                for (offset, flight) in &self.flights {
                    locks.delivered(flight.lock, *offset);
                }
                self.locks = Some(Box::new(locks));
            }
            (false, None) => {}
            // What was blocked is delivered like a retry that is due.
            (false, Some(locks)) => {
                for (offset, lock) in locks.into_blocked() {
                    let flight = Flight {
                        visible_at: Timestamp(0),
                        attempt_tag: 0,
                        seq: 0,
                        lock,
                        attempt: 0,
                        priority: 0,
                        state: FlightState::GivenBack,
                    };
                    self.put_flight(offset, flight);
                }
            }
        }
    }

    pub fn apply_pop(&mut self, fact: &PopFact) {
        self.started = true;
        self.pulled = false;
        self.set_ordered(fact.ordered);
        if fact.cursors.len() > 1 {
            self.cursor.split();
        }
        for (level, next) in &fact.cursors {
            self.cursor.set(*level, *next);
        }
        for (n, delivered) in fact.delivered.iter().enumerate() {
            let flight = Flight {
                visible_at: fact.visible_at,
                attempt_tag: fact.attempt_tag,
                seq: fact.seq.wrapping_add(n as u64),
                lock: delivered.lock,
                attempt: delivered.attempt,
                priority: delivered.priority,
                state: FlightState::WithConsumer,
            };
            self.put_flight(delivered.offset, flight);
            if let Some(locks) = &mut self.locks {
                locks.delivered(delivered.lock, delivered.offset);
            }
        }
        if let Some(locks) = &mut self.locks {
            for blocked in &fact.blocked {
                locks.block(blocked.lock, blocked.offset);
            }
        }
        self.seq = fact.seq.wrapping_add(fact.delivered.len() as u64);
    }

    /// The message is done. Says whether it was in flight.
    pub fn done(&mut self, offset: QueueOffset) -> bool {
        let Some(flight) = self.flights.remove(&offset) else { return false };
        self.due.remove(&(flight.visible_at, offset));
        if let Some(locks) = &mut self.locks {
            locks.done(flight.lock, offset);
        }
        true
    }

    /// The last delivery of a message in flight does not count as an attempt.
    pub fn uncount(&mut self, offset: QueueOffset) {
        if let Some(flight) = self.flights.get_mut(&offset) {
            flight.attempt = flight.attempt.saturating_sub(1);
        }
    }

    pub fn change_invisible(
        &mut self,
        offset: QueueOffset,
        seq: u64,
        visible_at: Timestamp,
        given_back: bool,
    ) {
        // Also if the flight is gone: a segment's removal may come before this fact in the log and after it in the owner.
        self.seq = self.seq.max(seq.wrapping_add(1));
        let Some(mut flight) = self.flights.get(&offset).copied() else { return };
        flight.visible_at = visible_at;
        flight.seq = seq;
        flight.state = if given_back { FlightState::GivenBack } else { FlightState::WithConsumer };
        self.put_flight(offset, flight);
    }

    /// Gives every flight another time to become visible at. Says whether any has changed.
    pub fn move_times(&mut self, to: impl Fn(Timestamp) -> Timestamp) -> bool {
        let mut moved = false;
        for (offset, flight) in &mut self.flights {
            let at = to(flight.visible_at);
            if at == flight.visible_at {
                continue;
            }
            moved = true;
            if self.due.remove(&(flight.visible_at, *offset)) {
                self.due.insert((at, *offset));
            }
            flight.visible_at = at;
        }
        moved
    }

    /// Where a consumer that pulls goes on. In order that is the first message that is not done; else the first that no
    /// consumer was given, since what is in flight comes to it through the retry topic.
    pub fn pulls_from(&self) -> QueueOffset {
        if self.locks.is_some() { self.low_watermark() } else { self.cursor.low() }
    }

    /// A pull consumer stores where it goes on: what it has met on its way there is done. That is everything before `to`
    /// from the place where it began, see [`Progress::pulls_from`]. Other messages in flight stay there.
    /// Says whether one was in flight, so that others which were blocked by it may come now.
    pub fn commit(&mut self, to: QueueOffset, spared: impl Spared) -> bool {
        let (low, back, ordered) = (self.cursor.low(), to < self.cursor.high(), self.locks.is_some());
        let met = |at: QueueOffset| at < to && (ordered || at >= low);
        let dropped =
            self.drop_flights(|at, flight| met(at) || (back && at >= to && flight.is_new()), spared);
        if let Some(locks) = &mut self.locks {
            locks.forget_before(to);
            locks.forget_from(to);
        }
        self.cursor.reset(to);
        self.started = true;
        self.pulled = true;
        self.flights_full &= !dropped;
        dropped
    }

    /// An operator moves the group. Messages of the range moved over that are with a consumer are taken from it; those given
    /// back are delivered all the same. Blocked ones are skipped, or met again.
    pub fn reset(&mut self, to: QueueOffset, spared: impl Spared) {
        let back = to < self.cursor.high();
        let drops = |at: QueueOffset, flight: &Flight| {
            (at >= to) == back && (flight.is_new() || flight.state == FlightState::WithConsumer)
        };
        self.drop_flights(drops, spared);
        match &mut self.locks {
            Some(locks) if back => locks.forget_from(to),
            Some(locks) => locks.forget_before(to),
            None => {}
        }
        self.cursor.reset(to);
        self.started = true;
    }

    /// What has a decision under way stays: that decision ends it, also when it is read back.
    fn drop_flights(
        &mut self,
        drops: impl Fn(QueueOffset, &Flight) -> bool,
        mut spared: impl Spared,
    ) -> bool {
        let mut dropped: Vec<QueueOffset> = Vec::new();
        for (at, flight) in self.flights() {
            if spared.is_dying(at) {
                // If the decision is refused, the flight is given back instead, and then meets this.
                if drops(at, &Flight { state: FlightState::GivenBack, ..*flight }) {
                    spared.pass(at);
                }
            } else if drops(at, flight) {
                dropped.push(at);
            }
        }
        let mut any = false;
        for at in &dropped {
            any |= self.done(*at);
        }
        any
    }

    /// The flight whose time is out next, after the one that is named.
    pub fn next_due(&self, after: Option<(Timestamp, QueueOffset)>) -> Option<(Timestamp, QueueOffset)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.due.range((after, Bound::Unbounded)).next().copied()
    }

    /// Whether a message in flight is to go to the retry topic when its time is out. One that the consumer which pulls
    /// has still before it comes from there.
    pub fn is_left_behind(&self, offset: QueueOffset) -> bool {
        self.pulled && self.locks.is_none() && offset < self.cursor.low()
    }

    /// Messages below `min` are gone from the log. Says whether one of them was in flight, so that others which were
    /// blocked by it may come now.
    pub fn raise_to(&mut self, min: QueueOffset) -> bool {
        let mut released = false;
        while let Some(offset) = self.flights.keys().next().copied().filter(|first| *first < min) {
            released |= self.done(offset);
        }
        self.flights_full &= !released;
        if let Some(locks) = &mut self.locks {
            locks.forget_before(min);
        }
        match &mut self.cursor {
            Cursor::Single(next) => *next = (*next).max(min),
            Cursor::Levels(levels) => levels.iter_mut().for_each(|next| *next = (*next).max(min)),
        }
        released
    }

    fn put_flight(&mut self, offset: QueueOffset, flight: Flight) {
        if let Some(old) = self.flights.insert(offset, flight) {
            self.due.remove(&(old.visible_at, offset));
        }
        self.due.insert((flight.visible_at, offset));
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.cursor.encode(out);
        out.put_u64(self.seq);
        out.put_u32(self.flights.len() as u32);
        for (offset, flight) in &self.flights {
            out.put_u64(offset.0);
            out.put_u64(flight.visible_at.0);
            out.put_u64(flight.attempt_tag);
            out.put_u64(flight.seq);
            out.put_u32(flight.lock);
            out.put_u16(flight.attempt);
            out.put_u8(flight.priority);
            out.put_u8(u8::from(flight.state == FlightState::GivenBack));
        }
        let flags = [self.locks.is_some(), self.started, self.pulled];
        out.put_u8(flags.iter().enumerate().fold(0, |bits, (n, flag)| bits | (u8::from(*flag) << n)));
        let blocked = self.locks.as_ref().map(|locks| locks.all_blocked()).unwrap_or_default();
        out.put_u32(blocked.len() as u32);
        for (offset, lock) in blocked {
            out.put_u64(offset.0);
            out.put_u32(lock);
        }
    }

    pub fn decode(take: &mut Take<'_>) -> Result<Progress, Malformed> {
        let mut progress =
            Progress { cursor: Cursor::decode(take)?, seq: take.u64()?, ..Progress::default() };
        for _ in 0..take.count(40)? {
            let offset = QueueOffset(take.u64()?);
            let flight = Flight {
                visible_at: Timestamp(take.u64()?),
                attempt_tag: take.u64()?,
                seq: take.u64()?,
                lock: take.u32()?,
                attempt: take.u16()?,
                priority: take.u8()?,
                state: if take.u8()? == 1 { FlightState::GivenBack } else { FlightState::WithConsumer },
            };
            progress.put_flight(offset, flight);
        }
        let flags = take.u8()?;
        progress.started = flags & 2 != 0;
        progress.pulled = flags & 4 != 0;
        if flags & 1 != 0 {
            progress.set_ordered(true);
        }
        for _ in 0..take.count(12)? {
            let (offset, lock) = (QueueOffset(take.u64()?), take.u32()?);
            if let Some(locks) = &mut progress.locks {
                locks.block(lock, offset);
            }
        }
        Ok(progress)
    }
}
