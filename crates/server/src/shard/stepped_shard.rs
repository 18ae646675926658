//! A shard whose steps the caller takes, for tests and simulation.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::Receiver;
use redstart_engine::{Config as EngineConfig, Engine, Job, JobDone, Recovered};
use redstart_log::{Error as LogError, Flusher, Index, Log};

use super::{
    Config, Counters, Failure, Now, ShardHandle, StartError, engine_slot::EngineSlot, owner::take_requests,
    request::Request, runtime::Runtime,
};

/// A shard without threads: the caller takes the steps of the owner thread, runs flushes and jobs, and gives the time. Clients use the
/// same [`ShardHandle`] as in production.
pub struct SteppedShard {
    slot: Arc<EngineSlot>,
    incoming: Receiver<Request>,
    flusher: Arc<dyn Flusher>,
    handle: ShardHandle,
}

/// What the caller has to do after a step.
#[derive(Debug, Default)]
pub struct Effects {
    /// Flush the log, and pass the result to [`SteppedShard::flushed`].
    pub flush: bool,
    /// Run these at any time, and pass the results to [`SteppedShard::job_done`].
    pub jobs: Vec<Job>,
}

impl std::fmt::Debug for SteppedShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedShard").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl SteppedShard {
    pub fn start(
        log: Box<dyn Log>,
        engine: EngineConfig,
        config: Config,
    ) -> Result<(SteppedShard, Recovered), StartError> {
        let flusher = log.flusher();
        let (engine, recovered) = Engine::open(log, engine)?;
        let reader = engine.reader();
        let (requests, incoming) = crossbeam_channel::bounded(config.requests_max);
        let pending_bytes = config.pending_bytes.0.clone();
        let counters = Arc::new(Counters::default());
        let runtime = Runtime::new(engine, config.clone(), counters.clone());
        let slot = Arc::new(EngineSlot::new(runtime));
        let handle =
            ShardHandle::new(requests, Arc::downgrade(&slot), pending_bytes, reader, counters, &config);
        Ok((SteppedShard { slot, incoming, flusher, handle }, recovered))
    }

    pub fn handle(&self) -> ShardHandle {
        self.handle.clone()
    }

    pub fn flusher(&self) -> Arc<dyn Flusher> {
        self.flusher.clone()
    }

    /// Sets whether the time that is passed to the steps may be wrong by much.
    pub fn set_time_suspicious(&mut self, suspicious: bool) {
        self.slot.take().set_time_suspicious(suspicious);
    }

    /// Takes the requests that have come, and does all due work.
    pub fn step(&mut self, now: Now) -> Result<Effects, Failure> {
        let mut runtime = self.slot.take();
        take_requests(&mut runtime, &self.incoming, now);
        runtime.work(now)?;
        Ok(Effects { flush: runtime.take_flush_order(), jobs: runtime.take_jobs().collect() })
    }

    pub fn flushed(&mut self, committed: Result<Index, LogError>, now: Now) -> Result<(), Failure> {
        self.slot.take().flushed(committed, now)
    }

    pub fn job_done(&mut self, done: JobDone, now: Now) {
        self.slot.take().job_done(done, now);
    }

    /// How long the owner thread would sleep now.
    pub fn sleep(&self, now: Now) -> Duration {
        self.slot.take().sleep(now)
    }

    /// Whether the owner thread would take requests now.
    pub fn takes_requests(&self) -> bool {
        self.slot.take().takes_requests()
    }

    #[cfg(test)]
    pub(super) fn runtime(&self) -> parking_lot::MutexGuard<'_, Runtime> {
        self.slot.take()
    }

    /// Runs a closure on the engine, beside all requests.
    pub fn with_engine<R>(&self, run: impl FnOnce(&mut Engine) -> R) -> R {
        run(&mut self.slot.take().engine)
    }
}
