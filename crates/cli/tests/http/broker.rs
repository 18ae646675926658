//! The real binary, and a client that speaks HTTP/1.1 without a library.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redstart_client::{
    Client,
    admin::{Admin, TopicSpec},
};
use redstart_wire::remoting::body::GroupConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// No condition of a test takes as long, on a machine however busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const ADMIN_SECRET: &str = "correct horse battery";

pub struct Broker {
    child: Child,
    grpc: SocketAddr,
    names: SocketAddr,
    broker: SocketAddr,
    http: SocketAddr,
    _data: TempDir,
}

impl Broker {
    pub fn start() -> Broker {
        Broker::with(&[])
    }

    /// Starts it with further arguments, on ports that are free.
    pub fn with(arguments: &[&str]) -> Broker {
        let data = TempDir::new().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_redstart"))
            .env_clear()
            .env("REDSTART_ADMIN_SECRET", ADMIN_SECRET)
            .args(["serve", "--grpc-port=0", "--namesrv-port=0", "--broker-port=0", "--http-port=0"])
            .args(["--new-groups-from=earliest", "--data-dir"])
            .arg(data.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut address = |of: &str| -> SocketAddr {
            let line = lines.find(|line| line.contains(of)).expect("it says where it listens");
            // With several shards, the first of the brokers.
            let at = line.split_whitespace().find_map(|word| {
                word.trim_start_matches("http://").trim_end_matches("/metrics").parse().ok()
            });
            at.expect("an address")
        };
        let (grpc, names) = (address("gRPC"), address("mqadmin"));
        let (broker, http) = (address("broker"), address("HTTP"));
        Broker { child, grpc, names, broker, http, _data: data }
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.names.to_string())
    }

    pub async fn client(&self) -> Client {
        Client::connect(&format!("grpc://{}", self.grpc)).await.expect("the broker is there")
    }

    pub async fn remoting_client(&self) -> Client {
        Client::connect(&self.names.to_string()).await.expect("the broker is there")
    }

    /// Makes a topic of a type: NORMAL, FIFO, DELAY, PRIORITY.
    pub async fn topic(&self, name: &str, queues: u32, kind: &str) {
        let spec = TopicSpec { attributes: format!("+message.type={kind}"), ..TopicSpec::new(name, queues) };
        self.admin().put_topic(&self.broker.to_string(), &spec).await.expect("the topic is made");
    }

    pub async fn group(&self, name: &str, ordered: bool, retries: i32) {
        let group = GroupConfig {
            group_name: name.to_owned(),
            consume_enable: true,
            consume_message_orderly: ordered,
            retry_max_times: retries,
            ..GroupConfig::default()
        };
        self.admin().put_group(&self.broker.to_string(), &group).await.expect("the group is made");
    }

    /// Runs a command against it as the administrator.
    pub fn command(&self, words: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.env_clear().env("REDSTART_NAMESRV", self.names.to_string()).args(words);
        command.env("REDSTART_ACCESS_KEY", "admin").env("REDSTART_SECRET_KEY", ADMIN_SECRET);
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Bytes of memory that the process has.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    pub async fn connect(&self) -> Http {
        let stream = TcpStream::connect(self.http).await.expect("the port accepts");
        Http { stream, input: Vec::new() }
    }

    /// One request with a JSON body, on a connection of its own.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.connect().await.post(path, body).await
    }

    pub async fn send(&self, topic: &str, message: Value) -> Value {
        let answer = self.post(&format!("/v1/topics/{topic}/messages"), &message).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The messages that a receive gets.
    pub async fn receive(&self, topic: &str, group: &str, wanted: Value) -> Vec<Value> {
        let answer = self.consume(topic, group, "receive", wanted).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["messages"].as_array().expect("a list").clone()
    }

    pub async fn consume(&self, topic: &str, group: &str, step: &str, body: Value) -> Answer {
        self.post(&format!("/v1/topics/{topic}/groups/{group}/{step}"), &body).await
    }

    pub async fn ack(&self, topic: &str, group: &str, message: &Value) {
        let answer = self.consume(topic, group, "ack", json!({"handle": message["handle"]})).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"done": 1, "failed": []})));
    }

    pub fn kill_gently(&self) {
        let child = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(child, rustix::process::Signal::TERM).expect("it runs");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A connection.
pub struct Http {
    pub stream: TcpStream,
    input: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of a refusal.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        let refusal = self.json();
        assert!(!refusal["message"].as_str().expect("a message").is_empty());
        refusal["code"].as_str().expect("a code").to_owned()
    }
}

impl Http {
    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.ask(path, &[("Content-Type", "application/json")], body.to_string().as_bytes()).await
    }

    pub async fn ask(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.begin(path, headers, body).await;
        self.answer().await.expect("an answer")
    }

    /// Writes a request.
    pub async fn begin(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += "\r\n";
        let request = [request.as_bytes(), body].concat();
        // A server that refuses a request may close before it has read all of it.
        drop(self.stream.write_all(&request).await);
    }

    /// The next answer; `None` if the connection ends before it.
    pub async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(end) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8(self.input.drain(..end + 4).collect()).expect("text");
                return self.rest(&head).await;
            }
            self.more().await?;
        }
    }

    async fn rest(&mut self, head: &str) -> Option<Answer> {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let header = |line: &str| line.split_once(": ").map(|(a, b)| (a.to_lowercase(), b.to_owned()));
        let headers: Vec<_> = lines.filter_map(header).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length: usize = answer.header("content-length").map_or(0, |text| text.parse().expect("a length"));
        while self.input.len() < length {
            self.more().await?;
        }
        answer.body = self.input.drain(..length).collect();
        Some(answer)
    }

    async fn more(&mut self) -> Option<()> {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await;
        matches!(read.expect("an answer, or the end"), Ok(read) if read > 0).then_some(())
    }
}

/// The bodies of messages.
pub fn bodies(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["body"].as_str().expect("text")).collect()
}
