use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use redstart_engine::Config as EngineConfig;
use redstart_log::{FsStorage, Options};
use redstart_server::{
    grpc::{self, Grpc},
    remoting::{self, Remoting},
    shard::{self, Flush, Opened, Shard},
    tls::CertificateFiles,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use tracing_subscriber::EnvFilter;

use crate::files::raise_file_limit;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Where messages are kept
    #[arg(long, default_value = "redstart-data")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port of the name service
    #[arg(long, default_value_t = 9876)]
    namesrv_port: u16,
    /// Port of the broker (Remoting)
    #[arg(long, default_value_t = 10911)]
    broker_port: u16,
    /// Port of the 5.x clients (gRPC), plaintext and TLS
    #[arg(long, default_value_t = 8081)]
    grpc_port: u16,
    /// Address that routes carry, host:port, instead of the one each client dialled
    #[arg(long)]
    advertise: Option<String>,
    /// Certificate chain (PEM) for TLS, with --tls-key; without it a self-signed one is kept in the data directory
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Create a topic when it is first sent to
    #[arg(long)]
    auto_create_topics: bool,
    /// Delays of the delay levels of 4.x clients, in RocketMQ's notation
    #[arg(long, value_parser = delay_levels, default_value = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")]
    message_delay_levels: DelayLevels,
    /// Acknowledge when durable (sync), or when written and flushed every half second (async)
    #[arg(long, value_enum, default_value_t = FlushMode::Sync)]
    flush: FlushMode,
    /// Seconds after which the producer of an undecided transaction is asked for the first time
    #[arg(long, default_value_t = 60)]
    transaction_check_after: u64,
    /// Seconds between further questions
    #[arg(long, default_value_t = 60)]
    transaction_check_interval: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlushMode {
    Sync,
    Async,
}

/// As given on the command line.
#[derive(Debug, Clone)]
struct DelayLevels(Vec<Duration>);

/// Reads delays such as `1s 10m 2h 1d`.
fn delay_levels(text: &str) -> Result<DelayLevels, String> {
    let level = |word: &str| {
        let (number, unit) = word.split_at_checked(word.len() - 1)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 24 * 3600,
            _ => return None,
        };
        Some(Duration::from_secs(number.parse::<u32>().ok()? as u64 * seconds))
    };
    let levels: Option<Vec<_>> = text.split_whitespace().map(level).collect();
    let levels = levels.filter(|levels| !levels.is_empty());
    levels.map(DelayLevels).ok_or_else(|| format!("{text:?} is no list of delays such as \"1s 10m 2h\""))
}

const CLUSTER: &str = "DefaultCluster";
const BROKER: &str = "broker-a";
const ASYNC_FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// How often a running broker looks whether its shard has failed.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Calls under way get this long to end when the broker stops.
const GRACE: Duration = Duration::from_secs(3);
/// Files that are not gRPC connections.
const FILES_RESERVED: usize = 4096;
/// Transactions that wait to be asked about.
const CHECKS_MAX: usize = 4096;

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (checks, asked) = mpsc::channel(CHECKS_MAX);
    let shard = open(arguments, checks)?;
    runtime.block_on(serve(arguments, &shard, asked))?;
    runtime.shutdown_timeout(GRACE);
    let stopping = Instant::now();
    shard.stop().context("the shard failed; start again to recover")?;
    tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(ExitCode::SUCCESS)
}

