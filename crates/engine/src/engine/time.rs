//! The engine's two times, and what happens when the clock turns out to have been ahead.
//!
//! *Now* is what the owner says, and nothing else: every due time is compared with it. The *stamp* is the time that stored
//! messages are given. It is never earlier than one given before, so that order in a queue is order in time; after a run with a
//! clock that was ahead it stands still until the clock has caught up, and nothing but the messages' store times shows that.

use std::{collections::BTreeMap, time::Duration};

use super::Engine;
use crate::{
    Timestamp,
    record::Decision,
    timer::{TimerKey, TimerState},
};

/// A clock that goes back by less changes nothing: what waits does so for that much longer.
const STEP_BACK_MIN: Duration = Duration::from_secs(10);
/// Timers moved by one tick.
const MOVES_PER_TICK: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Time {
    /// What the owner said last; before it has said anything, the time of the last frame.
    now: Timestamp,
    /// The latest time that a queue's entry was given.
    stamp: Timestamp,
    /// When the engine was first told the time; `None` until then.
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

    /// The decision to move timers is no longer under way.
    pub fn settled(&mut self) {
        self.moving = false;
    }
}

impl Engine {
    /// The time of the last frame of the log, while the engine has not been told the time.
    pub fn last_known_time(&self) -> Timestamp {
        self.time.now
    }

    /// Takes the time from the owner and gives it back.
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

    /// The clock was ahead by this much and is not any more. What was set to come some time after the wrong time comes as long
    /// after the right one. What was set before the clock went wrong may come early for it: a redelivery at worst. Only
    /// delayed messages stay where they are, unless no clock that was right can have set them so far ahead: they must never be
    /// early.
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
        // Those that wait for their topic or the disk are found again as well.
        self.parked.clear();
        self.burials_again = None;
        self.checks_again = None;
        self.state.last_chances.clear();
        self.state.restore_last_chances(None);
        self.state.transactions.move_times(earlier);
        let farthest = now.after(self.config.limits.delay_max);
        let retries = self.state.timers.retries_after(now);
        let beyond = self.state.timers.after(farthest);
        self.time.misplaced =
            retries.chain(beyond).map(|key| (key, earlier(key.due).min(farthest))).collect();
    }

    /// Gives misplaced timers another time. Each keeps its message; the handle that recalls it is void.
    pub(super) fn move_timers(&mut self) {
        if !self.time.has_moves() {
            return;
        }
        let timers = &self.state.timers;
        let waits = |key| timers.get(key).filter(|timer| timer.state == TimerState::Waiting).copied();
        self.time.misplaced.retain(|key, _| waits(*key).is_some());
        let some = self.time.misplaced.iter().take(MOVES_PER_TICK);
        let moves: Vec<_> = some.filter_map(|(key, due)| Some((*key, *due, waits(*key)?))).collect();
        for (key, due, timer) in moves {
            self.state.timers.mark(key, TimerState::Recalling);
            self.propose(None, Decision::SendBack { due, timer, id: redstart_log::Position(0), left: None });
            self.propose(None, Decision::Recall { key });
            self.time.moving = true;
        }
    }
}
