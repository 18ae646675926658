//! Callers over gRPC are who they say to be, and do what they may.

use std::time::{SystemTime, UNIX_EPOCH};

use redstart_auth::{
    Secret, date,
    signature::{
        SigningKey,
        grpc::{AUTHORIZATION, DATE_TIME, header},
    },
};
use redstart_engine::MessageType;
use redstart_server::{Access, AuditLog};
use redstart_wire::v2::{
    self, Code, MessageQueue, messaging_service_client::MessagingServiceClient, telemetry_command::Command,
};
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use crate::access_support::{CLUSTER, a_poll_waits, grant, secret, user};
use crate::support::{self, Broker, code, message, receive_request, resource};

/// Signs every call, or does not.
#[derive(Clone)]
struct Signer {
    client: &'static str,
    user: Option<&'static str>,
    secret: String,
    date_time: Option<String>,
    /// Headers of a first try come before those of the one that counts.
    repeats: bool,
}

impl Interceptor for Signer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("x-mq-client-id", MetadataValue::from_static(self.client));
        let Some(user) = self.user else { return Ok(request) };
        if self.repeats {
            metadata.append(DATE_TIME, MetadataValue::from_static("20000101T000000Z"));
            metadata.append(AUTHORIZATION, MetadataValue::from_static("MQv2-HMAC-SHA1 Credential=other"));
        }
        let now = || date::compact(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
        let date_time = self.date_time.clone().unwrap_or_else(now);
        let key = SigningKey::new(&Secret::new(self.secret.as_str()));
        metadata.append(AUTHORIZATION, header(user, &key, &date_time).parse().unwrap());
        metadata.append(DATE_TIME, date_time.parse().unwrap());
        Ok(request)
    }
}

type Client = MessagingServiceClient<InterceptedService<Channel, Signer>>;

struct Guarded {
    broker: Broker,
    access: Access,
}

impl Guarded {
    async fn start() -> Guarded {
        let access = Access::on(CLUSTER);
        let mut config = support::config();
        config.resources.access = access.clone();
        let broker = Broker::with(config).await;
        for topic in ["t", "secret"] {
            broker.topic(topic, MessageType::Normal).await;
        }
        let guarded = Guarded { broker, access };
        guarded.user("root", "Super").await;
        guarded.user("app", "Normal").await;
        guarded
    }

    async fn user(&self, name: &str, kind: &str) {
        user(&self.access, &self.broker.shard(), name, kind, "enable").await;
    }

