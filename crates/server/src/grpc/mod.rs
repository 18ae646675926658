//! The gRPC front end: the messaging service of the RocketMQ 5.x clients.
//!
//! It translates between the protocol and the shard and has no delivery state: a receipt handle, signed by the broker, names
//! a delivery. It knows the connected clients ([`clients`]) and the deliveries to renew for them ([`renewal`]).

mod ack;
mod admission;
mod answer;
mod audit;
mod call;
mod clients;
mod command_stream;
mod commands;
mod connection;
mod convert;
mod frame_rate;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod http2;
mod lite;
mod metadata;
mod method;
mod monitor;
mod offsets;
mod other_protocol;
mod receive;
mod refusal;
mod renewal;
mod request;
mod rights;
mod route;
mod send;
mod service;
mod settings;
mod status;
mod telemetry;
mod timing;
mod transactions;
mod unflushed;

use std::{future::Future, io::Error as IoError, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    Resources, Serving,
    listen::{self, Listener, Port, PortLimits},
    shards::{ShardNumber, Shards},
    signer::Signer,
    stall_detector::STUCK_MAX,
    transport::Transport,
};
use clients::Clients;
use commands::PendingCommands;
use renewal::Renewal;
use service::Service;

pub use crate::signer::KeyError;
pub use clients::{ClientKind, ClientSettings, ClientSubscription, ClientView, Polling};
pub use commands::{CommandError, Commands, StoredMessage, Verified};
pub use monitor::Monitor;

pub(crate) use lite::{BIND_TOPIC, EXCLUSIVE, SUB_MODEL};
pub use method::METHODS;
pub(crate) use method::Method;
pub(crate) use route::auto_created;
pub(crate) use status::Code;

/// Bytes of requests and answers of one connection.
const CONNECTION_BYTES_MAX: usize = 256 << 20;

/// Settings of the gRPC front end.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    /// Create an unknown consumer group when it first consumes.
    pub auto_create_groups: bool,
    /// Address that routes carry instead of the one the client dialled.
    pub advertise: Option<String>,
    /// How connections begin.
    pub transport: Transport,
    pub limits: Limits,
    /// Byte budget and connection limits that all ports share.
    pub resources: Resources,
}

/// Limits on what clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections that have made no call yet; past it the oldest of them is closed for a new one.
    pub silent_max: usize,
    /// Time for the TLS handshake and the HTTP/2 preface.
    pub handshake_timeout: Duration,
    /// Time for a request to arrive completely.
    pub request_timeout: Duration,
    /// How often a silent peer is pinged, so that dead connections are closed.
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// Time for a peer to read something of an answer that is ready for it.
    pub stuck_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 50_000,
            silent_max: 2048,
            handshake_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(60),
            ping_timeout: Duration::from_secs(20),
            stuck_timeout: STUCK_MAX,
        }
    }
}

/// What the gRPC front end asks of the Remoting front end: its consumers, which pull by offset, and the settings that operators
/// change there.
pub trait PullConsumers: Send + Sync + std::fmt::Debug {
    /// Whether a connected consumer of the group pulls from the group's retry topic on a shard.
    fn consume_retry_topic(&self, shard: ShardNumber, group: &str) -> bool;

    /// Whether the first message to an unknown topic creates it. Operators can change this while the broker runs.
    fn creates_topics(&self) -> bool;
}

/// The front end could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen for gRPC on {address}: {source}")]
    Listen { address: SocketAddr, source: IoError },
    #[error("the key that signs receipt handles: {0}")]
    Key(#[from] KeyError),
}

/// A transaction whose producer is to be asked, and its shard.
#[derive(Debug, Clone, Copy)]
pub struct ShardCheck {
    pub shard: ShardNumber,
    pub check: redstart_engine::TransactionCheck,
}

/// A listening front end.
pub struct Grpc {
    listener: Listener,
    service: Service,
    checks: mpsc::Receiver<ShardCheck>,
    stopping: watch::Sender<bool>,
    port: Port,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grpc").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Grpc {
    /// Listens. A key for handles that an earlier release left in `data_dir` is taken over.
    pub async fn bind(
        config: Config,
        shards: Shards,
        checks: mpsc::Receiver<ShardCheck>,
        data_dir: &Path,
    ) -> Result<Grpc, StartError> {
        let address = config.listen;
        let listener =
            TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })?;
        Grpc::listen(config, listener.into(), shards, checks, data_dir).await
    }

    /// The same for connections that come from elsewhere.
    pub async fn listen(
        config: Config,
        listener: Listener,
        shards: Shards,
        checks: mpsc::Receiver<ShardCheck>,
        data_dir: &Path,
    ) -> Result<Grpc, StartError> {
        let signer = Signer::open(&shards.first().handle, data_dir).await?;
        let clients = Arc::new(Clients::default());
        let renewal =
            Arc::new(Renewal::new(shards.clone(), clients.clone(), config.resources.access.clone()));
        let (stopping, stopped) = watch::channel(false);
        let Limits { connections_max, silent_max, .. } = config.limits;
        let port = config.resources.connections.port("gRPC", PortLimits { connections_max, silent_max });
        let service = Service {
            shards,
            config: Arc::new(config),
            clients,
            pending_commands: Arc::new(PendingCommands::default()),
            stopped,
            renewal,
            signer: Arc::new(signer),
            pull_consumers: Arc::default(),
        };
        Ok(Grpc { listener, service, checks, stopping, port })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Connects the Remoting front end. Only the first call has an effect.
    pub fn set_pull_consumers(&self, pull_consumers: Arc<dyn PullConsumers>) {
        let _ = self.service.pull_consumers.set(pull_consumers);
    }

    /// What signs the handles of deliveries, for other front ends.
    pub fn signer(&self) -> Arc<Signer> {
        self.service.signer.clone()
    }

    /// Lists clients and sends commands to them.
    pub fn commands(&self) -> Commands {
        Commands::new(&self.service)
    }

    /// Counts of the running front end, for metrics.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(
            self.service.clients.clone(),
            self.port.open.clone(),
            self.service.config.resources.bytes.clone(),
        )
    }

    /// Serves until `stopped` turns true; then closes the connections gracefully and ends when their calls have ended.
    pub fn serve(self, mut stopped: watch::Receiver<bool>) -> Serving {
        // The sender is dropped only when the process ends.
        Box::pin(self.run(async move { drop(stopped.wait_for(|stopped| *stopped).await) }))
    }

    async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let Grpc { listener, service, checks, stopping, port } = self;
        // Ends with this future, also when that is dropped.
        let mut upkeep = JoinSet::new();
        upkeep.spawn(service.clone().upkeep(checks));
        let service = Arc::new(service);
        // Dropping this closes the connections that are still open.
        let mut open = {
            let service = service.clone();
            listen::accept(listener, &port, stop, move |stream, activity| {
                let account = service.config.resources.bytes.account(CONNECTION_BYTES_MAX);
                http2::serve(stream, service.clone(), activity, account)
            })
            .await
        };
        // Long polls and telemetry streams end, so that their connections can.
        stopping.send_replace(true);
        service.clients.close();
        service.shards.end_polls();
        while open.join_next().await.is_some() {}
        drop(upkeep);
    }
}
