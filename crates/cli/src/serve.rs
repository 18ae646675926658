//! `redstart serve`: opens the shard, starts the front ends, and stops them in order.

use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use redstart_commands::blocking::block_on;
use redstart_engine::Config as EngineConfig;
use redstart_log::{FsStorage, Options};
use redstart_server::{
    Access, AuditLog, ByteBudget, Resources,
    grpc::{self, Grpc},
    http::Sources,
    listen::{Connections, FileLimits},
    remoting::{self, Remoting},
    scrub,
    shard::{self, Flush, Opened, Shard},
    tls::Mode,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
};

use crate::{
    administrator,
    banner::Banner,
    config::{self, AuditTarget, Config, Flags, FlushMode, Loaded, SETTINGS, Source},
    exposure, logging,
    pages::Pages,
    secrets, startup,
    transport::Transports,
};

/// How often the main task checks whether the shard has failed.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// How long calls in flight may take to finish when the broker stops. Remoting connections close before that.
const GRACE: Duration = Duration::from_secs(3);
/// Capacity of the queue of transaction checks.
const CHECKS_MAX: usize = 4096;

pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let loaded = config::load(flags)?;
    let config = &loaded.config;
    exposure::check(config)?;
    logging::start(config)?;
    log_configuration(&loaded);
    exposure::warn(config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (checks, asked) = mpsc::channel(CHECKS_MAX);
    let files = FileLimits::of_process();
    tracing::info!(files = files.total, log_files = files.log, connections = files.connections, "limits");
    let resources = Resources {
        connections: Connections::new(files.connections),
        bytes: ByteBudget::new(config.network_bytes_max),
        access: if config.auth {
            Access::on_in(&config.cluster_name, config.grpc_date_zones.clone())
        } else {
            Access::off()
        },
    };
    // The HTTP port opens before the shard, which may take long: health checks see that the process is alive. Only if it has TLS is
    // the certificate read now; otherwise after the shard, whose error about a bad data directory is clearer.
    let is_early = config.http_tls != Mode::Off;
    let transports = if is_early { Transports::open(config)? } else { Transports::default() };
    let pages = block_on(&runtime, Pages::open(config, &resources, &transports))?;
    let shard = open(config, files, checks)?;
    let transports = if is_early { transports } else { Transports::open(config)? };
    secrets::check_data_dir(&config.data_dir);
    block_on(&runtime, secrets::unlock(config, &resources.access, &shard))?;
    let audit = audit_log(config)?;
    resources.access.install_audit(audit.clone());
    if config.auth {
        block_on(&runtime, administrator::ensure(config, &resources.access, &shard))?;
    }
    block_on(&runtime, serve(config, &resources, &transports, &shard, asked, pages, started))?;
    runtime.shutdown_timeout(GRACE);
    audit.close();
    let stopping = Instant::now();
    shard.stop().context("the shard failed; restart the broker to recover")?;
    tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// Without `auth` there is no audit log.
fn audit_log(config: &Config) -> anyhow::Result<AuditLog> {
    let file = match &config.audit_log {
        AuditTarget::DataDir if config.auth => config.data_dir.join("audit.log"),
        AuditTarget::File(file) if config.auth => file.clone(),
        _ => return Ok(AuditLog::default()),
    };
    AuditLog::open(&file).with_context(|| format!("cannot write the audit log {}", file.display()))
}

/// Logs the settings that differ from their defaults.
fn log_configuration(loaded: &Loaded) {
    let given = SETTINGS.iter().map(|setting| (setting, loaded.values.of(setting)));
    let changed: Vec<String> = given
        .filter(|(_, given)| given.source != Source::Default)
        .map(|(setting, given)| format!("{}={}", setting.key, given.text))
        .collect();
    let file = loaded.file.as_deref().map_or_else(|| "none".into(), Path::to_string_lossy);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %file, changed = changed.join(" "), "starting");
}

/// Opens the shard of a broker; there is one process at a time that has it.
pub fn open(config: &Config, files: FileLimits, checks: shard::CheckSink) -> anyhow::Result<Shard> {
    let started = Instant::now();
    let dir = config.data_dir.join("shard-0");
    let storage = FsStorage::open(&dir).map_err(|error| startup::directory(&error, &dir))?;
    let mut options = Options::with_segment_bytes(config.segment_bytes);
    options.open_files_max = options.open_files_max.min(files.log);
    let Opened { shard, log, engine } =
        Shard::open(Arc::new(storage), options, engine_config(config), shard_config(config, checks))
            .map_err(|error| startup::shard(&error, &dir))?;
    for damaged in engine.damaged_checkpoints.iter().chain(&engine.damaged_indexes) {
        tracing::warn!(damaged, "recovered from older data");
    }
    if let Some(cut) = log.cut {
        tracing::info!(file = cut.file, bytes = cut.bytes, "cut an unfinished write");
    }
    if log.damaged_manifest {
        tracing::warn!(
            "the manifest was damaged and has been rebuilt; files that were missing before are not detected"
        );
    }
    tracing::info!(
        data = %dir.display(),
        flush = ?config.flush,
        segments = log.segments,
        frames = log.last.0,
        frames_replayed = engine.frames_replayed,
        millis = started.elapsed().as_millis() as u64,
        "shard open"
    );
    Ok(shard)
}