    async fn grant(&self, name: &str, rights: &[&str]) {
        grant(&self.access, &self.broker.shard(), name, rights).await;
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.broker.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    async fn connect(&self, signer: Signer) -> Client {
        MessagingServiceClient::with_interceptor(self.channel().await, signer)
    }

    async fn client(&self, user: &'static str, client: &'static str) -> Client {
        self.connect(signer(user, client)).await
    }
}

fn signer(user: &'static str, client: &'static str) -> Signer {
    Signer { client, user: Some(user), secret: secret(user), date_time: None, repeats: false }
}

fn queue() -> Option<MessageQueue> {
    Some(MessageQueue { topic: Some(resource("t")), ..MessageQueue::default() })
}

/// The status of every unary call, and of every stream's first message, for requests that name the topic `t` and the group `g`.
#[expect(clippy::needless_update, reason = "the macro also makes requests with further fields")]
async fn status_of(client: &mut Client, method: &str) -> Code {
    let (topic, group) = (Some(resource("t")), Some(resource("g")));
    macro_rules! unary {
        ($call:ident, $request:ident { $($field:ident: $value:expr),* $(,)? }) => {
            code(client.$call(v2::$request { $($field: $value,)* ..Default::default() }).await.unwrap().into_inner().status)
        };
    }
    match method {
        "SendMessage" => unary!(send_message, SendMessageRequest { messages: vec![message("t", "m", b"b")] }),
        "ReceiveMessage" => {
            let request =
                v2::ReceiveMessageRequest { long_polling_timeout: None, ..receive_request("g", "t") };
            let mut stream = client.receive_message(request).await.unwrap().into_inner();
            loop {
                let next = stream.message().await.unwrap().expect("every answer has a status");
                if let Some(v2::receive_message_response::Content::Status(status)) = next.content {
                    return code(Some(status));
                }
            }
        }
        "PullMessage" => {
            let request = v2::PullMessageRequest { group, message_queue: queue(), ..Default::default() };
            let mut stream = client.pull_message(request).await.unwrap().into_inner();
            loop {
                let next = stream.message().await.unwrap().expect("every answer has a status");
                if let Some(v2::pull_message_response::Content::Status(status)) = next.content {
                    return code(Some(status));
                }
            }
        }
        "AckMessage" => unary!(ack_message, AckMessageRequest { topic: topic, group: group }),
        "ChangeInvisibleDuration" => {
            unary!(change_invisible_duration, ChangeInvisibleDurationRequest { topic: topic, group: group })
        }
        "Heartbeat" => unary!(
            heartbeat,
            HeartbeatRequest { group: group, client_type: v2::ClientType::PushConsumer.into() }
        ),
        "EndTransaction" => unary!(end_transaction, EndTransactionRequest { topic: topic }),
        "QueryRoute" => unary!(query_route, QueryRouteRequest { topic: topic }),
        "QueryAssignment" => unary!(query_assignment, QueryAssignmentRequest { topic: topic, group: group }),
        "ForwardMessageToDeadLetterQueue" => unary!(
            forward_message_to_dead_letter_queue,
            ForwardMessageToDeadLetterQueueRequest { topic: topic, group: group }
        ),
        "UpdateOffset" => unary!(update_offset, UpdateOffsetRequest { group: group, message_queue: queue() }),
        "GetOffset" => unary!(get_offset, GetOffsetRequest { group: group, message_queue: queue() }),
        "QueryOffset" => unary!(query_offset, QueryOffsetRequest { message_queue: queue() }),
        "RecallMessage" => unary!(recall_message, RecallMessageRequest { topic: topic }),
        "SyncLiteSubscription" => {
            unary!(sync_lite_subscription, SyncLiteSubscriptionRequest { topic: topic, group: group })
        }
        "NotifyClientTermination" => {
            unary!(notify_client_termination, NotifyClientTerminationRequest { group: group })
        }
        "Telemetry" => settings_status(client).await,
        other => panic!("{other}"),
    }
}

/// What a consumer's settings are answered with.
async fn settings_status(client: &mut Client) -> Code {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(settings_command()).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut answers = client.telemetry(stream).await.unwrap().into_inner();
    code(answers.message().await.unwrap().unwrap().status)
}

/// The settings of a consumer.
fn settings_command() -> v2::TelemetryCommand {
    let subscription = v2::Subscription {
        group: Some(resource("g")),
        subscriptions: vec![v2::SubscriptionEntry { topic: Some(resource("t")), expression: None }],
        ..Default::default()
    };
    let settings = v2::Settings {
        client_type: Some(v2::ClientType::PushConsumer.into()),
        pub_sub: Some(v2::settings::PubSub::Subscription(subscription)),
        ..Default::default()
    };
    v2::TelemetryCommand { status: None, command: Some(Command::Settings(settings)) }
}

const TABLE: &[(&str, &[&str])] = &[
    ("SendMessage", &["Pub Topic:t"]),
    ("ReceiveMessage", &["Sub Topic:t", "Sub Group:g"]),
    ("AckMessage", &["Sub Topic:t", "Sub Group:g"]),
    ("ChangeInvisibleDuration", &["Sub Topic:t", "Sub Group:g"]),
    ("Heartbeat", &["Sub Group:g"]),
    ("EndTransaction", &["Pub Topic:t"]),
    ("QueryRoute", &["Get Topic:t"]),
    ("QueryAssignment", &["Sub Topic:t", "Sub Group:g"]),
    ("ForwardMessageToDeadLetterQueue", &["Sub Topic:t", "Sub Group:g"]),
    ("PullMessage", &["Sub Topic:t", "Sub Group:g"]),
    ("UpdateOffset", &["Update Topic:t", "Update Group:g"]),
    ("GetOffset", &["Get Topic:t", "Get Group:g"]),
    ("QueryOffset", &["Get Topic:t"]),
    ("RecallMessage", &["Pub Topic:t"]),
    ("SyncLiteSubscription", &["Sub Topic:t", "Sub Group:g"]),
    ("NotifyClientTermination", &["Sub Group:g"]),
    ("Telemetry", &["Sub Topic:t", "Sub Group:g"]),
];

#[tokio::test]
async fn every_method_needs_its_right_and_no_other() {
    assert_eq!(TABLE.len(), redstart_server::grpc::METHODS.len(), "a method without a row");
    let guarded = Guarded::start().await;
    let mut app = guarded.client("app", "c1").await;
    let mut stranger = guarded.connect(Signer { user: None, ..signer("app", "c2") }).await;
    let channel = guarded.channel().await;
    let mut root = MessagingServiceClient::with_interceptor(channel.clone(), signer("root", "c3"));
    assert_eq!(status_of(&mut root, "QueryRoute").await, Code::Ok);
    // So that failed attempts from this address are not counted against the user.
    status_of(&mut app, "QueryRoute").await;
    for (method, rights) in TABLE {
        assert!(redstart_server::grpc::METHODS.contains(method), "{method}");
        assert_eq!(
            status_of(&mut stranger, method).await,
            Code::Unauthorized,
            "{method} without a signature"
        );
        // On a connection that has authenticated as the same user no attempt is refused for its failures before: it is looked at.
        let wrong = Signer { secret: "wrong".to_owned(), ..signer("root", "c3") };
        let mut wrong = MessagingServiceClient::with_interceptor(channel.clone(), wrong);
        assert_eq!(
            status_of(&mut wrong, method).await,
            Code::Unauthorized,
            "{method} with a wrong signature"
        );
        for missing in 0..rights.len() {
            let some: Vec<&str> =
                rights.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, right)| *right).collect();
            guarded.grant("app", &some).await;
            assert_eq!(
                status_of(&mut app, method).await,
                Code::Forbidden,
                "{method} without {}",
                rights[missing]
            );
        }
        guarded.grant("app", rights).await;
        let status = status_of(&mut app, method).await;
        assert!(
            !matches!(status, Code::Forbidden | Code::Unauthorized),
            "{method} with {rights:?}: {status:?}"
        );
    }
}

