//! The Remoting front end: for now the administration of topics and groups that tools do over it.

mod admin;
mod attributes;
mod connection;

use std::{io::Error as IoError, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::watch};

use crate::shard::ShardHandle;

/// Settings of the Remoting front end.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the cluster and of the broker in it.
    pub cluster: String,
    pub broker: String,
    /// Where the name service and the broker listen.
    pub namesrv: SocketAddr,
    pub listen: SocketAddr,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for {what} on {address}: {source}")]
pub struct ListenError {
    what: &'static str,
    address: SocketAddr,
    source: IoError,
}

/// What every connection needs.
#[derive(Debug)]
struct Context {
    shard: ShardHandle,
    config: Config,
}

/// The name service and the broker, listening.
#[derive(Debug)]
pub struct Remoting {
    listeners: Vec<TcpListener>,
    context: Arc<Context>,
}

impl Remoting {
    pub async fn bind(config: Config, shard: ShardHandle) -> Result<Remoting, ListenError> {
        let mut listeners = Vec::new();
        for (what, address) in [("the name service", config.namesrv), ("the broker", config.listen)] {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|source| ListenError { what, address, source })?);
        }
        Ok(Remoting { listeners, context: Arc::new(Context { shard, config }) })
    }

    /// Serves until `stopped` says so.
    pub async fn serve(self, stopped: watch::Receiver<bool>) {
        let accepting = self.listeners.into_iter().map(|listener| {
            tokio::spawn(connection::accept(listener, self.context.clone(), stopped.clone()))
        });
        for task in accepting.collect::<Vec<_>>() {
            // It ends with `stopped`, or has panicked and said so.
            drop(task.await);
        }
    }
}
