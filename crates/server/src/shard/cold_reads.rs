//! Requests that need a part of the log which is not in memory.
//!
//! Such a request is suspended, a job thread reads the part, and the owner serves other requests until then. The parts that were
//! read for a request are kept for it and passed to the engine when it runs again, so that it makes progress even if the engine's
//! caches have dropped them since.

use std::{collections::hash_map::Entry, time::Duration};

use redstart_engine::{
    Cached, ColdPart, Engine, JobDone, OffsetError, PopError, Popped, Pulled, Timestamp, Warmed,
};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::{Now, planted, runtime::Runtime, wait_list::WaiterId};

/// A receive waits this long for the disk even if its deadline is sooner. Then it is answered without messages.
const READ_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of parts that are kept for one request. The oldest parts are dropped first.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Queries that may wait for the disk. A further one is answered at once, with the owner reading from the disk itself.
const QUERIES_MAX: usize = 4096;

/// A read-only request. It changes nothing, so it can run as often as needed.
pub(super) trait Query: Send {
    fn run(&mut self, engine: &Engine, now: Timestamp);
    /// Sends the result of the last [`Query::run`].
    fn reply(self: Box<Self>);
    /// Whether the caller still waits.
    fn is_wanted(&self) -> bool;
}

/// A [`Query`] made of a closure.
pub(super) struct ClosureQuery<R, F> {
    pub query: F,
    pub result: Option<R>,
    pub reply: oneshot::Sender<R>,
}

impl<R: Send, F: Fn(&Engine, Timestamp) -> R + Send> Query for ClosureQuery<R, F> {
    fn run(&mut self, engine: &Engine, now: Timestamp) {
        self.result = Some((self.query)(engine, now));
    }

    fn reply(self: Box<Self>) {
        let ClosureQuery { result, reply, .. } = *self;
        if let Some(result) = result {
            // The caller may have given up.
            drop(reply.send(result));
        }
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// A request that waits for a part.
enum Suspended {
    Receive(WaiterId),
    Query(Box<dyn Query>, Vec<Warmed>),
}

/// The state of a suspended receive.
struct Suspension {
    since: Duration,
    /// Parts that were read for it.
    kept: Vec<Warmed>,
}

/// Parts that are being read, and the requests that wait for them.
#[derive(Default)]
pub(super) struct ColdReads {
    parts: FxHashMap<ColdPart, Vec<Suspended>>,
    receives: FxHashMap<WaiterId, Suspension>,
    queries: usize,
    /// Parts that have been read; the requests that wait for them run in the next step.
    pub done: Vec<Warmed>,
}

impl ColdReads {
    /// Takes the parts that were read for a receive, which runs again.
    pub fn take_kept(&mut self, id: WaiterId) -> Vec<Warmed> {
        self.receives.get_mut(&id).map(|suspension| std::mem::take(&mut suspension.kept)).unwrap_or_default()
    }

    /// The receive does not wait for the disk any more.
    pub fn end_suspension(&mut self, id: WaiterId) {
        self.receives.remove(&id);
    }
}

fn keep(kept: &mut Vec<Warmed>, part: Warmed) {
    kept.push(part);
    while kept.len() > 1 && kept.iter().map(Warmed::bytes).sum::<usize>() > KEPT_BYTES_MAX {
        kept.remove(0);
    }
}

/// The part that a pop needs before it can return anything.
pub(super) fn part_for_pop(cached: &Cached<Result<Popped, PopError>>) -> Option<ColdPart> {
    cached.missed.filter(|_| match &cached.result {
        Ok(popped) => popped.deliveries.is_empty(),
        Err(error) => error.is_cold(),
    })
}

/// The part that a pull needs before it can return anything.
pub(super) fn part_for_pull(cached: &Cached<Result<Pulled, OffsetError>>) -> Option<ColdPart> {
    cached.missed.filter(|_| cached.result.as_ref().is_err_and(OffsetError::is_cold))
}

impl Runtime {
    /// Orders the read of a part, unless it is being read already.
    pub(super) fn read_cold(&mut self, part: ColdPart) {
        if let Entry::Vacant(entry) = self.cold_reads.parts.entry(part) {
            entry.insert(Vec::new());
            self.jobs.push(self.engine.warm(part));
        }
    }

    /// Suspends a waiting receive until a part was read. Returns the time at which that wait ends, or `None` when the receive has
    /// waited for the disk long enough.
    pub(super) fn suspend(
        &mut self,
        id: WaiterId,
        part: ColdPart,
        kept: Vec<Warmed>,
        deadline: Duration,
        now: Now,
    ) -> Option<Duration> {
        let suspension =
            self.cold_reads.receives.entry(id).or_insert(Suspension { since: now.uptime, kept: Vec::new() });
        let until = deadline.max(suspension.since.saturating_add(READ_WAIT_MAX));
        if now.uptime >= until {
            self.cold_reads.end_suspension(id);
            return None;
        }
        suspension.kept = kept;
        self.read_cold(part);
        let suspended = self.cold_reads.parts.entry(part).or_default();
        if !suspended.iter().any(|other| matches!(other, Suspended::Receive(other) if *other == id)) {
            suspended.push(Suspended::Receive(id));
        }
        Some(until)
    }

    /// A part was read. The requests that wait for it run in the next step.
    pub(super) fn cold_read_done(&mut self, part: Warmed) {
        if !planted::loses_cold_read(&self.config) {
            self.cold_reads.done.push(part);
        }
    }

    /// Runs the requests that waited for parts which have been read.
    pub(super) fn run_suspended(&mut self, now: Now) {
        for part in std::mem::take(&mut self.cold_reads.done) {
            for suspended in self.cold_reads.parts.remove(&part.part()).unwrap_or_default() {
                match suspended {
                    Suspended::Query(query, mut kept) => {
                        self.cold_reads.queries -= 1;
                        keep(&mut kept, part.share());
                        self.query(query, kept, now);
                    }
                    Suspended::Receive(id) => {
                        if let Some(suspension) = self.cold_reads.receives.get_mut(&id) {
                            keep(&mut suspension.kept, part.share());
                        }
                        self.rerun_suspended(id, now);
                    }
                }
            }
            // The engine caches it for other requests. A read error was reported to the requests above.
            let _ = self.engine.job_done(JobDone::Read(part));
        }
    }

    /// Answers a query, or suspends it until the part that it needs was read.
    pub(super) fn query(&mut self, mut query: Box<dyn Query>, kept: Vec<Warmed>, now: Now) {
        if !query.is_wanted() {
            return;
        }
        if self.cold_reads.queries >= QUERIES_MAX {
            query.run(&self.engine, now.time);
            return query.reply();
        }
        let cached = self.engine.run_cached(kept, |engine| query.run(engine, now.time));
        match cached.missed {
            None => query.reply(),
            Some(part) => {
                self.read_cold(part);
                self.cold_reads.queries += 1;
                let suspended = Suspended::Query(query, cached.parts);
                self.cold_reads.parts.entry(part).or_default().push(suspended);
            }
        }
    }
}
