//! Settings of a client, and the steps that connect it.

use std::{
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    sync::Arc,
    time::Duration,
};

use super::Client;
use crate::{
    BuildError, Credentials, Protocol, Tls, TraceBridge,
    random::random_u64,
    trace::Tracer,
    transport::{Net, remoting},
};

const TIMEOUT: Duration = Duration::from_secs(3);
const SCHEMES: [(&str, Protocol); 3] =
    [("grpc://", Protocol::Grpc), ("remoting://", Protocol::Remoting), ("rocketmq://", Protocol::Remoting)];

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
#[must_use = "a client comes from `build`"]
pub struct ClientBuilder {
    addresses: Vec<String>,
    protocol: Protocol,
    credentials: Option<Credentials>,
    tls: Option<Tls>,
    timeout: Duration,
    client_id: Option<String>,
    tracer: Tracer,
}

impl ClientBuilder {
    pub(super) fn new(addresses: &str) -> ClientBuilder {
        let addresses = addresses.trim();
        let scheme = SCHEMES.iter().find(|(scheme, _)| addresses.starts_with(scheme));
        let (rest, protocol) = scheme.map_or((addresses, Protocol::Remoting), |(scheme, protocol)| {
            (&addresses[scheme.len()..], *protocol)
        });
        let parts = rest.split([';', ',']).map(|address| address.trim().trim_end_matches('/').to_owned());
        ClientBuilder {
            addresses: parts.filter(|address| !address.is_empty()).collect(),
            protocol,
            credentials: None,
            tls: None,
            timeout: TIMEOUT,
            client_id: None,
            tracer: Tracer::default(),
        }
    }

    /// Signs every request.
    pub fn credentials(mut self, credentials: Credentials) -> ClientBuilder {
        self.credentials = Some(credentials);
        self
    }

    /// Connects with TLS, to all servers alike.
    pub fn tls(mut self, tls: Tls) -> ClientBuilder {
        self.tls = Some(tls);
        self
    }

    /// How long a server has for an answer, the time of a long poll not counted: 3 s if not set.
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.timeout = timeout;
        self
    }

    /// The name of this client to servers; made from address and process if not set. Two clients must not share one.
    pub fn client_id(mut self, id: impl Into<String>) -> ClientBuilder {
        self.client_id = Some(id.into());
        self
    }

    /// Connects the client with the application's tracer: messages carry the context of the trace in which they are sent, and spans of
    /// consumers are linked with those of producers. Spans themselves are those of the crate `tracing`, and need no bridge.
    pub fn trace_bridge(mut self, bridge: impl TraceBridge) -> ClientBuilder {
        self.tracer = Tracer(Some(Arc::new(bridge)));
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.addresses.is_empty() {
            faults.push("no address of a server is given".to_owned());
        }
        for address in &self.addresses {
            let port = address.rsplit_once(':').and_then(|(host, port)| {
                Some(host).filter(|host| !host.is_empty()).and(port.parse::<u16>().ok())
            });
            if port.is_none() {
                faults.push(format!("{address:?} is no address: it needs the form host:port"));
            }
        }
        if self.timeout.is_zero() {
            faults.push("the time for an answer is 0".to_owned());
        }
        let visible = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
        if self.client_id.as_ref().is_some_and(|id| !visible(id)) {
            faults.push("the client id must consist of visible ASCII characters".to_owned());
        }
        if cfg!(not(feature = "grpc")) && self.protocol == Protocol::Grpc {
            faults.push("gRPC needs the feature `grpc` of redstart-client".to_owned());
        }
        faults
    }

    /// Connects to one of the addresses. Every fault of the settings is named at once.
    pub async fn build(self) -> Result<Client, BuildError> {
        BuildError::check(self.faults())?;
        let client_id = self.client_id.clone().unwrap_or_else(|| own_id(&self.addresses));
        let net = match self.protocol {
            #[cfg(feature = "grpc")]
            Protocol::Grpc => {
                use crate::transport::grpc;
                Net::Grpc(Arc::new(grpc::Grpc::new(grpc::Settings {
                    addresses: self.addresses,
                    tls: self.tls,
                    credentials: self.credentials,
                    timeout: self.timeout,
                    client_id,
                })))
            }
            _ => Net::Remoting(Arc::new(remoting::Remoting::new(remoting::Settings {
                addresses: self.addresses,
                tls: self.tls,
                credentials: self.credentials,
                timeout: self.timeout,
                client_id,
            }))),
        };
        Ok(Client::start(net, self.timeout, self.tracer).await?)
    }
}

/// `ip@process#random`, as Java has it: the address by which this host reaches the server.
fn own_id(servers: &[String]) -> String {
    // A UDP socket that is connected sends nothing; the system only says which address it would use.
    let own = |server: &String| {
        // Names are not looked up here: that could block.
        let server = server.parse::<SocketAddr>().ok()?.to_socket_addrs().ok()?.next()?;
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(server).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    let ip = servers.iter().find_map(own).map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
    format!("{ip}@{}#{:x}", std::process::id(), random_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_the_protocol() {
        for (text, protocol, addresses) in [
            ("a:1;b:2", Protocol::Remoting, vec!["a:1", "b:2"]),
            (" remoting://a:1 ; b:2; ", Protocol::Remoting, vec!["a:1", "b:2"]),
            ("grpc://a:1,b:2", Protocol::Grpc, vec!["a:1", "b:2"]),
            ("grpc://[::1]:8081/", Protocol::Grpc, vec!["[::1]:8081"]),
            ("", Protocol::Remoting, vec![]),
        ] {
            let builder = ClientBuilder::new(text);
            assert_eq!(
                (builder.protocol, builder.addresses),
                (protocol, addresses.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[tokio::test]
    async fn all_faults_are_named_before_anything_is_connected() {
        let builder = ClientBuilder::new("nowhere;:7").timeout(Duration::ZERO).client_id("a b");
        let error = builder.build().await.unwrap_err();
        let BuildError::Invalid { faults } = &error else { panic!("{error}") };
        assert_eq!(faults.len(), 4, "{faults:?}");
        let error = ClientBuilder::new(" ").build().await.unwrap_err();
        assert_eq!(error.to_string(), "no address of a server is given");
    }

    #[test]
    fn ids_of_two_clients_differ() {
        let servers = ["127.0.0.1:9876".to_owned()];
        assert!(own_id(&servers).starts_with("127.0.0.1@"));
        assert_ne!(own_id(&servers), own_id(&servers));
    }
}
