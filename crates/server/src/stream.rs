//! A connection, plaintext or TLS.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use crate::tls::ClientCertificate;

/// A connection whose handshakes are done: [`Transport`](crate::transport::Transport) opens it.
#[derive(Debug)]
pub(crate) struct Stream {
    io: Io,
    /// The address that the peer dialled.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Of a TLS client that was asked for one.
    pub certificate: Option<ClientCertificate>,
}

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub fn plain(stream: TcpStream, local: SocketAddr, remote: SocketAddr) -> Stream {
        Stream { io: Io::Plain(stream), local, remote, certificate: None }
    }

    pub fn tls(
        stream: TlsStream<TcpStream>,
        local: SocketAddr,
        remote: SocketAddr,
        certificate: Option<ClientCertificate>,
    ) -> Stream {
        Stream { io: Io::Tls(Box::new(stream)), local, remote, certificate }
    }

    /// The user that the client's certificate stands for.
    pub fn certified_user(&self) -> Option<Arc<str>> {
        self.certificate.as_ref()?.user.clone()
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
