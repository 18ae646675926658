//! The shards of the process: opened together, stopped together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::Context;
use redstart_engine::{Config as EngineConfig, TransactionCheck};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    listen::FileLimits,
    shard::{self, CheckSink, Flush, JobThreads, Opened, PendingBytesBudget, Shard, ShardHandle},
};
use tokio::sync::mpsc;

use crate::{
    config::{Config, FlushMode},
    shard_dirs, startup,
};

/// Capacity of a queue of transaction checks.
pub const CHECKS_MAX: usize = 4096;
/// Shards that are opened at the same time.
const OPENING_MAX: usize = 8;
/// Requests in the channel to one of several shards, at least.
const REQUESTS_MIN: usize = 2048;

/// The running shards.
#[derive(Debug)]
pub struct Node {
    shards: Vec<Shard>,
    checks: Vec<mpsc::Receiver<TransactionCheck>>,
}

/// What one shard is opened with.
pub struct Plan {
    pub dir: PathBuf,
    pub storage: FsStorage,
    pub log: Options,
    pub engine: EngineConfig,
    pub shard: shard::Config,
}

impl Plan {
    /// Makes the directory of a shard if it is not there.
    pub fn new(config: &Config, files: FileLimits, number: usize, checks: CheckSink) -> anyhow::Result<Plan> {
        let dir = shard_dirs::of(&config.data_dir, number);
        let storage = FsStorage::open(&dir).map_err(|error| startup::directory(&error, &dir))?;
        let mut log = Options::with_segment_bytes(config.segment_bytes);
        log.open_files_max = log.open_files_max.min(files.log / config.shards).max(1);
        let mut shard = shard::Config {
            flush: match config.flush {
                FlushMode::Sync => Flush::Sync,
                FlushMode::Async => Flush::Async { interval: config.flush_interval },
            },
            checks: Some(checks),
            ..shard::Config::default()
        };
        if config.shards > 1 {
            shard.requests_max = (shard.requests_max / config.shards).max(REQUESTS_MIN);
        }
        Ok(Plan { dir, storage, log, engine: engine_config(config), shard })
    }
}

impl Node {
    /// Opens all shards. What they have in common, threads and budgets, they share.
    pub fn open(config: &Config, files: FileLimits) -> anyhow::Result<Node> {
        let count = config.shards;
        let job_threads = JobThreads::start(count).context("cannot start a thread")?;
        let pending_bytes = PendingBytesBudget::new(config.pending_bytes_max);
        let mut plans = Vec::new();
        let mut checks = Vec::new();
        // Their directories are made in the order of their numbers, so that a crash leaves no gap.
        for number in 0..count {
            let (sink, asked) = mpsc::channel(CHECKS_MAX);
            let mut plan = Plan::new(config, files, number, sink)?;
            plan.shard.pending_bytes = pending_bytes.clone();
            plan.shard.job_threads = Some(job_threads.clone());
            plans.push(plan);
            checks.push(asked);
        }
        let mut shards = Vec::new();
        let mut plans = plans.into_iter();
        loop {
            let some: Vec<Plan> = plans.by_ref().take(OPENING_MAX).collect();
            if some.is_empty() {
                return Ok(Node { shards, checks });
            }
            let opened: Vec<anyhow::Result<Shard>> = std::thread::scope(|scope| {
                let open = |plan| scope.spawn(move || open(config, plan));
                let opening: Vec<_> = some.into_iter().map(open).collect();
                let ended = opening.into_iter().map(std::thread::ScopedJoinHandle::join);
                ended
                    .map(|ended| ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a shard cannot be opened"))))
                    .collect()
            });
            for shard in opened {
                shards.push(shard?);
            }
        }
    }

    /// The shard that has what concerns the whole node.
    pub fn first(&self) -> ShardHandle {
        self.shards[0].handle()
    }

    pub fn handles(&self) -> Vec<ShardHandle> {
        self.shards.iter().map(Shard::handle).collect()
    }

    /// The transactions whose producers are to be asked, by shard. Only the first call has them.
    pub fn take_checks(&mut self) -> Vec<mpsc::Receiver<TransactionCheck>> {
        std::mem::take(&mut self.checks)
    }

    pub fn has_failed(&self) -> bool {
        self.shards.iter().any(Shard::has_failed)
    }

    /// Stops all shards; the first failure is returned.
    pub fn stop(self) -> anyhow::Result<()> {
        self.shards.iter().for_each(Shard::begin_stop);
        let stopped: Vec<_> = self.shards.into_iter().map(Shard::stop).collect();
        for ended in stopped {
            ended.context("the shard failed; restart the broker to recover")?;
        }
        Ok(())
    }
}

fn open(config: &Config, plan: Plan) -> anyhow::Result<Shard> {
    let started = Instant::now();
    let opened = Shard::open(Arc::new(plan.storage), plan.log, plan.engine, plan.shard)
        .map_err(|error| startup::shard(&error, &plan.dir))?;
    log_recovery(config, &plan.dir, &opened, started);
    Ok(opened.shard)
}

fn log_recovery(config: &Config, dir: &Path, Opened { log, engine, .. }: &Opened, started: Instant) {
    let data = dir.display();
    for damaged in engine.damaged_checkpoints.iter().chain(&engine.damaged_indexes) {
        tracing::warn!(%data, damaged, "recovered from older data");
    }
    if let Some(cut) = &log.cut {
        tracing::info!(%data, file = cut.file, bytes = cut.bytes, "cut an unfinished write");
    }
    if log.damaged_manifest {
        tracing::warn!(
            %data,
            "the manifest was damaged and has been rebuilt; files that were missing before are not detected"
        );
    }
    tracing::info!(
        %data,
        flush = ?config.flush,
        segments = log.segments,
        frames = log.last.0,
        frames_replayed = engine.frames_replayed,
        millis = started.elapsed().as_millis() as u64,
        "shard open"
    );
}

fn engine_config(config: &Config) -> EngineConfig {
    let mut engine = EngineConfig { new_groups_from: config.new_groups_from, ..EngineConfig::default() };
    engine.limits.body_bytes_max = config.message_bytes_max;
    engine.limits.batch_bytes_max = engine.limits.batch_bytes_max.max(config.message_bytes_max);
    engine.retention.keep = config.retention;
    engine.retention.clean_percent = config.disk_clean_percent;
    engine.retention.forced_percent =
        config.disk_forced_percent.clamp(config.disk_clean_percent, config.disk_refuse_percent);
    engine.retention.refuse_percent = config.disk_refuse_percent;
    engine.transactions.first_check_after = config.transaction_check_after;
    engine.transactions.check_interval = config.transaction_check_interval;
    engine.transactions.checks_max = config.transaction_checks_max;
    engine
}
