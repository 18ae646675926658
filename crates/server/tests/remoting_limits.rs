//! Peers that do not behave: slow, silent, greedy; and TLS on the same port.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod remoting_support;

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use redstart_engine::BODY_BYTES_CEILING;
use redstart_server::{
    ByteBudget, Resources,
    tls::{self, Mode, Tls},
};
use redstart_wire::remoting::{Command, code, decode, encode};
use remoting_support::{Broker, Client, PATIENCE, messages, request};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::rustls::{
    self,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

fn send(body: Vec<u8>) -> Command {
    let fields = [("a", "p"), ("b", "t"), ("e", "0"), ("f", "0"), ("g", "1"), ("h", "0")];
    Command { body: body.into(), ..request(code::SEND_MESSAGE_V2, &fields) }
}

fn pull(offset: u32) -> Command {
    let offset = offset.to_string();
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", &offset),
        ("maxMsgNums", "1"),
        ("sysFlag", "4"),
        ("subscription", "*"),
    ];
    request(code::PULL_MESSAGE, &fields)
}

/// Asks for hundreds of megabytes and reads none of them: the broker must not hold them, and must serve others.
#[tokio::test]
async fn a_client_that_does_not_read_costs_bounded_memory_and_holds_up_nobody() {
    let _alone = MEMORY.lock().await;
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    assert_eq!(client.call_with(send(vec![7; 4 << 20])).await.code, code::SUCCESS);
    let before = memory();
    let mut greedy = broker.client().await;
    for _ in 0..200 {
        greedy.send(pull(0)).await;
    }
    for _ in 0..20 {
        let answer = client.call_with(pull(0)).await;
        assert_eq!((answer.code, answer.body.len() > 4 << 20), (code::SUCCESS, true));
    }
    // 32 MiB may wait for one client, and some more is in the hands of the system and the allocator.
    let grown = memory().saturating_sub(before);
    assert!(grown < 300 << 20, "{} MiB for 800 MiB of answers", grown >> 20);
    // Once it reads, it gets everything.
    for _ in 0..200 {
        assert_eq!(greedy.next().await.unwrap().code, code::SUCCESS);
    }
}

#[tokio::test]
async fn the_largest_body_that_can_be_allowed_goes_there_and_back() {
    let _alone = MEMORY.lock().await;
    let broker = Broker::start_with(|_, engine| engine.limits.body_bytes_max = BODY_BYTES_CEILING).await;
    let mut client = broker.with_topic("t", 1).await;
    assert_eq!(client.call_with(send(vec![7; BODY_BYTES_CEILING + 1])).await.code, code::MESSAGE_ILLEGAL);
    assert_eq!(client.call_with(send(vec![7; BODY_BYTES_CEILING])).await.code, code::SUCCESS);
    let answer = client.call_with(pull(0)).await;
    assert_eq!(messages(&answer)[0].body.len(), BODY_BYTES_CEILING);
}

/// Tests that look at the process's memory do it one after the other.
static MEMORY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Bytes of this process in memory.
fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_large_frame_is_announced_in_vain_by_many_without_taking_memory() {
    let _alone = MEMORY.lock().await;
    let broker = Broker::start().await;
    let before = memory();
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut client = broker.client().await;
        client.stream.write_all(&(16_u32 << 20).saturating_sub(4).to_be_bytes()).await.unwrap();
        half_open.push(client);
    }
    let mut client = broker.client().await;
    client.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
    assert!(memory().saturating_sub(before) < 256 << 20, "nothing was sent yet");
}

#[tokio::test]
async fn requests_past_the_limit_of_a_connection_are_answered_busy() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let held = pull(0).with_field("sysFlag", 6).with_field("suspendTimeoutMillis", 20_000);
    let mut bytes = BytesMut::new();
    for opaque in 0..8192 {
        encode(&Command { opaque, ..held.clone() }, &mut bytes);
    }
    client.stream.write_all(&bytes).await.unwrap();
    let refused = tokio::time::timeout(PATIENCE, client.call_with(pull(0))).await.unwrap();
    assert_eq!(refused.code, code::SYSTEM_BUSY);
    let mut other = broker.client().await;
    other.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
}

/// Held pulls take all that the connection may have. What comes then waits, and is refused when it has waited too long.
#[tokio::test]
async fn requests_past_the_bytes_of_a_connection_wait_and_are_then_answered_busy() {
    let broker = Broker::start_with(|config, _| {
        // A quarter of it is for one connection.
        config.resources = Resources { bytes: ByteBudget::new(64 << 10), ..Resources::default() };
    })
    .await;
    let mut client = broker.with_topic("t", 1).await;
    let held = pull(0).with_field("sysFlag", 6).with_field("suspendTimeoutMillis", 29_000);
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(client.send(held.clone()).await);
    }
    let mut answers = Vec::new();
    for opaque in sent {
        let answer = tokio::time::timeout(3 * PATIENCE, client.answer_within(opaque, 3 * PATIENCE));
        answers.push(answer.await.unwrap().code);
    }
    assert!(answers.contains(&code::PULL_NOT_FOUND), "the first are held and answered: {answers:?}");
    assert!(answers.contains(&code::SYSTEM_BUSY), "the last is refused: {answers:?}");
    let mut other = broker.client().await;
    other.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
}

#[derive(Debug)]
struct TrustAll(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// As 4.x clients with `tls.enable`: no ALPN, any certificate.
#[tokio::test]
async fn the_same_port_speaks_tls_when_the_first_byte_says_so() {
    let dir = tempfile::TempDir::new().unwrap();
    let tls = Tls::open(&tls::Config::default(), dir.path()).unwrap().on_port(Mode::Permissive);
    let broker = Broker::start_with(|config, _| config.transport.tls = tls).await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAll(provider)))
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    for address in [broker.address, broker.names] {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let mut bytes = BytesMut::new();
        encode(&Command { opaque: 7, ..Command::request(code::GET_BROKER_CLUSTER_INFO) }, &mut bytes);
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
        let mut input = BytesMut::new();
        let answer = loop {
            if let Some(answer) = decode(&mut input).unwrap() {
                break answer;
            }
            let read = tokio::time::timeout(Duration::from_secs(10), stream.read_buf(&mut input));
            assert_ne!(read.await.unwrap().unwrap(), 0, "closed");
        };
        assert_eq!((answer.code, answer.opaque), (code::SUCCESS, 7));
    }
    Client::connect(broker.address).await.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
}