fn shard_config(config: &Config, checks: shard::CheckSink) -> shard::Config {
    let flush = match config.flush {
        FlushMode::Sync => Flush::Sync,
        FlushMode::Async => Flush::Async { interval: config.flush_interval },
    };
    let pending_bytes_max = config.pending_bytes_max;
    shard::Config { flush, pending_bytes_max, checks: Some(checks), ..shard::Config::default() }
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

async fn serve(
    config: &Config,
    resources: &Resources,
    transports: &Transports,
    shard: &Shard,
    checks: mpsc::Receiver<redstart_engine::TransactionCheck>,
    pages: Pages,
    started: Instant,
) -> anyhow::Result<()> {
    let at = |port| SocketAddr::new(config.listen, port);
    let grpc_config = grpc::Config {
        listen: at(config.grpc_port),
        broker: config.broker_name.clone(),
        auto_create_groups: config.auto_create_groups,
        advertise: advertised(config),
        transport: transports.with(config.grpc_tls),
        limits: grpc::Limits { connections_max: config.grpc_connections_max, ..grpc::Limits::default() },
        resources: resources.clone(),
    };
    let (grpc_checks, asked) = mpsc::channel(CHECKS_MAX);
    let grpc = Grpc::bind(grpc_config, shard.handle(), asked, &config.data_dir)
        .await
        .map_err(|error| startup::grpc(&error, config))?;
    let remoting_config = remoting::Config {
        cluster: config.cluster_name.clone(),
        broker: config.broker_name.clone(),
        namesrv: at(config.namesrv_port),
        listen: at(config.broker_port),
        advertise: advertised(config),
        transport: transports.with(config.remoting_tls),
        auto_create_groups: config.auto_create_groups,
        auto_create_topics: config.auto_create_topics,
        delay_levels: config.message_delay_levels.clone(),
        foreign_brokers: config.foreign_brokers,
        check_types: config.remoting_check_types,
        resources: resources.clone(),
    };
    let remoting = Remoting::bind(remoting_config, shard.handle(), &config.data_dir)
        .await
        .map_err(|error| startup::remoting(&error, config))?;
    remoting.set_other_protocol(Arc::new(grpc.commands()));
    grpc.set_pull_consumers(Arc::new(remoting.monitor()));
    tokio::spawn(remoting.route_checks(checks, grpc_checks));
    // The task ends when the shard stops.
    let scrub = (config.scrub_rate > 0).then(|| tokio::spawn(scrub::run(shard.handle(), config.scrub_rate)));
    // Before the broker reports that it is ready: a signal that follows must not be lost.
    let signals = Signals::listen()?;
    let reloads = transports.watch()?;
    let (namesrv, broker) = remoting.addresses()?;
    let grpc_at = grpc.address()?;
    let sources = Sources {
        shard: shard.handle(),
        grpc: Some(grpc.monitor()),
        remoting: Some(remoting.monitor()),
        http: Some(pages.connections()),
        tls: transports.tls(),
    };
    let (stop, stopped) = watch::channel(false);
    let remoting = tokio::spawn(remoting.serve(stopped.clone()));
    let grpc = tokio::spawn(grpc.serve(stopped));
    pages.serving(sources);
    let (http, millis) = (pages.address(), started.elapsed().as_millis() as u64);
    tracing::info!(grpc = %grpc_at, %namesrv, %broker, %http, millis, "ready");
    let (grpc_tls, http_tls, data) = (config.grpc_tls, config.http_tls, &config.data_dir);
    Banner { grpc: grpc_at, grpc_tls, namesrv, broker, http, http_tls, data }.print();
    let why = signals.wait(shard).await;
    tracing::info!(why, uptime_seconds = started.elapsed().as_secs(), "stopping");
    // Readiness fails first, so that load balancers stop sending clients before connections are closed.
    pages.stopping();
    stop.send(true).context("the front ends have stopped")?;
    let remoting_ends = remoting.abort_handle();
    let ended = async { tokio::join!(grpc, remoting) };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::info!("some calls did not finish in time and are aborted");
    }
    remoting_ends.abort();
    reloads.abort();
    if let Some(scrub) = scrub {
        scrub.abort();
    }
    pages.close().await;
    Ok(())
}

/// The advertised address with a port, which gRPC clients need. The default is the gRPC port.
fn advertised(config: &Config) -> Option<String> {
    let address = config.advertise.as_deref()?;
    let port = config.grpc_port;
    Some(match address.parse::<std::net::IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) if address.ends_with(']') || !address.contains(':') => format!("{address}:{port}"),
        Err(_) => address.to_owned(),
    })
}

/// The signals that stop the broker.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Signals> {
        let to = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals { interrupt: to(SignalKind::interrupt())?, terminate: to(SignalKind::terminate())? })
    }

    /// Waits for a signal or a failure of the shard; returns which of them it was.
    async fn wait(mut self, shard: &Shard) -> &'static str {
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = watch.tick() => if shard.has_failed() {
                    return "the shard failed";
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_host_without_a_port_gets_the_grpc_port() {
        let mut config = Config::of(&config::Values::default()).unwrap();
        for (given, expected) in [
            ("10.0.0.1", "10.0.0.1:8081"),
            ("mq.example.org", "mq.example.org:8081"),
            ("mq.example.org:443", "mq.example.org:443"),
            ("::1", "[::1]:8081"),
            ("[::1]", "[::1]:8081"),
            ("[::1]:443", "[::1]:443"),
        ] {
            config.advertise = Some(given.to_owned());
            assert_eq!(advertised(&config).as_deref(), Some(expected));
        }
    }
}
