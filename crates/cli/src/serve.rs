use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use redstart_engine::Config as EngineConfig;
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{Config, Flush, Shard};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Where messages are kept
    #[arg(long, default_value = "redstart-data")]
    data_dir: PathBuf,
    /// Acknowledge when durable (sync), or when written and flushed every half second (async)
    #[arg(long, value_enum, default_value_t = FlushMode::Sync)]
    flush: FlushMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlushMode {
    Sync,
    Async,
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments { data_dir: PathBuf::from("redstart-data"), flush: FlushMode::Sync }
    }
}

const ASYNC_FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// How often a running broker looks for a signal or a failed shard.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot listen for signals")?;
    }

    let started = Instant::now();
    let dir = &arguments.data_dir;
    let storage =
        FsStorage::open(dir).with_context(|| format!("cannot open the data directory {}", dir.display()))?;
    let flush = match arguments.flush {
        FlushMode::Sync => Flush::Sync,
        FlushMode::Async => Flush::Async { interval: ASYNC_FLUSH_INTERVAL },
    };
    let config = Config { flush, ..Config::default() };
    let opened = Shard::open(Arc::new(storage), Options::default(), EngineConfig::default(), config)
        .with_context(|| format!("cannot open the data in {}", dir.display()))?;
    for damaged in opened.engine.damaged_checkpoints.iter().chain(&opened.engine.damaged_indexes) {
        tracing::warn!(damaged, "recovered from older data");
    }
    tracing::info!(
        data = %dir.display(),
        flush = ?arguments.flush,
        millis = started.elapsed().as_millis() as u64,
        frames_replayed = opened.engine.frames_replayed,
        "shard open"
    );
    println!("redstart {} keeps its data in {}", env!("CARGO_PKG_VERSION"), dir.display());
    println!("This build has the storage and the engine; the Remoting and gRPC ports are not in it yet.");
    println!("Stop it with Ctrl-C.");

    while !stop.load(Ordering::Relaxed) && !opened.shard.has_failed() {
        std::thread::sleep(WATCH_INTERVAL);
    }
    let stopping = Instant::now();
    opened.shard.stop().context("the shard failed; start again to recover")?;
    tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(ExitCode::SUCCESS)
}
