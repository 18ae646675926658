//! `redstart serve`: opens the shards, starts the front ends, and stops them in order.

use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use redstart_commands::blocking::block_on;
use redstart_server::{
    Access, AuditLog, ByteBudget, Resources, Shards, broker_names,
    grpc::{self, Grpc},
    http::{QueuesServed, Sources},
    listen::{Connections, FileLimits},
    remoting::{self, Ports, Remoting},
    scrub,
    tls::Mode,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    administrator,
    banner::Banner,
    config::{self, AuditTarget, Config, Flags, Loaded, SETTINGS, Source},
    exposure, logging,
    node::{CHECKS_MAX, Node},
    pages::Pages,
    secrets, shard_dirs, startup,
    transport::Transports,
};

/// How often the main task checks whether the shard has failed.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// How long calls in flight may take to finish when the broker stops. Remoting connections close before that.
const GRACE: Duration = Duration::from_secs(3);

pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let loaded = config::load(flags)?;
    let config = &loaded.config;
    exposure::check(config)?;
    logging::start(config)?;
    log_configuration(&loaded);
    exposure::warn(config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
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
    // The HTTP port opens before the shards, which may take long: health checks see that the process is alive. Only if it has TLS is
    // the certificate read now; otherwise after the shards, whose error about a bad data directory is clearer.
    let is_early = config.http_tls != Mode::Off;
    let transports = if is_early { Transports::open(config)? } else { Transports::default() };
    let pages = block_on(&runtime, Pages::open(config, &resources, &transports))?;
    shard_dirs::check(&config.data_dir, config.shards)?;
    // Before anything is written: a port that is taken leaves the directory as it is.
    let ports = block_on(&runtime, async { reserve(config) })?;
    let node = Node::open(config, files)?;
    let transports = if is_early { transports } else { Transports::open(config)? };
    secrets::check_data_dir(&config.data_dir);
    block_on(&runtime, secrets::unlock(config, &resources.access, &node.first()))?;
    let audit = audit_log(config)?;
    resources.access.install_audit(audit.clone());
    if config.auth {
        block_on(&runtime, administrator::ensure(config, &resources.access, &node.first()))?;
    }
    let node = block_on(&runtime, serve(config, &resources, &transports, node, ports, pages, started))?;
    runtime.shutdown_timeout(GRACE);
    audit.close();
    let stopping = Instant::now();
    node.stop()?;
    tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// The ports of the Remoting front end.
fn reserve(config: &Config) -> anyhow::Result<Ports> {
    let at = |port| SocketAddr::new(config.listen, port);
    Ports::reserve(at(config.namesrv_port), at(config.broker_port), config.shards)
        .map_err(|error| startup::remoting(&error, config))
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

async fn serve(
    config: &Config,
    resources: &Resources,
    transports: &Transports,
    mut node: Node,
    ports: Ports,
    pages: Pages,
    started: Instant,
) -> anyhow::Result<Node> {
    let at = |port| SocketAddr::new(config.listen, port);
    let names = broker_names(&config.broker_name, config.shards);
    let shards = Shards::open(names.into_iter().zip(node.handles())).await?;
    shard_dirs::record(&config.data_dir, config.shards)?;
    let grpc_config = grpc::Config {
        listen: at(config.grpc_port),
        auto_create_groups: config.auto_create_groups,
        advertise: advertised(config),
        transport: transports.with(config.grpc_tls),
        limits: grpc::Limits { connections_max: config.grpc_connections_max, ..grpc::Limits::default() },
        resources: resources.clone(),
    };
    let (grpc_checks, asked) = mpsc::channel(CHECKS_MAX);
    let grpc = Grpc::bind(grpc_config, shards.clone(), asked, &config.data_dir)
        .await
        .map_err(|error| startup::grpc(&error, config))?;
    let remoting_config = remoting::Config {
        cluster: config.cluster_name.clone(),
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
    let remoting = Remoting::listen(remoting_config, ports, shards.clone(), &config.data_dir)
        .await
        .map_err(|error| startup::remoting(&error, config))?;
    remoting.set_other_protocol(Arc::new(grpc.commands()));
    grpc.set_pull_consumers(Arc::new(remoting.monitor()));
    // These tasks end when their shard stops.
    let mut tasks = JoinSet::new();
    tasks.spawn(shards.clone().keep_in_step());
    for (shard, checks) in shards.all().iter().zip(node.take_checks()) {
        tasks.spawn(remoting.route_checks(shard.number, checks, grpc_checks.clone()));
        if config.scrub_rate > 0 {
            // All shards are on one disk.
            let rate = (config.scrub_rate / config.shards as u64).max(1);
            tasks.spawn(scrub::run(shard.handle.clone(), rate));
        }
    }
    // Before the broker reports that it is ready: a signal that follows must not be lost.
    let signals = Signals::listen()?;
    let reloads = transports.watch()?;
    let ((namesrv, broker), brokers) = (remoting.addresses()?, remoting.broker_addresses()?);
    let grpc_at = grpc.address()?;
    let sources = Sources {
        shards: shards.clone(),
        grpc: Some(grpc.monitor()),
        remoting: Some(remoting.monitor()),
        http: Some(pages.connections()),
        tls: transports.tls(),
    };
    let queues = QueuesServed {
        shards: shards.clone(),
        signer: grpc.signer(),
        pull_consumers: Arc::new(remoting.monitor()),
        auto_create_groups: config.auto_create_groups,
    };
    let (stop, stopped) = watch::channel(false);
    let remoting = tokio::spawn(remoting.serve(stopped.clone()));
    let grpc = tokio::spawn(grpc.serve(stopped));
    pages.serving(sources, queues);
    let (http, millis) = (pages.address(), started.elapsed().as_millis() as u64);
    tracing::info!(grpc = %grpc_at, %namesrv, %broker, %http, shards = config.shards, millis, "ready");
    let (grpc_tls, http_tls, data) = (config.grpc_tls, config.http_tls, &config.data_dir);
    Banner { grpc: grpc_at, grpc_tls, namesrv, brokers: &brokers, http, http_tls, data }.print();
    let why = signals.wait(&node).await;
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
    tasks.abort_all();
    pages.close().await;
    Ok(node)
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
    async fn wait(mut self, node: &Node) -> &'static str {
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = watch.tick() => if node.has_failed() {
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
