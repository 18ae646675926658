//! A broker on loopback and a client that speaks raw frames.

#![allow(dead_code, reason = "each test file uses its part")]

#[allow(clippy::duplicate_mod, reason = "tests of both protocols have it in both support modules")]
#[path = "../support/engine.rs"]
mod engine;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use redstart_engine::Config as EngineConfig;
use redstart_log::{FsStorage, Options};
use redstart_server::{
    Resources, ShardNumber, Shards, Transport,
    remoting::{Config, Monitor, OtherProtocolClients, Remoting, default_delay_levels},
    sealing_keys::{self, Keyring},
    shard::{self, Shard},
};
use redstart_wire::remoting::{Command, StoredMessage, code, decode, encode};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
};

/// How long a test waits for a condition before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const BROKER: &str = "broker-a";

pub struct Broker {
    pub names: SocketAddr,
    pub address: SocketAddr,
    pub shard: Shard,
    pub view: Monitor,
    stop: watch::Sender<bool>,
    dir: Arc<TempDir>,
}

pub fn config() -> Config {
    let any = "127.0.0.1:0".parse().unwrap();
    Config {
        cluster: "DefaultCluster".to_owned(),
        namesrv: any,
        listen: any,
        advertise: None,
        transport: Transport::default(),
        auto_create_groups: true,
        auto_create_topics: false,
        delay_levels: default_delay_levels(),
        foreign_brokers: false,
        followers: Default::default(),
        check_types: false,
        resources: Resources::default(),
    }
}

/// The key that seals secrets in tests.
pub fn keys() -> Keyring {
    sealing_keys::read_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "the test").unwrap()
}

impl Broker {
    pub async fn start() -> Broker {
        Broker::start_with(|_, _| {}).await
    }

    pub async fn start_with(adjust: impl FnOnce(&mut Config, &mut EngineConfig)) -> Broker {
        Broker::start_named(BROKER, adjust).await
    }

    /// With another name of the broker.
    pub async fn start_named(name: &str, adjust: impl FnOnce(&mut Config, &mut EngineConfig)) -> Broker {
        Broker::open(Arc::new(TempDir::new().unwrap()), name, adjust, None).await
    }

    /// With clients of the other protocol beside it.
    pub async fn start_beside(other_protocol: Arc<dyn OtherProtocolClients>) -> Broker {
        Broker::open(Arc::new(TempDir::new().unwrap()), BROKER, |_, _| {}, Some(other_protocol)).await
    }

    /// Stops, and starts again with what is on disk.
    pub async fn restart(self) -> Broker {
        let dir = self.dir.clone();
        drop(self);
        Broker::open(dir, BROKER, |_, _| {}, None).await
    }

    async fn open(
        dir: Arc<TempDir>,
        name: &str,
        adjust: impl FnOnce(&mut Config, &mut EngineConfig),
        other_protocol: Option<Arc<dyn OtherProtocolClients>>,
    ) -> Broker {
        let (mut config, mut engine) = (config(), engine::engine());
        adjust(&mut config, &mut engine);
        config.resources.access.install_keys(keys());
        let storage = FsStorage::open(dir.path()).unwrap();
        let options = Options::with_segment_bytes(32 << 20);
        let (checks, asked) = mpsc::channel(16);
        let shard_config = shard::Config { checks: Some(checks), ..shard::Config::default() };
        let shard = Shard::open(Arc::new(storage), options, engine, shard_config).unwrap().shard;
        let shards = Shards::open([(name.to_owned(), shard.handle())]).await.unwrap();
        let remoting = Remoting::bind(config, shards, dir.path()).await.unwrap();
        let (names, address) = remoting.addresses().unwrap();
        let view = remoting.monitor();
        if let Some(other_protocol) = other_protocol {
            remoting.set_other_protocol(other_protocol);
        }
        tokio::spawn(remoting.route_checks(ShardNumber::FIRST, asked, mpsc::channel(16).0));
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(remoting.serve(stopped));
        Broker { names, address, shard, view, stop, dir }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// A topic with this many queues, and a client to go on with.
    pub async fn with_topic(&self, topic: &str, queues: u32) -> Client {
        let mut client = self.client().await;
        create_topic(&mut client, topic, queues, "").await;
        client
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

pub async fn create_topic(client: &mut Client, topic: &str, queues: u32, attributes: &str) {
    let queues = queues.to_string();
    let fields = [
        ("topic", topic),
        ("readQueueNums", &queues),
        ("writeQueueNums", &queues),
        ("perm", "6"),
        ("attributes", attributes),
    ];
    client.ok(code::UPDATE_AND_CREATE_TOPIC, &fields).await;
}

pub struct Client {
    pub stream: TcpStream,
    input: BytesMut,
    opaque: i32,
    /// What came while something else was waited for.
    pending: Vec<Command>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).await.unwrap())
    }

    pub fn over(stream: TcpStream) -> Client {
        Client { stream, input: BytesMut::new(), opaque: 0, pending: Vec::new() }
    }

