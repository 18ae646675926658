//! The HTTP port: metrics and health for operators and their tools, which ask the shards only in short slices, and queues for
//! programs in any language.
//!
//! A request goes from [`connection`] through [`router`] to the [`Part`] that is mounted at its path.

mod answer;
mod body;
mod call;
mod cluster;
mod connection;
mod health;
pub mod metrics;
mod path;
mod queues;
mod refusal;
mod router;

use std::{io::Error as IoError, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};

use crate::{
    Access, ByteBudget, Resources, Serving,
    listen::{self, Port, PortLimits},
    statistics::LiveCount,
    transport::Transport,
};

pub use answer::{Answer, Content};
pub use call::{Call, Right};
pub use cluster::{Cluster, ClusterPage, TransferOrder};
pub use health::{Health, Stage};
pub use metrics::{Metrics, Sources};
pub use queues::{Queues, Served as QueuesServed};
pub use refusal::{Form, Refusal};
pub use router::{Answering, Part, Request, Router};

/// Connections that have made no request yet; past it the oldest of them is closed for a new one.
const SILENT_MAX: usize = 1024;

/// Settings of the HTTP front end.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub limits: Limits,
    /// How connections begin.
    pub transport: Transport,
    /// Limits that it shares with the other ports.
    pub resources: Resources,
}

/// Limits of the HTTP port.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections.
    pub connections_max: usize,
    /// Bytes of a request's line and headers.
    pub header_bytes_max: usize,
    pub headers_max: usize,
    pub body_bytes_max: u64,
    /// How long a request may take to arrive, and the time between two requests.
    pub idle_timeout: Duration,
    /// How long the peer may read nothing of an answer.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 16_384,
            header_bytes_max: 16 << 10,
            headers_max: 160,
            body_bytes_max: 64 << 10,
            idle_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// The front end could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for HTTP on {address}: {source}")]
pub struct StartError {
    pub address: SocketAddr,
    pub source: IoError,
}

/// A listening front end.
#[derive(Debug)]
pub struct Http {
    listener: TcpListener,
    limits: Limits,
    transport: Transport,
    router: Arc<Router>,
    port: Port,
    access: Access,
    bytes: ByteBudget,
}

impl Http {
    pub async fn bind(config: Config, router: Router) -> Result<Http, StartError> {
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| StartError { address, source })?;
        let connections_max = config.limits.connections_max;
        let limits = PortLimits { connections_max, silent_max: connections_max.min(SILENT_MAX) };
        let port = config.resources.connections.port("HTTP", limits);
        let Config { limits, transport, resources: Resources { access, bytes, .. }, .. } = config;
        Ok(Http { listener, limits, transport, router: Arc::new(router), port, access, bytes })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The number of open connections.
    pub fn connections(&self) -> LiveCount {
        self.port.open.clone()
    }

    /// Serves until `stopped` says so.
    pub fn serve(self, stopped: watch::Receiver<bool>) -> Serving {
        Box::pin(self.run(stopped))
    }

    async fn run(self, stopped: watch::Receiver<bool>) {
        let Http { listener, limits, transport, router, port, access, bytes } = self;
        let served = Arc::new(connection::Served { router, access, limits, transport, bytes });
        let mut stop = stopped.clone();
        // The sender is dropped only when the process ends.
        let stop = async move { drop(stop.wait_for(|stopped| *stopped).await) };
        let mut open = listen::accept(listener.into(), &port, stop, move |stream, activity| {
            connection::serve(stream, served.clone(), activity, stopped.clone())
        })
        .await;
        while open.join_next().await.is_some() {}
    }
}
