//! `redstart serve`: opens the shards, starts the front ends, and stops them in order.

use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use redstart_commands::blocking::block_on;
use redstart_server::{
    Access, AuditLog, ByteBudget, Resources,
    listen::{Connections, FileLimits},
    peers::Identity,
    remoting::{Followers, Ports},
    tls::Mode,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    administrator,
    banner::Banner,
    cluster,
    config::{self, AuditTarget, Config, Flags, Loaded, SETTINGS, Source},
    exposure,
    front_ends::{Doors, FrontEnds, GRACE, Setting},
    logging,
    node::Node,
    pages::Pages,
    secrets, shard_dirs, startup,
    transport::Transports,
};

/// How often the main task checks whether the shard has failed.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(200);

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
    let membership = cluster::Membership::of(config)?;
    let pages = block_on(&runtime, Pages::open(config, &resources, &transports))?;
    shard_dirs::check(&config.data_dir, config.shards)?;
    if let Some(membership) = membership {
        let member = cluster::Member { config, resources: &resources, files, membership, started };
        return member.run(&runtime, transports, is_early, pages);
    }
    Identity::check_alone(&config.data_dir)?;
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
pub fn audit_log(config: &Config) -> anyhow::Result<AuditLog> {
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
    let setting = Setting {
        config,
        resources,
        transports,
        http: pages.connections(),
        followers: Followers::default(),
        remoting_host: None,
    };
    // Before the broker reports that it is ready: a signal that follows must not be lost.
    let signals = Signals::listen()?;
    let reloads = transports.watch()?;
    let (handles, checks) = (node.handles(), node.take_checks());
    let (front_ends, for_pages) = FrontEnds::start(&setting, handles, checks, Doors::Own(ports)).await?;
    pages.serving(for_pages.sources, for_pages.queues);
    let FrontEnds { grpc_at, namesrv, ref brokers, .. } = front_ends;
    let (http, millis) = (pages.address(), started.elapsed().as_millis() as u64);
    let broker = brokers[0];
    tracing::info!(grpc = %grpc_at, %namesrv, %broker, %http, shards = config.shards, millis, "ready");
    let (grpc_tls, http_tls, data) = (config.grpc_tls, config.http_tls, &config.data_dir);
    Banner { grpc: grpc_at, grpc_tls, namesrv, brokers, http, http_tls, data }.print();
    let why = signals.wait(&node).await;
    tracing::info!(why, uptime_seconds = started.elapsed().as_secs(), "stopping");
    // Readiness fails first, so that load balancers stop sending clients before connections are closed.
    pages.stopping();
    front_ends.stop().await;
    reloads.abort();
    pages.close().await;
    Ok(node)
}

/// The signals that stop the broker.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn listen() -> anyhow::Result<Signals> {
        let to = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals { interrupt: to(SignalKind::interrupt())?, terminate: to(SignalKind::terminate())? })
    }

    /// Waits for a signal, and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Waits for a signal or a failure of the shard; returns which of them it was.
    async fn wait(mut self, node: &Node) -> &'static str {
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        loop {
            tokio::select! {
                signal = self.next() => return signal,
                _ = watch.tick() => if node.has_failed() {
                    return "the shard failed";
                },
            }
        }
    }
}
