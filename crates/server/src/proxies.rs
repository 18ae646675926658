use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

use redstart_auth::{InvalidSource, Sources};
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::proxy_header::{BYTES_MAX, Parsed, parse};

/// The balancers that begin a connection with a PROXY header. No other peer may send one: it could pretend to be any client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxies(Arc<Sources>);

impl FromStr for Proxies {
    type Err = InvalidSource;

    /// Addresses, networks and ranges, separated by commas.
    fn from_str(text: &str) -> Result<Proxies, InvalidSource> {
        let texts: Vec<_> = text.split(',').collect();
        Sources::read(&texts).map(|sources| Proxies(Arc::new(sources)))
    }
}

impl Proxies {
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.contain(address)
    }
}

/// Reads the header with which a balancer begins a connection, and nothing after it; returns the client's address, if the header
/// has one.
pub(crate) async fn read_header(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let (mut bytes, mut have) = (vec![0; BYTES_MAX], 0);
    loop {
        let peeked = stream.peek(&mut bytes[have..]).await?;
        if peeked == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let known = have + peeked;
        let parsed =
            parse(&bytes[..known]).map_err(|invalid| io::Error::new(ErrorKind::InvalidData, invalid))?;
        // An incomplete header reaches past what was looked at, so that all of it can be taken from the socket.
        let end = match parsed {
            Parsed::Incomplete => known,
            Parsed::Header(header) => header.len,
        };
        stream.read_exact(&mut bytes[have..end]).await?;
        if let Parsed::Header(header) = parsed {
            return Ok(header.source);
        }
        have = end;
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    #[test]
    fn balancers_are_addresses_and_networks() {
        let proxies: Proxies = "10.0.0.0/8, 127.0.0.1".parse().unwrap();
        for (address, contained) in
            [("10.1.2.3", true), ("127.0.0.1", true), ("::ffff:10.1.2.3", true), ("11.0.0.1", false)]
        {
            assert_eq!(proxies.contain(address.parse().unwrap()), contained, "{address}");
        }
        for text in ["", "10.0.0.0/8,", "host"] {
            assert!(text.parse::<Proxies>().is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_header_is_read_in_whatever_pieces_it_comes_and_what_follows_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let text = b"PROXY TCP4 10.0.0.7 10.0.0.1 8080 10911\r\nrest";
        for piece in [1, 7, text.len()] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.set_nodelay(true).unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let sending = async {
                for part in text.chunks(piece) {
                    client.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
                client.shutdown().await.unwrap();
            };
            let reading = async {
                let source = read_header(&mut server).await.unwrap();
                let mut rest = String::new();
                server.read_to_string(&mut rest).await.unwrap();
                (source, rest)
            };
            let ((), read) = tokio::join!(sending, reading);
            assert_eq!(read, (Some("10.0.0.7:8080".parse().unwrap()), "rest".to_owned()));
        }
    }
}
