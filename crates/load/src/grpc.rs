//! A minimal client of RocketMQ's gRPC messaging service.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use h2::SendStream;
use http::Uri;
use redstart_wire::v2::{
    AckMessageEntry, AckMessageRequest, AckMessageResponse, ClientType, Code, Encoding, FilterExpression,
    FilterType, Message, MessageQueue, MessageType, Publishing, ReceiveMessageRequest,
    ReceiveMessageResponse, Resource, SendMessageRequest, SendMessageResponse, Settings, Status,
    Subscription, SubscriptionEntry, SystemProperties, TelemetryCommand, receive_message_response::Content,
    settings::PubSub, telemetry_command::Command,
};

use super::{Server, driver::Received, produce::Messages, rpc::Connection};

const START_TIMEOUT: Duration = Duration::from_secs(5);
const LONG_POLL: Duration = Duration::from_secs(5);
/// The shortest wait: with none at all the server applies its own default.
const SHORT_POLL: Duration = Duration::from_millis(1);
const INVISIBLE: Duration = Duration::from_secs(60);

/// One client: a connection whose settings were sent to the server.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    methods: Methods,
    topics: Vec<Resource>,
    group: Resource,
    message_prefix: String,
    sent: AtomicU64,
    /// The telemetry stream stays open while this is held.
    _telemetry: SendStream<Bytes>,
}

#[derive(Debug)]
struct Methods {
    send: Uri,
    receive: Uri,
    ack: Uri,
}

/// The handle that acknowledges a message.
#[derive(Debug)]
pub struct Receipt {
    id: String,
    handle: String,
}

/// Receives from one topic through a client.
#[derive(Debug)]
pub struct Receiver {
    client: Arc<Client>,
    topic: usize,
    batch: i32,
}

fn resource(name: &str) -> Resource {
    Resource { resource_namespace: String::new(), name: name.to_owned() }
}

fn wire_duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: time.as_secs() as i64, nanos: time.subsec_nanos() as i32 }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn wire_time(time: Duration) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_secs() as i64, nanos: time.subsec_nanos() as i32 }
}

fn expect_ok(status: Option<&Status>) -> anyhow::Result<()> {
    match status {
        Some(status) if status.code == i32::from(Code::Ok) => Ok(()),
        Some(status) => bail!("{} ({})", status.message, status.code),
        None => bail!("an answer without a status"),
    }
}

impl Client {
    pub async fn producer(server: &Server, topics: &[String], number: usize) -> anyhow::Result<Client> {
        let publishing = Publishing {
            topics: topics.iter().map(|topic| resource(topic)).collect(),
            max_body_size: 0,
            validate_message_type: true,
        };
        let settings = Settings {
            client_type: Some(ClientType::Producer.into()),
            pub_sub: Some(PubSub::Publishing(publishing)),
            ..Settings::default()
        };
        Client::start(server, topics, "", number, settings).await
    }

    pub async fn consumer(
        server: &Server,
        topics: &[String],
        group: &str,
        number: usize,
    ) -> anyhow::Result<Client> {
        let entry = |topic: &String| SubscriptionEntry {
            topic: Some(resource(topic)),
            expression: Some(everything()),
        };
        let subscription = Subscription {
            group: Some(resource(group)),
            subscriptions: topics.iter().map(entry).collect(),
            long_polling_timeout: Some(wire_duration(LONG_POLL)),
            ..Subscription::default()
        };
        let settings = Settings {
            client_type: Some(ClientType::SimpleConsumer.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Settings::default()
        };
        Client::start(server, topics, group, number, settings).await
    }

    async fn start(
        server: &Server,
        topics: &[String],
        group: &str,
        number: usize,
        settings: Settings,
    ) -> anyhow::Result<Client> {
        let id = format!("bench@{}@{number}@{group}", std::process::id());
        let connection = Connection::open(server, &id).await?;
        let methods = Methods {
            send: connection.method("SendMessage")?,
            receive: connection.method("ReceiveMessage")?,
            ack: connection.method("AckMessage")?,
        };
        let telemetry = tokio::time::timeout(START_TIMEOUT, tell_settings(&connection, settings))
            .await
            .context("the server did not answer the client's settings")??;
        let start = since_epoch().as_nanos() as u64 & 0xFFFF_FFFF_FFFF;
        Ok(Client {
            connection,
            methods,
            topics: topics.iter().map(|topic| resource(topic)).collect(),
            group: resource(group),
            message_prefix: format!("01{start:012X}{number:04X}"),
            sent: AtomicU64::new(0),
            _telemetry: telemetry,
        })
    }

    /// Sends `batch` messages in one call; calls alternate between the topics.
    pub async fn send(&self, messages: &Messages, body: Bytes, count: u64) -> anyhow::Result<()> {
        let first = self.sent.fetch_add(count, Ordering::Relaxed);
        let topic = &self.topics[(first / count.max(1)) as usize % self.topics.len()];
        let messages = (first..first + count).map(|n| self.message(n, topic, messages, body.clone()));
        let request = SendMessageRequest { messages: messages.collect() };
        let answer: SendMessageResponse = self.connection.unary(&self.methods.send, &request).await?;
        expect_ok(answer.status.as_ref())
    }

    fn message(&self, n: u64, topic: &Resource, messages: &Messages, body: Bytes) -> Message {
        let now = since_epoch();
        let message_type = match (messages.groups, messages.delay_ms) {
            (0, None) => MessageType::Normal,
            (0, Some(_)) => MessageType::Delay,
            _ => MessageType::Fifo,
        };
        let system = SystemProperties {
            message_id: format!("{}{n:012X}", self.message_prefix),
            keys: messages.keys(n).collect(),
            body_encoding: Encoding::Identity.into(),
            message_type: message_type.into(),
            born_timestamp: Some(wire_time(now)),
            born_host: "bench".to_owned(),
            message_group: messages.group(n).map(|group| format!("group-{group}")),
            delivery_timestamp: messages.delay_ms.map(|ms| wire_time(now + Duration::from_millis(ms))),
            ..SystemProperties::default()
        };
        Message {
            topic: Some(topic.clone()),
            user_properties: HashMap::new(),
            system_properties: Some(system),
            body,
        }
    }
}

impl Receiver {
    pub fn new(client: &Arc<Client>, topic: usize, batch: i32) -> Receiver {
        Receiver { client: client.clone(), topic, batch }
    }

