//! A broker that is stopped while 4.x clients send: what it has stored it answers.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::BytesMut;
use redstart_wire::remoting::{Command, code, decode, encode};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
};

use crate::support::{self, Running};

const TOPIC: &str = "t";
const QUEUES: i64 = 4;
const CLIENTS: i64 = 8;
/// Sends of a client that are not answered.
const UNANSWERED: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

fn send(opaque: i32, queue: i64) -> Command {
    let queue = queue.to_string();
    let fields = [("a", "p"), ("b", TOPIC), ("e", queue.as_str()), ("f", "0"), ("g", "1"), ("h", "0")];
    let request =
        fields.iter().fold(Command::request(code::SEND_MESSAGE_V2), |all, (n, v)| all.with_field(n, v));
    Command { opaque, body: vec![7; 1000].into(), ..request }
}

async fn answer(stream: &mut (impl AsyncReadExt + Unpin), input: &mut BytesMut) -> Option<Command> {
    loop {
        if let Some(command) = decode(input).expect("whole frames") {
            return Some(command);
        }
        if matches!(stream.read_buf(input).await, Ok(0) | Err(_)) {
            assert!(input.is_empty(), "the connection ends in the middle of a frame");
            return None;
        }
    }
}

/// Sends until the broker closes the connection; says how many sends were answered as stored.
async fn send_on(broker: SocketAddr, queue: i64, stored: Arc<Semaphore>) -> i64 {
    let (mut reader, mut writer) = TcpStream::connect(broker).await.unwrap().into_split();
    let places = Arc::new(Semaphore::new(UNANSWERED));
    let free = places.clone();
    let sending = tokio::spawn(async move {
        for opaque in 0.. {
            free.acquire().await.unwrap().forget();
            let mut bytes = BytesMut::new();
            encode(&send(opaque, queue), &mut bytes);
            if writer.write_all(&bytes).await.is_err() {
                // The reader still gets what was answered.
                return;
            }
        }
    });
    let (mut input, mut answered) = (BytesMut::new(), 0);
    while let Some(answer) = answer(&mut reader, &mut input).await {
        if answer.code == code::SUCCESS {
            answered += 1;
            stored.add_permits(1);
        }
        places.add_permits(1);
    }
    sending.abort();
    answered
}

async fn stored_in(broker: SocketAddr, queue: i64) -> i64 {
    let mut stream = TcpStream::connect(broker).await.unwrap();
    let request =
        Command::request(code::GET_MAX_OFFSET).with_field("topic", TOPIC).with_field("queueId", queue);
    let mut bytes = BytesMut::new();
    encode(&request, &mut bytes);
    stream.write_all(&bytes).await.unwrap();
    let found = answer(&mut stream, &mut BytesMut::new()).await.unwrap();
    assert_eq!(found.code, code::SUCCESS, "{:?}", found.remark);
    found.field("offset").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_when_the_broker_stops_is_answered() {
    let data = TempDir::new().unwrap();
    let serve = || support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data.path());
    let running = Running::start(&mut serve());
    support::create_topic(running.broker, TOPIC);
    let stored = Arc::new(Semaphore::new(0));
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        clients.spawn(send_on(running.broker, n % QUEUES, stored.clone()));
    }
    // The clients are at it.
    tokio::time::timeout(PATIENCE, stored.acquire_many(500)).await.unwrap().unwrap().forget();
    let log = tokio::task::spawn_blocking(move || running.stop());
    let answered: i64 = clients.join_all().await.into_iter().sum();
    log.await.unwrap();

    let running = Running::start(&mut serve());
    let mut found = 0;
    for queue in 0..QUEUES {
        found += stored_in(running.broker, queue).await;
    }
    assert_eq!(found, answered, "every message that was stored was answered, and the reverse");
    running.stop();
}
