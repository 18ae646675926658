//! TLS on every port of a running broker, as clients and operators see it.

use std::{io::Read, net::TcpStream, process::Command};

use crate::support;
use crate::tls_support::{Authority, Broker, CLUSTER_INFO, ask, connect, get, tool};

#[test]
fn each_port_has_a_mode_of_its_own() {
    let authority = Authority::new();
    let certificate = authority.issue("broker", &["localhost"]);
    let mut flags = certificate.flags();
    flags.extend(["--remoting-tls=off", "--grpc-tls=enforcing", "--http-tls=permissive"].map(str::to_owned));
    let broker = Broker::start(&flags);
    let trusted = authority.file();

    for address in [broker.remoting, broker.names] {
        assert_eq!(ask(TcpStream::connect(address).unwrap(), CLUSTER_INFO, "{}").unwrap().0, 0);
        assert!(connect(address, &trusted, None).is_err(), "TLS is off");
    }
    assert!(connect(broker.grpc, &trusted, None).is_ok());
    assert_eq!(get(TcpStream::connect(broker.http).unwrap(), "/healthz").unwrap().0, 200);
    assert_eq!(get(connect(broker.http, &trusted, None).unwrap(), "/healthz").unwrap().0, 200);
}

#[test]
fn an_enforcing_port_ends_plaintext_connections_and_says_so() {
    let flags = ["--remoting-tls=enforcing", "--grpc-tls=enforcing", "--http-tls=enforcing"];
    let broker = Broker::start(&flags);
    assert!(broker.said.iter().any(|line| line.contains("https://")), "{:?}", broker.said);

    for address in [broker.remoting, broker.names] {
        let error = ask(TcpStream::connect(address).unwrap(), CLUSTER_INFO, "{}").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "an end and not a reset");
        let own = broker.data().join("tls.crt");
        assert_eq!(ask(connect(address, &own, None).unwrap(), CLUSTER_INFO, "{}").unwrap().0, 0);
    }
    broker.logs("refused a plaintext connection");

    let mut grpc = TcpStream::connect(broker.grpc).unwrap();
    std::io::Write::write_all(&mut grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert_eq!(grpc.read(&mut [0; 16]).unwrap(), 0);

    let (status, body) = get(TcpStream::connect(broker.http).unwrap(), "/metrics").unwrap();
    assert_eq!((status, body.as_str()), (400, "this port takes HTTPS alone.\n"));

    let port = format!("--http-port={}", broker.http.port());
    let mut health = Command::new(env!("CARGO_BIN_EXE_redstart"));
    let health = support::output(health.env_clear().args(["health", &port, "--http-tls=enforcing"]));
    assert!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
}

/// As curl does, which offers h2 and http/1.1.
#[test]
fn curl_reads_metrics_over_tls() {
    let authority = Authority::new();
    let mut flags = authority.issue("broker", &["localhost"]).flags();
    flags.push("--http-tls=enforcing".to_owned());
    let broker = Broker::start(&flags);
    let url = format!("https://localhost:{}/metrics", broker.http.port());
    let trusted = authority.file().display().to_string();
    let Some(output) = tool("curl", &["--silent", "--show-error", "--cacert", &trusted, &url]) else {
        return;
    };
    let (page, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(page.contains("redstart_build_info"), "{error}");
}
