//! Very many clients, and clients that do not read: a process of its own is watched from outside for what it takes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{net::SocketAddr, time::Duration};

use redstart_engine::{GroupConfig, GroupName, MessageType, Start, TopicName};
use redstart_wire::v2::{
    self, ReceiveMessageRequest, SendMessageRequest, TelemetryCommand, telemetry_command::Command as Telling,
};
use support::{
    child_process::{ChildProcess, run_child},
    http2::*,
    *,
};
use tokio_stream::StreamExt;
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

const MIB: usize = 1 << 20;
const BODY: usize = 4 << 20;

/// A broker in a process of its own.
struct Process {
    child: ChildProcess,
    address: SocketAddr,
}

impl Process {
    fn start() -> Process {
        let child = ChildProcess::start("child_broker");
        let address = child.announced.parse().unwrap();
        Process { child, address }
    }

    fn memory(&self) -> usize {
        self.child.memory()
    }

    async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    async fn serves(&self) {
        let honest = async {
            let mut client = connect(self.address, "honest", "JAVA").await;
            send(&mut client, message("t", "m", b"body")).await;
        };
        tokio::time::timeout(Duration::from_secs(10), honest).await.expect("an honest client is served");
    }
}

/// Not a test by itself: the process that is watched.
#[test]
fn child_broker() {
    run_child(async {
        let broker = Broker::start().await;
        for topic in ["t", "large"] {
            broker.topic(topic, MessageType::Normal).await;
        }
        broker.group("g", GroupConfig::default()).await;
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("large").unwrap());
        let joined = broker.shard().ask(move |engine, _| engine.join(&group, &topic, Start::Earliest));
        joined.unwrap().await.unwrap().unwrap();
        (broker.address.to_string(), broker)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_telemetry_streams_take_little() {
    const CONNECTIONS: usize = 20;
    const STREAMS: usize = 500;
    let process = Process::start();
    process.serves().await;
    let before = process.memory();
    let mut streams: Vec<Streaming<TelemetryCommand>> = Vec::new();
    for connection in 0..CONNECTIONS {
        let channel = process.channel().await;
        for n in 0..STREAMS {
            let mut client = client_on(channel.clone(), &format!("c-{connection}-{n}"), "JAVA");
            let settings = v2::Settings {
                pub_sub: Some(v2::settings::PubSub::Publishing(v2::Publishing::default())),
                ..Default::default()
            };
            let told = TelemetryCommand { status: None, command: Some(Telling::Settings(settings)) };
            let said = tokio_stream::once(told).chain(tokio_stream::pending());
            streams.push(client.telemetry(said).await.unwrap().into_inner());
        }
    }
    for stream in &mut streams {
        assert!(stream.message().await.unwrap().is_some(), "each gets its settings");
    }
    process.serves().await;
    let each = process.memory().saturating_sub(before) / streams.len();
    println!("{each} bytes for a telemetry stream");
    assert!(each < 40 << 10, "{each} bytes for a telemetry stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_silent_connections_keep_nobody_out() {
    let process = Process::start();
    process.serves().await;
    let before = process.memory();
    let mut silent = Vec::new();
    // As many as this process may open: each end of a connection is a file.
    for _ in 0..10_000 {
        match tokio::net::TcpStream::connect(process.address).await {
            Ok(stream) => silent.push(stream),
            Err(error) => {
                assert!(silent.len() > 500, "{error} after {} connections", silent.len());
                break;
            }
        }
    }
    // Leaves files for the honest client.
    silent.truncate(silent.len() - 20);
    process.serves().await;
    let taken = process.memory().saturating_sub(before);
    println!("{} bytes for a silent connection, of {}", taken / silent.len(), silent.len());
    assert!(taken < 100 * MIB, "{taken} bytes for {} silent connections", silent.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_its_messages_takes_a_bounded_amount() {
    const MESSAGES: usize = 64;
    let process = Process::start();
    let mut client = connect(process.address, "producer", "JAVA").await;
    for n in 0..MESSAGES {
        let large = message("large", &format!("m{n}"), &vec![7; BODY - 1024]);
        let answer = client.send_message(SendMessageRequest { messages: vec![large] }).await.unwrap();
        assert_eq!(code(answer.into_inner().status), v2::Code::Ok);
    }
    let before = process.memory();
    // Windows of nothing: the client takes no byte of any answer.
    let mut raw = Raw::connect(process.address).await;
    raw.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()).await.unwrap();
    let request = ReceiveMessageRequest { batch_size: 1, ..receive_request("g", "large") };
    let request = prost::Message::encode_to_vec(&request);
    for n in 0..MESSAGES as u32 {
        let stream = 2 * n + 1;
        let body = grpc_frame(0, request.len() as u32, &request);
        let call = [
            frame(HEADERS, END_HEADERS, stream, &call_headers("ReceiveMessage")),
            frame(DATA, END_STREAM, stream, &body),
        ];
        raw.write(&call.concat()).await.unwrap();
    }
    // Some of the answers begin, with their headers; the others wait for those.
    let mut begun = 0;
    while let Ok(Some(found)) = tokio::time::timeout(Duration::from_secs(2), raw.frame()).await {
        begun += usize::from(found.kind == HEADERS);
    }
    assert!((1..=16).contains(&begun), "{begun} answers have begun");
    let taken = process.memory().saturating_sub(before);
    println!("{} MiB for {MESSAGES} answers of 4 MiB that nobody reads", taken / MIB);
    assert!(taken < 160 * MIB, "{} MiB", taken / MIB);
    process.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_talks_on_telemetry_is_not_answered_without_end() {
    let process = Process::start();
    process.serves().await;
    let before = process.memory();
    let mut raw = Raw::connect(process.address).await;
    raw.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()).await.unwrap();
    raw.write(&frame(HEADERS, END_HEADERS, 1, &call_headers("Telemetry"))).await.unwrap();
    let topics = vec![resource(&"t".repeat(100)); 4000];
    let publishing = v2::Publishing { topics, ..Default::default() };
    let settings =
        v2::Settings { pub_sub: Some(v2::settings::PubSub::Publishing(publishing)), ..Default::default() };
    let told = TelemetryCommand { status: None, command: Some(Telling::Settings(settings)) };
    let told = prost::Message::encode_to_vec(&told);
    let bytes = grpc_frame(0, told.len() as u32, &told);
    // Flow control stops the talking when nothing is taken off the stream any more.
    let (mut sent, mut allowed) = (0, 65_535);
    'talk: for _ in 0..1000 {
        for chunk in bytes.chunks(16_000) {
            while sent + chunk.len() > allowed {
                let next = tokio::time::timeout(Duration::from_secs(2), raw.frame()).await;
                let Ok(Some(found)) = next else { break 'talk };
                if found.kind == WINDOW_UPDATE && found.stream == 1 {
                    allowed += u32::from_be_bytes(found.payload.try_into().unwrap()) as usize;
                } else if found.kind == SETTINGS && found.flags == 0 {
                    // What the server opens its streams with (identifier 4).
                    let window = found.payload.chunks(6).find(|setting| setting[..2] == [0, 4]).unwrap();
                    allowed += u32::from_be_bytes(window[2..].try_into().unwrap()) as usize - 65_535;
                }
            }
            raw.write(&frame(DATA, 0, 1, chunk)).await.unwrap();
            sent += chunk.len();
        }
    }
    assert!((MIB / 2..8 * MIB).contains(&sent), "the talking was stopped after {sent} bytes");
    let taken = process.memory().saturating_sub(before);
    println!("{} MiB for telemetry that nobody reads", taken / MIB);
    assert!(taken < 64 * MIB, "{} MiB", taken / MIB);
    process.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_names_of_clients_take_a_bounded_amount() {
    let process = Process::start();
    let channel = process.channel().await;
    process.serves().await;
    let before = process.memory();
    let calls = (0..100_000).map(|n| {
        let channel = channel.clone();
        async move {
            let mut client = client_on(channel, &format!("client-{n}"), "JAVA");
            let poll = Some(prost_types::Duration { seconds: 0, nanos: 1 });
            let request = ReceiveMessageRequest { long_polling_timeout: poll, ..receive_request("g", "t") };
            receive(&mut client, request).await.0
        }
    });
    let calls: Vec<_> = calls.collect();
    let mut calls = futures_util::stream::StreamExt::buffer_unordered(futures_util::stream::iter(calls), 200);
    while let Some(found) = futures_util::StreamExt::next(&mut calls).await {
        assert!(matches!(found, v2::Code::MessageNotFound | v2::Code::Ok), "{found:?}");
    }
    let taken = process.memory().saturating_sub(before);
    println!("{} bytes for a client's name", taken / 100_000);
    assert!(taken < 100 * MIB, "{} MiB", taken / MIB);
    process.serves().await;
}
