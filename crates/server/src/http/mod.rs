//! The HTTP front end: what operators and their tools read. It is beside the broker and must never be in its way: few
//! connections, small requests, and nothing that holds up the shard.
//!
//! A request goes from [`accept`] and [`connection`] through [`router`] to the [`Part`] that is mounted at its path.

mod accept;
mod connection;
mod health;
pub mod metrics;
mod router;

use std::{io::Error as IoError, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};

use crate::statistics::Live;

pub use health::{Health, Stage};
pub use metrics::{Metrics, Sources};
pub use router::{Answer, Answering, Part, Request, Router};

/// Settings of the HTTP front end.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub limits: Limits,
}

/// How much peers may take of the front end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; past it the oldest is closed for a new one.
    pub connections_max: usize,
    /// Of a request's line and headers, and of its body.
    pub header_bytes_max: usize,
    pub headers_max: usize,
    pub body_bytes_max: u64,
    /// For a request to come, and between requests.
    pub idle_timeout: Duration,
    /// For the peer to take any of what is written.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 256,
            header_bytes_max: 16 << 10,
            headers_max: 64,
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
    router: Arc<Router>,
    connections: Live,
}

impl Http {
    pub async fn bind(config: Config, router: Router) -> Result<Http, StartError> {
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| StartError { address, source })?;
        Ok(Http { listener, limits: config.limits, router: Arc::new(router), connections: Live::default() })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How many connections are open.
    pub fn connections(&self) -> Live {
        self.connections.clone()
    }

    /// Serves until `stopped` says so.
    pub async fn serve(self, stopped: watch::Receiver<bool>) {
        accept::accept(self, stopped).await;
    }
}
