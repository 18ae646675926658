//! Plaintext and TLS connections on one port, recognised by their first byte.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// First byte of a TLS handshake record. HTTP/2 begins with the letter P, a Remoting frame with a length that would be
/// far over the limit if it began with this.
const TLS_HANDSHAKE: u8 = 0x16;

/// A connection of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads the first byte without consuming it, and does the TLS handshake if it begins one.
    pub async fn open(stream: TcpStream, tls: TlsAcceptor) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[0] == TLS_HANDSHAKE {
            return Ok(Stream::Tls(Box::new(tls.accept(stream).await?)));
        }
        Ok(Stream::Plain(stream))
    }

    /// The address that the peer dialled.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.tcp().local_addr()
    }

    pub fn remote(&self) -> io::Result<SocketAddr> {
        self.tcp().peer_addr()
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }
}

macro_rules! delegate {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
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
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
