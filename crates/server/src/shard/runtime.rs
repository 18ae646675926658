//! The shard as a state machine: requests, flush reports and finished jobs go in, together with the time; replies, flush
//! orders and jobs come out. It has no thread and no clock, and blocks only in reads and appends of the log. The owner thread
//! ([`super::owner`]) drives it in production; a simulation takes the same steps one by one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use redstart_engine::{Engine, Job, Message, MessageType, SendOptions, Sent};

use super::{
    Config, Counters, Failure, Now,
    backoff::Backoff,
    cold_reads::ColdReads,
    commit::{Refusal, Written},
    error::SendFailure,
    leadership::{Role, SetAside},
    lite_subscriptions::LiteSubscriptions,
    log_lines::{DiskLevel, SpareFile},
    pending_replies::PendingReplies,
    planted,
    request::{Called, Request},
    wait_list::{WaitList, WaiterId},
};
use crate::statistics::Stored;

/// Longest sleep when nothing is due.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Facts that connection tasks recorded through the engine slot are written after this time, or when they have reached
/// [`DEFERRED_BYTES_MAX`], or together with other records. Consumers that pull record an offset with each pull: a frame for each
/// of them would cost more than the pulls.
const FACTS_WRITE_AFTER: Duration = Duration::from_millis(50);
const DEFERRED_BYTES_MAX: usize = 256 << 10;

/// The state of a shard: the engine, and the requests that are not answered yet.
pub(super) struct Runtime {
    pub(super) engine: Engine,
    pub(super) config: Config,
    pub(super) counters: Arc<Counters>,
    pub(super) replies: PendingReplies,
    pub(super) wait_list: WaitList,
    pub(super) lite_subscriptions: LiteSubscriptions,
    /// Receives whose search reached its bounds while it made progress: they go on in the next step.
    pub(super) unfinished_searches: Vec<WaiterId>,
    /// Receives and queries that wait for the disk.
    pub(super) cold_reads: ColdReads,
    /// Records of the batch that came through the engine slot.
    slot_records: usize,
    /// When the facts that came through the engine slot must be written.
    facts_write_at: Option<Duration>,
    /// When facts that were written must be made durable.
    pub(super) facts_flush_at: Option<Duration>,
    /// Frames that are not known to be durable, oldest first.
    pub(super) written: VecDeque<Written>,
    /// Set while the log refuses frames.
    pub(super) refusal: Option<Refusal>,
    pub(super) role: Role,
    pub(super) set_aside: SetAside,
    /// The last tick made no progress; there is no other before this uptime.
    tick_backoff: Option<(Backoff, Duration)>,
    pub(super) stopping: bool,
    pub(super) checkpoint_wanted: bool,
    pub(super) checkpointed_at: Duration,
    /// Size of the last checkpoint.
    pub(super) checkpoint_bytes: usize,
    pub(super) housekeeping_at: Duration,
    pub(super) disk_level: DiskLevel,
    pub(super) spare_file: SpareFile,
    /// When the last frame became durable. `None` once the manifest, which records that, is durable too.
    pub(super) flushed_at: Option<Duration>,
    /// Effects for the caller: see [`Runtime::take_flush_order`] and [`Runtime::take_jobs`].
    pub(super) flush_wanted: bool,
    pub(super) jobs: Vec<Job>,
}

impl Runtime {
    pub fn new(engine: Engine, config: Config, counters: Arc<Counters>) -> Runtime {
        Runtime {
            engine,
            config,
            counters,
            replies: PendingReplies::default(),
            wait_list: WaitList::default(),
            lite_subscriptions: LiteSubscriptions::default(),
            unfinished_searches: Vec::new(),
            cold_reads: ColdReads::default(),
            slot_records: 0,
            facts_write_at: None,
            facts_flush_at: None,
            written: VecDeque::new(),
            refusal: None,
            role: Role::default(),
            set_aside: SetAside::default(),
            tick_backoff: None,
            stopping: false,
            checkpoint_wanted: false,
            checkpointed_at: Duration::ZERO,
            checkpoint_bytes: 0,
            housekeeping_at: Duration::ZERO,
            disk_level: DiskLevel::default(),
            spare_file: SpareFile::default(),
            flushed_at: None,
            flush_wanted: false,
            jobs: Vec::new(),
        }
    }

