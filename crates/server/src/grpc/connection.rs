//! One connection, plaintext or TLS, below HTTP/2: it counts what is read and written, and refuses peers that do not speak
//! HTTP/2 or send too many control frames.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    sync::Semaphore,
};

use super::{frame_rate::FrameRateGuard, unflushed::UnflushedAnswers};
use crate::{
    access::Proofs, byte_budget::Account, listen::Accepted, stream::Stream, tls::Protocol,
    transport::Transport,
};

/// The first bytes of every HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Answers with message bodies that are written at a time. Each holds one message in memory until the client takes it.
const ANSWERS_MAX: usize = 16;

/// A connection whose peer has sent the HTTP/2 preface.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// Bytes of the preface that the HTTP/2 server has been given. `open` has read it off the socket already.
    preface_at: usize,
    frame_rate: FrameRateGuard,
    peer: Arc<Peer>,
}

/// What the calls of a connection know of it.
#[derive(Debug)]
pub(super) struct Peer {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The user that the client's certificate stands for.
    pub certified_user: Option<Arc<str>>,
    /// Permits for answers that carry message bodies.
    pub answers: Semaphore,
    /// Bytes of its requests and answers.
    pub account: Arc<Account>,
    /// Bytes written to the socket.
    pub written: AtomicU64,
    /// Who has signed its calls.
    pub proofs: Proofs,
    /// Open telemetry streams. A connection with no other calls counts as idle.
    pub telemetry: AtomicUsize,
    /// Answers with messages that may not have reached the socket.
    pub unflushed: UnflushedAnswers,
}

/// Does the handshakes. A peer that does not send the HTTP/2 preface is refused.
pub(super) async fn open(
    stream: Accepted,
    transport: &Transport,
    account: Arc<Account>,
) -> io::Result<Connection> {
    let mut stream = transport.open(stream, Protocol::Grpc).await?;
    let peer = Arc::new(Peer {
        local: stream.local,
        remote: stream.remote,
        certified_user: stream.certified_user(),
        answers: Semaphore::new(ANSWERS_MAX),
        account,
        written: AtomicU64::new(0),
        proofs: Proofs::default(),
        telemetry: AtomicUsize::new(0),
        unflushed: UnflushedAnswers::default(),
    });
    let (mut preface, mut have) = ([0; PREFACE.len()], 0);
    while have < PREFACE.len() {
        match stream.read(&mut preface[have..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => have += read,
        }
        if preface[..have] != PREFACE[..have] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak HTTP/2"));
        }
    }
    let frame_rate = FrameRateGuard::new(Instant::now());
    Ok(Connection { stream, preface_at: 0, frame_rate, peer })
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
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = &read
            && let Err(too_many) = this.frame_rate.read(&buf.filled()[before..], Instant::now)
        {
            tracing::debug!(remote = %this.peer.remote, "{too_many}");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, too_many)));
        }
        read
    }
}

impl Connection {
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            self.peer.unflushed.set_blocked(true);
        }
        if let Poll::Ready(Ok(bytes)) = &written {
            self.frame_rate.wrote(*bytes);
            self.peer.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.wrote(written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // HTTP/2 flushes when it has nothing left to write.
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.peer.unflushed.set_blocked(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
