//! Requests that need a part of the log which is not in memory. They wait until it was read by another thread, and other
//! requests are served until then. What was read for a request is lent to it when it runs again, so that it goes on
//! whatever caches have forgotten since.

use std::{collections::hash_map::Entry as Slot, time::Duration};

use redstart_engine::{
    Cached, ColdPart, Engine, JobDone, OffsetError, PopError, Popped, Pulled, Timestamp, Warmed,
};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::{Now, planted::planted, runtime::Runtime, waiting::WaiterId};

/// A receive waits so long for the disk, also if its own time is over. Then it is answered with nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are kept for one request. The oldest parts go first.
const LENT_BYTES_MAX: usize = 8 << 20;
/// Questions that may wait for the disk; a further one is answered by the owner itself.
const QUESTIONS_MAX: usize = 4096;

/// Something that is asked of the engine and changes nothing, so that it can be asked again.
pub(super) trait Question: Send {
    fn ask(&mut self, engine: &Engine, now: Timestamp);
    /// Sends what the last [`Question::ask`] found.
    fn answer(self: Box<Self>);
    /// Whether the answer is still wanted.
    fn is_wanted(&self) -> bool;
}

pub(super) struct Asked<R, F> {
    pub ask: F,
    pub found: Option<R>,
    pub reply: oneshot::Sender<R>,
}

impl<R: Send, F: Fn(&Engine, Timestamp) -> R + Send> Question for Asked<R, F> {
    fn ask(&mut self, engine: &Engine, now: Timestamp) {
        self.found = Some((self.ask)(engine, now));
    }

    fn answer(self: Box<Self>) {
        let Asked { found, reply, .. } = *self;
        // The caller may have lost interest.
        if let Some(found) = found {
            drop(reply.send(found));
        }
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// What waits for a part.
enum Suspended {
    Receive(WaiterId),
    Question(Box<dyn Question>, Vec<Warmed>),
}

/// A receive that waits for the disk.
struct Suspension {
    since: Duration,
    lent: Vec<Warmed>,
}

/// Parts that are being read, and what waits for them.
#[derive(Default)]
pub(super) struct ColdReads {
    parts: FxHashMap<ColdPart, Vec<Suspended>>,
    receives: FxHashMap<WaiterId, Suspension>,
    questions: usize,
    /// Parts that have been read; what waits for them runs in the next step.
    pub warmed: Vec<Warmed>,
}

impl ColdReads {
    /// The parts that were read for a receive, which runs again.
    pub fn lent_to(&mut self, id: WaiterId) -> Vec<Warmed> {
        self.receives.get_mut(&id).map(|suspension| std::mem::take(&mut suspension.lent)).unwrap_or_default()
    }

    /// The receive does not wait for the disk any more.
    pub fn resume(&mut self, id: WaiterId) {
        self.receives.remove(&id);
    }
}

fn lend(lent: &mut Vec<Warmed>, warmed: Warmed) {
    lent.push(warmed);
    while lent.len() > 1 && lent.iter().map(Warmed::bytes).sum::<usize>() > LENT_BYTES_MAX {
        lent.remove(0);
    }
}

/// The part without which a pop has nothing.
pub(super) fn pop_misses(cached: &Cached<Result<Popped, PopError>>) -> Option<ColdPart> {
    cached.missed.filter(|_| match &cached.result {
        Ok(popped) => popped.deliveries.is_empty(),
        Err(error) => error.is_cold(),
    })
}

/// The part without which a pull has nothing.
pub(super) fn pull_misses(cached: &Cached<Result<Pulled, OffsetError>>) -> Option<ColdPart> {
    cached.missed.filter(|_| cached.result.as_ref().is_err_and(OffsetError::is_cold))
}

impl Runtime {
    /// Has a part read, if it is not being read already.
    pub(super) fn read_cold(&mut self, part: ColdPart) {
        if let Slot::Vacant(slot) = self.cold.parts.entry(part) {
            slot.insert(Vec::new());
            self.jobs.push(self.engine.warm(part));
        }
    }

    /// Lets a held receive wait for a part. Returns until when, or `None` when it has waited long enough.
    pub(super) fn suspend(
        &mut self,
        id: WaiterId,
        part: ColdPart,
        lent: Vec<Warmed>,
        deadline: Duration,
        now: Now,
    ) -> Option<Duration> {
        let suspension =
            self.cold.receives.entry(id).or_insert(Suspension { since: now.uptime, lent: Vec::new() });
        let until = deadline.max(suspension.since.saturating_add(PATIENCE));
        if now.uptime >= until {
            self.cold.resume(id);
            return None;
        }
        suspension.lent = lent;
        self.read_cold(part);
        let waiting = self.cold.parts.entry(part).or_default();
        if !waiting.iter().any(|other| matches!(other, Suspended::Receive(other) if *other == id)) {
            waiting.push(Suspended::Receive(id));
        }
        Some(until)
    }

    /// A part was read. What waits for it goes on in the next step.
    pub(super) fn warmed(&mut self, warmed: Warmed) {
        if !planted!(self.config, LoseColdRead) {
            self.cold.warmed.push(warmed);
        }
    }

    /// Runs again what waited for parts that have been read.
    pub(super) fn resume_cold(&mut self, now: Now) {
        for warmed in std::mem::take(&mut self.cold.warmed) {
            let waiting = self.cold.parts.remove(&warmed.part()).unwrap_or_default();
            for suspended in waiting {
                match suspended {
                    Suspended::Question(question, mut lent) => {
                        self.cold.questions -= 1;
                        lend(&mut lent, warmed.share());
                        self.question(question, lent, now);
                    }
                    Suspended::Receive(id) => {
                        if let Some(suspension) = self.cold.receives.get_mut(&id) {
                            lend(&mut suspension.lent, warmed.share());
                        }
                        self.retry_suspended(id, now);
                    }
                }
            }
            // Of use to other requests; a part that could not be read has been told to those which need it.
            let _ = self.engine.job_done(JobDone::Read(warmed));
        }
    }

    /// Answers a question, or lets it wait for the part that it needs.
    pub(super) fn question(&mut self, mut question: Box<dyn Question>, lent: Vec<Warmed>, now: Now) {
        if !question.is_wanted() {
            return;
        }
        if self.cold.questions >= QUESTIONS_MAX {
            question.ask(&self.engine, now.time);
            return question.answer();
        }
        let cached = self.engine.run_cached(lent, |engine| question.ask(engine, now.time));
        match cached.missed {
            None => question.answer(),
            Some(part) => {
                self.read_cold(part);
                self.cold.questions += 1;
                let suspended = Suspended::Question(question, cached.lent);
                self.cold.parts.entry(part).or_default().push(suspended);
            }
        }
    }
}
