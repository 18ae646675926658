use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Select, TryRecvError};
use parking_lot::MutexGuard;
use redstart_engine::{Engine, Message, MessageType, SendOptions, Sent, Timestamp};
use redstart_log::{Error as LogError, Index};

use super::{
    Clock, Config, Counters, Failure, Flush,
    clerk::Clerk,
    desk::Desk,
    events::{self, Fullness},
    flusher::{Flushing, Report},
    lites::LiteSets,
    replies::Replies,
    request::{Called, Request},
    waiting::{WaitList, WaiterId},
};
use crate::{statistics::Stored, throttle::Throttle};

/// Requests taken before looking at anything else, so that due work and commits are not starved.
const REQUESTS_PER_ROUND: usize = 1024;
/// Sleep when nothing is due; bounded, so that a wall clock set forward is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Facts are written at once and made durable with the next decision, or after this time: nobody waits for them, and a
/// power cut that takes one leads to a redelivery.
const FACTS_FLUSH_AFTER: Duration = Duration::from_millis(20);
/// Facts that others recorded at the desk are written after this time, when they are so many, or with what the owner has to
/// write anyway. Consumers that pull record an offset with each pull: to write these soon would cost more than the pulls.
const FACTS_WRITE_AFTER: Duration = Duration::from_millis(50);
pub(super) const FACTS_BYTES_MAX: usize = 256 << 10;

static REFUSED: Throttle = Throttle::new();

/// The one thread that decides. It leaves the engine at the desk only while it has nothing to do or waits for the disk.
pub(super) struct Owner<'a> {
    desk: &'a Desk,
    pub(super) engine: MutexGuard<'a, Engine>,
    pub(super) incoming: Receiver<Request>,
    pub(super) flushing: Flushing,
    pub(super) clerk: Clerk,
    pub(super) config: Config,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<Counters>,
    pub(super) replies: Replies,
    pub(super) waiting: WaitList,
    pub(super) lites: LiteSets,
    /// Waiters whose search was cut short by its bounds: they go on in the next round.
    pub(super) unfinished: Vec<WaiterId>,
    /// When facts that were recorded at the desk must be written.
    facts_write_at: Option<Instant>,
    /// When facts that were written must be made durable.
    pub(super) facts_flush_at: Option<Instant>,
    /// Frames that are not known to be durable, oldest first.
    pub(super) written: VecDeque<Written>,
    pub(super) stopping: bool,
    pub(super) checkpoint_wanted: bool,
    pub(super) checkpointed_at: Instant,
    pub(super) housekeeping_at: Instant,
    pub(super) fullness: Fullness,
}

