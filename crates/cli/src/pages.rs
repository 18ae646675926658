//! The HTTP port: health, metrics and queues.

use std::net::SocketAddr;

use redstart_server::{
    Resources,
    http::{self, Cluster, Health, Http, Metrics, Queues, QueuesServed, Router, Sources, Stage},
    shard::ShardHandle,
    statistics::LiveCount,
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{config::Config, startup, transport::Transports};

/// The HTTP server. It runs from before the shard is opened until after it is closed.
#[derive(Debug)]
pub struct Pages {
    address: SocketAddr,
    connections: LiveCount,
    health: Health,
    metrics: Metrics,
    queues: Queues,
    cluster: Cluster,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Pages {
    pub async fn open(
        config: &Config,
        resources: &Resources,
        transports: &Transports,
    ) -> anyhow::Result<Pages> {
        let listen = SocketAddr::new(config.listen, config.http_port);
        let metrics = Metrics::new(&config.cluster_name, &config.broker_name);
        let health = Health::default();
        let queues = Queues::new(config.message_bytes_max, config.http_connections_max);
        let cluster = metrics.cluster();
        let router = Router::default()
            .with(health.live_page())
            .with(health.ready_page())
            .with(metrics.page())
            .with(queues.part())
            .with(cluster.part());
        let settings = http::Config {
            listen,
            limits: http::Limits { connections_max: config.http_connections_max, ..http::Limits::default() },
            transport: transports.with(config.http_tls),
            resources: resources.clone(),
        };
        let http = Http::bind(settings, router).await.map_err(|error| startup::http(&error, config))?;
        let (address, connections) = (http.address()?, http.connections());
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(http.serve(stopped));
        Ok(Pages { address, connections, health, metrics, queues, cluster, stop, serving })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What shows the cluster of this node.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn connections(&self) -> LiveCount {
        self.connections.clone()
    }

    /// All ports accept connections.
    pub fn serving(&self, sources: Sources, queues: QueuesServed) {
        self.health.watch(sources.shards.all().iter().map(|shard| shard.handle.clone()));
        self.metrics.attach(sources);
        self.queues.attach(queues);
        self.health.set(Stage::Serving);
    }

    /// This node of a cluster takes connections. While another node leads, they are relayed there.
    pub fn following(&self, shards: impl IntoIterator<Item = ShardHandle>) {
        self.health.watch(shards);
        self.metrics.detach();
        self.queues.detach();
        self.health.set(Stage::Serving);
    }

    /// Connections are about to be closed.
    pub fn stopping(&self) {
        self.health.set(Stage::Stopping);
        self.queues.stop();
    }

    pub async fn close(self) {
        self.stop.send_replace(true);
        // An error here is a panic, which was logged already.
        drop(self.serving.await);
    }
}