    pub async fn write(&mut self, command: &Command) {
        let mut bytes = BytesMut::new();
        encode(command, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// Sends a request and returns its number.
    pub async fn send(&mut self, mut command: Command) -> i32 {
        self.opaque += 1;
        command.opaque = self.opaque;
        self.write(&command).await;
        self.opaque
    }

    /// The next frame; `None` when the connection is closed.
    pub async fn next(&mut self) -> Option<Command> {
        if !self.pending.is_empty() {
            return Some(self.pending.remove(0));
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<Command> {
        self.read_within(PATIENCE).await
    }

    async fn read_within(&mut self, patience: Duration) -> Option<Command> {
        loop {
            if let Some(command) = decode(&mut self.input).unwrap() {
                return Some(command);
            }
            let read = tokio::time::timeout(patience, self.stream.read_buf(&mut self.input));
            if matches!(read.await.expect("the broker says nothing"), Ok(0) | Err(_)) {
                return None;
            }
        }
    }

    /// The answer to a request; other frames are kept for later.
    pub async fn answer(&mut self, opaque: i32) -> Command {
        self.answer_within(opaque, PATIENCE).await
    }

    pub async fn answer_within(&mut self, opaque: i32, patience: Duration) -> Command {
        let is_it = |command: &Command| command.is_response() && command.opaque == opaque;
        if let Some(at) = self.pending.iter().position(is_it) {
            return self.pending.remove(at);
        }
        loop {
            let command = self.read_within(patience).await.expect("the broker has closed the connection");
            if is_it(&command) {
                return command;
            }
            self.pending.push(command);
        }
    }

    /// The next request of the broker with this code.
    pub async fn asked(&mut self, code: i32) -> Command {
        let is_it = |command: &Command| !command.is_response() && command.code == code;
        if let Some(at) = self.pending.iter().position(is_it) {
            return self.pending.remove(at);
        }
        loop {
            let command = self.read().await.expect("the broker has closed the connection");
            if is_it(&command) {
                return command;
            }
            self.pending.push(command);
        }
    }

    pub async fn call_with(&mut self, command: Command) -> Command {
        let opaque = self.send(command).await;
        self.answer(opaque).await
    }

    pub async fn call(&mut self, code: i32, fields: &[(&str, &str)]) -> Command {
        self.call_with(request(code, fields)).await
    }

    /// Calls and expects success.
    pub async fn ok(&mut self, code: i32, fields: &[(&str, &str)]) -> Command {
        let answer = self.call(code, fields).await;
        assert_eq!(answer.code, code::SUCCESS, "request {code}: {:?}", answer.remark);
        answer
    }

    pub async fn call_json(&mut self, code: i32, body: &str) -> Command {
        self.call_with(Command { body: body.to_owned().into(), ..Command::request(code) }).await
    }
}

pub fn request(code: i32, fields: &[(&str, &str)]) -> Command {
    fields.iter().fold(Command::request(code), |command, (name, value)| command.with_field(name, value))
}

pub fn json(command: &Command) -> serde_json::Value {
    serde_json::from_slice(&command.body).unwrap()
}

/// The messages of an answer's body.
pub fn messages(answer: &Command) -> Vec<StoredMessage<'static>> {
    let mut body = answer.body.clone();
    let mut all = Vec::new();
    while !body.is_empty() {
        all.push(StoredMessage::decode(&mut body).expect("a whole message"));
    }
    all
}

pub fn properties(message: &StoredMessage<'_>) -> BTreeMap<String, String> {
    redstart_wire::remoting::decode_properties(&message.properties).into_iter().collect()
}

/// A heartbeat of a consumer.
pub fn consumer(client: &str, group: &str, topic: &str, expression: &str) -> String {
    format!(
        r#"{{"clientID":"{client}","producerDataSet":[{{"groupName":"CLIENT_INNER_PRODUCER"}}],"consumerDataSet":[{{
        "groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{{"topic":"{topic}",
        "subString":"{expression}","subVersion":1}}]}}]}}"#
    )
}

pub fn producer(client: &str, group: &str) -> String {
    format!(r#"{{"clientID":"{client}","producerDataSet":[{{"groupName":"{group}"}}],"consumerDataSet":[]}}"#)
}

/// Sends a message to a queue and returns its address.
pub async fn send_message(client: &mut Client, topic: &str, queue: u32, tag: &str, body: &str) -> String {
    let properties = redstart_wire::remoting::encode_properties([("TAGS", tag), ("UNIQ_KEY", body)]);
    let queue = queue.to_string();
    let fields = [
        ("producerGroup", "p"),
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", &queue),
        ("sysFlag", "0"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", &properties),
    ];
    let body = body.to_owned().into();
    let sent = client.call_with(Command { body, ..request(code::SEND_MESSAGE, &fields) }).await;
    assert_eq!(sent.code, code::SUCCESS, "{:?}", sent.remark);
    sent.field("msgId").unwrap().to_owned()
}

/// A body in which keys are objects, as JSON with keys that are text.
pub fn odd_json(command: &Command) -> serde_json::Value {
    redstart_wire::remoting::from_slice(&command.body).unwrap()
}

/// The row of a queue in such a table.
pub fn row<'a>(table: &'a serde_json::Value, topic: &str, queue: u32) -> &'a serde_json::Value {
    let key = format!(r#"{{"brokerName":"{BROKER}","queueId":{queue},"topic":"{topic}"}}"#);
    &table[&key]
}
