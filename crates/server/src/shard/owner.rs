//! The owner thread: it waits for requests, reports and finished jobs, and takes the steps of the [`Runtime`].

use std::{sync::Arc, time::Instant};

use crossbeam_channel::{Receiver, Select, TryRecvError};
use parking_lot::MutexGuard;

use super::{
    Clock, Counters, Failure, Now,
    flusher::{Flushing, Report},
    jobs::BackgroundJobs,
    request::Request,
    runtime::Runtime,
    slot::EngineSlot,
};

/// Requests taken before looking at anything else, so that due work and commits are not starved.
const REQUESTS_PER_STEP: usize = 1024;

/// The thread that decides. It leaves the engine in the slot only while it is blocked: asleep, or waiting for the disk.
pub(super) struct Owner<'a> {
    slot: &'a EngineSlot,
    runtime: MutexGuard<'a, Runtime>,
    incoming: Receiver<Request>,
    flushing: Flushing,
    jobs: BackgroundJobs,
    clock: Arc<dyn Clock>,
    started: Instant,
    counters: Arc<Counters>,
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        self.slot.close();
    }
}

impl<'a> Owner<'a> {
    pub fn new(
        slot: &'a EngineSlot,
        incoming: Receiver<Request>,
        flushing: Flushing,
        jobs: BackgroundJobs,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
    ) -> Owner<'a> {
        let started = Instant::now();
        Owner { slot, runtime: slot.take(), incoming, flushing, jobs, clock, started, counters }
    }

    pub fn run(mut self) -> Result<(), Failure> {
        while !self.runtime.is_stopping() {
            self.wait();
            // A connection task panicked while it had the engine.
            if self.counters.condition().failure().is_some() {
                return Err(Failure::Panicked);
            }
            let now = self.now();
            self.runtime.set_time_suspicious(self.clock.standing().suspicious);
            self.take_reports(now)?;
            take_requests(&mut self.runtime, &self.incoming, now);
            self.runtime.work(now)?;
            self.do_effects()?;
        }
        self.finish()
    }

    fn now(&self) -> Now {
        Now { time: self.clock.now(), uptime: self.started.elapsed() }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) {
        let timeout = self.runtime.sleep(self.now());
        let mut events = Select::new();
        events.recv(&self.flushing.reports);
        events.recv(&self.jobs.done);
        if !self.runtime.is_shared() {
            let _ = events.ready_timeout(timeout);
            return;
        }
        events.recv(&self.incoming);
        let _ = self.slot.lend(&mut self.runtime, || events.ready_timeout(timeout));
    }

    fn take_reports(&mut self, now: Now) -> Result<(), Failure> {
        loop {
            match self.flushing.reports.try_recv() {
                Ok(report) => self.flushed(report, now)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if self.runtime.is_stopping() => break,
                Err(TryRecvError::Disconnected) => return Err(Failure::Flusher),
            }
        }
        loop {
            match self.jobs.done.try_recv() {
                Ok(done) => self.runtime.job_done(done, now),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.runtime.is_stopping() => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Failure::BackgroundJobs),
            }
        }
    }

    fn flushed(&mut self, report: Report, now: Now) -> Result<(), Failure> {
        self.flushing.reported(&report);
        self.runtime.flushed(report.committed, now)
    }

    /// What was written is made durable: at once if the disk is quick, else beside the owner's work.
    fn do_effects(&mut self) -> Result<(), Failure> {
        for job in self.runtime.take_jobs() {
            self.jobs.give(job);
        }
        if !self.runtime.take_flush_order() {
            return Ok(());
        }
        if !self.flushing.is_short() {
            self.flushing.order();
            return Ok(());
        }
        let mut flush = || self.flushing.flush();
        let report =
            if self.runtime.is_shared() { self.slot.lend(&mut self.runtime, flush) } else { flush() };
        self.flushed(report, self.now())
    }

    /// Makes everything accepted durable, answers everyone, writes a checkpoint.
    fn finish(mut self) -> Result<(), Failure> {
        let now = self.now();
        while let Ok(request) = self.incoming.try_recv() {
            self.runtime.take(request, now);
        }
        self.runtime.write_all(now)?;
        self.flushing.order();
        self.flushing.finish();
        self.take_reports(self.now())?;
        self.runtime.end();
        for job in self.runtime.take_jobs() {
            self.jobs.give(job);
        }
        self.jobs.finish();
        self.take_reports(self.now())
    }
}

/// Hands requests to the runtime for one step.
pub(super) fn take_requests(runtime: &mut Runtime, incoming: &Receiver<Request>, now: Now) {
    for _ in 0..REQUESTS_PER_STEP {
        if !runtime.takes_requests() {
            return;
        }
        match incoming.try_recv() {
            Ok(request) => runtime.take(request, now),
            Err(TryRecvError::Empty) => return,
            // Every handle is gone.
            Err(TryRecvError::Disconnected) => return runtime.stop(),
        }
    }
}
