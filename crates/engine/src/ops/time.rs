//! The engine's two times, and what happens when the clock turns out to have been ahead.
//!
//! *Now* is the time that the owner passes: every due time is compared with it. The *stamp* is the time that stored
//! messages are given. It is never earlier than one given before, so that order in a queue is order in time; after a run with a
//! clock that was ahead it does not change until the clock has caught up, and only the messages' store times show that.

use std::{collections::BTreeMap, time::Duration};

use super::Engine;
use crate::{Timestamp, record::Decision, timer::TimerKey};

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
            // A million deliveries in each millisecond of the last run would not reach it.
            self.receipts_from = self.time.now.max(self.time.stamp).max(now).0 << 20;
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
        let earlier = |at: Timestamp| if at > now { at.before(ahead).max(now) } else { at };
        for ((group, topic), subscription) in &mut self.state.subscriptions {
            let mut moved = false;
            for progress in &mut subscription.queues {
                moved |= progress.move_times(earlier);
            }
            if moved {
                self.wakes.groups.push((*group, *topic));
            }
        }
        // The postponed ones are found again as well.
        self.postponed_moves.clear();
        self.moves_again_at = None;
        self.checks_again_at = None;
        self.state.final_attempts.clear();
        self.state.restore_final_attempts(None);
        self.state.transactions.move_times(earlier);
        let farthest = now.after(self.config.limits.delay_max);
        let retries = self.state.timers.retries_after(now);
        let beyond = self.state.timers.after(farthest);
        self.time.misplaced =
            retries.chain(beyond).map(|key| (key, earlier(key.due).min(farthest))).collect();
    }

    /// Gives misplaced timers their new due time. Each keeps its message; the handle that recalls it is void.
    pub(super) fn move_timers(&mut self) {
        if !self.time.has_moves() {
            return;
        }
        let timers = &self.state.timers;
        let waits = |key| timers.get(key).filter(|_| timers.ending(key).is_none()).copied();
        self.time.misplaced.retain(|key, _| waits(*key).is_some());
        let some = self.time.misplaced.iter().take(MOVES_PER_TICK);
        let moves: Vec<_> = some.filter_map(|(key, due)| Some((*key, *due, waits(*key)?))).collect();
        for (key, due, message) in moves {
            self.state.timers.propose_recall(key);
            self.propose(
                None,
                Decision::SendBack { due, message, id: redstart_log::Position(0), left: None },
            );
            self.propose(None, Decision::Recall { key });
            self.time.moving = true;
        }
    }
}