async fn sends(guarded: &Guarded, signer: Signer) -> Code {
    let mut client = guarded.connect(signer).await;
    status_of(&mut client, "SendMessage").await
}

#[tokio::test]
async fn dates_of_all_clients_are_taken_and_old_ones_are_not() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let hour = 3600;
    let cases = [
        (date::compact(now), Code::Ok),
        (date::compact(now + 14 * hour), Code::Ok),
        (date::compact(now - 12 * hour), Code::Ok),
        (date::rfc3339_of_millis(now * 1000), Code::Ok),
        (date::compact(now - 24 * hour), Code::Unauthorized),
        (date::compact(now + 24 * hour), Code::Unauthorized),
        (date::rfc3339_of_millis((now - hour) * 1000), Code::Unauthorized),
        (String::new(), Code::Unauthorized),
    ];
    for (date_time, expected) in cases {
        let signer = Signer { date_time: Some(date_time.clone()), ..signer("app", "c") };
        assert_eq!(sends(&guarded, signer).await, expected, "{date_time}");
    }
}

#[tokio::test]
async fn of_repeated_headers_the_last_count() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    assert_eq!(sends(&guarded, Signer { repeats: true, ..signer("app", "c") }).await, Code::Ok);
}

/// Headers as a call has them, each with its value.
#[derive(Clone)]
struct Headers(Vec<(&'static str, String)>);

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("x-mq-client-id", MetadataValue::from_static("c"));
        for (name, value) in &self.0 {
            request.metadata_mut().append(*name, value.parse().unwrap());
        }
        Ok(request)
    }
}

