//! The front ends of the node: gRPC and Remoting over the shards, started together and ended together.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use redstart_engine::TransactionCheck;
use redstart_server::{
    Resources, Shards, broker_names,
    grpc::{self, Grpc},
    http::{QueuesServed, Sources},
    listen::Listener,
    remoting::{self, Followers, Ports, Remoting},
    scrub,
    shard::ShardHandle,
    statistics::LiveCount,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{config::Config, node::CHECKS_MAX, shard_dirs, startup, transport::Transports};

/// How long calls in flight may take to finish when the front ends stop. Remoting connections close before that.
pub const GRACE: Duration = Duration::from_secs(3);

/// What front ends are started with, whichever node leads.
pub struct Setting<'a> {
    pub config: &'a Config,
    pub resources: &'a Resources,
    pub transports: &'a Transports,
    /// Connections of the HTTP port.
    pub http: LiveCount,
    pub followers: Followers,
    /// The host in routes of 4.x clients, if the operator advertises none.
    pub remoting_host: Option<String>,
}

/// Where connections come from.
pub enum Doors {
    /// The node listens itself.
    Own(Ports),
    /// The gate of a cluster's node hands them over.
    Handed { grpc: Listener, names: Listener, broker: Listener },
}

/// The running front ends. Dropping this closes all their connections at once.
pub struct FrontEnds {
    pub grpc_at: SocketAddr,
    pub namesrv: SocketAddr,
    pub brokers: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    grpc: JoinHandle<()>,
    remoting: JoinHandle<()>,
    /// They end when their shard stops.
    _tasks: JoinSet<()>,
}

/// What the HTTP port shows and serves.
pub struct ForPages {
    pub sources: Sources,
    pub queues: QueuesServed,
}

impl FrontEnds {
    pub async fn start(
        setting: &Setting<'_>,
        handles: Vec<ShardHandle>,
        checks: Vec<mpsc::Receiver<TransactionCheck>>,
        doors: Doors,
    ) -> anyhow::Result<(FrontEnds, ForPages)> {
        let Setting { config, resources, transports, .. } = setting;
        let at = |port| SocketAddr::new(config.listen, port);
        let names = broker_names(&config.broker_name, config.shards);
        let shards = Shards::open(names.into_iter().zip(handles)).await?;
        shard_dirs::record(&config.data_dir, config.shards)?;
        let (grpc_door, remoting_doors) = match doors {
            Doors::Own(ports) => (None, Ok(ports)),
            Doors::Handed { grpc, names, broker } => (Some(grpc), Err((names, vec![(broker, None)]))),
        };
        let grpc_config = grpc::Config {
            listen: at(config.grpc_port),
            auto_create_groups: config.auto_create_groups,
            advertise: advertised(config),
            transport: transports.with(config.grpc_tls),
            limits: grpc::Limits { connections_max: config.grpc_connections_max, ..grpc::Limits::default() },
            resources: (*resources).clone(),
        };
        let (grpc_checks, asked) = mpsc::channel(CHECKS_MAX);
        let grpc = match grpc_door {
            None => Grpc::bind(grpc_config, shards.clone(), asked, &config.data_dir).await,
            Some(door) => Grpc::listen(grpc_config, door, shards.clone(), asked, &config.data_dir).await,
        };
        let grpc = grpc.map_err(|error| startup::grpc(&error, config))?;
        let remoting_config = remoting::Config {
            cluster: config.cluster_name.clone(),
            namesrv: at(config.namesrv_port),
            listen: at(config.broker_port),
            advertise: advertised(config).or_else(|| setting.remoting_host.clone()),
            transport: transports.with(config.remoting_tls),
            auto_create_groups: config.auto_create_groups,
            auto_create_topics: config.auto_create_topics,
            delay_levels: config.message_delay_levels.clone(),
            foreign_brokers: config.foreign_brokers,
            check_types: config.remoting_check_types,
            followers: setting.followers.clone(),
            resources: (*resources).clone(),
        };
        let data_dir = &config.data_dir;
        let remoting = match remoting_doors {
            Ok(ports) => Remoting::listen(remoting_config, ports, shards.clone(), data_dir).await,
            Err((names, brokers)) => {
                Remoting::start(remoting_config, names, brokers, shards.clone(), data_dir).await
            }
        };
        let remoting = remoting.map_err(|error| startup::remoting(&error, config))?;
        remoting.set_other_protocol(Arc::new(grpc.commands()));
        grpc.set_pull_consumers(Arc::new(remoting.monitor()));
        let mut tasks = JoinSet::new();
        tasks.spawn(shards.clone().keep_in_step());
        for (shard, checks) in shards.all().iter().zip(checks) {
            tasks.spawn(remoting.route_checks(shard.number, checks, grpc_checks.clone()));
            if config.scrub_rate > 0 {
                // All shards are on one disk.
                let rate = (config.scrub_rate / config.shards as u64).max(1);
                tasks.spawn(scrub::run(shard.handle.clone(), rate));
            }
        }
        let ((namesrv, _), brokers) = (remoting.addresses()?, remoting.broker_addresses()?);
        let grpc_at = grpc.address()?;
        let sources = Sources {
            shards: shards.clone(),
            grpc: Some(grpc.monitor()),
            remoting: Some(remoting.monitor()),
            http: Some(setting.http.clone()),
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
        let front_ends = FrontEnds { grpc_at, namesrv, brokers, stop, grpc, remoting, _tasks: tasks };
        Ok((front_ends, ForPages { sources, queues }))
    }

    /// Answers the requests that are under way, for a few seconds at most, and closes all connections.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { tokio::join!(&mut self.grpc, &mut self.remoting) };
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            tracing::info!("some calls did not finish in time and are aborted");
        }
    }
}

impl Drop for FrontEnds {
    fn drop(&mut self) {
        self.grpc.abort();
        self.remoting.abort();
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Values;

    #[test]
    fn an_advertised_host_without_a_port_gets_the_grpc_port() {
        let mut config = Config::of(&Values::default()).unwrap();
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
