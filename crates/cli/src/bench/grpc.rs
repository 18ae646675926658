//! A client of the messaging service.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
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

use super::{produce::Messages, rpc::Connection};

const START_TIMEOUT: Duration = Duration::from_secs(5);
const LONG_POLL: Duration = Duration::from_secs(5);
const INVISIBLE: Duration = Duration::from_secs(60);

/// One client: a connection, its settings told to the server.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    methods: Methods,
    topic: Resource,
    group: Resource,
    queue: MessageQueue,
    message_prefix: String,
    sent: AtomicU64,
    /// Keeps the telemetry stream open.
    _telemetry: SendStream<Bytes>,
}

#[derive(Debug)]
struct Methods {
    send: Uri,
    receive: Uri,
    ack: Uri,
}

/// A message that was received, as far as it matters here.
#[derive(Debug)]
pub struct Received {
    pub body: Bytes,
    id: String,
    handle: String,
}

fn resource(name: &str) -> Resource {
    Resource { resource_namespace: String::new(), name: name.to_owned() }
}

fn seconds(time: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: time.as_secs() as i64, nanos: 0 }
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
    pub async fn producer(server: &str, topic: &str, number: usize) -> anyhow::Result<Client> {
        let publishing =
            Publishing { topics: vec![resource(topic)], max_body_size: 0, validate_message_type: true };
        let settings = Settings {
            client_type: Some(ClientType::Producer.into()),
            pub_sub: Some(PubSub::Publishing(publishing)),
            ..Settings::default()
        };
        Client::start(server, topic, "", number, settings).await
    }

    pub async fn consumer(server: &str, topic: &str, group: &str, number: usize) -> anyhow::Result<Client> {
        let entry = SubscriptionEntry { topic: Some(resource(topic)), expression: Some(everything()) };
        let subscription = Subscription {
            group: Some(resource(group)),
            subscriptions: vec![entry],
            long_polling_timeout: Some(seconds(LONG_POLL)),
            ..Subscription::default()
        };
        let settings = Settings {
            client_type: Some(ClientType::SimpleConsumer.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Settings::default()
        };
        Client::start(server, topic, group, number, settings).await
    }

    async fn start(
        server: &str,
        topic: &str,
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
            topic: resource(topic),
            group: resource(group),
            queue: MessageQueue { topic: Some(resource(topic)), ..MessageQueue::default() },
            message_prefix: format!("01{start:012X}{number:04X}"),
            sent: AtomicU64::new(0),
            _telemetry: telemetry,
        })
    }

    pub async fn send(&self, messages: &Messages, body: Bytes) -> anyhow::Result<()> {
        let n = self.sent.fetch_add(1, Ordering::Relaxed);
        let now = since_epoch();
        let message_type = match (messages.groups, messages.delay_ms) {
            (0, None) => MessageType::Normal,
            (0, Some(_)) => MessageType::Delay,
            _ => MessageType::Fifo,
        };
        let system = SystemProperties {
            message_id: format!("{}{n:012X}", self.message_prefix),
            keys: (0..messages.keys).map(|key| format!("{n}-{key}")).collect(),
            body_encoding: Encoding::Identity.into(),
            message_type: message_type.into(),
            born_timestamp: Some(wire_time(now)),
            born_host: "bench".to_owned(),
            message_group: (messages.groups > 0).then(|| format!("group-{}", n % messages.groups)),
            delivery_timestamp: messages.delay_ms.map(|ms| wire_time(now + Duration::from_millis(ms))),
            ..SystemProperties::default()
        };
        let message = Message {
            topic: Some(self.topic.clone()),
            user_properties: HashMap::new(),
            system_properties: Some(system),
            body,
        };
        let request = SendMessageRequest { messages: vec![message] };
        let answer: SendMessageResponse = self.connection.unary(&self.methods.send, &request).await?;
        expect_ok(answer.status.as_ref())
    }

    pub async fn receive(&self, batch: i32) -> anyhow::Result<Vec<Received>> {
        let request = ReceiveMessageRequest {
            group: Some(self.group.clone()),
            message_queue: Some(self.queue.clone()),
            filter_expression: Some(everything()),
            batch_size: batch,
            invisible_duration: Some(seconds(INVISIBLE)),
            auto_renew: false,
            long_polling_timeout: Some(seconds(LONG_POLL)),
            attempt_id: None,
        };
        let mut answers = self.connection.stream(&self.methods.receive, &request).await?;
        let mut received = Vec::with_capacity(batch.max(0) as usize);
        while let Some(answer) = answers.next::<ReceiveMessageResponse>().await? {
            match answer.content {
                Some(Content::Message(message)) => {
                    let system = message.system_properties.unwrap_or_default();
                    received.push(Received {
                        body: message.body,
                        id: system.message_id,
                        handle: system.receipt_handle.unwrap_or_default(),
                    });
                }
                Some(Content::Status(status)) if status.code == i32::from(Code::MessageNotFound) => {}
                Some(Content::Status(status)) => expect_ok(Some(&status))?,
                Some(Content::DeliveryTimestamp(_)) | None => {}
            }
        }
        Ok(received)
    }

    pub async fn ack(&self, message: &Received) -> anyhow::Result<()> {
        let entry = AckMessageEntry {
            message_id: message.id.clone(),
            receipt_handle: message.handle.clone(),
            lite_topic: None,
        };
        let request = AckMessageRequest {
            group: Some(self.group.clone()),
            topic: Some(self.topic.clone()),
            entries: vec![entry],
        };
        let answer: AckMessageResponse = self.connection.unary(&self.methods.ack, &request).await?;
        expect_ok(answer.status.as_ref())
    }
}

/// Tells the server who this is; the stream stays open while the answer is held.
async fn tell_settings(connection: &Connection, settings: Settings) -> anyhow::Result<SendStream<Bytes>> {
    let command = TelemetryCommand { status: None, command: Some(Command::Settings(settings)) };
    let method = connection.method("Telemetry")?;
    let (mut answers, stream) = connection.conversation(&method, &command).await.context("telemetry")?;
    let answer: TelemetryCommand = answers.next().await?.context("the server ended the telemetry stream")?;
    expect_ok(answer.status.as_ref()).context("settings")?;
    // Read on, so that the server is never held up.
    tokio::spawn(async move { while let Ok(Some(_)) = answers.next::<TelemetryCommand>().await {} });
    Ok(stream)
}

fn everything() -> FilterExpression {
    FilterExpression { r#type: FilterType::Tag.into(), expression: "*".to_owned() }
}
