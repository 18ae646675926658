//! The binary itself: it stops without losing or cutting off anything, and takes the operator's certificate.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redstart_wire::v2::{
    self, Code, SendMessageRequest, TelemetryCommand, messaging_service_client::MessagingServiceClient,
    receive_message_response::Content, telemetry_command::Command as Telling,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_rustls::rustls::{
    self,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio_stream::StreamExt;
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

use crate::support;

const TOPIC: &str = "t";
const GROUP: &str = "g";

struct Broker {
    child: Child,
    grpc: SocketAddr,
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command(data: &Path) -> Command {
    command_on(data, 0)
}

fn command_on(data: &Path, broker_port: u16) -> Command {
    let broker_port = broker_port.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command
        .args(["--grpc-port", "0", "--namesrv-port", "0", "--broker-port", &broker_port])
        .args(["--http-port", "0", "--data-dir"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Broker {
    fn start(command: &mut Command) -> Broker {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .filter(|line| line.contains("gRPC"))
            .find_map(|line| line.split_whitespace().last().and_then(|address| address.parse().ok()));
        Broker { child, grpc: address.expect("it says where it listens") }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; says how long it took.
    fn ended(&mut self, within: Duration) -> (Duration, Option<i32>) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (started.elapsed(), status.code());
            }
            assert!(started.elapsed() < within, "still running after {within:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn by<T>(client: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-mq-client-id", client.parse().unwrap());
    request
}

fn resource(name: &str) -> v2::Resource {
    v2::Resource { name: name.to_owned(), ..Default::default() }
}

fn message(id: &str) -> v2::Message {
    v2::Message {
        topic: Some(resource(TOPIC)),
        system_properties: Some(v2::SystemProperties { message_id: id.to_owned(), ..Default::default() }),
        body: id.to_owned().into(),
        ..Default::default()
    }
}

fn receive_request(seconds: i64) -> v2::ReceiveMessageRequest {
    v2::ReceiveMessageRequest {
        group: Some(resource(GROUP)),
        message_queue: Some(v2::MessageQueue { topic: Some(resource(TOPIC)), ..Default::default() }),
        batch_size: 32,
        invisible_duration: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        long_polling_timeout: Some(prost_types::Duration { seconds, nanos: 1_000_000 }),
        ..Default::default()
    }
}

/// Receives once: the code, and the ids of the messages. Panics when the answer is cut off in the middle.
async fn receive(channel: &Channel, client: &str, seconds: i64) -> Result<(i32, Vec<String>), tonic::Status> {
    let mut service = MessagingServiceClient::new(channel.clone());
    let mut answer = service.receive_message(by(client, receive_request(seconds))).await?.into_inner();
    let (mut code, mut ids, mut whole) = (0, Vec::new(), false);
    while let Some(part) = answer.message().await.expect("an answer that has begun is brought to its end") {
        match part.content {
            Some(Content::Status(status)) => code = status.code,
            Some(Content::Message(message)) => ids.push(message.system_properties.unwrap().message_id),
            _ => whole = true,
        }
    }
    assert!(whole, "the time of delivery ends every answer");
    Ok((code, ids))
}

/// Sends one after the other until the broker says no more; returns what was acknowledged.
async fn send_on(channel: Channel, name: String) -> Vec<String> {
    let mut service = MessagingServiceClient::new(channel);
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let id = format!("{name}-{n}");
        let request = SendMessageRequest { messages: vec![message(&id)] };
        match service.send_message(by(&name, request)).await {
            Ok(answer) if answer.get_ref().status.as_ref().unwrap().code == i32::from(Code::Ok) => {
                acknowledged.push(id);
            }
            _ => break,
        }
    }
    acknowledged
}

/// Holds a telemetry stream until it ends, which it must do properly.
async fn listen(channel: Channel, name: String) {
    let settings = v2::Settings {
        pub_sub: Some(v2::settings::PubSub::Publishing(v2::Publishing::default())),
        ..Default::default()
    };
    let told = TelemetryCommand { status: None, command: Some(Telling::Settings(settings)) };
    let said = tokio_stream::once(told).chain(tokio_stream::pending());
    let mut heard =
        MessagingServiceClient::new(channel).telemetry(by(&name, said)).await.unwrap().into_inner();
    while heard.message().await.expect("the stream ends, it is not cut off").is_some() {}
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_loses_nothing_and_cuts_nobody_off() {
    let data = TempDir::new().unwrap();
    let broker_port = free_port();
    let mut serve = command_on(data.path(), broker_port);
    let mut broker = Broker::start(&mut serve);
    support::create_topic(SocketAddr::from(([127, 0, 0, 1], broker_port)), TOPIC);
    let mut channels = Vec::new();
    for _ in 0..10 {
        channels.push(channel(broker.grpc).await);
    }
    // The group joins, so that everything from here on is for it.
    receive(&channels[0], "first", 0).await.unwrap();

    let (mut senders, mut pollers, mut listeners) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    for n in 0..70 {
        let channel = &channels[n % channels.len()];
        senders.spawn(send_on(channel.clone(), format!("sender-{n}")));
        listeners.spawn(listen(channel.clone(), format!("listener-{n}")));
    }
    for n in 0..60 {
        let channel = channels[n % channels.len()].clone();
        pollers.spawn(async move {
            let mut got = BTreeSet::new();
            while let Ok((code, ids)) = receive(&channel, &format!("poller-{n}"), 20).await {
                got.extend(ids);
                if code != i32::from(Code::Ok) {
                    break;
                }
            }
            got
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    // One that will not take part in saying good-bye.
    let mut deaf = std::net::TcpStream::connect(broker.grpc).unwrap();
    std::io::Write::write_all(&mut deaf, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    broker.signal(Signal::TERM);
    let (took, code) =
        tokio::task::spawn_blocking(move || broker.ended(Duration::from_secs(5))).await.unwrap();
    println!("stopped in {took:?}");
    assert_eq!(code, Some(0));
    let acknowledged: BTreeSet<String> = senders.join_all().await.into_iter().flatten().collect();
    let mut got: BTreeSet<String> = pollers.join_all().await.into_iter().flatten().collect();
    listeners.join_all().await;
    assert!(acknowledged.len() > 100, "only {} messages: the load was no load", acknowledged.len());

    let broker = Broker::start(&mut serve);
    let channel = channel(broker.grpc).await;
    loop {
        let (code, ids) = receive(&channel, "after", 0).await.unwrap();
        if code != i32::from(Code::Ok) {
            break;
        }
        got.extend(ids);
    }
    let lost: Vec<&String> = acknowledged.difference(&got).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged messages are gone: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
}

#[tokio::test]
async fn the_largest_body_is_the_one_that_is_set() {
    const LARGEST: usize = 12 << 20;
    let data = TempDir::new().unwrap();
    let broker_port = free_port();
    let broker = Broker::start(command_on(data.path(), broker_port).args(["--message-bytes-max", "12MiB"]));
    support::create_topic(SocketAddr::from(([127, 0, 0, 1], broker_port)), TOPIC);
    let channel = channel(broker.grpc).await;
    receive(&channel, "first", 0).await.unwrap();
    let mut service = MessagingServiceClient::new(channel).max_decoding_message_size(usize::MAX);
    for (size, expected) in [(LARGEST, Code::Ok), (LARGEST + 1, Code::MessageBodyTooLarge)] {
        let large = v2::Message { body: vec![7; size].into(), ..message("large") };
        let answer = service.send_message(by("sender", SendMessageRequest { messages: vec![large] })).await;
        let code = answer.unwrap().into_inner().status.unwrap().code;
        assert_eq!(code, i32::from(expected), "{size} bytes");
    }
    let mut answer = service.receive_message(by("receiver", receive_request(5))).await.unwrap().into_inner();
    let mut sizes = Vec::new();
    while let Some(part) = answer.message().await.unwrap() {
        if let Some(Content::Message(message)) = part.content {
            sizes.push(message.body.len());
        }
    }
    assert_eq!(sizes, [LARGEST]);
}

#[test]
fn a_certificate_and_its_key_go_together() {
    let data = TempDir::new().unwrap();
    for (flag, missing) in [("--tls-cert", "--tls-key"), ("--tls-key", "--tls-cert")] {
        let output = command(data.path()).args([flag, "x.pem"]).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(missing), "{said}");
    }
    let output = command(data.path())
        .args(["--tls-cert", "no-such.crt", "--tls-key", "no-such.key"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no-such.crt"), "{said}");
}

/// A TLS handshake as `name` that trusts only this certificate.
async fn handshake(address: SocketAddr, name: &'static str, trusted: &Path) -> std::io::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    connector.connect(name.try_into().unwrap(), stream).await.map(drop)
}

#[tokio::test]
async fn the_operators_certificate_is_the_one_that_is_served() {
    let (data, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // A first start makes a certificate; another broker is given it.
    drop(Broker::start(&mut command(other.path())));
    let (cert, key) = (other.path().join("tls.crt"), other.path().join("tls.key"));
    let broker = Broker::start(command(data.path()).arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key));
    assert!(!data.path().join("tls.crt").exists(), "none of its own is made");
    for name in ["localhost", "127.0.0.1"] {
        handshake(broker.grpc, name, &cert).await.unwrap();
    }
    let third = TempDir::new().unwrap();
    let stranger = Broker::start(&mut command(third.path()));
    assert!(handshake(stranger.grpc, "localhost", &cert).await.is_err(), "each makes its own");
}
