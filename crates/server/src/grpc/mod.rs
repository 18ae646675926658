//! The gRPC front end: the messaging service of the RocketMQ 5.x clients.
//!
//! It translates, and holds no delivery state: what a client may do with a message is in its signed receipt handle.
//! What it does hold is who the clients are ([`clients`]) and which of their messages are to be renewed ([`renewal`]).

mod ack;
mod answer;
mod call;
mod claim;
mod clients;
mod command_stream;
mod commands;
mod conduct;
mod convert;
mod elsewhere;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod handle;
mod http2;
mod io;
mod lite;
mod metadata;
mod offsets;
mod receive;
mod renewal;
mod request;
mod route;
mod send;
mod sent;
mod service;
mod settings;
mod status;
mod telemetry;
mod timing;
mod transactions;
mod view;

use std::{future::Future, io::Error as IoError, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

use crate::{
    Resources,
    drain::Drained,
    handover::Returns,
    listen::{self, Port, PortLimits},
    progress::STUCK_MAX,
    shard::ShardHandle,
    tls::{self, CertificateFiles, TlsError},
};
use clients::Clients;
use commands::Questions;
use handle::Signer;
use renewal::Renewal;
use service::Service;

pub use clients::{ClientKind, ClientSubscription, ClientView, Polling, Told};
pub use commands::{CommandError, Commands, StoredMessage, Verified};
pub use view::View;

pub(crate) use lite::{BIND_TOPIC, EXCLUSIVE, SUB_MODEL};
pub(crate) use timing::{may_wait, method_name};

/// Bytes of requests and answers of one connection.
const CONNECTION_BYTES_MAX: usize = 256 << 20;

/// Settings of the gRPC front end.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    /// Name of the broker in routes.
    pub broker: String,
    /// Create an unknown consumer group when it first consumes.
    pub auto_create_groups: bool,
    /// Address that routes carry instead of the one the client dialled.
    pub advertise: Option<String>,
    /// The operator's certificate; without one, a self-signed one is made.
    pub certificate: Option<CertificateFiles>,
    pub limits: Limits,
    /// What it shares with the other ports.
    pub resources: Resources,
}

/// How much clients may take of the front end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections that have made no call yet; past it the oldest of them gives way to a new one.
    pub silent_max: usize,
    /// For a connection to say what it is: TLS handshake and HTTP/2 preface.
    pub handshake_timeout: Duration,
    /// For a request to come in whole.
    pub request_timeout: Duration,
    /// The server pings a silent peer, so that dead connections go.
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// For a peer to read something of an answer that waits for it.
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

/// Knows what the other protocol's side knows: the consumers that pull by offset, and what operators have set there.
pub trait PullConsumers: Send + Sync + std::fmt::Debug {
    /// Whether a consumer of the group is there that pulls from the group's retry topic.
    fn take_retries(&self, group: &str) -> bool;

    /// Whether a topic is made when a message is first sent to it. Operators change that while the broker runs.
    fn creates_topics(&self) -> bool;
}

/// The front end could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen for gRPC on {address}: {source}")]
    Listen { address: SocketAddr, source: IoError },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot read or make the key of receipt handles: {0}")]
    Key(IoError),
}

/// A listening front end.
pub struct Grpc {
    listener: TcpListener,
    tls: tokio_rustls::TlsAcceptor,
    service: Service,
    checks: mpsc::Receiver<redstart_engine::TransactionCheck>,
    stopping: watch::Sender<bool>,
    port: Port,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grpc").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Grpc {
    /// Listens; keys and the self-signed certificate are kept in `data_dir`.
    pub async fn bind(
        config: Config,
        shard: ShardHandle,
        checks: mpsc::Receiver<redstart_engine::TransactionCheck>,
        data_dir: &Path,
    ) -> Result<Grpc, StartError> {
        let address = config.listen;
        let listener =
            TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })?;
        let tls = tls::acceptor(config.certificate.as_ref(), data_dir)?;
        let signer = Signer::open(data_dir).map_err(StartError::Key)?;
        let clients = Arc::new(Clients::default());
        let renewal = Arc::new(Renewal::new(shard.clone(), clients.clone()));
        let (stopping, stopped) = watch::channel(false);
        let Limits { connections_max, silent_max, .. } = config.limits;
        let port = config.resources.connections.port("gRPC", PortLimits { connections_max, silent_max });
        let service = Service {
            returns: Returns::new(shard.clone()),
            shard,
            config: Arc::new(config),
            clients,
            questions: Arc::new(Questions::default()),
            drained: Drained::default(),
            stopped,
            renewal,
            signer: Arc::new(signer),
            pullers: Arc::default(),
        };
        Ok(Grpc { listener, tls, service, checks, stopping, port })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Tells the front end of consumers that pull, over the other protocol. The first call counts.
    pub fn look_for_pullers(&self, pullers: Arc<dyn PullConsumers>) {
        let _ = self.service.pullers.set(pullers);
    }

    /// For those who ask about clients, or something of them.
    pub fn commands(&self) -> Commands {
        Commands::new(&self.service)
    }

    /// For those who look at the front end while it works.
    pub fn view(&self) -> View {
        View::new(
            self.service.clients.clone(),
            self.port.open.clone(),
            self.service.config.resources.bytes.clone(),
        )
    }

    /// Serves until `stop`; then says good-bye to the clients and ends when their calls have.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) {
        let Grpc { listener, tls, service, checks, stopping, port } = self;
        let upkeep = tokio::spawn(service.clone().upkeep(checks));
        let service = Arc::new(service);
        // Those still open are cut off when this is dropped.
        let mut open = {
            let service = service.clone();
            listen::accept(listener, &port, stop, move |stream, activity| {
                let account = service.config.resources.bytes.account(CONNECTION_BYTES_MAX);
                http2::serve(stream, tls.clone(), service.clone(), activity, account)
            })
            .await
        };
        // Long polls and telemetry streams end, so that their connections can.
        stopping.send_replace(true);
        service.clients.close();
        service.shard.end_polls();
        while open.join_next().await.is_some() {}
        upkeep.abort();
    }
}
