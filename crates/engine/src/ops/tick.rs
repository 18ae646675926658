//! What the engine does because time has passed: due timers, final attempts, transaction checks, expired dedup keys.

use std::time::Duration;

use super::{Engine, TransactionCheck};
use crate::{
    Timestamp,
    dedup::EXPIRED_PER_STEP,
    message_ref::MessageRef,
    planted,
    record::{Decision, Fact, Link},
    timer::TimerKey,
};

/// Delayed messages linked by one step, of which one is under way at a time: a flood of due ones shares each frame
/// and each flush with other work.
const LINKS_PER_TICK: usize = 1024;
const CHECKS_PER_TICK: usize = 1024;
/// A transaction check that the caller could not hand over is tried again after this time.
const CHECK_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Engine {
    /// Does what is due: links delayed messages, ends final attempts, asks about or ends old transactions, forgets dedup
    /// keys. Returns the transactions whose producers must be asked.
    pub fn tick(&mut self, now: Timestamp) -> Vec<TransactionCheck> {
        self.tick_bounded(now, CHECKS_PER_TICK)
    }

    /// The same for a caller that can hand over only `checks_max` checks now. The others stay due, do not count as asked, and
    /// are tried again a little later.
    pub fn tick_bounded(&mut self, now: Timestamp, checks_max: usize) -> Vec<TransactionCheck> {
        let now = self.advance(now);
        self.move_timers();
        if self.moves_again_at.is_some_and(|at| at <= now) {
            self.moves_again_at = None;
            self.resume_moves();
        }
        if self.state.dedup.next_expiry().is_some_and(|at| at <= now) {
            self.forget_expired_keys(now);
        }
        self.fire(now);
        self.end_final_attempts(now);
        if self.checks_again_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let (checks, all) = self.check_transactions(now, CHECKS_PER_TICK, checks_max);
        self.checks_again_at = if all { None } else { Some(now.after(CHECK_AGAIN_AFTER)) };
        checks
    }

    /// Forgets dedup keys whose window is over.
    pub fn forget_expired_keys(&mut self, now: Timestamp) {
        let now = self.advance(now);
        let max = planted::expired_keys_max(&self.config, EXPIRED_PER_STEP);
        if max > 0 && self.state.dedup.first_expiry().is_some_and(|at| at <= now) {
            self.record(&Fact::KeysExpired { until: now });
        }
        self.state.dedup.remove_expired(max);
    }

    /// When [`Engine::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        // While too much is being read for them, final attempts wait.
        let attempt = self.state.final_attempts.first().filter(|_| !self.own_reads.is_full());
        let attempt = attempt.map(|last| last.visible_at);
        // The next step is taken when the last one is durable; until then nothing can be done about timers.
        let ends = &self.speculation.timers;
        let timer = if self.speculation.linking { None } else { ends.next_due(&self.state.timers) };
        if self.time.has_moves() {
            return Some(self.time.now());
        }
        let check = self.state.transactions.next_due(&self.speculation.ending_transactions);
        let check = check.map(|at| self.checks_again_at.map_or(at, |again| at.max(again)));
        let key = self.state.dedup.next_expiry();
        [timer, attempt, self.moves_again_at, check, key].into_iter().flatten().min()
    }

    fn fire(&mut self, now: Timestamp) {
        if self.speculation.linking {
            return;
        }
        let now = planted::timers_now(&self.config, now);
        let due = self.speculation.timers.take_due(&self.state.timers, now, LINKS_PER_TICK);
        if due.is_empty() {
            return;
        }
        let mut links = Vec::with_capacity(due.len());
        for (key, message) in due {
            match self.link(key, &message) {
                Some(link) => links.push(link),
                // The topic is gone, and its delayed messages with it.
                None => self.propose(None, Decision::Recall { key }),
            }
        }
        if !links.is_empty() {
            self.speculation.linking = true;
            self.propose(None, Decision::Link(links));
        }
    }

    fn link(&mut self, key: TimerKey, message: &MessageRef) -> Option<Link> {
        let queue = message.queue;
        let offset = self.propose_offset(queue)?;
        Some(Link { key, queue, offset, entry: message.entry(self.time.stamp()) })
    }
}
