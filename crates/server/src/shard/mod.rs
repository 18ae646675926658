//! A shard at work: one log, one engine, one owner thread.
//!
//! Requests come through a bounded channel; the owner drains them, appends one frame for all, and answers when that
//! frame is durable. These threads share the work:
//!
//! - the *owner* holds the engine and takes every decision;
//! - the *flusher* makes appended frames durable, so that the owner works on while the disk does;
//! - the *background jobs* write indexes and checkpoints, and make segments.
//!
//! What the owner does is a state machine, [`runtime`], that knows neither threads nor clocks; [`owner`], [`flusher`] and
//! [`jobs`] are the threads around it. Bodies are read by the front ends, through [`ShardHandle::bodies`].

mod bodies;
mod budget;
mod clock;
mod cold;
mod condition;
mod config;
mod counters;
mod events;
mod flusher;
mod handle;
mod jobs;
mod lite;
mod lites;
mod now;
mod owner;
mod pause;
mod planted;
mod replies;
mod request;
mod runtime;
mod serve;
mod slot;
#[cfg(any(test, feature = "sim"))]
mod stepped;
mod tally;
mod upkeep;
mod waiting;
mod writing;

use std::{sync::Arc, thread::JoinHandle};

use redstart_engine::{Config as EngineConfig, Engine, OffsetGap, OpenError, Recovered, TransactionCheck};
use redstart_log::{DiskLog, Error as LogError, Log, Options as LogOptions, Recovery, Storage};

pub use bodies::Bodies;
pub(crate) use bodies::COLD_READS_MAX;
pub use clock::{Clock, ClockStanding, SystemClock};
#[cfg(feature = "sim")]
pub use clock::{Reading, SteadyTime};
pub use condition::Condition;
pub use config::{Config, Flush};
pub use counters::Counters;
pub use handle::{ChangeError, ReceiveError, Reply, SendFailure, ShardHandle, WantedKey};
pub(crate) use jobs::READERS;
pub use lites::{LiteAction, LiteChange, LiteNotice, TooManyLites};
pub use now::Now;
#[cfg(feature = "sim")]
pub use planted::Planted;
pub use request::{AwaitedPops, PopRequest, PullRequest, Unavailable};
#[cfg(any(test, feature = "sim"))]
pub use stepped::{Effects, Stepped};

use budget::Budget;
use flusher::Flushing;
use jobs::BackgroundJobs;
use owner::Owner;
use request::Request;
use runtime::Runtime;
use slot::EngineSlot;

/// A running shard. Stop it with [`Shard::stop`]; dropping it stops it too.
#[derive(Debug)]
pub struct Shard {
    handle: ShardHandle,
    owner: Option<JoinHandle<Result<(), Failure>>>,
}

/// What a start found on disk.
#[derive(Debug)]
pub struct Opened {
    pub shard: Shard,
    pub log: Recovery,
    pub engine: Recovered,
}

/// A shard that did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Engine(#[from] OpenError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a shard stopped by itself. What was acknowledged is on disk; opening the shard again recovers it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the log failed: {0}")]
    Log(#[from] LogError),
    #[error("the log and the state have parted ways: {0}")]
    Gap(#[from] OffsetGap),
    #[error("the owner thread panicked")]
    Panicked,
    #[error("the thread that makes frames durable has ended")]
    Flusher,
    #[error("a thread that writes indexes and checkpoints or makes segments has ended")]
    BackgroundJobs,
}

impl Shard {
    /// Opens the log in `storage` and starts to serve.
    pub fn open(
        storage: Arc<dyn Storage>,
        log: LogOptions,
        engine: EngineConfig,
        config: Config,
    ) -> Result<Opened, StartError> {
        let (log, recovery) = DiskLog::open(storage, log)?;
        let (shard, recovered) = Shard::start(Box::new(log), engine, config, Arc::new(SystemClock))?;
        Ok(Opened { shard, log: recovery, engine: recovered })
    }

    /// Starts on a log that is already open.
    pub fn start(
        log: Box<dyn Log>,
        engine: EngineConfig,
        config: Config,
        clock: Arc<dyn Clock>,
    ) -> Result<(Shard, Recovered), StartError> {
        let flusher = log.flusher();
        let (engine, recovered) = Engine::open(log, engine)?;
        events::log_clock(engine.last_known_time(), clock.now(), &engine.config().retention);
        let reader = engine.reader();
        let (requests, incoming) = crossbeam_channel::bounded::<Request>(config.requests_max);
        let budget = Arc::new(Budget::new(config.pending_bytes_max));
        let (counters, flush) = (Arc::new(Counters::default()), config.flush);
        let flushing = Flushing::start(flusher, flush, counters.clone())?;
        let jobs = BackgroundJobs::start()?;
        let slot = Arc::new(EngineSlot::new(Runtime::new(engine, config, counters.clone())));
        let of_handles = Arc::downgrade(&slot);
        let of_owner = counters.clone();
        let work = move || {
            let owner = Owner::new(&slot, incoming, flushing, jobs, clock, of_owner.clone());
            of_owner.condition().watch(|| owner.run())
        };
        let owner = std::thread::Builder::new().name("shard-owner".to_owned()).spawn(work)?;
        let handle = ShardHandle::new(requests, of_handles, budget, reader, counters, flush);
        Ok((Shard { handle, owner: Some(owner) }, recovered))
    }

    pub fn handle(&self) -> ShardHandle {
        self.handle.clone()
    }

    /// Whether the shard has ended by itself.
    pub fn has_failed(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.is_finished())
    }

    /// Finishes what was accepted, makes it durable, writes a checkpoint, and ends.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Some(owner) = self.owner.take() else { return Ok(()) };
        self.handle.send_stop();
        let ended = owner.join().unwrap_or(Err(Failure::Panicked));
        self.handle.await_end();
        ended
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "shard stopped with an error");
        }
    }
}

/// Takes the transactions whose producers must be asked.
pub type CheckSink = tokio::sync::mpsc::Sender<TransactionCheck>;
