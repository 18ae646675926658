//! TLS on every port of a running broker, as clients and operators see it.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
};

use super::world::{Authority, Broker, CLUSTER_INFO, PATIENCE, ask, connect, get, tool};

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
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "an end and not a reset");
        let own = broker.data().join("tls.crt");
        assert_eq!(ask(connect(address, &own, None).unwrap(), CLUSTER_INFO, "{}").unwrap().0, 0);
    }
    broker.logs("refused a plaintext connection");

    let mut grpc = TcpStream::connect(broker.grpc).unwrap();
    grpc.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert_eq!(grpc.read(&mut [0; 16]).unwrap(), 0);

    let (status, body) = get(TcpStream::connect(broker.http).unwrap(), "/metrics").unwrap();
    assert_eq!((status, body.as_str()), (400, "this port takes HTTPS alone.\n"));

    let port = format!("--http-port={}", broker.http.port());
    let mut health = Command::new(env!("CARGO_BIN_EXE_redstart"));
    let health = super::support::output(health.env_clear().args(["health", &port, "--http-tls=enforcing"]));
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
    let Some(output) =
        tool("curl", &["--silent", "--show-error", "--noproxy", "*", "--cacert", &trusted, &url])
    else {
        return;
    };
    let (page, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(page.contains("redstart_build_info"), "{error}");
}

/// The hello of a client that knows one version and one suite; what a server answers first: the kind of the record and, of an alert,
/// what it is about.
fn hello(address: SocketAddr, version: u16, suite: u16) -> (u8, u8) {
    // Groups x25519 and secp256r1; signatures ECDSA and RSA-PSS with SHA-256, RSA with SHA-256.
    let extensions: &[u8] = &[0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17, 0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1];
    let mut body = version.to_be_bytes().to_vec();
    body.extend([7; 32]);
    body.extend([0, 0, 2]);
    body.extend(suite.to_be_bytes());
    body.extend([1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![0x16, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&record).unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    (answer[0], answer[6])
}

#[test]
fn old_versions_and_suites_are_refused() {
    const HANDSHAKE: u8 = 0x16;
    const ALERT: u8 = 0x15;
    const HANDSHAKE_FAILURE: u8 = 40;
    const PROTOCOL_VERSION: u8 = 70;
    let broker = Broker::start(&["--http-tls=permissive"]);
    for address in [broker.remoting, broker.names, broker.http, broker.grpc] {
        // ECDHE-ECDSA with AES-128-GCM: the certificate that the broker makes has an ECDSA key.
        assert_eq!(hello(address, 0x0303, 0xc02b).0, HANDSHAKE, "TLS 1.2");
        for (version, name) in [(0x0300, "SSL 3"), (0x0301, "TLS 1.0"), (0x0302, "TLS 1.1")] {
            assert_eq!(hello(address, version, 0xc02b), (ALERT, PROTOCOL_VERSION), "{name}");
        }
        for (suite, name) in [
            (0xc009, "ECDHE-ECDSA-AES128-CBC-SHA"),
            (0xc023, "ECDHE-ECDSA-AES128-CBC-SHA256"),
            (0x009c, "RSA-AES128-GCM without ephemeral keys"),
            (0x000a, "RSA-3DES"),
        ] {
            assert_eq!(hello(address, 0x0303, suite), (ALERT, HANDSHAKE_FAILURE), "{name}");
        }
    }
}

/// What openssl's client thinks of it.
#[test]
fn openssl_agrees_on_modern_tls_only() {
    let broker = Broker::start::<&str>(&[]);
    let address = broker.remoting.to_string();
    for (options, accepted) in [
        (&["-tls1_3"][..], true),
        (&["-tls1_2"], true),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], false),
        (&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0"], false),
    ] {
        let arguments = [&["s_client", "-connect", &address][..], options].concat();
        let Some(output) = tool("openssl", &arguments) else { return };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            output.status.success() && said.contains("BEGIN CERTIFICATE"),
            accepted,
            "{options:?}: {said}"
        );
    }
}