    /// A new group starts at the end of the queue at its first receive. That receive must come before the first message of
    /// the load, or the group would miss messages.
    pub async fn join(&self) -> anyhow::Result<()> {
        let none = self.receive_within(SHORT_POLL).await?;
        ensure!(none.is_empty(), "the topic is in use: a message came before the load began");
        Ok(())
    }

    pub async fn receive(&self) -> anyhow::Result<Vec<Received>> {
        self.receive_within(LONG_POLL).await
    }

    async fn receive_within(&self, long_poll: Duration) -> anyhow::Result<Vec<Received>> {
        let topic = Some(self.client.topics[self.topic].clone());
        let request = ReceiveMessageRequest {
            group: Some(self.client.group.clone()),
            message_queue: Some(MessageQueue { topic, ..MessageQueue::default() }),
            filter_expression: Some(everything()),
            batch_size: self.batch,
            invisible_duration: Some(wire_duration(INVISIBLE)),
            auto_renew: false,
            long_polling_timeout: Some(wire_duration(long_poll)),
            attempt_id: None,
        };
        let mut answers = self.client.connection.stream(&self.client.methods.receive, &request).await?;
        let mut received = Vec::with_capacity(self.batch.max(0) as usize);
        while let Some(answer) = answers.next::<ReceiveMessageResponse>().await? {
            match answer.content {
                Some(Content::Message(message)) => {
                    let system = message.system_properties.unwrap_or_default();
                    let receipt =
                        Receipt { id: system.message_id, handle: system.receipt_handle.unwrap_or_default() };
                    received.push(Received { body: message.body, receipt: Some(receipt) });
                }
                Some(Content::Status(status)) if status.code == i32::from(Code::MessageNotFound) => {}
                Some(Content::Status(status)) => expect_ok(Some(&status))?,
                Some(Content::DeliveryTimestamp(_)) | None => {}
            }
        }
        Ok(received)
    }

    pub async fn ack(&self, message: &Received) -> anyhow::Result<()> {
        let receipt = message.receipt.as_ref().context("a message without a receipt")?;
        let entry = AckMessageEntry {
            message_id: receipt.id.clone(),
            receipt_handle: receipt.handle.clone(),
            lite_topic: None,
        };
        let request = AckMessageRequest {
            group: Some(self.client.group.clone()),
            topic: Some(self.client.topics[self.topic].clone()),
            entries: vec![entry],
        };
        let answer: AckMessageResponse =
            self.client.connection.unary(&self.client.methods.ack, &request).await?;
        expect_ok(answer.status.as_ref())
    }
}

/// Sends the client's settings; the stream stays open while the returned handle is held.
async fn tell_settings(connection: &Connection, settings: Settings) -> anyhow::Result<SendStream<Bytes>> {
    let command = TelemetryCommand { status: None, command: Some(Command::Settings(settings)) };
    let method = connection.method("Telemetry")?;
    let (mut answers, stream) = connection.conversation(&method, &command).await.context("telemetry")?;
    let answer: TelemetryCommand = answers.next().await?.context("the server ended the telemetry stream")?;
    expect_ok(answer.status.as_ref()).context("settings")?;
    // An unread stream would fill its flow-control window and block the server.
    tokio::spawn(async move { while let Ok(Some(_)) = answers.next::<TelemetryCommand>().await {} });
    Ok(stream)
}

fn everything() -> FilterExpression {
    FilterExpression { r#type: FilterType::Tag.into(), expression: "*".to_owned() }
}