#[tokio::test]
async fn hostile_headers_are_refused() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Get Topic:t"]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let (now, later) = (date::compact(now), date::compact(now + 5));
    let key = SigningKey::new(&Secret::new(secret("app")));
    let good = header("app", &key, &now);
    let cases = [
        ("right", vec![(AUTHORIZATION, good.clone()), (DATE_TIME, now.clone())], Code::Ok),
        (
            "a date that was not signed",
            vec![(AUTHORIZATION, good.clone()), (DATE_TIME, later.clone())],
            Code::Unauthorized,
        ),
        ("no date", vec![(AUTHORIZATION, good.clone())], Code::Unauthorized),
        (
            "another date behind the signed one",
            vec![(AUTHORIZATION, good.clone()), (DATE_TIME, now.clone()), (DATE_TIME, later.clone())],
            Code::Unauthorized,
        ),
        (
            "another signature behind the right one",
            vec![
                (AUTHORIZATION, good.clone()),
                (AUTHORIZATION, good.replace("Credential=app", "Credential=root")),
                (DATE_TIME, now.clone()),
            ],
            Code::Unauthorized,
        ),
        (
            "two users in one header",
            vec![(AUTHORIZATION, format!("{good}, Credential=root")), (DATE_TIME, now.clone())],
            Code::Unauthorized,
        ),
        (
            "a header that is too long",
            vec![(AUTHORIZATION, format!("{good}{}", " ,x=y".repeat(1000))), (DATE_TIME, now.clone())],
            Code::Unauthorized,
        ),
        (
            "a user in other letters",
            vec![(AUTHORIZATION, good.replace("Credential=app", "Credential=APP")), (DATE_TIME, now)],
            Code::Unauthorized,
        ),
    ];
    for (name, headers, expected) in cases {
        let mut client = MessagingServiceClient::with_interceptor(guarded.channel().await, Headers(headers));
        let request = v2::QueryRouteRequest { topic: Some(resource("t")), ..Default::default() };
        let answer = client.query_route(request).await.unwrap().into_inner();
        assert_eq!(code(answer.status), expected, "{name}");
    }
}

#[tokio::test]
async fn a_signature_is_that_of_every_call_in_its_second() {
    // The reason why repeated calls are not refused: two clients of a user that call in the same second sign the same, whatever they
    // ask for. What a signature was seen for says nothing about who sends it again.
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t", "Get Topic:t"]).await;
    let now = date::compact(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
    for client in ["one", "two"] {
        let signer = Signer { date_time: Some(now.clone()), ..signer("app", client) };
        let mut client = guarded.connect(signer).await;
        for method in ["SendMessage", "QueryRoute"] {
            assert_eq!(status_of(&mut client, method).await, Code::Ok);
        }
    }
}

#[tokio::test]
async fn a_request_with_more_names_than_rights_are_asked_for_is_refused() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t", "Sub Group:g", "Sub Topic:t"]).await;
    let mut app = guarded.client("app", "c").await;
    let messages = vec![v2::Message { topic: Some(resource("t")), ..Default::default() }; 10_001];
    let answer = app.send_message(v2::SendMessageRequest { messages }).await.unwrap().into_inner();
    let status = answer.status.unwrap();
    assert_eq!(code(Some(status.clone())), Code::BadRequest);
    assert!(status.message.contains("the limit is 10000"), "{status:?}");
    let mut command = settings_command();
    if let Some(Command::Settings(settings)) = &mut command.command
        && let Some(v2::settings::PubSub::Subscription(subscription)) = &mut settings.pub_sub
    {
        subscription.subscriptions = vec![subscription.subscriptions[0].clone(); 5000];
    }
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(command).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut answers = app.telemetry(stream).await.unwrap().into_inner();
    let refused = answers.message().await.unwrap_err();
    assert!(refused.message().contains("settings with 5000 topics"), "{refused:?}");
}

#[tokio::test]
async fn a_batch_needs_the_right_on_every_topic() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let mut app = guarded.client("app", "c").await;
    let messages = vec![message("t", "a", b"b"), message("secret", "b", b"b")];
    let answer = app.send_message(v2::SendMessageRequest { messages }).await.unwrap().into_inner();
    let status = answer.status.unwrap();
    assert_eq!(code(Some(status.clone())), Code::Forbidden);
    assert_eq!(status.message, "the user app has no right to Pub on Topic:secret: no rule allows it");
}

#[tokio::test]
async fn a_client_id_belongs_to_the_user_that_brought_it() {
    let guarded = Guarded::start().await;
    guarded.user("other", "Normal").await;
    for user in ["app", "other"] {
        guarded.grant(user, &["All Topic:t", "All Group:g"]).await;
    }
    let (mut app, mut other) = (guarded.client("app", "c").await, guarded.client("other", "c").await);
    assert_eq!(settings_status(&mut app).await, Code::Ok);
    assert_eq!(status_of(&mut other, "SendMessage").await, Code::Forbidden);
    assert_eq!(settings_status(&mut other).await, Code::Forbidden);
    assert_eq!(status_of(&mut other, "NotifyClientTermination").await, Code::Forbidden);
    assert_eq!(status_of(&mut app, "Heartbeat").await, Code::Ok, "it is still known");
}