/// A frame that was appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    index: Index,
    at: Instant,
    /// Bytes appended since the start, this frame included.
    end: u64,
    /// Somebody may wait for it.
    decisions: bool,
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl<'a> Owner<'a> {
    pub fn new(
        desk: &'a Desk,
        incoming: Receiver<Request>,
        flushing: Flushing,
        clerk: Clerk,
        config: Config,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
    ) -> Owner<'a> {
        let now = Instant::now();
        Owner {
            desk,
            engine: desk.take(),
            incoming,
            flushing,
            clerk,
            checkpointed_at: now,
            housekeeping_at: now,
            fullness: Fullness::default(),
            config,
            clock,
            counters,
            replies: Replies::default(),
            waiting: WaitList::default(),
            lites: LiteSets::default(),
            unfinished: Vec::new(),
            facts_write_at: None,
            facts_flush_at: None,
            written: VecDeque::new(),
            stopping: false,
            checkpoint_wanted: false,
        }
    }

    pub fn run(mut self) -> Result<(), Failure> {
        while !self.stopping {
            self.wait();
            if self.counters.condition().failure().is_some() {
                return Err(Failure::Panicked);
            }
            let now = self.clock.now();
            let recorded = self.engine.batch_records();
            self.take_reports()?;
            // While a checkpoint waits for the last frame nothing new is begun: the state must hold still.
            if !self.checkpoint_wanted {
                self.take_requests(now);
                self.do_due(now);
                self.wake(now);
            }
            if !self.may_defer(recorded) {
                self.submit(now)?;
            }
            self.counters.set_waiting(self.waiting.len());
            self.housekeep(now);
            self.flush_facts()?;
        }
        self.finish()
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) {
        let timeout = self.sleep();
        let mut events = Select::new();
        events.recv(&self.flushing.reports);
        events.recv(&self.clerk.done);
        if self.checkpoint_wanted {
            // The state must hold still: nobody else gets at it.
            let _ = events.ready_timeout(timeout);
            return;
        }
        events.recv(&self.incoming);
        let _ = self.desk.leave(&mut self.engine, || events.ready_timeout(timeout));
    }

    /// Whether what there is to write are facts that others recorded, `recorded` of them, and not for long.
    fn may_defer(&mut self, recorded: usize) -> bool {
        let own = self.engine.has_decisions() || self.engine.batch_records() > recorded;
        let many = self.engine.batch_bytes() >= FACTS_BYTES_MAX;
        if own || many || recorded == 0 || self.checkpoint_wanted || self.stopping {
            return false;
        }
        let now = Instant::now();
        now < *self.facts_write_at.get_or_insert(now + FACTS_WRITE_AFTER)
    }

    fn sleep(&self) -> Duration {
        if self.checkpoint_wanted && self.engine.pending_frames() > 0 {
            return SLEEP_MAX;
        }
        let deferred = self.facts_write_at.is_some() && !self.engine.has_decisions();
        let unwritten = self.engine.has_batch() && !deferred;
        if !self.unfinished.is_empty() || unwritten || self.engine.has_wakes() {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let due = [self.engine.next_deadline(), self.waiting.next_time()].into_iter().flatten().min();
        let due = due.map_or(SLEEP_MAX, |at| at.since(now));
        let clock = Instant::now();
        let facts = [self.facts_write_at, self.facts_flush_at].into_iter().flatten();
        let at = facts.fold(self.housekeeping_at, Instant::min);
        due.min(SLEEP_MAX).min(at.saturating_duration_since(clock))
    }

    pub(super) fn take_requests(&mut self, now: Timestamp) {
        for _ in 0..REQUESTS_PER_ROUND {
            if self.engine.batch_bytes() >= self.config.frame_bytes_max {
                return;
            }
            match self.incoming.try_recv() {
                Ok(request) => self.handle(request, now),
                Err(TryRecvError::Empty) => return,
                // Every handle is gone.
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    pub(super) fn take_reports(&mut self) -> Result<(), Failure> {
        loop {
            match self.flushing.reports.try_recv() {
                Ok(report) => self.commit(report)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if self.stopping => break,
                Err(TryRecvError::Disconnected) => return Err(Failure::Panicked),
            }
        }
        while let Ok(done) = self.clerk.done.try_recv() {
            self.job_done(done);
        }
        Ok(())
    }

    fn handle(&mut self, request: Request, now: Timestamp) {
        match request {
            Request::Send { topic, messages, options, permit, reply } => {
                let before = self.engine.batch_bytes();
                match self.engine.send(&topic, &messages, options, now) {
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
            Request::Call(call) => match call(&mut self.engine, now) {
                Called::Answered => {}
                Called::Durable(ticket, answer) => self.replies.add_change(ticket, answer),
            },
            Request::Look => {}
            Request::EndPolls => self.end_polls(now),
            Request::Stop => self.stopping = true,
        }
    }

    fn do_due(&mut self, now: Timestamp) {
        if self.engine.next_deadline().is_some_and(|at| at <= now) {
            for check in self.engine.tick(now) {
                if let Some(checks) = &self.config.checks {
                    // Full: it is asked again at the next interval.
                    let _ = checks.try_send(check);
                }
            }
        }
        self.retry_due(now);
    }

    pub(super) fn submit(&mut self, now: Timestamp) -> Result<(), Failure> {
        self.facts_write_at = None;
        if !self.engine.has_batch() {
            return Ok(());
        }
        let decisions = self.engine.has_decisions();
        let (records, bytes) = (self.engine.batch_records(), self.engine.batch_bytes());
        match self.engine.submit(now) {
            Ok(None) => {}
            Ok(Some(index)) => {
                let end = self.counters.appended(records, bytes);
                self.written.push_back(Written { index, at: Instant::now(), end, decisions });
                if decisions {
                    self.flush()?;
                } else {
                    self.facts_flush_at.get_or_insert_with(|| Instant::now() + FACTS_FLUSH_AFTER);
                }
                if let Flush::Async { .. } = self.config.flush {
                    self.apply(index, end)?;
                }
            }
            Err((error @ LogError::Poisoned { .. }, refused)) => {
                self.replies.settle(refused);
                return Err(error.into());
            }
            Err((error, refused)) => {
                if let Some(repeated) = REFUSED.permit() {
                    tracing::warn!(%error, decisions = refused.len(), repeated, "the log refused a frame");
                }
                self.replies.settle(refused);
            }
        }
        Ok(())
    }

    /// What was written is made durable: at once if the disk is quick, else beside the owner's work.
    fn flush(&mut self) -> Result<(), Failure> {
        self.facts_flush_at = None;
        if self.flushing.is_short() {
            let mut flush = || self.flushing.flush();
            let report =
                if self.checkpoint_wanted { flush() } else { self.desk.leave(&mut self.engine, flush) };
            return self.commit(report);
        }
        self.flushing.order();
        Ok(())
    }

    /// Also when a checkpoint waits for the last frame.
    fn flush_facts(&mut self) -> Result<(), Failure> {
        if self.facts_flush_at.is_some_and(|at| self.checkpoint_wanted || at <= Instant::now()) {
            self.flush()?;
        }
        Ok(())
    }

    fn commit(&mut self, report: Report) -> Result<(), Failure> {
        self.flushing.reported(&report);
        self.counters.flushed();
        let index = report.committed?;
        let mut end = 0;
        while let Some(frame) = self.written.front().copied().filter(|frame| frame.index <= index) {
            self.written.pop_front();
            if frame.decisions {
                self.counters.committed(frame.at.elapsed());
            }
            end = frame.end;
        }
        self.apply(index, end)
    }

    /// The frames up to `index`, the last of which ends at this byte, take effect.
    fn apply(&mut self, index: Index, end: u64) -> Result<(), Failure> {
        let outcomes = self.engine.committed(index)?;
        self.counters.applied(end);
        self.tally();
        self.replies.settle(outcomes);
        self.engine.take_changes().iter().for_each(events::log_change);
        Ok(())
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
