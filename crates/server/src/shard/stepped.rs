use std::{sync::Arc, time::Duration};

use crossbeam_channel::Receiver;
use redstart_engine::{Config as EngineConfig, Engine, Job, JobDone, Recovered};
use redstart_log::{Error as LogError, Flusher, Index, Log};

use super::{
    Config, Counters, Failure, Now, ShardHandle, StartError, budget::Budget, owner::take_requests,
    request::Request, runtime::Runtime, slot::EngineSlot,
};

/// A shard without threads: its caller takes the steps of the owner thread, runs flushes and jobs, and says what time it
/// is. Clients use the same [`ShardHandle`] as in production. For tests and simulation.
pub struct Stepped {
    slot: Arc<EngineSlot>,
    incoming: Receiver<Request>,
    flusher: Arc<dyn Flusher>,
    handle: ShardHandle,
}

/// What a step leaves to its caller.
#[derive(Debug, Default)]
pub struct Effects {
    /// What was appended is to be made durable; the result goes to [`Stepped::flushed`].
    pub flush: bool,
    /// To be run at any time; the results go to [`Stepped::job_done`].
    pub jobs: Vec<Job>,
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepped").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Stepped {
    pub fn start(
        log: Box<dyn Log>,
        engine: EngineConfig,
        config: Config,
    ) -> Result<(Stepped, Recovered), StartError> {
        let flusher = log.flusher();
        let (engine, recovered) = Engine::open(log, engine)?;
        let reader = engine.reader();
        let (requests, incoming) = crossbeam_channel::bounded(config.requests_max);
        let budget = Arc::new(Budget::new(config.pending_bytes_max));
        let (counters, flush) = (Arc::new(Counters::default()), config.flush);
        let slot = Arc::new(EngineSlot::new(Runtime::new(engine, config, counters.clone())));
        let handle = ShardHandle::new(requests, Arc::downgrade(&slot), budget, reader, counters, flush);
        Ok((Stepped { slot, incoming, flusher, handle }, recovered))
    }

    pub fn handle(&self) -> ShardHandle {
        self.handle.clone()
    }

    pub fn flusher(&self) -> Arc<dyn Flusher> {
        self.flusher.clone()
    }

    /// Tells whether the time that the steps are given may be wrong by much.
    pub fn set_time_suspicious(&mut self, suspicious: bool) {
        self.slot.take().set_time_suspicious(suspicious);
    }

    /// Takes the requests that have come, and does what is due.
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

    /// Looks at the engine, beside all requests.
    pub fn look<R>(&self, look: impl FnOnce(&mut Engine) -> R) -> R {
        look(&mut self.slot.take().engine)
    }
}
