//! The owner thread: waits for requests, flush reports and finished jobs, and takes the steps of the [`Runtime`].

use std::{sync::Arc, time::Instant};

use crossbeam_channel::{Receiver, Select, TryRecvError};
use parking_lot::MutexGuard;

use super::{
    Clock, Counters, Failure, Now,
    engine_slot::EngineSlot,
    flush_thread::{FlushReport, FlushThread},
    jobs::BackgroundJobs,
    replication::ReplicaDriver,
    request::Request,
    runtime::Runtime,
};

/// Requests taken in one step, so that due work and flush reports do not have to wait for more of them.
const REQUESTS_PER_STEP: usize = 1024;

/// The thread that takes all decisions. Connection tasks can use the engine through the slot only while this thread is blocked:
/// asleep, or waiting for the disk.
pub(super) struct Owner<'a> {
    slot: &'a EngineSlot,
    runtime: MutexGuard<'a, Runtime>,
    incoming: Receiver<Request>,
    flush_thread: FlushThread,
    jobs: BackgroundJobs,
    clock: Arc<dyn Clock>,
    started: Instant,
    counters: Arc<Counters>,
    /// The replica of this node, if the shard has others.
    replica: Option<ReplicaDriver>,
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
        flush_thread: FlushThread,
        jobs: BackgroundJobs,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
    ) -> Owner<'a> {
        let started = Instant::now();
        let replica = None;
        Owner { slot, runtime: slot.take(), incoming, flush_thread, jobs, clock, started, counters, replica }
    }

    /// The same for a shard with replicas, since the start of its replica.
    pub fn with_replica(mut self, replica: ReplicaDriver) -> Owner<'a> {
        self.started = replica.started();
        self.replica = Some(replica);
        self
    }

    pub fn run(mut self) -> Result<(), Failure> {
        while !self.runtime.is_stopping() {
            self.wait();
            // A connection task panicked while it had the engine.
            if self.counters.condition().failure().is_some() {
                return Err(Failure::Panicked);
            }
            let now = self.now();
            self.runtime.set_time_suspicious(self.clock.state().suspicious);
            self.take_reports(now)?;
            if let Some(replica) = &mut self.replica {
                replica.step(&mut self.runtime, now)?;
            }
            take_requests(&mut self.runtime, &self.incoming, now);
            self.runtime.work(now)?;
            // Before the flush: the other nodes write while this one does.
            self.send_to_peers();
            self.do_effects()?;
            self.send_to_peers();
        }
        self.finish()
    }

    fn now(&self) -> Now {
        Now { time: self.clock.now(), uptime: self.started.elapsed() }
    }

    fn send_to_peers(&self) {
        if let Some(replica) = &self.replica {
            replica.send();
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) {
        let mut timeout = self.runtime.sleep(self.now());
        let mut events = Select::new();
        events.recv(&self.flush_thread.reports);
        events.recv(&self.jobs.done);
        if let Some(replica) = &self.replica {
            events.recv(replica.inputs());
            timeout = timeout.min(replica.tick());
            if self.runtime.takes_requests() {
                events.recv(&self.incoming);
            }
            // The engine is not lent: whether this node may serve is known to its owner alone.
            let _ = events.ready_timeout(timeout);
            return;
        }
        if !self.runtime.is_shared() {
            let _ = events.ready_timeout(timeout);
            return;
        }
        events.recv(&self.incoming);
        let _ = self.slot.lend(&mut self.runtime, || events.ready_timeout(timeout));
    }

    fn take_reports(&mut self, now: Now) -> Result<(), Failure> {
        loop {
            match self.flush_thread.reports.try_recv() {
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

    fn flushed(&mut self, report: FlushReport, now: Now) -> Result<(), Failure> {
        self.flush_thread.reported(&report);
        self.runtime.flushed(report.committed, now)
    }

    /// Hands jobs to their threads, and flushes if that was ordered: on this thread if the disk is quick, else on the flush thread.
    fn do_effects(&mut self) -> Result<(), Failure> {
        for job in self.runtime.take_jobs() {
            self.jobs.run(job);
        }
        if !self.runtime.take_flush_order() {
            return Ok(());
        }
        if !self.flush_thread.prefers_caller() {
            self.flush_thread.order();
            return Ok(());
        }
        let mut flush = || self.flush_thread.flush();
        let report = if self.runtime.is_shared() && self.replica.is_none() {
            self.slot.lend(&mut self.runtime, flush)
        } else {
            flush()
        };
        self.flushed(report, self.now())
    }

    /// Serves the requests that were accepted, makes their records durable, answers them, and writes a checkpoint.
    fn finish(mut self) -> Result<(), Failure> {
        let now = self.now();
        while let Ok(request) = self.incoming.try_recv() {
            self.runtime.take(request, now);
        }
        self.runtime.write_all(now)?;
        self.flush_thread.order();
        self.flush_thread.finish();
        self.take_reports(self.now())?;
        self.runtime.end();
        for job in self.runtime.take_jobs() {
            self.jobs.run(job);
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
            // Every handle was dropped.
            Err(TryRecvError::Disconnected) => return runtime.stop(),
        }
    }
}
