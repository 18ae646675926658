//! Lite topics over gRPC: subscriptions, receives that cover many of them, refusals, and what a restart keeps.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use redstart_engine::{GroupConfig, GroupName, MessageType, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    Resources, Transport,
    grpc::{self, Grpc},
    shard::{self, Shard},
};
use redstart_wire::v2::{
    self, AckMessageEntry, AckMessageRequest, ChangeInvisibleDurationRequest, ClientType, Code,
    LiteSubscriptionAction, MessageQueue, OffsetOption, QueryAssignmentRequest, QueryRouteRequest,
    ReceiveMessageRequest, Resource, SendMessageRequest, Settings, Subscription, SyncLiteSubscriptionRequest,
    SystemProperties, TelemetryCommand, messaging_service_client::MessagingServiceClient, offset_option,
    receive_message_response::Content, settings::PubSub, telemetry_command::Command,
};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};
use tonic::{
    Request, Status, Streaming,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

const PARENT: &str = "parent";
const GROUP: &str = "bound";
/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Broker {
    address: SocketAddr,
    shard: Shard,
    serving: JoinHandle<()>,
}

impl Broker {
    /// A broker with a parent of lite topics, a group bound to it, and some that are not.
    async fn start(dir: &TempDir) -> Broker {
        let storage = Arc::new(FsStorage::open(dir.path().join("shard-0")).unwrap());
        let options = Options::with_segment_bytes(16 << 20);
        let shard = Shard::open(storage, options, engine::engine(), shard::Config::default()).unwrap().shard;
        let config = grpc::Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            auto_create_groups: true,
            advertise: None,
            transport: Transport::default(),
            limits: grpc::Limits::default(),
            resources: Resources::default(),
        };
        let (_, checks) = tokio::sync::mpsc::channel(1);
        let grpc =
            Grpc::bind(config, support::one_shard(shard.handle()).await, checks, dir.path()).await.unwrap();
        let address = grpc.address().unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let serving = tokio::spawn(async move {
            grpc.serve(stopped).await;
            drop(stop);
        });
        let broker = Broker { address, shard, serving };
        broker.topic(PARENT, MessageType::Lite).await;
        broker.topic("normal", MessageType::Normal).await;
        broker.group(GROUP, &[("lite.bind.topic", PARENT)]).await;
        broker.group("exclusive", &[("lite.bind.topic", PARENT), ("lite.sub.model", "Exclusive")]).await;
        broker.group("unbound", &[]).await;
        broker
    }

    async fn topic(&self, name: &str, message_type: MessageType) {
        let (name, config) =
            (TopicName::new(name).unwrap(), TopicConfig { message_type, ..TopicConfig::default() });
        let put = self.shard.handle().change(move |engine, _| engine.put_topic(&name, config));
        put.unwrap().await.unwrap().unwrap();
    }

    async fn group(&self, name: &str, attributes: &[(&str, &str)]) {
        let name = GroupName::new(name).unwrap();
        let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let config = GroupConfig { attributes: attributes.collect(), ..GroupConfig::default() };
        let put = self.shard.handle().change(move |engine, _| engine.put_group(&name, config));
        put.unwrap().await.unwrap().unwrap();
    }

    async fn client(&self, id: &'static str) -> Client {
        let channel =
            Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap();
        Client(MessagingServiceClient::with_interceptor(channel, Identity(id)))
    }

    /// The clients of a test are still connected: their streams would keep a polite end waiting.
    async fn stop(self) {
        self.serving.abort();
        drop(self.serving.await);
        self.shard.stop().unwrap();
    }
}

#[derive(Clone)]
struct Identity(&'static str);

impl Interceptor for Identity {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("x-mq-client-id", self.0.parse().unwrap());
        Ok(request)
    }
}

fn resource(name: &str) -> Resource {
    Resource { resource_namespace: String::new(), name: name.to_owned() }
}

