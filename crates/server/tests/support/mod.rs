//! A broker with its gRPC front end on a loopback port, and clients for it.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod child_process;
#[allow(clippy::duplicate_mod, reason = "tests of both protocols have it in both support modules")]
mod engine;
pub mod front_ends;
pub mod http2;

use std::{net::SocketAddr, sync::Arc};

pub use engine::engine;
use redstart_engine::{GroupConfig, GroupName, MessageType, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    Resources, Shards, Transport,
    grpc::{self, Commands, Grpc},
    shard::{self, Shard, ShardHandle},
};
use redstart_wire::v2::{
    self, Code, FilterExpression, MessageQueue, ReceiveMessageRequest, Resource, SendMessageRequest,
    SystemProperties, messaging_service_client::MessagingServiceClient, receive_message_response::Content,
};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

pub struct Broker {
    pub address: SocketAddr,
    pub shard: Shard,
    pub commands: Commands,
    pub view: grpc::Monitor,
    dir: TempDir,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

pub fn config() -> grpc::Config {
    grpc::Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        auto_create_groups: true,
        advertise: None,
        transport: Transport::default(),
        limits: grpc::Limits::default(),
        resources: Resources::default(),
    }
}

/// A node with one shard.
pub async fn one_shard(shard: ShardHandle) -> Shards {
    Shards::open([("broker-a".to_owned(), shard)]).await.unwrap()
}

impl Broker {
    pub async fn start() -> Broker {
        Broker::with(config()).await
    }

    pub async fn with(config: grpc::Config) -> Broker {
        let dir = TempDir::new().unwrap();
        let storage = FsStorage::open(dir.path().join("shard-0")).unwrap();
        let options = Options::with_segment_bytes(16 << 20);
        let shard =
            Shard::open(Arc::new(storage), options, engine(), shard::Config::default()).unwrap().shard;
        let (_, checks) = tokio::sync::mpsc::channel(1);
        let shards = one_shard(shard.handle()).await;
        let grpc = Grpc::bind(config, shards, checks, dir.path()).await.unwrap();
        let (address, commands, view) = (grpc.address().unwrap(), grpc.commands(), grpc.monitor());
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(grpc.serve(stopped));
        Broker { address, shard, commands, view, dir, stop, serving }
    }

    pub fn shard(&self) -> ShardHandle {
        self.shard.handle()
    }

    pub async fn topic(&self, name: &str, message_type: MessageType) {
        put_topic(&self.shard(), name, message_type).await;
    }

    pub async fn group(&self, name: &str, config: GroupConfig) {
        let name = GroupName::new(name).unwrap();
        self.shard()
            .change(move |engine, _| engine.put_group(&name, config))
            .unwrap()
            .await
            .unwrap()
            .unwrap();
    }

    /// A client on a connection of its own.
    pub async fn client(&self, id: &str) -> Client {
        connect(self.address, id, "JAVA").await
    }

    pub async fn stop(self) {
        self.stop.send_replace(true);
        self.serving.await.unwrap();
        self.shard.stop().unwrap();
    }
}

/// A topic with one queue.
pub async fn put_topic(shard: &ShardHandle, name: &str, message_type: MessageType) {
    let config = TopicConfig { message_type, read_queues: 1, write_queues: 1, ..TopicConfig::default() };
    let name = TopicName::new(name).unwrap();
    shard.change(move |engine, _| engine.put_topic(&name, config)).unwrap().await.unwrap().unwrap();
}

/// Adds who the client is to each call.
#[derive(Clone)]
pub struct Identity {
    id: String,
    language: String,
}

impl Interceptor for Identity {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if !self.id.is_empty() {
            metadata.insert("x-mq-client-id", MetadataValue::try_from(&self.id).unwrap());
        }
        metadata.insert("x-mq-language", MetadataValue::try_from(&self.language).unwrap());
        Ok(request)
    }
}

pub type Client = MessagingServiceClient<InterceptedService<Channel, Identity>>;

pub async fn connect(address: SocketAddr, id: &str, language: &str) -> Client {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    client_on(channel, id, language)
}

pub fn client_on(channel: Channel, id: &str, language: &str) -> Client {
    let identity = Identity { id: id.to_owned(), language: language.to_owned() };
    MessagingServiceClient::with_interceptor(channel, identity).max_decoding_message_size(64 << 20)
}

pub fn resource(name: &str) -> Resource {
    Resource { resource_namespace: String::new(), name: name.to_owned() }
}

pub fn code(status: Option<v2::Status>) -> Code {
    Code::try_from(status.expect("every answer has a status").code).unwrap()
}

pub fn message(topic: &str, id: &str, body: &[u8]) -> v2::Message {
    v2::Message {
        topic: Some(resource(topic)),
        system_properties: Some(SystemProperties {
            message_id: id.to_owned(),
            message_type: v2::MessageType::Normal.into(),
            body_encoding: v2::Encoding::Identity.into(),
            ..SystemProperties::default()
        }),
        body: body.to_vec().into(),
        ..v2::Message::default()
    }
}

pub fn in_group(topic: &str, id: &str, group: &str) -> v2::Message {
    let mut message = message(topic, id, b"body");
    let system = message.system_properties.as_mut().unwrap();
    system.message_group = Some(group.to_owned());
    system.message_type = v2::MessageType::Fifo.into();
    message
}

pub async fn send(client: &mut Client, message: v2::Message) -> v2::SendResultEntry {
    let answer =
        client.send_message(SendMessageRequest { messages: vec![message] }).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::Ok);
    answer.entries.into_iter().next().unwrap()
}

pub fn receive_request(group: &str, topic: &str) -> ReceiveMessageRequest {
    ReceiveMessageRequest {
        group: Some(resource(group)),
        message_queue: Some(MessageQueue { topic: Some(resource(topic)), ..MessageQueue::default() }),
        filter_expression: Some(FilterExpression {
            r#type: v2::FilterType::Tag.into(),
            expression: "*".to_owned(),
        }),
        batch_size: 32,
        invisible_duration: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        long_polling_timeout: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        ..ReceiveMessageRequest::default()
    }
}

/// The status and the messages of a receive.
pub async fn receive(client: &mut Client, request: ReceiveMessageRequest) -> (Code, Vec<v2::Message>) {
    let mut stream = client.receive_message(request).await.unwrap().into_inner();
    let (mut status, mut messages) = (None, Vec::new());
    while let Some(response) = stream.message().await.unwrap() {
        match response.content {
            Some(Content::Status(found)) => status = Some(found),
            Some(Content::Message(message)) => messages.push(message),
            _ => {}
        }
    }
    (code(status), messages)
}

pub fn id_of(message: &v2::Message) -> &str {
    &message.system_properties.as_ref().unwrap().message_id
}

pub fn handle_of(message: &v2::Message) -> String {
    message.system_properties.as_ref().unwrap().receipt_handle.clone().unwrap()
}

/// A message as gRPC frames it.
pub fn grpc_message(message: &impl prost::Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    http2::grpc_frame(0, bytes.len() as u32, &bytes)
}
