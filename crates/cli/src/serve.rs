use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use redstart_engine::Config as EngineConfig;
use redstart_log::{FsStorage, Options};
use redstart_server::{
    ByteBudget, Resources,
    grpc::{self, Grpc},
    http::Sources,
    listen::{Connections, FileBudget},
    remoting::{self, Remoting},
    scrub,
    shard::{self, Flush, Opened, Shard},
    tls::CertificateFiles,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
};

use crate::{
    banner::Banner,
    config::{self, Config, Flags, FlushMode, Loaded, SETTINGS, Source},
    logging,
    pages::Pages,
    startup,
};

/// How often a running broker looks whether its shard has failed.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Calls under way get this long to end when the broker stops. Remoting connections end on their own before that.
const GRACE: Duration = Duration::from_secs(3);
/// Transactions that wait to be asked about.
const CHECKS_MAX: usize = 4096;

pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let loaded = config::load(flags)?;
    let config = &loaded.config;
    logging::start(config)?;
    log_configuration(&loaded);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (checks, asked) = mpsc::channel(CHECKS_MAX);
    let files = FileBudget::of_process();
    tracing::info!(files = files.total, log_files = files.log, connections = files.connections, "limits");
    let resources = Resources {
        connections: Connections::new(files.connections),
        bytes: ByteBudget::new(config.network_bytes_max),
    };
    // First of all: whoever watches the start sees that it goes on.
    let pages = runtime.block_on(Pages::open(config, &resources))?;
    let shard = open(config, files, checks)?;
    runtime.block_on(serve(config, &resources, &shard, asked, pages, started))?;
    runtime.shutdown_timeout(GRACE);
    let stopping = Instant::now();
    shard.stop().context("the shard failed; start again to recover")?;
    tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// What is not as it is by default.
fn log_configuration(loaded: &Loaded) {
    let given = SETTINGS.iter().map(|setting| (setting, loaded.values.of(setting)));
    let changed: Vec<String> = given
        .filter(|(_, given)| given.source != Source::Default)
        .map(|(setting, given)| format!("{}={}", setting.key, given.text))
        .collect();
    let file = loaded.file.as_deref().map_or_else(|| "none".into(), Path::to_string_lossy);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %file, changed = changed.join(" "), "starting");
}

fn open(config: &Config, files: FileBudget, checks: shard::CheckSink) -> anyhow::Result<Shard> {
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
            "the manifest was damaged and is made again; data that went missing before is not noticed"
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
    let mut engine = EngineConfig::default();
    engine.delay_levels.clone_from(&config.message_delay_levels);
    engine.limits.body_bytes_max = config.message_bytes_max;
    engine.limits.batch_bytes_max = engine.limits.batch_bytes_max.max(config.message_bytes_max);
    engine.retention.keep = config.retention;
    engine.retention.early_percent = config.disk_clean_percent;
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
        certificate: certificate(config),
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
        certificate: certificate(config),
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
    remoting.look_elsewhere(Arc::new(grpc.commands()));
    grpc.look_for_pullers(Arc::new(remoting.view()));
    tokio::spawn(remoting.route_checks(checks, grpc_checks));
    // Ends with the shard.
    let scrub = (config.scrub_rate > 0).then(|| tokio::spawn(scrub::run(shard.handle(), config.scrub_rate)));
    // Before anybody is told that it is ready: who then says stop is heard.
    let signals = Signals::listen()?;
    let (namesrv, broker) = remoting.addresses()?;
    let grpc_at = grpc.address()?;
    let sources = Sources {
        shard: shard.handle(),
        grpc: Some(grpc.view()),
        remoting: Some(remoting.view()),
        http: Some(pages.connections()),
    };
    let (stop, stopped) = watch::channel(false);
    let remoting = tokio::spawn(remoting.serve(stopped.clone()));
    let mut ended = stopped;
    let grpc = grpc.serve(async move {
        // The sender outlives this.
        drop(ended.changed().await);
    });
    let grpc = tokio::spawn(grpc);
    pages.serving(sources);
    let (http, millis) = (pages.address(), started.elapsed().as_millis() as u64);
    tracing::info!(grpc = %grpc_at, %namesrv, %broker, %http, millis, "ready");
    Banner { grpc: grpc_at, namesrv, broker, http, data: &config.data_dir }.print();
    let why = signals.wait(shard).await;
    tracing::info!(why, uptime_seconds = started.elapsed().as_secs(), "stopping");
    // Before anybody is cut off: who sends clients here is told first.
    pages.stopping();
    stop.send(true).context("the front ends have ended")?;
    let remoting_ends = remoting.abort_handle();
    let ended = async { tokio::join!(grpc, remoting) };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::info!("some calls did not end in time and are cut off");
    }
    remoting_ends.abort();
    if let Some(scrub) = scrub {
        scrub.abort();
    }
    pages.close().await;
    Ok(())
}

/// With a port: of a host alone gRPC clients could not tell it.
fn advertised(config: &Config) -> Option<String> {
    let address = config.advertise.as_deref()?;
    let port = config.grpc_port;
    Some(match address.parse::<std::net::IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) if address.ends_with(']') || !address.contains(':') => format!("{address}:{port}"),
        Err(_) => address.to_owned(),
    })
}

fn certificate(config: &Config) -> Option<CertificateFiles> {
    let (certificate, key) = (config.tls_cert.clone()?, config.tls_key.clone()?);
    Some(CertificateFiles { certificate, key })
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

    /// Until one comes, or the shard has failed; says which.
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
    fn an_advertised_host_gets_the_port() {
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