fn code(status: Option<v2::Status>) -> Code {
    Code::try_from(status.unwrap().code).unwrap()
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

#[derive(Clone)]
struct Client(MessagingServiceClient<InterceptedService<Channel, Identity>>);

impl Client {
    async fn sync(&mut self, group: &str, action: LiteSubscriptionAction, names: &[&str]) -> Code {
        self.sync_from(group, action, names, None).await.0
    }

    async fn sync_from(
        &mut self,
        group: &str,
        action: LiteSubscriptionAction,
        names: &[&str],
        offset: Option<offset_option::OffsetType>,
    ) -> (Code, String) {
        let request = SyncLiteSubscriptionRequest {
            action: action.into(),
            topic: Some(resource(PARENT)),
            group: Some(resource(group)),
            lite_topic_set: names.iter().map(|name| (*name).to_owned()).collect(),
            version: None,
            offset_option: offset.map(|offset| OffsetOption { offset_type: Some(offset) }),
        };
        let status = self.0.sync_lite_subscription(request).await.unwrap().into_inner().status;
        (code(status.clone()), status.unwrap().message)
    }

    async fn send(&mut self, topic: &str, lite: Option<&str>, id: &str) -> Result<i64, (Code, String)> {
        let message = v2::Message {
            topic: Some(resource(topic)),
            system_properties: Some(SystemProperties {
                message_id: id.to_owned(),
                lite_topic: lite.map(str::to_owned),
                ..SystemProperties::default()
            }),
            body: b"body".to_vec().into(),
            ..v2::Message::default()
        };
        let request = SendMessageRequest { messages: vec![message] };
        let answer = self.0.send_message(request).await.unwrap().into_inner();
        let status = answer.status.unwrap();
        match Code::try_from(status.code).unwrap() {
            Code::Ok => Ok(answer.entries[0].offset),
            refused => Err((refused, status.message)),
        }
    }

    /// What one receive brings.
    async fn receive(&mut self, group: &str, topic: &str, poll: i64) -> Result<Vec<v2::Message>, Code> {
        let request = ReceiveMessageRequest {
            group: Some(resource(group)),
            message_queue: Some(MessageQueue { topic: Some(resource(topic)), ..MessageQueue::default() }),
            batch_size: 32,
            invisible_duration: seconds(30),
            long_polling_timeout: seconds(poll),
            ..ReceiveMessageRequest::default()
        };
        let mut stream = self.0.receive_message(request).await.unwrap().into_inner();
        let (mut status, mut messages) = (None, Vec::new());
        while let Some(response) = stream.message().await.unwrap() {
            match response.content.unwrap() {
                Content::Status(found) => status = Some(found),
                Content::Message(message) => messages.push(message),
                Content::DeliveryTimestamp(_) => {}
            }
        }
        match code(status) {
            Code::Ok => Ok(messages),
            Code::MessageNotFound => Ok(Vec::new()),
            refused => Err(refused),
        }
    }

    async fn ids(&mut self, poll: i64) -> Vec<String> {
        self.receive(GROUP, PARENT, poll)
            .await
            .unwrap()
            .iter()
            .map(|message| id_of(message).to_owned())
            .collect()
    }

    async fn ack(&mut self, message: &v2::Message, lite: Option<&str>) -> Code {
        let request = AckMessageRequest {
            group: Some(resource(GROUP)),
            topic: Some(resource(PARENT)),
            entries: vec![AckMessageEntry {
                message_id: id_of(message).to_owned(),
                receipt_handle: handle_of(message),
                lite_topic: lite.map(str::to_owned),
            }],
        };
        code(self.0.ack_message(request).await.unwrap().into_inner().status)
    }

    async fn telemetry(
        &mut self,
        client_type: ClientType,
        group: &str,
    ) -> (Streaming<TelemetryCommand>, Settings) {
        let subscription = Subscription { group: Some(resource(group)), ..Subscription::default() };
        let settings = Settings {
            client_type: Some(client_type.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Settings::default()
        };
        let command = TelemetryCommand { status: None, command: Some(Command::Settings(settings)) };
        let outgoing = futures_util::StreamExt::chain(
            futures_util::stream::iter([command]),
            futures_util::stream::pending(),
        );
        let mut commands = self.0.telemetry(outgoing).await.unwrap().into_inner();
        match commands.message().await.unwrap().unwrap().command {
            Some(Command::Settings(settings)) => (commands, settings),
            other => panic!("settings were expected, not {other:?}"),
        }
    }
}

fn id_of(message: &v2::Message) -> &str {
    &message.system_properties.as_ref().unwrap().message_id
}

fn lite_of(message: &v2::Message) -> &str {
    message.system_properties.as_ref().unwrap().lite_topic()
}

fn handle_of(message: &v2::Message) -> String {
    message.system_properties.as_ref().unwrap().receipt_handle.clone().unwrap()
}

use LiteSubscriptionAction::{CompleteAdd, CompleteRemove, PartialAdd, PartialRemove};

use crate::{engine, support};

#[tokio::test(flavor = "multi_thread")]
async fn one_receive_covers_what_the_client_has_subscribed_to_and_sees_changes_while_it_waits() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let (mut client, mut producer) = (broker.client("c").await, broker.client("p").await);
    let (_commands, settings) = client.telemetry(ClientType::LitePushConsumer, GROUP).await;
    let Some(PubSub::Subscription(subscription)) = settings.pub_sub else { panic!("no subscription") };
    assert_eq!((subscription.lite_subscription_quota(), subscription.max_lite_topic_size()), (2000, 64));
    assert!(subscription.fifo());

    assert_eq!(client.sync(GROUP, PartialAdd, &["a", "b"]).await, Code::Ok);
    assert_eq!(producer.send(PARENT, Some("other"), "x1").await, Ok(0));
    assert_eq!(producer.send(PARENT, Some("a"), "a1").await, Ok(0));
    assert_eq!(producer.send(PARENT, Some("a"), "a2").await, Ok(1));
    let got = client.receive(GROUP, PARENT, 20).await.unwrap();
    assert_eq!((got.len(), id_of(&got[0]), lite_of(&got[0])), (1, "a1", "a"));
    assert_eq!(got[0].topic.as_ref().unwrap().name, PARENT);
    assert_eq!(client.ids(1).await, [""; 0], "a2 waits for a1, and x1 is nobody's");

    // A message of one of its lite topics ends the poll, one of another does not.
    let waiting = tokio::spawn({
        let mut client = client.clone();
        async move { client.ids(20).await }
    });
    producer.send(PARENT, Some("other"), "x2").await.unwrap();
    producer.send(PARENT, Some("b"), "b1").await.unwrap();
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), ["b1"]);

    // An ack opens the lite topic, and a new subscription is seen, both by a poll that waits.
    let waiting = tokio::spawn({
        let mut client = client.clone();
        async move { client.ids(20).await }
    });
    assert_eq!(client.ack(&got[0], Some("a")).await, Code::Ok);
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), ["a2"]);
    let waiting = tokio::spawn({
        let mut client = client.clone();
        async move { client.ids(20).await }
    });
    assert_eq!(client.sync(GROUP, CompleteAdd, &["a", "b", "other"]).await, Code::Ok);
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), ["x1"], "from its beginning");

    assert_eq!(client.sync(GROUP, PartialRemove, &["c"]).await, Code::Ok);
    producer.send(PARENT, Some("c"), "c1").await.unwrap();
    assert_eq!(client.sync(GROUP, PartialAdd, &["c"]).await, Code::Ok);
    assert_eq!(client.sync(GROUP, CompleteRemove, &[]).await, Code::Ok);
    assert_eq!(client.ids(1).await, [""; 0], "nothing is subscribed to");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_with_its_code_and_a_way_out() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let mut client = broker.client("c").await;
    for bad in ["", "a b", "a$b", "a%b"] {
        assert_eq!(client.sync(GROUP, PartialAdd, &[bad]).await, Code::IllegalLiteTopic, "{bad:?}");
        assert_eq!(
            client.send(PARENT, Some(bad), "m").await.unwrap_err().0,
            Code::IllegalLiteTopic,
            "{bad:?}"
        );
    }
    for group in ["unbound", "unknown"] {
        let (code, message) = client.sync_from(group, PartialAdd, &["a"], None).await;
        assert_eq!(code, Code::IllegalConsumerGroup);
        assert!(message.contains("--attribute lite.bind.topic=parent"), "{message}");
    }
    broker.group("elsewhere", &[("lite.bind.topic", "normal")]).await;
    assert_eq!(client.sync("elsewhere", PartialAdd, &["a"]).await, Code::IllegalTopic);
    let many: Vec<String> = (0..2301).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(client.sync(GROUP, PartialAdd, &many).await, Code::LiteSubscriptionQuotaExceeded);

    for (topic, lite, names) in
        [("normal", Some("a"), ["NORMAL", "LITE"]), (PARENT, None, ["LITE", "NORMAL"])]
    {
        let (code, message) = client.send(topic, lite, "m").await.unwrap_err();
        assert_eq!(code, Code::MessagePropertyConflictWithType);
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
    client.send(PARENT, Some("a"), "m").await.unwrap();
    let internal = "%LMQ%$parent$a";
    let route = QueryRouteRequest { topic: Some(resource(internal)), endpoints: None };
    assert_eq!(code(client.0.query_route(route).await.unwrap().into_inner().status), Code::IllegalTopic);
    assert_eq!(client.send(internal, None, "m").await.unwrap_err().0, Code::IllegalTopic);

    // A consumer of one kind with a group of the other.
    let (_lite, _) = client.telemetry(ClientType::LiteSimpleConsumer, GROUP).await;
    assert_eq!(client.receive("unbound", PARENT, 1).await, Err(Code::IllegalConsumerGroup));
    assert_eq!(client.receive(GROUP, "normal", 1).await, Err(Code::IllegalTopic));
    let mut plain = broker.client("plain").await;
    let (_plain, _) = plain.telemetry(ClientType::SimpleConsumer, "unbound").await;
    assert_eq!(plain.receive(GROUP, PARENT, 1).await, Err(Code::IllegalConsumerGroup));
    let asked = QueryAssignmentRequest {
        topic: Some(resource(PARENT)),
        group: Some(resource(GROUP)),
        endpoints: None,
    };
    let assigned = client.0.query_assignment(asked).await.unwrap().into_inner().assignments;
    assert_eq!(assigned.len(), 1, "one receive covers all");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_fits_only_its_own_lite_topic_and_a_pause_does_not_count() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let mut client = broker.client("c").await;
    client.send(PARENT, Some("a"), "a1").await.unwrap();
    assert_eq!(client.sync(GROUP, PartialAdd, &["a"]).await, Code::Ok);
    let got = client.receive(GROUP, PARENT, 5).await.unwrap();
    assert_eq!(client.ack(&got[0], Some("b")).await, Code::InvalidReceiptHandle);
    let pause = ChangeInvisibleDurationRequest {
        group: Some(resource(GROUP)),
        topic: Some(resource(PARENT)),
        receipt_handle: handle_of(&got[0]),
        invisible_duration: seconds(1),
        message_id: "a1".to_owned(),
        lite_topic: Some("b".to_owned()),
        suspend: Some(true),
    };
    let answer = client.0.change_invisible_duration(pause.clone()).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::InvalidReceiptHandle);
    let pause = ChangeInvisibleDurationRequest { lite_topic: Some("a".to_owned()), ..pause };
    let answer = client.0.change_invisible_duration(pause).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::Ok);
    let again = client.receive(GROUP, PARENT, 20).await.unwrap();
    assert_eq!(
        (id_of(&again[0]), again[0].system_properties.as_ref().unwrap().delivery_attempt()),
        ("a1", 1)
    );
    assert_eq!(client.ack(&again[0], None).await, Code::Ok, "some clients name no lite topic");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_lite_topic_moves_to_its_newest_subscriber_and_the_old_one_is_told() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let (mut old, mut new) = (broker.client("old").await, broker.client("new").await);
    let (mut commands, _) = old.telemetry(ClientType::LitePushConsumer, "exclusive").await;
    let (_new, _) = new.telemetry(ClientType::LitePushConsumer, "exclusive").await;
    assert_eq!(old.sync("exclusive", PartialAdd, &["a"]).await, Code::Ok);
    assert_eq!(new.sync("exclusive", PartialAdd, &["a"]).await, Code::Ok);
    let told = timeout(PATIENCE, commands.message()).await.unwrap().unwrap().unwrap().command;
    assert!(matches!(told, Some(Command::NotifyUnsubscribeLiteCommand(lost)) if lost.lite_topic == "a"));
    new.send(PARENT, Some("a"), "a1").await.unwrap();
    assert_eq!(old.receive("exclusive", PARENT, 1).await.unwrap(), []);
    assert_eq!(new.receive("exclusive", PARENT, 5).await.unwrap().len(), 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_messages_of_a_new_lite_topic_that_come_together_are_all_stored() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let client = broker.client("c").await;
    let sends = (0..64).map(|n| {
        let mut client = client.clone();
        tokio::spawn(
            async move { client.send(PARENT, Some(&format!("new-{}", n % 4)), &n.to_string()).await },
        )
    });
    let mut offsets = Vec::new();
    for sent in sends.collect::<Vec<_>>() {
        offsets.push(timeout(PATIENCE, sent).await.unwrap().unwrap().unwrap());
    }
    offsets.sort_unstable();
    let expected: Vec<i64> = (0..16).flat_map(|offset| [offset; 4]).collect();
    assert_eq!(offsets, expected, "four lite topics of sixteen messages");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_and_messages_outlive_a_restart_and_subscriptions_do_not() {
    let dir = TempDir::new().unwrap();
    let broker = Broker::start(&dir).await;
    let mut client = broker.client("c").await;
    for id in ["a1", "a2", "a3"] {
        client.send(PARENT, Some("a"), id).await.unwrap();
    }
    assert_eq!(client.sync(GROUP, PartialAdd, &["a"]).await, Code::Ok);
    let got = client.receive(GROUP, PARENT, 5).await.unwrap();
    assert_eq!(client.ack(&got[0], Some("a")).await, Code::Ok);
    broker.stop().await;

    let broker = Broker::start(&dir).await;
    let mut client = broker.client("c").await;
    assert_eq!(client.ids(1).await, [""; 0]);
    assert_eq!(client.sync(GROUP, CompleteAdd, &["a"]).await, Code::Ok);
    assert_eq!(client.ids(5).await, ["a2"], "a client that has told no settings yet is served");
    let mut late = broker.client("late").await;
    let max = Some(offset_option::OffsetType::Policy(offset_option::Policy::Max.into()));
    assert_eq!(late.sync_from(GROUP, PartialAdd, &["a"], max).await.0, Code::Ok);
    late.send(PARENT, Some("a"), "a4").await.unwrap();
    assert_eq!(late.ids(20).await, ["a4"], "from the end on, which takes the group away from a2 and a3");
    broker.stop().await;
}
