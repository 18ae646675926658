//! The gRPC front end: the messaging service of the RocketMQ 5.x clients.
//!
//! It translates, and holds no delivery state: what a client may do with a message is in its signed receipt handle.
//! What it does hold is who the clients are ([`clients`]) and which of their messages are to be renewed ([`renewal`]).

mod ack;
mod clients;
mod convert;
mod handle;
mod io;
mod metadata;
mod offsets;
mod receive;
mod renewal;
mod route;
mod send;
mod service;
mod settings;
mod status;
mod telemetry;
mod transactions;

use std::{future::Future, io::Error as IoError, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use redstart_wire::v2::messaging_service_server::MessagingServiceServer;
use tokio::{net::TcpListener, sync::mpsc};
use tonic::transport::Server;

use crate::{
    shard::ShardHandle,
    tls::{self, TlsError},
};
use clients::Clients;
use handle::Signer;
use renewal::Renewal;
use service::Service;

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
}

/// Largest request: a body of 4 MiB or a batch of that size, with properties.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Calls of one connection at a time. Clients keep one long poll per queue and one stream.
const STREAMS_MAX: u32 = 1024;
const HEADER_BYTES_MAX: u32 = 32 << 10;
const WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// The server pings a silent peer, so that dead connections go.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

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
        let tls = tls::acceptor(data_dir)?;
        let signer = Signer::open(data_dir).map_err(StartError::Key)?;
        let clients = Arc::new(Clients::default());
        let renewal = Arc::new(Renewal::new(shard.clone(), clients.clone()));
        let service = Service { shard, config: Arc::new(config), clients, renewal, signer: Arc::new(signer) };
        Ok(Grpc { listener, tls, service, checks })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`; then says good-bye to the clients and ends when their calls have, or after the grace time.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), tonic::transport::Error> {
        let Grpc { listener, tls, service, checks } = self;
        let (stopping, stopped) = tokio::sync::watch::channel(false);
        let upkeep = tokio::spawn(service.clone().upkeep(checks, stopped));
        let (clients, shard) = (service.clients.clone(), service.shard.clone());
        let shutdown = async move {
            stop.await;
            // Long polls and telemetry streams end, so that their connections can.
            let _ = stopping.send(true);
            clients.close();
            shard.end_polls();
        };
        let service = MessagingServiceServer::new(service)
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let result = Server::builder()
            .tcp_nodelay(true)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .add_service(service)
            .serve_with_incoming_shutdown(io::incoming(listener, tls), shutdown)
            .await;
        upkeep.abort();
        result
    }
}
