//! Balancers that say for whom they connect.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use super::world::{Authority, Broker, CLUSTER_INFO, PATIENCE, ask, connect_with, exchange, get};

const HEARTBEAT: u32 = 34;
const CONSUMER_CONNECTIONS: u32 = 203;
const CONSUMER: &str = r#"{"clientID":"c@1","producerDataSet":[],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[],"unitMode":false}]}"#;

const V1: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 5000 10911\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x08\xc0\0\x02\x01\x13\x88\x2a\x9f";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn behind(address: SocketAddr, header: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(header).unwrap();
    stream
}

#[test]
fn the_address_in_the_header_is_the_clients() {
    let authority = Authority::new();
    let mut flags = authority.issue("broker", &["localhost"]).flags();
    flags.extend(["--proxy-protocol-from=10.0.0.0/8,127.0.0.1", "--http-tls=permissive"].map(str::to_owned));
    let broker = Broker::start(&flags);
    for (header, client) in [(V1, "203.0.113.7:5000"), (V2, "203.0.113.8:5000"), (LOCAL, "127.0.0.1:")] {
        let mut stream = behind(broker.remoting, header);
        assert_eq!(exchange(&mut stream, HEARTBEAT, "{}", CONSUMER).unwrap().0, 0);
        let listed = exchange(&mut stream, CONSUMER_CONNECTIONS, r#"{"consumerGroup":"g"}"#, "").unwrap();
        assert!(listed.2.contains(&format!("\"clientAddr\":\"{client}")), "{listed:?}");
    }
    // The header comes before TLS.
    let tls = |address| connect_with(behind(address, V2), &authority.file(), None).unwrap();
    assert_eq!(ask(tls(broker.names), CLUSTER_INFO, "{}").unwrap().0, 0);
    drop(tls(broker.grpc));
    assert_eq!(get(tls(broker.http), "/healthz").unwrap().0, 200);
    assert_eq!(get(behind(broker.http, V1), "/healthz").unwrap().0, 200);

    for address in [broker.remoting, broker.grpc, broker.http] {
        assert!(ask(behind(address, b""), CLUSTER_INFO, "{}").is_err(), "a balancer has to send a header");
    }
    broker.logs("no PROXY header");
}

#[test]
fn a_header_of_another_peer_is_a_protocol_error() {
    let broker = Broker::start(&["--proxy-protocol-from=10.0.0.0/8"]);
    for header in [V1, V2] {
        assert!(ask(behind(broker.remoting, header), CLUSTER_INFO, "{}").is_err());
        assert_ne!(get(behind(broker.http, header), "/healthz").map_or(0, |(status, _)| status), 200);
    }
    assert_eq!(ask(behind(broker.remoting, b""), CLUSTER_INFO, "{}").unwrap().0, 0);
    assert!(!broker.log().contains("PROXY"), "{}", broker.log());
}
