//! A connection: plaintext or TLS, and what its peer may do with it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;

use super::{conduct::Conduct, intake::Intake};

/// First byte of a TLS handshake record. HTTP/2 begins with the letter P.
const TLS_HANDSHAKE: u8 = 0x16;
/// What every HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Answers with message bodies on their way at a time. Each holds one message in memory until the client takes it.
const ANSWERS_MAX: usize = 16;

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection whose peer has begun to speak HTTP/2.
#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
    /// The preface has been read; it is given to the HTTP/2 server from here on.
    preface_at: usize,
    conduct: Conduct,
    peer: Peer,
    /// Its place among all connections.
    _place: OwnedSemaphorePermit,
}

/// What a call can ask about its connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// Places of answers that carry message bodies.
    pub answers: Arc<Semaphore>,
    pub intake: Arc<Intake>,
}

/// Does the handshakes. Plaintext and TLS are told apart by the first byte; whatever does not speak HTTP/2 is refused.
pub(super) async fn open(
    stream: TcpStream,
    tls: TlsAcceptor,
    intake: Arc<Intake>,
    place: OwnedSemaphorePermit,
) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let peer = Peer {
        local: stream.local_addr().ok(),
        remote: stream.peer_addr().ok(),
        answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
        intake,
    };
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut transport = if first[0] == TLS_HANDSHAKE {
        Transport::Tls(Box::new(tls.accept(stream).await?))
    } else {
        Transport::Plain(stream)
    };
    let (mut preface, mut have) = ([0; PREFACE.len()], 0);
    while have < PREFACE.len() {
        match transport.read(&mut preface[have..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => have += read,
        }
        // Something else is refused by its first bytes.
        if preface[..have] != PREFACE[..have] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak HTTP/2"));
        }
    }
    let conduct = Conduct::new(Instant::now());
    Ok(Connection { transport, preface_at: 0, conduct, peer, _place: place })
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

macro_rules! delegate {
    ($transport:expr, $method:ident($($argument:expr),*)) => {
        match $transport {
            Transport::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), poll_read(cx, buf))
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.preface_at < PREFACE.len() {
            let rest = &PREFACE[this.preface_at..];
            let given = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..given]);
            this.preface_at += given;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = delegate!(&mut this.transport, poll_read(cx, buf));
        if let Poll::Ready(Ok(())) = &read
            && let Err(misconduct) = this.conduct.read(&buf.filled()[before..], Instant::now)
        {
            tracing::debug!(remote = ?this.peer.remote, "{misconduct}");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, misconduct)));
        }
        read
    }
}

impl Connection {
    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.conduct.wrote(*bytes);
        }
        written
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = delegate!(&mut this.transport, poll_write(cx, buf));
        this.wrote(written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(&mut self.get_mut().transport, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(&mut self.get_mut().transport, poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = delegate!(&mut this.transport, poll_write_vectored(cx, bufs));
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