#[tokio::test]
async fn rights_that_are_taken_away_are_gone_at_once() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let mut app = guarded.client("app", "c").await;
    assert_eq!(status_of(&mut app, "SendMessage").await, Code::Ok);
    guarded.grant("app", &[]).await;
    assert_eq!(status_of(&mut app, "SendMessage").await, Code::Forbidden);
}

#[tokio::test]
async fn headers_that_were_right_a_moment_ago_are_wrong_once_their_user_is_disabled() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let now = date::compact(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
    let mut app = guarded.connect(Signer { date_time: Some(now), ..signer("app", "c") }).await;
    for status in ["enable", "disable", "enable"] {
        user(&guarded.access, &guarded.broker.shard(), "app", "Normal", status).await;
        let expected = if status == "enable" { Code::Ok } else { Code::Unauthorized };
        for _ in 0..2 {
            assert_eq!(status_of(&mut app, "SendMessage").await, expected, "{status}");
        }
    }
}

#[tokio::test]
async fn what_one_call_of_a_connection_has_proved_helps_no_other_signature() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let channel = guarded.channel().await;
    let now = date::compact(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
    let right = Signer { date_time: Some(now), ..signer("app", "c") };
    let cases = [
        (right.clone(), Code::Ok),
        (Signer { secret: "guess".to_owned(), ..right.clone() }, Code::Unauthorized),
        (Signer { user: Some("root"), ..right.clone() }, Code::Unauthorized),
        (Signer { date_time: Some("20000101T000000Z".to_owned()), ..right.clone() }, Code::Unauthorized),
        (right, Code::Ok),
    ];
    for (number, (signer, expected)) in cases.into_iter().enumerate() {
        let mut client = MessagingServiceClient::with_interceptor(channel.clone(), signer);
        assert_eq!(status_of(&mut client, "SendMessage").await, expected, "case {number}");
    }
}

#[tokio::test]
async fn a_receive_that_waits_gets_nothing_after_its_right_was_taken_away() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Sub Topic:t", "Sub Group:g"]).await;
    let (mut root, mut app) = (guarded.client("root", "c1").await, guarded.client("app", "c2").await);
    let waiting = async {
        let request = v2::ReceiveMessageRequest {
            long_polling_timeout: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..receive_request("g", "t")
        };
        let mut stream = app.receive_message(request).await.unwrap().into_inner();
        let mut contents = Vec::new();
        while let Some(next) = stream.message().await.unwrap() {
            contents.extend(next.content);
        }
        contents
    };
    let meanwhile = async {
        a_poll_waits(&guarded.broker.shard()).await;
        guarded.grant("app", &[]).await;
        assert_eq!(status_of(&mut root, "SendMessage").await, Code::Ok);
    };
    let (contents, ()) = tokio::join!(waiting, meanwhile);
    let message = |content: &v2::receive_message_response::Content| {
        matches!(content, v2::receive_message_response::Content::Message(_))
    };
    assert!(!contents.iter().any(message), "{contents:?}");
    assert!(format!("{contents:?}").contains("no right to"), "{contents:?}");
}

#[tokio::test]
async fn a_pull_that_waits_gets_nothing_after_its_right_was_taken_away() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Sub Topic:t", "Sub Group:g"]).await;
    let (mut root, mut app) = (guarded.client("root", "c1").await, guarded.client("app", "c2").await);
    let waiting = async {
        let request = v2::PullMessageRequest {
            group: Some(resource("g")),
            message_queue: queue(),
            long_polling_timeout: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..Default::default()
        };
        let mut stream = app.pull_message(request).await.unwrap().into_inner();
        let mut contents = Vec::new();
        while let Some(next) = stream.message().await.unwrap() {
            contents.extend(next.content);
        }
        contents
    };
    let meanwhile = async {
        a_poll_waits(&guarded.broker.shard()).await;
        guarded.grant("app", &[]).await;
        assert_eq!(status_of(&mut root, "SendMessage").await, Code::Ok);
    };
    let (contents, ()) = tokio::join!(waiting, meanwhile);
    let [v2::pull_message_response::Content::Status(status)] = &contents[..] else { panic!("{contents:?}") };
    assert_eq!(code(Some(status.clone())), Code::Forbidden);
    assert!(status.message.contains("no right to"), "{status:?}");
}

