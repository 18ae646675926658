//! The HTTP front end: what operators and their tools read. It is beside the broker and must never be in its way: few
//! connections, small requests, and nothing that holds up the shard.
//!
//! A request goes from [`connection`] through [`router`] to the [`Part`] that is mounted at its path.

mod connection;
mod health;
pub mod metrics;
mod router;

use std::{io::Error as IoError, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};

use crate::{
    Resources,
    listen::{self, Port, PortLimits},
    statistics::Live,
};

pub use health::{Health, Stage};
pub use metrics::{Metrics, Sources};
pub use router::{Answer, Answering, Part, Request, Router};

/// Settings of the HTTP front end.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub limits: Limits,
    /// What it shares with the other ports.
    pub resources: Resources,
}

/// How much peers may take of the front end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time.
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
    port: Port,
}

impl Http {
    pub async fn bind(config: Config, router: Router) -> Result<Http, StartError> {
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| StartError { address, source })?;
        let connections_max = config.limits.connections_max;
        let limits = PortLimits { connections_max, silent_max: connections_max };
        let port = config.resources.connections.port("HTTP", limits);
        Ok(Http { listener, limits: config.limits, router: Arc::new(router), port })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How many connections are open.
    pub fn connections(&self) -> Live {
        self.port.open.clone()
    }

    /// Serves until `stopped` says so.
    pub async fn serve(self, stopped: watch::Receiver<bool>) {
        let Http { listener, limits, router, port } = self;
        let limits = Arc::new(limits);
        let mut stop = stopped.clone();
        // The sender is gone only when the broker is.
        let stop = async move { drop(stop.wait_for(|stopped| *stopped).await) };
        let mut open = listen::accept(listener, &port, stop, move |stream, activity| {
            connection::serve(stream, router.clone(), limits.clone(), activity, stopped.clone())
        })
        .await;
        while open.join_next().await.is_some() {}
    }
}
