//! The engine's two times, and what happens when the clock turns out to have been ahead.
//!
//! *Now* is the time that the owner passes: every due time is compared with it. The *stamp* is the time that stored
//! messages are given. It is never earlier than one given before, so that order in a queue is order in time; after a run with a
//! clock that was ahead it does not change until the clock has caught up, and only the messages' store times show that.

use std::{collections::BTreeMap, time::Duration};

use redstart_log::Position;

use super::Engine;
use crate::{
    Receipt, Timestamp,
    apply::moved_back,
    record::{Decision, Fact},
    timer::TimerKey,
};

/// A clock that goes back by less changes nothing: due times are reached that much later.
const STEP_BACK_MIN: Duration = Duration::from_secs(10);
/// Timers moved by one tick.
const MOVES_PER_TICK: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Time {
    /// The time that the owner passed last; before that, the time of the last frame.
    now: Timestamp,
    /// The latest time that a queue's entry was given.
    stamp: Timestamp,
    /// The first time that the owner passed; `None` until then.
    started: Option<Timestamp>,
    /// Timers that were set by a clock that was ahead, and when they are due instead.
    misplaced: BTreeMap<TimerKey, Timestamp>,
    /// Some of them have been proposed to be moved, and that is not yet durable.
    moving: bool,
}

impl Time {
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The time that a message which is stored now is given.
    pub fn stamp(&self) -> Timestamp {
        self.stamp
    }

    pub fn started(&self) -> Timestamp {
        self.started.unwrap_or(self.now)
    }

    /// The log was read: its last frame, and the last entry of any queue, are of these times.
    pub fn recovered(&mut self, last_frame: Timestamp, stamp: Timestamp) {
        self.now = last_frame;
        self.stamp = stamp;
    }

    /// Whether timers wait to be moved and none are on their way.
    pub fn has_moves(&self) -> bool {
        !self.misplaced.is_empty() && !self.moving
    }

    /// A frame of another owner was applied.
    pub fn followed(&mut self, frame: Timestamp) {
        self.now = self.now.max(frame);
    }

    /// From here on this owner gives the stamps; `stamp` is the latest that was given.
    pub fn leads(&mut self, stamp: Timestamp) {
        self.started = None;
        self.stamp = self.stamp.max(stamp);
    }

    /// The owner leads no longer. When it does again, that is a start: see [`Engine::adjust`].
    pub fn stepped_down(&mut self) {
        self.started = None;
        self.moving = false;
    }

    /// The decisions that move timers have been applied or withdrawn.
    pub fn moves_ended(&mut self) {
        self.moving = false;
    }
}

impl Engine {
    /// The time of the last frame of the log, until the owner has passed a time.
    pub fn last_known_time(&self) -> Timestamp {
        self.time.now
    }

    /// Takes the time that the owner passed, and returns it.
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        if now < self.time.now || self.time.started.is_none() {
            self.adjust(now);
        }
        self.time.now = now;
        self.time.stamp = self.time.stamp.max(now);
        now
    }

    /// The first time after the start, or one that is earlier than the last.
    #[cold]
    fn adjust(&mut self, now: Timestamp) {
        let ahead = self.time.now.since(now);
        if self.time.started.is_none() {
            self.time.started = Some(now);
            let latest = self.time.now.max(self.time.stamp).max(now);
            self.receipts_from = Receipt::first_number(self.log.term(), latest);
            self.limit_checks();
        }
        if ahead >= STEP_BACK_MIN {
            self.bring_back(ahead, now);
        }
    }

    /// The clock was ahead by this much and is not any more. A time that was set relative to the wrong time is moved to be as
    /// far after the right one. A time that was set before the clock went wrong may come early by this: a redelivery at worst.
    /// Delayed messages keep their due times, because they must never be early, unless these are further ahead than the
    /// longest delay that a right clock can have set.
    fn bring_back(&mut self, ahead: Duration, now: Timestamp) {
        // What is on its way is not moved, wherever this is applied.
        let end = self.log.segments().last().map_or(Position(0), |segment| segment.end);
        let before = self.pending.front().map_or(end, |frame| frame.position);
        self.record(&Fact::TimesMoved { now, ahead, before });
        // The postponed ones are found again as well.
        self.postponed_moves.clear();
        self.cold_moves.clear();
        self.moves_again_at = None;
        self.checks_again_at = None;
        let farthest = now.after(self.config.limits.delay_max);
        let retries = self.state.timers.retries_after(now);
        let beyond = self.state.timers.after(farthest);
        self.time.misplaced =
            retries.chain(beyond).map(|key| (key, moved_back(key.due, ahead, now).min(farthest))).collect();
    }

    /// Gives misplaced timers their new due time. Each keeps its message; the handle that recalls it is void.
    pub(super) fn move_timers(&mut self) {
        if !self.time.has_moves() {
            return;
        }
        let timers = &self.state.timers;
        let ends = &self.speculation.timers;
        let waits = |key| timers.get(key).filter(|_| ends.get(key).is_none()).copied();
        self.time.misplaced.retain(|key, _| waits(*key).is_some());
        let some = self.time.misplaced.iter().take(MOVES_PER_TICK);
        let moves: Vec<_> = some.filter_map(|(key, due)| Some((*key, *due, waits(*key)?))).collect();
        for (key, due, message) in moves {
            self.speculation.timers.propose_recall(key);
            self.propose(None, Decision::SendBack { due, message, id: Position(0), left: None });
            self.propose(None, Decision::Recall { key });
            self.time.moving = true;
        }
    }
}
