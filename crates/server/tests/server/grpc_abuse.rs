//! Requests that make no sense: each gets the protocol's code, and nothing is stored wrongly.

use redstart_engine::{MessageType, TopicName};
use redstart_wire::v2::{self, Code, FilterExpression, SendMessageRequest, telemetry_command::Command};
use tokio_stream::StreamExt;

use crate::support::*;

/// Sends a request by each unary call that names a topic or group, and says the codes.
async fn codes(client: &mut Client, topic: &str, group: &str) -> Vec<(&'static str, Code)> {
    let (topic, group) = (Some(resource(topic)), Some(resource(group)));
    let queue = || Some(v2::MessageQueue { topic: topic.clone(), ..Default::default() });
    let mut codes = Vec::new();
    macro_rules! call {
        ($method:ident, $request:ident { $($field:ident: $value:expr),* }) => {{
            #[allow(clippy::needless_update, reason = "some requests have no further fields")]
            let request = v2::$request { $($field: $value,)* ..Default::default() };
            let answer = client.$method(request).await.unwrap().into_inner();
            codes.push((stringify!($method), code(answer.status)));
        }};
    }
    let message = v2::Message { topic: topic.clone(), ..message("x", "id", b"body") };
    call!(query_route, QueryRouteRequest { topic: topic.clone() });
    call!(query_assignment, QueryAssignmentRequest { topic: topic.clone(), group: group.clone() });
    call!(send_message, SendMessageRequest { messages: vec![message] });
    call!(
        ack_message,
        AckMessageRequest {
            topic: topic.clone(),
            group: group.clone(),
            entries: vec![v2::AckMessageEntry::default()]
        }
    );
    call!(
        change_invisible_duration,
        ChangeInvisibleDurationRequest { topic: topic.clone(), group: group.clone() }
    );
    call!(
        forward_message_to_dead_letter_queue,
        ForwardMessageToDeadLetterQueueRequest { topic: topic.clone(), group: group.clone() }
    );
    call!(end_transaction, EndTransactionRequest { topic: topic.clone() });
    call!(recall_message, RecallMessageRequest { topic: topic.clone() });
    call!(update_offset, UpdateOffsetRequest { message_queue: queue(), group: group.clone() });
    call!(get_offset, GetOffsetRequest { message_queue: queue(), group: group.clone() });
    call!(query_offset, QueryOffsetRequest { message_queue: queue() });
    let receive_ = v2::ReceiveMessageRequest { message_queue: queue(), group, ..receive_request("x", "x") };
    codes.push(("receive_message", receive(client, receive_).await.0));
    codes
}

#[tokio::test]
async fn names_that_are_none_get_a_code_for_names_from_every_call() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let mut client = broker.client("c").await;
    let long = "n".repeat(10_000);
    for bad in ["", long.as_str(), "a\u{0}b", "a\nb", "ä", "../../etc"] {
        for (call, code) in codes(&mut client, bad, "g").await {
            assert_eq!(code, Code::IllegalTopic, "{call} with topic {bad:.20?}");
        }
        for (call, code) in codes(&mut client, "t", bad).await {
            let looks_at_groups = !matches!(
                call,
                "query_route" | "send_message" | "end_transaction" | "recall_message" | "query_offset"
            );
            assert_eq!(
                code == Code::IllegalConsumerGroup,
                looks_at_groups,
                "{call} with group {bad:.20?}: {code:?}"
            );
        }
    }
    let reserved = send_code(&mut client, message("%DLQ%g", "m", b"body")).await;
    assert_eq!(reserved, Code::IllegalTopic);
    broker.stop().await;
}

async fn send_code(client: &mut Client, message: v2::Message) -> Code {
    let answer = client.send_message(SendMessageRequest { messages: vec![message] }).await.unwrap();
    code(answer.into_inner().status)
}

#[tokio::test]
async fn without_a_client_id_every_call_says_so() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let mut nobody = connect(broker.address, "", "JAVA").await;
    for (call, code) in codes(&mut nobody, "t", "g").await {
        assert_eq!(code, Code::ClientIdRequired, "{call}");
    }
    let heartbeat = nobody.heartbeat(v2::HeartbeatRequest::default()).await.unwrap().into_inner();
    assert_eq!(code(heartbeat.status), Code::ClientIdRequired);
    let mut telemetry = nobody.telemetry(tokio_stream::empty()).await.unwrap().into_inner();
    let said = telemetry.message().await.unwrap().unwrap();
    assert_eq!(code(said.status), Code::ClientIdRequired);
    broker.stop().await;
}

