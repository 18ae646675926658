//! Accepts connections for the gRPC server.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream as Items;
use tonic::transport::server::Connected;

use crate::stream::Stream;

/// A peer that says nothing, or does not finish its handshake, is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have finished their handshake and wait to be served.
const READY_MAX: usize = 128;
/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a call can ask about its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub local: Option<SocketAddr>,
}

/// Accepts connections and does their handshakes beside each other: a slow one holds up nobody.
pub(super) fn incoming(listener: TcpListener, tls: TlsAcceptor) -> impl Items<Item = io::Result<Stream>> {
    let (ready, connections) = mpsc::channel(READY_MAX);
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = ready.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a gRPC connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (tls, ready) = (tls.clone(), ready.clone());
            tokio::spawn(async move {
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, Stream::open(stream, tls)).await {
                    // The server has stopped taking connections otherwise.
                    Ok(Ok(connection)) => drop(ready.send(Ok(connection)).await),
                    Ok(Err(error)) => tracing::debug!(%error, "a gRPC connection did not open"),
                    Err(_) => tracing::debug!("a gRPC connection did not open in time"),
                }
            });
        }
    });
    Incoming(connections)
}

struct Incoming(mpsc::Receiver<io::Result<Stream>>);

impl Items for Incoming {
    type Item = io::Result<Stream>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

impl Connected for Stream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { local: self.local().ok() }
    }
}