fn open(arguments: &Arguments, checks: shard::CheckSink) -> anyhow::Result<Shard> {
    let started = Instant::now();
    let dir = arguments.data_dir.join("shard-0");
    let storage =
        FsStorage::open(&dir).with_context(|| format!("cannot open the data directory {}", dir.display()))?;
    let flush = match arguments.flush {
        FlushMode::Sync => Flush::Sync,
        FlushMode::Async => Flush::Async { interval: ASYNC_FLUSH_INTERVAL },
    };
    let config = shard::Config { flush, checks: Some(checks), ..shard::Config::default() };
    let mut engine = EngineConfig::default();
    engine.transactions.first_check_after = Duration::from_secs(arguments.transaction_check_after);
    engine.delay_levels.clone_from(&arguments.message_delay_levels.0);
    engine.transactions.check_interval = Duration::from_secs(arguments.transaction_check_interval.max(1));
    let Opened { shard, log, engine } = Shard::open(Arc::new(storage), Options::default(), engine, config)
        .with_context(|| format!("cannot open the data in {}", dir.display()))?;
    for damaged in engine.damaged_checkpoints.iter().chain(&engine.damaged_indexes) {
        tracing::warn!(damaged, "recovered from older data");
    }
    if let Some(cut) = log.cut {
        tracing::info!(file = cut.file, bytes = cut.bytes, "cut an unfinished write");
    }
    tracing::info!(
        data = %dir.display(),
        flush = ?arguments.flush,
        frames_replayed = engine.frames_replayed,
        millis = started.elapsed().as_millis() as u64,
        "shard open"
    );
    Ok(shard)
}

async fn serve(
    arguments: &Arguments,
    shard: &Shard,
    checks: mpsc::Receiver<redstart_engine::TransactionCheck>,
) -> anyhow::Result<()> {
    let at = |port| SocketAddr::new(arguments.listen, port);
    let grpc_config = grpc::Config {
        listen: at(arguments.grpc_port),
        broker: BROKER.to_owned(),
        auto_create_groups: true,
        advertise: arguments.advertise.clone(),
        certificate: certificate(arguments),
        limits: limits(),
    };
    let (grpc_checks, asked) = mpsc::channel(CHECKS_MAX);
    let grpc = Grpc::bind(grpc_config, shard.handle(), asked, &arguments.data_dir).await?;
    let remoting_config = remoting::Config {
        cluster: CLUSTER.to_owned(),
        broker: BROKER.to_owned(),
        namesrv: at(arguments.namesrv_port),
        listen: at(arguments.broker_port),
        advertise: arguments.advertise.clone(),
        certificate: certificate(arguments),
        auto_create_groups: true,
        auto_create_topics: arguments.auto_create_topics,
        delay_levels: arguments.message_delay_levels.0.clone(),
    };
    let remoting = Remoting::bind(remoting_config, shard.handle(), &arguments.data_dir).await?;
    remoting.look_elsewhere(Arc::new(grpc.commands()));
    tokio::spawn(remoting.route_checks(checks, grpc_checks));
    let banner = format!(
        "redstart {} is ready\n  5.x clients (gRPC, plaintext and TLS)   {}\n  4.x clients and mqadmin (Remoting)      -n {}\n  data                                    {}\n",
        env!("CARGO_PKG_VERSION"),
        grpc.address()?,
        at(arguments.namesrv_port),
        arguments.data_dir.display()
    );
    // Whoever started this may not listen any more.
    drop(std::io::stdout().write_all(banner.as_bytes()));

    let (stop, stopped) = watch::channel(false);
    let remoting = tokio::spawn(remoting.serve(stopped.clone()));
    let mut ended = stopped;
    let grpc = grpc.serve(async move {
        // The sender outlives this.
        drop(ended.changed().await);
    });
    let grpc = tokio::spawn(grpc);
    wait_for_end(shard).await?;
    stop.send(true).context("the front ends have ended")?;
    if tokio::time::timeout(GRACE, grpc).await.is_err() {
        tracing::info!("some calls did not end in time and are cut off");
    }
    remoting.abort();
    Ok(())
}

fn certificate(arguments: &Arguments) -> Option<CertificateFiles> {
    let (certificate, key) = (arguments.tls_cert.clone()?, arguments.tls_key.clone()?);
    Some(CertificateFiles { certificate, key })
}

/// As many connections as there can be files, with some left for segments and the other ports.
fn limits() -> grpc::Limits {
    let default = grpc::Limits::default();
    let files = raise_file_limit();
    let connections_max = default.connections_max.min(files.saturating_sub(FILES_RESERVED).max(files / 2));
    tracing::info!(files, connections_max, "limits");
    grpc::Limits { connections_max, ..default }
}

/// A signal to stop, or a shard that has failed.
async fn wait_for_end(shard: &Shard) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut watch = tokio::time::interval(WATCH_INTERVAL);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = watch.tick() => if shard.has_failed() {
                return Ok(());
            },
        }
    }
}
