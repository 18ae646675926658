//! How a connection begins, before its protocol: the header of a balancer, then plaintext or TLS.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    listen::{Accepted, Ends},
    proxies::{Proxies, read_header},
    stream::Stream,
    throttle::Throttle,
    tls::{PortTls, Protocol},
};

/// First byte of a TLS handshake record. HTTP/1 and HTTP/2 begin with a letter, a Remoting frame with a length that would be far
/// over the limit if it began with this.
const TLS_HANDSHAKE: u8 = 0x16;
/// For a balancer to send its header, which it does as soon as it has connected.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);
/// For the last words to a peer that is refused.
const REFUSE_TIME_MAX: Duration = Duration::from_millis(500);
/// Bytes of such a peer that are read before the connection is closed.
const REFUSE_BYTES_MAX: usize = 64 << 10;

static PLAINTEXT: Throttle = Throttle::new();
static HEADERLESS: Throttle = Throttle::new();

/// How the connections of a port begin. By default in plaintext.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    pub tls: PortTls,
    /// Peers that have to send a PROXY header before anything else.
    pub proxies: Option<Proxies>,
}

/// A connection was closed before its protocol began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the peer does not speak TLS, which the port requires")]
    Plaintext,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, refused)
    }
}

impl Transport {
    /// Whether clients need a certificate.
    pub(crate) fn requires_certificate(&self) -> bool {
        match &self.tls {
            PortTls::Off => false,
            PortTls::Permissive(tls) | PortTls::Enforcing(tls) => tls.requires_certificate(),
        }
    }

    /// Does what comes before the protocol's own bytes. The caller limits the time.
    pub(crate) async fn open(&self, accepted: Accepted, protocol: Protocol) -> io::Result<Stream> {
        let Ends { local, remote: socket } = accepted.ends()?;
        let mut stream = accepted.stream;
        stream.set_nodelay(true)?;
        let is_proxy = self.proxies.as_ref().is_some_and(|proxies| proxies.contain(socket.ip()));
        let remote = if is_proxy { client_behind(&mut stream, socket, protocol).await? } else { socket };
        let tls = match &self.tls {
            PortTls::Off => return Ok(Stream::plain(stream, local, remote)),
            PortTls::Permissive(tls) | PortTls::Enforcing(tls) => tls,
        };
        if begins_tls(&stream).await? {
            let (accepted, certificate) = tls.accept(stream, protocol).await?;
            return Ok(Stream::tls(accepted, local, remote, certificate));
        }
        if let PortTls::Enforcing(_) = &self.tls {
            log_plaintext(protocol, remote);
            refuse(stream, protocol).await;
            return Err(Refused::Plaintext.into());
        }
        Ok(Stream::plain(stream, local, remote))
    }
}

/// The client for whom a balancer has connected; the balancer itself if it does so for no client, as for its health checks.
async fn client_behind(
    stream: &mut TcpStream,
    balancer: SocketAddr,
    protocol: Protocol,
) -> io::Result<SocketAddr> {
    let read = tokio::time::timeout(HEADER_TIME_MAX, read_header(stream)).await.map_err(io::Error::from);
    match read.flatten() {
        Ok(client) => Ok(client.unwrap_or(balancer)),
        Err(error) => {
            // One that closes without a byte tests whether the port is open.
            if error.kind() != ErrorKind::UnexpectedEof
                && let Some(repeated) = HEADERLESS.permit()
            {
                let port = protocol.name();
                tracing::warn!(port, remote = %balancer, %error, repeated, "closed a connection of a balancer in proxy_protocol_from");
            }
            Err(error)
        }
    }
}

/// Looks at the first byte without consuming it.
async fn begins_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] == TLS_HANDSHAKE),
    }
}

fn log_plaintext(protocol: Protocol, remote: SocketAddr) {
    if let Some(repeated) = PLAINTEXT.permit() {
        let port = protocol.name();
        tracing::warn!(port, %remote, repeated, "refused a plaintext connection: the port takes TLS only");
    }
}

/// Closes a plaintext connection so that its peer sees an end and not a reset, which it would if bytes of it were left unread. An
/// HTTP client is told why; the other protocols have no answer that comes before a request.
async fn refuse(mut stream: TcpStream, protocol: Protocol) {
    discard_input(&stream);
    let end = async {
        if protocol == Protocol::Http {
            stream.write_all(HTTPS_ONLY).await?;
        }
        stream.shutdown().await
    };
    // The peer may be gone already, which is as good.
    drop(tokio::time::timeout(REFUSE_TIME_MAX, end).await);
}

/// Reads what has come, up to a bound. Not asynchronous, so that the buffer is no part of every connection's task.
fn discard_input(stream: &TcpStream) {
    let mut unread = [0; 4 << 10];
    let mut read = 0;
    while read < REFUSE_BYTES_MAX {
        match stream.try_read(&mut unread) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => read += bytes,
        }
    }
}

const HTTPS_ONLY: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 29\r\n\
    Connection: close\r\n\r\nthis port takes HTTPS alone.\n";
