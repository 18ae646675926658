//! A connection, plaintext or TLS.

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
use tokio_rustls::server::TlsStream;

/// A connection whose handshakes are done: [`Transport`](crate::transport::Transport) opens it.
#[derive(Debug)]
pub(crate) struct Stream {
    io: Io,
    /// The address that the peer dialled.
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub fn plain(stream: TcpStream, local: SocketAddr, remote: SocketAddr) -> Stream {
        Stream { io: Io::Plain(stream), local, remote }
    }

    pub fn tls(stream: TlsStream<TcpStream>, local: SocketAddr, remote: SocketAddr) -> Stream {
        Stream { io: Io::Tls(Box::new(stream)), local, remote }
    }
}

macro_rules! delegate {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match &mut $self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Io::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
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
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
