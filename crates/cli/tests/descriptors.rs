//! A broker that may open few files: idle connections on its ports do not keep it from storing and delivering.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redstart_wire::v2::{
    self, Code, SendMessageRequest, messaging_service_client::MessagingServiceClient,
    receive_message_response::Content,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

const FILES: usize = 120;
const IDLE_ON_EACH_PORT: usize = 150;
/// More than two segments hold.
const MESSAGES: usize = 24;
const BODY: usize = (4 << 20) - 1024;

struct Limited {
    child: Child,
    /// gRPC, name service, broker, HTTP.
    ports: [SocketAddr; 4],
    log: Option<std::thread::JoinHandle<String>>,
}

impl Drop for Limited {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Limited {
    fn start(data: &Path) -> Limited {
        let serve = support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data);
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {FILES} && exec \"$@\""), "sh"])
            .arg(serve.get_program())
            .args(serve.get_args())
            .args(["--segment-bytes", "32MiB", "--disk-clean-percent", "99", "--disk-refuse-percent", "100"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut said = String::new();
            err.read_to_string(&mut said).unwrap();
            said
        });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = |line: String| {
            let last = line.split_whitespace().last()?.to_owned();
            last.trim_start_matches("http://").trim_end_matches("/metrics").parse().ok()
        };
        let ports: Vec<SocketAddr> = lines.filter_map(address).take(4).collect();
        Limited { child, ports: ports.try_into().expect("it says where it listens"), log: Some(log) }
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Ends it; returns what it logged.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.log.take().unwrap().join().unwrap()
    }
}

fn by<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-mq-client-id", "client".parse().unwrap());
    request
}

fn resource(name: &str) -> Option<v2::Resource> {
    Some(v2::Resource { name: name.to_owned(), ..Default::default() })
}

async fn send(service: &mut MessagingServiceClient<Channel>, id: usize) -> Code {
    let message = v2::Message {
        topic: resource("t"),
        system_properties: Some(v2::SystemProperties { message_id: id.to_string(), ..Default::default() }),
        body: vec![7; BODY].into(),
        ..Default::default()
    };
    let answer = service.send_message(by(SendMessageRequest { messages: vec![message] })).await.unwrap();
    answer.into_inner().status.unwrap().code()
}

async fn receive(service: &mut MessagingServiceClient<Channel>) -> Result<usize, Status> {
    let request = v2::ReceiveMessageRequest {
        group: resource("g"),
        message_queue: Some(v2::MessageQueue { topic: resource("t"), ..Default::default() }),
        batch_size: 4,
        invisible_duration: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
        long_polling_timeout: Some(prost_types::Duration { seconds: 0, nanos: 200_000_000 }),
        ..Default::default()
    };
    let mut answer = service.receive_message(by(request)).await?.into_inner();
    let mut messages = 0;
    while let Some(part) = answer.message().await? {
        messages += usize::from(matches!(part.content, Some(Content::Message(_))));
    }
    Ok(messages)
}

/// A client whose first request has been answered. Until then its connection is one of the silent ones, which give way to
/// newer ones.
async fn connect(address: SocketAddr) -> MessagingServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    loop {
        let Ok(channel) = endpoint.connect().await else { continue };
        let mut service = MessagingServiceClient::new(channel).max_decoding_message_size(16 << 20);
        if matches!(receive(&mut service).await, Ok(0)) {
            return service;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_on_every_port_leave_files_to_segments_and_to_busy_clients() {
    let dir = TempDir::new().unwrap();
    let broker = Limited::start(dir.path());
    support::create_topic(broker.ports[2], "t");
    // The group begins to consume before the first message.
    let _early = connect(broker.ports[0]).await;
    let mut idle = Vec::new();
    for port in broker.ports {
        for _ in 0..IDLE_ON_EACH_PORT {
            idle.push(TcpStream::connect(port).unwrap());
        }
    }
    let working = async {
        let mut service = connect(broker.ports[0]).await;
        let (mut sent, mut received) = (0, 0);
        while sent < MESSAGES {
            assert_eq!(send(&mut service, sent).await, Code::Ok);
            sent += 1;
            // New idle connections come while it works.
            for port in broker.ports {
                idle.push(TcpStream::connect(port).unwrap());
            }
        }
        while received < sent {
            received += receive(&mut service).await.unwrap();
        }
        for port in &broker.ports[1..3] {
            assert!(support::broker_config(*port).contains('='), "{port} answers");
        }
        received
    };
    let received = tokio::time::timeout(Duration::from_secs(120), working).await.expect("it is served");
    assert_eq!(received, MESSAGES);
    assert!(broker.open_files() < FILES, "{} files are open", broker.open_files());
    let segments = std::fs::read_dir(dir.path().join("shard-0")).unwrap();
    let segments =
        segments.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "log"));
    assert!(segments.count() >= 3, "the log went on to further segments");
    let log = broker.stop();
    assert!(log.lines().count() < 60, "{} lines:\n{}", log.lines().count(), &log[..log.len().min(4000)]);
    assert!(!log.contains("Too many open files"), "{log}");
}
