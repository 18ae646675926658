//! The shard as a state machine: requests, flush reports and finished jobs go in, together with the time; replies, flush
//! orders and jobs come out. No thread, no clock, no blocking call but reads and appends of the log. The owner thread
//! ([`super::owner`]) drives it in production; a simulation takes the same steps one by one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use redstart_engine::{Engine, Job, Message, MessageType, SendOptions, Sent};

use super::{
    Config, Counters, Failure, Now,
    cold::ColdReads,
    events::{Fullness, Room},
    handle::SendFailure,
    lites::LiteSets,
    pause::Pause,
    planted::planted,
    replies::Replies,
    request::{Called, Request},
    waiting::{WaitList, WaiterId},
    writing::{Refusal, Written},
};
use crate::statistics::Stored;

/// Longest sleep when nothing is due.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Facts recorded through the engine slot are written after this time, when they are so many, or with what the owner has to
/// write anyway. Consumers that pull record an offset with each pull: to write these soon would cost more than the pulls.
const FACTS_WRITE_AFTER: Duration = Duration::from_millis(50);
const FACTS_BYTES_MAX: usize = 256 << 10;
/// While the log refuses frames, facts are kept in memory up to this size; then no further request is taken.
const REFUSED_BYTES_MAX: usize = 64 << 20;

/// One shard's state: the engine, and everything that waits for it.
pub(super) struct Runtime {
    pub(super) engine: Engine,
    pub(super) config: Config,
    pub(super) counters: Arc<Counters>,
    pub(super) replies: Replies,
    pub(super) waiting: WaitList,
    pub(super) lites: LiteSets,
    /// Waiters whose search was cut short by its bounds after it had made progress: they go on in the next step.
    pub(super) unfinished: Vec<WaiterId>,
    /// Receives and questions that wait for the disk.
    pub(super) cold: ColdReads,
    /// Records of the batch that came through the engine slot.
    slot_records: usize,
    /// When those must be written.
    facts_write_at: Option<Duration>,
    /// When facts that were written must be made durable.
    pub(super) facts_flush_at: Option<Duration>,
    /// Frames that are not known to be durable, oldest first.
    pub(super) written: VecDeque<Written>,
    /// The log refused the last frame.
    pub(super) refusal: Option<Refusal>,
    /// The engine's due work got nowhere and is not tried again before this time.
    tick_pause: Option<(Pause, Duration)>,
    pub(super) stopping: bool,
    pub(super) checkpoint_wanted: bool,
    pub(super) checkpointed_at: Duration,
    /// Size of the last one.
    pub(super) checkpoint_bytes: usize,
    pub(super) housekeeping_at: Duration,
    pub(super) fullness: Fullness,
    pub(super) room: Room,
    /// When the last frame became durable, until the manifest says so durably.
    pub(super) flushed_at: Option<Duration>,
    /// Effects for the shell: see [`Runtime::take_flush_order`] and [`Runtime::take_jobs`].
    pub(super) flush_wanted: bool,
    pub(super) jobs: Vec<Job>,
}

impl Runtime {
    pub fn new(engine: Engine, config: Config, counters: Arc<Counters>) -> Runtime {
        Runtime {
            engine,
            config,
            counters,
            replies: Replies::default(),
            waiting: WaitList::default(),
            lites: LiteSets::default(),
            unfinished: Vec::new(),
            cold: ColdReads::default(),
            slot_records: 0,
            facts_write_at: None,
            facts_flush_at: None,
            written: VecDeque::new(),
            refusal: None,
            tick_pause: None,
            stopping: false,
            checkpoint_wanted: false,
            checkpointed_at: Duration::ZERO,
            checkpoint_bytes: 0,
            housekeeping_at: Duration::ZERO,
            fullness: Fullness::default(),
            room: Room::default(),
            flushed_at: None,
            flush_wanted: false,
            jobs: Vec::new(),
        }
    }

    /// Whether a further request may be taken in this step.
    pub fn takes_requests(&self) -> bool {
        // While a checkpoint waits for the last frame nothing new is begun: the state must hold still.
        if self.checkpoint_wanted || self.stopping {
            return false;
        }
        if self.refusal.is_some() && planted!(self.config, RefusalStopsRequests) {
            return false;
        }
        let limit = if self.refusal.is_some() { REFUSED_BYTES_MAX } else { self.config.frame_bytes_max };
        self.engine.batch_bytes() < limit
    }

