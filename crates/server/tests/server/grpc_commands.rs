//! What the server asks of clients over telemetry, and what it knows of them.

use std::time::Duration;

use redstart_engine::{MessageType, QueueId, QueueOffset, TopicName};
use redstart_server::{
    ShardNumber,
    grpc::{ClientKind, CommandError, Commands, StoredMessage, Verified},
};
use redstart_wire::v2::{
    ClientType, Code, FilterExpression, FilterType, Language, Publishing, Settings, Status, Subscription,
    SubscriptionEntry, TelemetryCommand, ThreadStackTrace, Ua, VerifyMessageCommand, VerifyMessageResult,
    settings::PubSub, telemetry_command::Command,
};
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::support::*;

/// The client's end of a telemetry stream.
pub struct Telemetry {
    say: mpsc::Sender<TelemetryCommand>,
    hear: Streaming<TelemetryCommand>,
}

pub fn consumer_settings(group: &str, topic: &str) -> Settings {
    Settings {
        client_type: Some(ClientType::PushConsumer.into()),
        pub_sub: Some(PubSub::Subscription(Subscription {
            group: Some(resource(group)),
            subscriptions: vec![SubscriptionEntry {
                topic: Some(resource(topic)),
                expression: Some(FilterExpression {
                    r#type: FilterType::Sql.into(),
                    expression: "a > 5".to_owned(),
                }),
            }],
            ..Subscription::default()
        })),
        user_agent: Some(Ua {
            language: Language::Java.into(),
            version: "5.2.0".to_owned(),
            ..Ua::default()
        }),
        ..Settings::default()
    }
}

impl Telemetry {
    pub async fn open(client: &mut Client, settings: Settings) -> Telemetry {
        let (say, said) = mpsc::channel(8);
        let stream = tokio_stream::wrappers::ReceiverStream::new(said);
        let hear = client.telemetry(stream).await.unwrap().into_inner();
        let mut telemetry = Telemetry { say, hear };
        telemetry.say(None, Command::Settings(settings)).await;
        assert!(matches!(telemetry.hear().await, Command::Settings(_)));
        telemetry
    }

    async fn say(&self, status: Option<Code>, command: Command) {
        let status = status.map(|code| Status { code: code.into(), message: "said the client".to_owned() });
        self.say.send(TelemetryCommand { status, command: Some(command) }).await.unwrap();
    }

    async fn hear(&mut self) -> Command {
        self.hear.message().await.unwrap().unwrap().command.unwrap()
    }

    async fn nonce(&mut self) -> String {
        match self.hear().await {
            Command::PrintThreadStackTraceCommand(command) => command.nonce,
            Command::VerifyMessageCommand(command) => command.nonce,
            other => panic!("{other:?}"),
        }
    }
}

async fn broker() -> (Broker, Commands) {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let commands = broker.commands.clone();
    (broker, commands)
}

#[tokio::test]
async fn a_thread_dump_is_the_text_that_the_client_sends_with_or_without_a_status() {
    let (broker, commands) = broker().await;
    let mut client = broker.client("c").await;
    let mut telemetry = Telemetry::open(&mut client, consumer_settings("g", "t")).await;
    for status in [Some(Code::Ok), None] {
        let answering = async {
            let nonce = telemetry.nonce().await;
            let trace = ThreadStackTrace { nonce, thread_stack_trace: Some("main: busy".to_owned()) };
            // A copy of the answer, and one to nothing, do no harm.
            for trace in
                [trace.clone(), trace, ThreadStackTrace { nonce: "x".to_owned(), ..Default::default() }]
            {
                telemetry.say(status, Command::ThreadStackTrace(trace)).await;
            }
        };
        let (dump, ()) = tokio::join!(commands.thread_dump("c"), answering);
        assert_eq!(dump.unwrap(), "main: busy");
    }
    let refusing = async {
        let nonce = telemetry.nonce().await;
        let trace = ThreadStackTrace { nonce, thread_stack_trace: None };
        telemetry.say(Some(Code::Unsupported), Command::ThreadStackTrace(trace)).await;
    };
    let (dump, ()) = tokio::join!(commands.thread_dump("c"), refusing);
    assert!(matches!(dump, Err(CommandError::Refused { code, .. }) if code == i32::from(Code::Unsupported)));
    broker.stop().await;
}