    /// Whether a further request may be taken in this step.
    pub fn takes_requests(&self) -> bool {
        // While a checkpoint waits for the last frame to be durable, nothing may change the state.
        if self.checkpoint_wanted || self.stopping || self.holds_requests() {
            return false;
        }
        if planted::stops_requests(&self.config, self.refusal.is_some()) {
            return false;
        }
        if planted::full_memory_stops_requests(&self.config, self.refused_bytes().is_some()) {
            return false;
        }
        // While the log refuses frames, requests that would record more than memory is kept for are refused one by one.
        self.refusal.is_some() || self.engine.batch_bytes() < self.config.frame_bytes_max
    }

    /// Bytes of facts that wait in memory because the log refuses them, if they have reached their limit.
    pub(super) fn refused_bytes(&self) -> Option<usize> {
        let bytes = Some(self.engine.batch_bytes()).filter(|_| self.refusal.is_some());
        bytes.filter(|bytes| *bytes >= self.config.refused_bytes_max)
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

    /// Takes one request: answers it, or keeps it until it can be answered.
    pub fn take(&mut self, request: Request, now: Now) {
        let now = planted::step_time(&self.config, now);
        let request = match self.decides() {
            true => request,
            false => match self.take_as_follower(request, now) {
                Some(request) => request,
                None => return,
            },
        };
        match request {
            Request::Send { topic, messages, options, permit, reply } => {
                if let Some(cause) = self.refuses(now) {
                    return drop(reply.send(Err(SendFailure::Log(cause.to_owned()))));
                }
                let before = self.engine.batch_bytes();
                // The engine may want to read the first message of which this is a duplicate, and can do without it.
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
            Request::LiteUpkeep { disconnected, reply } => drop(reply.send(self.lite_upkeep(&disconnected))),
            Request::Pull { request, reply } => self.pull(request, reply, now),
            Request::CountPops { of, reply } => drop(reply.send(self.count_pops(&of))),
            Request::Call(call) => match call(&mut self.engine, now.time) {
                Called::Answered => {}
                Called::Pending(ticket, answer) => self.replies.add_change(ticket, answer),
            },
            Request::Query(query) => self.query(query, Vec::new(), now),
            Request::WakeUp => {}
            Request::EndPolls => self.end_polls(now),
            Request::Stop => self.stopping = true,
        }
    }

    /// Runs a very short closure for a connection task. Also returns whether the owner thread has to be woken for its effects.
    pub fn ask_here<R>(&mut self, ask: impl FnOnce(&mut Engine) -> R) -> (R, bool) {
        let before = self.engine.batch_records();
        let answer = self.engine.run_cached(Vec::new(), ask).result;
        let recorded = self.engine.batch_records() - before;
        self.slot_records += recorded;
        let many = self.engine.batch_bytes() >= DEFERRED_BYTES_MAX;
        let wake_owner = (before == 0 && recorded > 0) || many || self.engine.has_wakes();
        (answer, wake_owner)
    }

    /// Does all due work and appends the resulting records. To be called after requests and reports were taken, and after
    /// [`Runtime::sleep`] has passed.
    pub fn work(&mut self, now: Now) -> Result<(), Failure> {
        let now = planted::step_time(&self.config, now);
        if !self.decides() {
            self.work_as_follower(now);
            return Ok(());
        }
        if !self.checkpoint_wanted && !self.holds_requests() {
            self.do_due(now);
            self.wake(now);
        }
        if !self.may_defer(now) && !self.holds_requests() {
            self.submit(now)?;
        }
        // The last frame may have used up the file of the next segment.
        self.jobs.extend(self.engine.make_spare());
        self.counters.condition().set_refused_bytes(self.refused_bytes());
        self.counters.set_waiting_receives(self.wait_list.len());
        self.housekeep(now);
        // Messages that become dead letters, or are copied before their segment goes, are read like those of requests.
        for part in self.engine.take_own_reads() {
            self.read_cold(part);
        }
        self.flush_facts(now);
        Ok(())
    }

    /// Whether the appended frames are to be flushed now. The caller flushes and passes the result to [`Runtime::flushed`].
    pub fn take_flush_order(&mut self) -> bool {
        std::mem::take(&mut self.flush_wanted)
    }

    /// Slow work for other threads. The caller passes each result to [`Runtime::job_done`].
    pub fn take_jobs(&mut self) -> impl Iterator<Item = Job> {
        self.jobs.drain(..)
    }

    /// How long nothing is due, unless a request, a flush report or a finished job comes.
    pub fn sleep(&self, now: Now) -> Duration {
        let now = planted::step_time(&self.config, now);
        if !self.decides() || self.holds_requests() {
            return match self.engine.is_encoding() || !self.cold_reads.done.is_empty() {
                true => Duration::ZERO,
                false => self.housekeeping_at.saturating_sub(now.uptime).min(SLEEP_MAX),
            };
        }
        if self.checkpoint_wanted {
            // Requests wait for the checkpoint, which is taken as soon as all frames are durable.
            return if self.engine.pending_frames() > 0 { SLEEP_MAX } else { Duration::ZERO };
        }
        if self.engine.is_encoding()
            || !self.unfinished_searches.is_empty()
            || self.engine.has_wakes()
            || !self.cold_reads.done.is_empty()
        {
            return Duration::ZERO;
        }
        let until = |at: Duration| at.saturating_sub(now.uptime);
        let append_at = self.refusal.as_ref().map(|refusal| refusal.append_again_at);
        let deferred = self.facts_write_at.filter(|_| !self.engine.has_decisions());
        let unwritten =
            self.engine.has_batch().then(|| append_at.max(deferred).map_or(Duration::ZERO, until));
        let (recheck, visible_at) = self.wait_list.next_times();
        [
            unwritten,
            self.next_tick(now),
            recheck.map(until),
            visible_at.map(|at| at.since(now.time)),
            self.facts_flush_at.map(until),
            Some(until(self.housekeeping_at)),
        ]
        .into_iter()
        .flatten()
        .fold(SLEEP_MAX, Duration::min)
    }

    /// How long until the engine has something to do.
    fn next_tick(&self, now: Now) -> Option<Duration> {
        let due = self.engine.next_deadline()?.since(now.time);
        // While the log refuses frames, the decisions of a tick would be refused too.
        let refused = self.refusal.as_ref().map(|refusal| refusal.append_again_at);
        let backoff = self.tick_backoff.map(|(_, until)| until);
        let earliest = refused.max(backoff).map_or(Duration::ZERO, |at| at.saturating_sub(now.uptime));
        Some(due.max(earliest))
    }

    fn do_due(&mut self, now: Now) {
        if self.next_tick(now).is_some_and(|wait| wait.is_zero()) {
            self.tick(now);
        }
        self.run_suspended(now);
        self.rerun_due(now);
    }

    fn tick(&mut self, now: Now) {
        let records = self.engine.batch_records();
        let checks = self.config.checks.as_ref();
        // The engine counts a check when it returns it, so it must not return more than the channel takes.
        let max = checks.map_or(usize::MAX, |checks| if checks.is_closed() { 0 } else { checks.capacity() });
        let max = planted::checks_max(&self.config, max);
        for check in self.engine.tick_bounded(now.time, max) {
            if let Some(checks) = &self.config.checks {
                // This is the only sender, so the channel has capacity.
                let _ = checks.try_send(check);
            }
        }
        let due = self.engine.next_deadline().is_some_and(|at| at <= now.time);
        let stuck = due && self.engine.batch_records() == records;
        self.tick_backoff = stuck.then(|| {
            let backoff = self.tick_backoff.map_or_else(Backoff::default, |(backoff, _)| backoff).next();
            (backoff, backoff.until(now.uptime))
        });
    }

    /// Whether the batch holds only facts that came through the engine slot and need not be written yet.
    fn may_defer(&mut self, now: Now) -> bool {
        let own = self.engine.has_decisions() || self.engine.batch_records() > self.slot_records;
        let many = self.engine.batch_bytes() >= DEFERRED_BYTES_MAX;
        if own || many || self.slot_records == 0 || self.checkpoint_wanted || self.stopping {
            return false;
        }
        if planted::defers_for_ever(&self.config) {
            return true;
        }
        now.uptime < *self.facts_write_at.get_or_insert(now.uptime + FACTS_WRITE_AFTER)
    }

    /// The next tick need not wait.
    pub(super) fn clear_tick_backoff(&mut self) {
        self.tick_backoff = None;
    }

    /// The whole batch is written now.
    pub(super) fn end_deferral(&mut self) {
        self.facts_write_at = None;
        self.slot_records = 0;
    }
}

/// What is counted for a send. The messages of a batch send are of one type.
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
