//! A certificate that is replaced while the broker runs.

use std::{fs, net::TcpStream, path::Path};

use super::world::{Authority, Broker, CLUSTER_INFO, Issued, ask, connect, eventually, get};
use rustix::process::Signal;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};

/// The certificate that new connections are shown.
fn shown(broker: &Broker, trusted: &Path) -> CertificateDer<'static> {
    let client = connect(broker.grpc, trusted, None).unwrap();
    client.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

fn certificate(files: &Issued) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(&files.certificate).unwrap()
}

#[test]
fn new_connections_are_shown_the_new_certificate_and_a_broken_one_changes_nothing() {
    let authority = Authority::new();
    let trusted = authority.file();
    let files = authority.issue("first", &["localhost"]);
    let first = certificate(&files);
    let broker = Broker::start(&files.flags());
    assert_eq!(shown(&broker, &trusted), first);
    let mut open = connect(broker.remoting, &trusted, None).unwrap();
    assert_eq!(ask(&mut open, CLUSTER_INFO, "{}").unwrap().0, 0);
    let (_, metrics) = get(TcpStream::connect(broker.http).unwrap(), "/metrics").unwrap();
    let line = "redstart_tls_certificate_expiry_timestamp_seconds 2493072000\n";
    assert!(metrics.contains(line), "{metrics}");

    authority.issue_to(&files, "second", &["localhost"]);
    let second = certificate(&files);
    eventually("the second certificate is shown", || shown(&broker, &trusted) == second);
    assert_eq!(ask(&mut open, CLUSTER_INFO, "{}").unwrap().0, 0, "the connection from before is still open");

    let key = fs::read(&files.key).unwrap();
    authority.issue_to(&files, "third", &["localhost"]);
    let third = certificate(&files);
    let matching = fs::read(&files.key).unwrap();
    fs::write(&files.key, key).unwrap();
    broker.logs("the TLS certificate cannot be reloaded");
    assert_eq!(shown(&broker, &trusted), second, "the key is of another certificate");
    fs::write(&files.key, matching).unwrap();
    eventually("the third certificate is shown", || shown(&broker, &trusted) == third);
}

#[test]
fn a_hangup_reads_the_certificate_again_and_ends_nothing() {
    let authority = Authority::new();
    let files = authority.issue("first", &["localhost"]);
    let mut broker = Broker::start(&files.flags());
    broker.signal(Signal::HUP);
    broker.logs("TLS certificate reloaded");
    let mut plain = Broker::start(&["--remoting-tls=off", "--grpc-tls=off"]);
    assert!(!plain.data().join("tls.crt").exists(), "without TLS there is no certificate");
    plain.signal(Signal::HUP);
    assert_eq!(ask(TcpStream::connect(plain.remoting).unwrap(), CLUSTER_INFO, "{}").unwrap().0, 0);
    assert!(broker.is_running() && plain.is_running());
}