#[tokio::test]
async fn a_message_is_tried_by_the_client_that_was_asked_and_no_other_can_answer() {
    let (broker, commands) = broker().await;
    let mut client = broker.client("c").await;
    send(&mut client, message("t", "m", b"to try")).await;
    let found = broker
        .shard()
        .ask(|engine, _| engine.message_at(&TopicName::new("t").unwrap(), QueueId(0), QueueOffset(0)))
        .unwrap()
        .await
        .unwrap()
        .unwrap();
    let sample = StoredMessage {
        shard: ShardNumber::FIRST,
        topic: TopicName::new("t").unwrap(),
        position: found.position,
        size: found.size,
    };
    let mut telemetry = Telemetry::open(&mut client, consumer_settings("g", "t")).await;
    let mut other_client = broker.client("other").await;
    let other = Telemetry::open(&mut other_client, consumer_settings("g", "t")).await;

    let outcomes = [
        (Some(Code::Ok), Ok(Verified::Consumed)),
        (Some(Code::FailedToConsumeMessage), Ok(Verified::Failed { why: "said the client".to_owned() })),
        (Some(Code::NotImplemented), Err(i32::from(Code::NotImplemented))),
        (None, Err(0)),
    ];
    for (n, (status, expected)) in outcomes.into_iter().enumerate() {
        let answering = async {
            let command = telemetry.hear().await;
            let Command::VerifyMessageCommand(command) = command else { panic!("{command:?}") };
            assert_eq!(command.message.as_ref().unwrap().body, &b"to try"[..]);
            let result = VerifyMessageResult { nonce: command.nonce.clone() };
            other.say(Some(Code::MessageCorrupted), Command::VerifyMessageResult(result.clone())).await;
            // The Node.js client sends the command itself back.
            let answer = if n % 2 == 0 {
                Command::VerifyMessageResult(result)
            } else {
                Command::VerifyMessageCommand(VerifyMessageCommand { nonce: command.nonce, message: None })
            };
            telemetry.say(status, answer).await;
        };
        let (verified, ()) = tokio::join!(commands.verify_message("c", sample.clone()), answering);
        match (verified, expected) {
            (Ok(verified), Ok(expected)) => assert_eq!(verified, expected),
            (Err(CommandError::Refused { code, .. }), Err(expected)) => assert_eq!(code, expected),
            other => panic!("{other:?}"),
        }
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_is_unknown_silent_or_gone_is_told_apart() {
    let (broker, commands) = broker().await;
    assert!(matches!(commands.thread_dump("nobody").await, Err(CommandError::UnknownClient { .. })));
    let mut client = broker.client("c").await;
    let telemetry = Telemetry::open(&mut client, consumer_settings("g", "t")).await;
    let hurried = commands.clone().with_answer_timeout(Duration::from_millis(50));
    assert!(matches!(hurried.thread_dump("c").await, Err(CommandError::NoAnswer { .. })));
    drop(telemetry);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !matches!(hurried.thread_dump("c").await, Err(CommandError::Unreachable { .. })) {
        assert!(std::time::Instant::now() < until, "the end of the stream goes unnoticed");
    }
    assert_eq!(commands.clients().len(), 1, "it is still known");
    broker.stop().await;
}

#[tokio::test]
async fn the_list_of_clients_says_who_they_are_and_what_they_want() {
    let (broker, commands) = broker().await;
    let mut consumer = broker.client("consumer").await;
    let _a = Telemetry::open(&mut consumer, consumer_settings("g", "t")).await;
    let mut producer = broker.client("producer").await;
    let publishing =
        Publishing { topics: vec![resource("t"), resource("not a name")], ..Publishing::default() };
    let settings = Settings {
        client_type: Some(ClientType::Producer.into()),
        pub_sub: Some(PubSub::Publishing(publishing)),
        ..Settings::default()
    };
    let _b = Telemetry::open(&mut producer, settings).await;
    let clients = commands.clients();
    assert_eq!(clients.iter().map(|client| client.id.as_str()).collect::<Vec<_>>(), ["consumer", "producer"]);
    let told = &clients[0].settings;
    assert_eq!((told.kind, told.group.as_ref().unwrap().as_str()), (ClientKind::PushConsumer, "g"));
    assert_eq!((told.language.as_str(), told.version.as_str()), ("JAVA", "5.2.0"));
    let subscription = &told.subscriptions[0];
    assert_eq!((subscription.topic.as_str(), subscription.expression.as_str()), ("t", "a > 5"));
    assert!(subscription.sql && clients[0].remote.unwrap().ip().is_loopback());
    assert!(clients[0].silent_for < Duration::from_secs(60));
    assert_eq!(clients[1].settings.kind, ClientKind::Producer);
    assert_eq!(clients[1].settings.publishes, [TopicName::new("t").unwrap()]);
    broker.stop().await;
}