#[tokio::test]
async fn values_of_enums_that_are_not_known_are_refused_or_mean_nothing() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Mixed).await;
    let mut client = broker.client("c").await;
    let with = |change: fn(&mut v2::SystemProperties)| {
        let mut message = message("t", "m", b"body");
        change(message.system_properties.as_mut().unwrap());
        message
    };
    assert_eq!(
        send_code(&mut client, with(|system| system.message_type = 99)).await,
        Code::MessagePropertyConflictWithType
    );
    assert_eq!(
        send_code(&mut client, with(|system| system.body_encoding = 99)).await,
        Code::MessageCorrupted
    );
    let mixed = vec![message("t", "a", b"body"), with(|system| system.message_type = 4)];
    let answer = client.send_message(SendMessageRequest { messages: mixed }).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::MessagePropertyConflictWithType, "one half, one not");
    let ends = broker
        .shard()
        .ask(|engine, _| engine.topic(&TopicName::new("t").unwrap()).unwrap().queues)
        .unwrap()
        .await
        .unwrap();
    assert!(ends.iter().all(|(_, _, end)| end.0 == 0), "nothing was stored");

    let mut receive_ = receive_request("g", "t");
    receive_.filter_expression = Some(FilterExpression { r#type: 99, expression: "*".to_owned() });
    assert_eq!(receive(&mut client, receive_).await.0, Code::IllegalFilterExpression);

    let half =
        send(&mut client, with(|system| system.message_type = v2::MessageType::Transaction.into())).await;
    let end = v2::EndTransactionRequest {
        topic: Some(resource("t")),
        transaction_id: half.transaction_id,
        resolution: 99,
        ..Default::default()
    };
    assert_eq!(code(client.end_transaction(end).await.unwrap().into_inner().status), Code::BadRequest);
    let offset = v2::QueryOffsetRequest {
        message_queue: Some(v2::MessageQueue { topic: Some(resource("t")), ..Default::default() }),
        query_offset_policy: 99,
        ..Default::default()
    };
    assert_eq!(code(client.query_offset(offset).await.unwrap().into_inner().status), Code::BadRequest);

    let mut settings = settings(1, 10);
    settings.client_type = Some(99);
    settings.user_agent = Some(v2::Ua { language: 99, ..Default::default() });
    assert!(matches!(told(&mut client, settings).await, Ok(Some(Command::Settings(_)))));
    let heartbeat = v2::HeartbeatRequest { client_type: 99, ..Default::default() };
    assert_eq!(code(client.heartbeat(heartbeat).await.unwrap().into_inner().status), Code::Ok);
    broker.stop().await;
}

fn settings(topics: usize, filter: usize) -> v2::Settings {
    let entry = v2::SubscriptionEntry {
        topic: Some(resource("t")),
        expression: Some(FilterExpression { r#type: 1, expression: "a".repeat(filter) }),
    };
    let subscription = v2::Subscription {
        group: Some(resource("g")),
        subscriptions: vec![entry; topics],
        ..Default::default()
    };
    v2::Settings { pub_sub: Some(v2::settings::PubSub::Subscription(subscription)), ..Default::default() }
}

/// Tells settings, and returns what the server says to them.
async fn told(client: &mut Client, settings: v2::Settings) -> Result<Option<Command>, tonic::Code> {
    let command = v2::TelemetryCommand { status: None, command: Some(Command::Settings(settings)) };
    let stream = tokio_stream::once(command).chain(tokio_stream::pending());
    let mut answers = client.telemetry(stream).await.unwrap().into_inner();
    let answer = answers.message().await.map_err(|status| status.code())?;
    Ok(answer.and_then(|answer| answer.command))
}

#[tokio::test]
async fn huge_counts_are_refused_with_their_limit() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let mut client = broker.client("c").await;
    let ack = v2::AckMessageRequest {
        group: Some(resource("g")),
        topic: Some(resource("t")),
        entries: vec![v2::AckMessageEntry::default(); 1_000_000],
    };
    let answer = client.ack_message(ack).await.unwrap().into_inner();
    assert!(answer.status.as_ref().unwrap().message.contains("1024"), "{:?}", answer.status);
    assert_eq!(code(answer.status), Code::BadRequest);
    assert!(answer.entries.len() <= 1024);
    let entry = v2::AckMessageEntry { receipt_handle: "h".repeat(1 << 20), ..Default::default() };
    let ack = v2::AckMessageRequest {
        group: Some(resource("g")),
        topic: Some(resource("t")),
        entries: vec![entry; 8],
    };
    let answer = client.ack_message(ack).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::InvalidReceiptHandle);
    assert!(answer.entries.is_empty(), "what is too long is not sent back");

    assert!(matches!(told(&mut client, settings(1, 10)).await, Ok(Some(Command::Settings(_)))));
    for (topics, filter) in [(5_000, 1), (1_000_000, 1), (1, 1 << 20)] {
        let refused = told(&mut client, settings(topics, filter)).await;
        assert_eq!(refused.unwrap_err(), tonic::Code::InvalidArgument, "{topics} topics, filter of {filter}");
    }
    let mut receive_ = receive_request("g", "t");
    receive_.filter_expression = Some(FilterExpression { r#type: 2, expression: "a".repeat(1 << 20) });
    assert_eq!(receive(&mut client, receive_).await.0, Code::IllegalFilterExpression);
    let mut receive_ = receive_request("g", "t");
    (receive_.batch_size, receive_.long_polling_timeout) = (i32::MAX, Some(prost_types::Duration::default()));
    send(&mut client, message("t", "m", b"body")).await;
    let many = vec![message("t", "m", b"b"); 100_000];
    let answer = client.send_message(SendMessageRequest { messages: many }).await.unwrap().into_inner();
    assert_ne!(code(answer.status), Code::Ok);
    broker.stop().await;
}

#[tokio::test]
async fn routes_carry_the_address_that_was_dialled_or_the_advertised_one() {
    let asked = |scheme: v2::AddressScheme, host: &str, port| v2::QueryRouteRequest {
        topic: Some(resource("t")),
        endpoints: Some(v2::Endpoints {
            scheme: scheme.into(),
            addresses: vec![v2::Address { host: host.to_owned(), port }],
        }),
    };
    async fn route(client: &mut Client, request: v2::QueryRouteRequest) -> v2::Endpoints {
        let answer = client.query_route(request).await.unwrap().into_inner();
        assert_eq!(code(answer.status), Code::Ok);
        answer.message_queues[0].broker.clone().unwrap().endpoints.unwrap()
    }
    let dialled = [
        asked(v2::AddressScheme::IPv4, "127.0.0.1", 1234),
        asked(v2::AddressScheme::IPv6, "::1", 1234),
        asked(v2::AddressScheme::DomainName, "mq.example.org", 443),
    ];
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let mut client = broker.client("c").await;
    for request in &dialled {
        assert_eq!(route(&mut client, request.clone()).await, request.endpoints.clone().unwrap());
    }
    let unsaid = v2::QueryRouteRequest { topic: Some(resource("t")), endpoints: None };
    let found = route(&mut client, unsaid).await;
    assert_eq!((found.scheme(), found.addresses[0].host.as_str()), (v2::AddressScheme::IPv4, "127.0.0.1"));
    assert_eq!(found.addresses[0].port, i32::from(broker.address.port()), "the port the call came in on");
    broker.stop().await;

    let advertise = Some("mq.example.org:9999".to_owned());
    let broker = Broker::with(redstart_server::grpc::Config { advertise, ..config() }).await;
    broker.topic("t", MessageType::Normal).await;
    let mut client = broker.client("c").await;
    for request in dialled {
        let found = route(&mut client, request).await;
        assert_eq!(found.scheme(), v2::AddressScheme::DomainName);
        assert_eq!((found.addresses[0].host.as_str(), found.addresses[0].port), ("mq.example.org", 9999));
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_route_asked_for_over_ipv6_carries_that_address() {
    let listen = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    if std::net::TcpListener::bind(listen).is_err() {
        return; // This machine has no IPv6.
    }
    let broker = Broker::with(redstart_server::grpc::Config { listen, ..config() }).await;
    broker.topic("t", MessageType::Normal).await;
    let mut client = broker.client("c").await;
    let request = v2::QueryRouteRequest { topic: Some(resource("t")), endpoints: None };
    let answer = client.query_route(request).await.unwrap().into_inner();
    let found = answer.message_queues[0].broker.clone().unwrap().endpoints.unwrap();
    assert_eq!((found.scheme(), found.addresses[0].host.as_str()), (v2::AddressScheme::IPv6, "::1"));
    broker.stop().await;
}
