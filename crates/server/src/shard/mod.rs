//! A running shard: one log, one engine, one owner thread.
//!
//! Requests come through a bounded channel. The owner drains it, appends one frame for all of them, and answers when that frame is
//! durable (with `flush = "async"`: appended). These threads share the work:
//!
//! - the *owner* holds the engine and takes every decision;
//! - the *flush thread* makes appended frames durable while the owner goes on;
//! - the *background jobs* write indexes and checkpoints, make segments, and read what is not in memory.
//!
//! The owner drives a state machine, [`runtime`], that has neither threads nor clocks; [`owner`], [`flush_thread`] and
//! [`jobs`] are the threads around it. Bodies are read by the front ends, through [`ShardHandle::bodies`].

mod backoff;
mod bodies;
mod clock;
mod cold_reads;
mod commit;
mod condition;
mod config;
mod counters;
mod engine_slot;
mod error;
mod event_counts;
mod flush_thread;
mod handle;
mod housekeeping;
mod jobs;
mod leadership;
mod lite_receive;
mod lite_subscriptions;
mod log_lines;
mod owner;
mod pending_bytes;
mod pending_replies;
mod planted;
mod receive;
mod replication;
mod reply;
mod request;
mod runtime;
#[cfg(any(test, feature = "sim"))]
mod stepped_shard;
mod wait_list;

use std::{sync::Arc, thread::JoinHandle};

use redstart_engine::{Config as EngineConfig, Engine, OffsetGap, OpenError, Recovered, TransactionCheck};
use redstart_log::{DiskLog, Error as LogError, Log, Options as LogOptions, Recovery, Storage};

pub use bodies::Bodies;
pub(crate) use bodies::COLD_READS_MAX;
pub use clock::{Clock, ClockState, Now, SystemClock};
#[cfg(feature = "sim")]
pub use clock::{Reading, SteadyTime};
pub use condition::Condition;
pub use config::{Config, Flush, PENDING_BYTES_MAX};
pub use counters::Counters;
pub use error::{ChangeError, ReceiveError, SendFailure, Unavailable};
pub use handle::{ShardHandle, WantedKey};
pub use jobs::JobThreads;
pub(crate) use jobs::READERS;
pub use lite_subscriptions::{LiteAction, LiteChange, LiteNotice, TooManyLiteSubscriptions};
pub use pending_bytes::PendingBytesBudget;
#[cfg(feature = "sim")]
pub use planted::Planted;
pub(crate) use replication::ReplicaInput;
pub use replication::{
    ReplicaIncoming, ReplicaInputs, ReplicaView, Replication, SharedView, Standing, TransferRefused,
};
pub use reply::Reply;
pub use request::{AwaitedPops, PopRequest, PullRequest};
#[cfg(any(test, feature = "sim"))]
pub use stepped_shard::{Effects, SteppedShard};

use engine_slot::EngineSlot;
use flush_thread::FlushThread;
use jobs::BackgroundJobs;
use owner::Owner;
use request::Request;
use runtime::Runtime;

/// A running shard. Stop it with [`Shard::stop`]; dropping it stops it too.
#[derive(Debug)]
pub struct Shard {
    handle: ShardHandle,
    owner: Option<JoinHandle<Result<(), Failure>>>,
}

/// A started shard, and what the start found on disk.
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
    #[error(transparent)]
    Replica(#[from] redstart_raft::Failure),
    #[error(
        "the data was written by a node without peers, and a cluster can only begin with empty data directories"
    )]
    WasAlone,
}

/// Why a shard stopped by itself. Acknowledged messages are on disk (with `flush = "async"`: those of the last interval may not be);
/// opening the shard again recovers them.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the log failed: {0}")]
    Log(#[from] LogError),
    #[error("the log and the state derived from it disagree: {0}")]
    Gap(#[from] OffsetGap),
    #[error(transparent)]
    Replica(#[from] redstart_raft::Failure),
    #[error("what the group has committed cannot be applied: {0}")]
    Follow(#[from] OpenError),
    #[error("the owner thread panicked")]
    Panicked,
    #[error("the thread that makes frames durable has ended")]
    Flusher,
    #[error("a background job thread has ended")]
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
        let (configured, usage) = (log.sizes(), log.usage().ok());
        let (mut engine, recovered) = Engine::open(log, engine)?;
        engine.record_sizes();
        let sizes = engine.sizes().unwrap_or(configured);
        log_lines::log_sizes(sizes, configured);
        log_lines::log_volume(usage, sizes.segment_bytes);
        log_lines::log_clock(engine.last_known_time(), clock.now(), &engine.config().retention);
        let reader = engine.reader();
        let (requests, incoming) = crossbeam_channel::bounded::<Request>(config.requests_max);
        let pending_bytes = config.pending_bytes.0.clone();
        let counters = Arc::new(Counters::default());
        let flush_thread = FlushThread::new(flusher, config.flush, counters.clone());
        let threads = config.job_threads.clone().map_or_else(|| JobThreads::start(1), Ok)?;
        let jobs = BackgroundJobs::new(threads);
        let slot = Arc::new(EngineSlot::new(Runtime::new(engine, config.clone(), counters.clone())));
        let handle_slot = Arc::downgrade(&slot);
        let owner_counters = counters.clone();
        let work = move || {
            let owner = Owner::new(&slot, incoming, flush_thread, jobs, clock, owner_counters.clone());
            owner_counters.condition().watch(|| owner.run())
        };
        let owner = std::thread::Builder::new().name("shard-owner".to_owned()).spawn(work)?;
        let handle = ShardHandle::new(requests, handle_slot, pending_bytes, reader, counters, &config);
        Ok((Shard { handle, owner: Some(owner) }, recovered))
    }

    pub fn handle(&self) -> ShardHandle {
        self.handle.clone()
    }

    /// Whether the shard has ended because its node was too far behind, and has what it needs to start again.
    pub fn wants_restart(&self) -> bool {
        self.handle.counters().condition().wants_restart()
    }

    /// Whether the shard has ended by itself.
    pub fn has_failed(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.is_finished())
    }

    /// Tells the shard to stop, without waiting for it. [`Shard::stop`] waits.
    pub fn begin_stop(&self) {
        self.handle.send_stop();
    }

    /// Serves the requests that were accepted, makes them durable, writes a checkpoint, and ends.
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
            tracing::error!(%error, "the shard stopped with an error");
        }
    }
}

/// Takes the transactions whose producers are to be asked.
pub type CheckSink = tokio::sync::mpsc::Sender<TransactionCheck>;
