//! Connections: plaintext and TLS on one port, told apart by their first byte.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

/// First byte of a TLS handshake record. HTTP/2 begins with the letter P.
const TLS_HANDSHAKE: u8 = 0x16;
/// A peer that says nothing, or does not finish its handshake, is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have finished their handshake and wait to be served.
const READY_MAX: usize = 128;
/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a call can ask about its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
}

/// Accepts connections and does their handshakes beside each other: a slow one holds up nobody.
pub(super) fn incoming(
    listener: TcpListener,
    tls: TlsAcceptor,
) -> impl Stream<Item = io::Result<Connection>> {
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
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, open(stream, tls)).await {
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

struct Incoming(mpsc::Receiver<io::Result<Connection>>);

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

async fn open(stream: TcpStream, tls: TlsAcceptor) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first[0] == TLS_HANDSHAKE {
        return Ok(Connection::Tls(Box::new(tls.accept(stream).await?)));
    }
    Ok(Connection::Plain(stream))
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let stream = match self {
            Connection::Plain(stream) => stream,
            Connection::Tls(stream) => stream.get_ref().0,
        };
        Peer { local: stream.local_addr().ok(), remote: stream.peer_addr().ok() }
    }
}

macro_rules! delegate {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Connection::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Connection::Plain(stream) => stream.is_write_vectored(),
            Connection::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