    /// Whether connection tasks may use the engine while the owner thread is blocked.
    pub fn is_shared(&self) -> bool {
        !self.checkpoint_wanted
    }

    /// No further request will come.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Takes one request: answers it, or holds it until it can be answered.
    pub fn take(&mut self, request: Request, now: Now) {
        let now = self.seen(now);
        match request {
            Request::Send { topic, messages, options, permit, reply } => {
                if let Some(cause) = self.refuses(now) {
                    return drop(reply.send(Err(SendFailure::Log(cause.to_owned()))));
                }
                let before = self.engine.batch_bytes();
                // A duplicate may ask for the record of the first message, and can do without it.
                let send = |engine: &mut Engine| engine.send(&topic, &messages, options, now.time);
                match self.engine.run_cached(Vec::new(), send).result {
                    Ok(Sent::Proposed(ticket)) => {
                        let log_bytes = self.engine.batch_bytes() - before;
                        let stored = stored(&messages, options, log_bytes);
                        self.counters.statistics().put(&topic, stored);
                        self.replies.add_send(ticket, messages.len(), reply, permit);
                    }
                    Ok(Sent::DuplicateOf(ticket)) => self.replies.add_duplicate(ticket, reply),
                    Ok(Sent::Duplicate(receipt)) => drop(reply.send(Ok(vec![receipt]))),
                    Err(error) => drop(reply.send(Err(error.into()))),
                }
            }
            Request::Pop { request, reply } => self.pop(request, reply, now),
            Request::PopLite { request, reply } => self.pop_lite(request, reply, now),
            Request::ChangeLites { change, reply } => drop(reply.send(self.change_lites(*change, now))),
            Request::LiteUpkeep { gone, reply } => drop(reply.send(self.lite_upkeep(&gone))),
            Request::Pull { request, reply } => self.pull(request, reply, now),
            Request::CountPops { of, reply } => drop(reply.send(self.count_pops(&of))),
            Request::Call(call) => match call(&mut self.engine, now.time) {
                Called::Answered => {}
                Called::Durable(ticket, answer) => self.replies.add_change(ticket, answer),
            },
            Request::Question(question) => self.question(question, Vec::new(), now),
            Request::Look => {}
            Request::EndPolls => self.end_polls(now),
            Request::Stop => self.stopping = true,
        }
    }

    /// Runs something very short for a connection task. Says whether the owner thread has to look at what came of it.
    pub fn ask_here<R>(&mut self, ask: impl FnOnce(&mut Engine) -> R) -> (R, bool) {
        let before = self.engine.batch_records();
        let answer = self.engine.run_cached(Vec::new(), ask).result;
        let recorded = self.engine.batch_records() - before;
        self.slot_records += recorded;
        let many = self.engine.batch_bytes() >= FACTS_BYTES_MAX;
        let owners_turn = (before == 0 && recorded > 0) || many || self.engine.has_wakes();
        (answer, owners_turn)
    }

    /// Does everything that can be done now, and writes what came of it. To be called after requests and reports were
    /// taken, and when [`Runtime::sleep`] is over.
    pub fn work(&mut self, now: Now) -> Result<(), Failure> {
        let now = self.seen(now);
        if !self.checkpoint_wanted {
            self.do_due(now);
            self.wake(now);
        }
        if !self.may_defer(now) {
            self.submit(now)?;
        }
        // The last frame may have used up the file of the next segment.
        self.jobs.extend(self.engine.make_spare());
        self.counters.set_waiting(self.waiting.len());
        self.housekeep(now);
        self.flush_facts(now);
        Ok(())
    }

    /// Whether what was appended is to be made durable now; the shell does it and hands the report to
    /// [`Runtime::flushed`].
    pub fn take_flush_order(&mut self) -> bool {
        std::mem::take(&mut self.flush_wanted)
    }

    /// Slow work for another thread; what came of it goes to [`Runtime::job_done`].
    pub fn take_jobs(&mut self) -> impl Iterator<Item = Job> {
        self.jobs.drain(..)
    }