#[tokio::test]
async fn messages_that_a_consumer_holds_go_to_others_when_its_right_is_taken_away() {
    let guarded = Guarded::start().await;
    let rights = ["Sub Topic:t", "Sub Group:g"];
    guarded.grant("app", &rights).await;
    let (mut root, mut app) = (guarded.client("root", "c1").await, guarded.client("app", "c2").await);
    assert_eq!(settings_status(&mut app).await, Code::Ok);
    let request = v2::ReceiveMessageRequest { auto_renew: true, ..receive_request("g", "t") };
    let receive = async |client: &mut Client, seconds: i64| {
        let long_polling_timeout = Some(prost_types::Duration { seconds, nanos: 0 });
        let request = v2::ReceiveMessageRequest { long_polling_timeout, ..request.clone() };
        let mut stream = client.receive_message(request).await.unwrap().into_inner();
        let mut messages = 0;
        while let Some(next) = stream.message().await.unwrap() {
            let message = matches!(next.content, Some(v2::receive_message_response::Content::Message(_)));
            messages += usize::from(message);
        }
        messages
    };
    assert_eq!(status_of(&mut root, "SendMessage").await, Code::Ok);
    assert_eq!(receive(&mut app, 10).await, 1);
    // A change that leaves it its rights takes nothing from it. What is held is not to be had for longer than it takes to be
    // given back.
    guarded.grant("app", &["Pub Topic:t", "Sub Topic:t", "Sub Group:g"]).await;
    assert_eq!(receive(&mut root, 3).await, 0);
    guarded.grant("app", &["Sub Topic:t"]).await;
    assert_eq!(receive(&mut root, 15).await, 1, "long before the invisible time of 60 s is over");
}

#[tokio::test]
async fn a_telemetry_stream_ends_with_the_rights_to_what_it_has_announced() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Sub Topic:t", "Sub Group:g"]).await;
    let mut app = guarded.client("app", "c").await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(settings_command()).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut answers = app.telemetry(stream).await.unwrap().into_inner();
    assert_eq!(code(answers.message().await.unwrap().unwrap().status), Code::Ok);
    // A change that leaves it its rights does not end it.
    guarded.grant("app", &["Sub Topic:t", "Sub Group:g", "Pub Topic:t"]).await;
    sender.send(settings_command()).await.unwrap();
    assert_eq!(code(answers.message().await.unwrap().unwrap().status), Code::Ok);
    guarded.grant("app", &["Sub Group:g"]).await;
    assert_eq!(code(answers.message().await.unwrap().unwrap().status), Code::Forbidden);
    assert!(answers.message().await.unwrap().is_none(), "it has ended");
}

#[tokio::test]
async fn denials_are_in_the_audit_log() {
    let dir = tempfile::TempDir::new().unwrap();
    let log = AuditLog::open(&dir.path().join("audit.log")).unwrap();
    let guarded = Guarded::start().await;
    guarded.access.install_audit(log.clone());
    let mut app = guarded.client("app", "c").await;
    assert_eq!(status_of(&mut app, "SendMessage").await, Code::Forbidden);
    let wrong = Signer { secret: "wrong".to_owned(), ..signer("root", "c2") };
    assert_eq!(sends(&guarded, wrong).await, Code::Unauthorized);
    log.close();
    let text = std::fs::read_to_string(dir.path().join("audit.log")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [denied, unauthenticated] = lines[..] else { panic!("{text}") };
    for part in
        [r#""user":"app""#, r#""port":"grpc""#, "SendMessageRequest", "Topic:t", r#""outcome":"denied""#]
    {
        assert!(denied.contains(part), "{part} is missing in {denied}");
    }
    for part in [r#""user":"root""#, r#""outcome":"unauthenticated""#] {
        assert!(unauthenticated.contains(part), "{part} is missing in {unauthenticated}");
    }
}