    /// How long there is nothing to do, unless a request, a report or a finished job comes.
    pub fn sleep(&self, now: Now) -> Duration {
        let now = self.seen(now);
        if self.checkpoint_wanted {
            // Requests wait for it: as soon as everything is durable it is taken.
            return if self.engine.pending_frames() > 0 { SLEEP_MAX } else { Duration::ZERO };
        }
        if self.engine.is_encoding()
            || !self.unfinished.is_empty()
            || self.engine.has_wakes()
            || !self.cold.warmed.is_empty()
        {
            return Duration::ZERO;
        }
        let until = |at: Duration| at.saturating_sub(now.uptime);
        let retry_at = self.refusal.as_ref().map(|refusal| refusal.retry_at);
        let deferred = self.facts_write_at.filter(|_| !self.engine.has_decisions());
        let unwritten = self.engine.has_batch().then(|| retry_at.max(deferred).map_or(Duration::ZERO, until));
        let (look, visible) = self.waiting.next_times();
        [
            unwritten,
            self.next_tick(now),
            look.map(until),
            visible.map(|at| at.since(now.time)),
            self.facts_flush_at.map(until),
            Some(until(self.housekeeping_at)),
        ]
        .into_iter()
        .flatten()
        .fold(SLEEP_MAX, Duration::min)
    }

    /// The time as this step goes by it.
    fn seen(&self, now: Now) -> Now {
        if planted!(self.config, WaitByWallClock) {
            return Now { uptime: Duration::from_millis(now.time.0), ..now };
        }
        now
    }

    /// How long until the engine has something to do.
    fn next_tick(&self, now: Now) -> Option<Duration> {
        let due = self.engine.next_deadline()?.since(now.time);
        // What it would decide now would be refused with everything else.
        let refused = self.refusal.as_ref().map(|refusal| refusal.retry_at);
        let paused = self.tick_pause.map(|(_, until)| until);
        let earliest = refused.max(paused).map_or(Duration::ZERO, |at| at.saturating_sub(now.uptime));
        Some(due.max(earliest))
    }

    fn do_due(&mut self, now: Now) {
        if self.next_tick(now).is_some_and(|wait| wait.is_zero()) {
            self.tick(now);
        }
        self.resume_cold(now);
        self.retry_due(now);
    }

    fn tick(&mut self, now: Now) {
        let records = self.engine.batch_records();
        let checks = self.config.checks.as_ref();
        // A check counts as asked only if it can be handed over.
        let room = checks.map_or(usize::MAX, |checks| if checks.is_closed() { 0 } else { checks.capacity() });
        let room = if planted!(self.config, CheckCountsUnsent) { usize::MAX } else { room };
        for check in self.engine.tick_with_room(now.time, room) {
            if let Some(checks) = &self.config.checks {
                // There is room: no one else sends.
                let _ = checks.try_send(check);
            }
        }
        let due = self.engine.next_deadline().is_some_and(|at| at <= now.time);
        let stuck = due && self.engine.batch_records() == records;
        self.tick_pause = stuck.then(|| {
            let pause = self.tick_pause.map_or_else(Pause::default, |(pause, _)| pause).longer();
            (pause, pause.after(now.uptime))
        });
    }

    /// Whether what there is to write are facts that came through the engine slot, and not for long.
    fn may_defer(&mut self, now: Now) -> bool {
        let own = self.engine.has_decisions() || self.engine.batch_records() > self.slot_records;
        let many = self.engine.batch_bytes() >= FACTS_BYTES_MAX;
        if own || many || self.slot_records == 0 || self.checkpoint_wanted || self.stopping {
            return false;
        }
        if planted!(self.config, DeferForEver) {
            return true;
        }
        now.uptime < *self.facts_write_at.get_or_insert(now.uptime + FACTS_WRITE_AFTER)
    }

    /// Nothing of the batch is deferred any longer.
    pub(super) fn undefer(&mut self) {
        self.facts_write_at = None;
        self.slot_records = 0;
    }
}

/// What a send counts as. The messages of a batch are of one type.
fn stored(messages: &[Message], options: SendOptions, log_bytes: usize) -> Stored {
    let half = options.half.is_some();
    Stored {
        kind: messages.first().map_or(MessageType::Normal, |message| message.message_type(half)),
        messages: messages.len(),
        body_bytes: messages.iter().map(|message| message.body.len()).sum(),
        log_bytes,
    }
}

#[cfg(test)]
mod tests;
