//! What one protocol's clients leave behind and the other's find: groups that move, topics that are made.

use std::time::Duration;

use redstart_engine::{Filter, GroupName, Pop, Start, TopicName};
use redstart_wire::{
    remoting::code,
    v2::{AckMessageEntry, AckMessageRequest, Code, QueryRouteRequest, SendMessageRequest},
};

use crate::remoting_support::{self, Broker, messages, send_message};
use crate::support::{self, front_ends::GrpcBeside};

fn pull(topic: &str) -> Vec<(&str, &str)> {
    vec![
        ("consumerGroup", "g"),
        ("topic", topic),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "1"),
    ]
}

#[tokio::test]
async fn what_pull_consumers_handed_back_comes_once_to_consumers_that_receive() {
    let broker = Broker::start().await;
    let grpc = GrpcBeside::start(broker.shard.handle(), broker.view.clone()).await;

    let mut old = broker.with_topic("t", 1).await;
    let heartbeat = remoting_support::consumer("c", "g", "t", "*").replace(
        r#""subscriptionDataSet":["#,
        r#""subscriptionDataSet":[{"topic":"%RETRY%g","subString":"*","subVersion":1},"#,
    );
    assert_eq!(old.call_json(code::HEART_BEAT, &heartbeat).await.code, code::SUCCESS);
    send_message(&mut old, "t", 0, "a", "m").await;
    let pulled = messages(&old.call(code::PULL_MESSAGE, &pull("t")).await);
    let offset = pulled[0].physical_offset.to_string();
    let back = [("group", "g"), ("offset", offset.as_str()), ("delayLevel", "1"), ("originTopic", "t")];
    old.ok(code::CONSUMER_SEND_MSG_BACK, &back).await;
    let done = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0"), ("commitOffset", "1")];
    old.ok(code::UPDATE_CONSUMER_OFFSET, &done).await;

    let mut new = grpc.client().await;
    let short = || redstart_wire::v2::ReceiveMessageRequest {
        long_polling_timeout: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
        ..support::receive_request("g", "t")
    };
    let (_, none) = support::receive(&mut new, short()).await;
    assert!(none.is_empty(), "a consumer that pulls is there, and takes it");
    old.ok(code::UNREGISTER_CLIENT, &[("clientID", "c"), ("consumerGroup", "g")]).await;

    let (_, got) = support::receive(&mut new, support::receive_request("g", "t")).await;
    assert_eq!(got.len(), 1);
    assert_eq!(&got[0].body[..], b"m");
    assert_eq!(got[0].topic.as_ref().unwrap().name, "t", "the topic it was sent to");
    assert_eq!(got[0].system_properties.as_ref().unwrap().delivery_attempt, Some(2));
    let ack = AckMessageRequest {
        group: Some(support::resource("g")),
        topic: Some(support::resource("t")),
        entries: vec![AckMessageEntry {
            message_id: support::id_of(&got[0]).to_owned(),
            receipt_handle: support::handle_of(&got[0]),
            ..AckMessageEntry::default()
        }],
    };
    let acked = new.ack_message(ack).await.unwrap().into_inner();
    assert_eq!(support::code(acked.status), Code::Ok);
    let stands = [("consumerGroup", "g"), ("topic", "%RETRY%g"), ("queueId", "0")];
    let offset = old.ok(code::QUERY_CONSUMER_OFFSET, &stands).await;
    assert_eq!(offset.field("offset"), Some("1"), "nothing is left for a consumer that pulls");
}

/// What receives left is known by its place in the log, so an engine's pop stands for them: its time can be short.
#[tokio::test]
async fn what_receives_left_comes_once_to_pull_consumers_and_what_was_acked_does_not() {
    let broker = Broker::start().await;
    let mut old = broker.with_topic("t", 1).await;
    for body in ["a", "b", "c"] {
        send_message(&mut old, "t", 0, "", body).await;
    }
    old.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"g"}"#).await;
    let acked = broker.shard.handle().ask(|engine, now| {
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("t").unwrap());
        let pop = Pop {
            group: &group,
            topic: &topic,
            queue: None,
            max: 32,
            invisible: Duration::from_secs(1),
            filter: &Filter::All,
            attempt: None,
            client: "c",
            start: Start::Earliest,
            one_per_group: false,
            in_order: false,
        };
        let popped = engine.pop(&pop, now).unwrap();
        popped.deliveries[1..].iter().map(|delivery| engine.ack(delivery.receipt, now)).collect::<Vec<_>>()
    });
    assert_eq!(acked.unwrap().await.unwrap(), [Ok(()), Ok(())]);

    let stands = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0")];
    let looked = old.ok(code::QUERY_CONSUMER_OFFSET, &stands).await;
    assert_eq!(looked.field("offset"), Some("0"), "for one that is no consumer: a is not done");
    let heartbeat = remoting_support::consumer("c", "g", "t", "*").replace(
        r#""subscriptionDataSet":["#,
        r#""subscriptionDataSet":[{"topic":"%RETRY%g","subString":"*","subVersion":1},"#,
    );
    assert_eq!(old.call_json(code::HEART_BEAT, &heartbeat).await.code, code::SUCCESS);
    let begins = old.ok(code::QUERY_CONSUMER_OFFSET, &stands).await;
    assert_eq!(begins.field("offset"), Some("3"), "b and c were acked, and a comes through the retry topic");
    let retried = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let answer = old.call(code::PULL_MESSAGE, &pull("%RETRY%g")).await;
            if answer.code == code::SUCCESS {
                return messages(&answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let retried = retried.await.unwrap();
    assert_eq!((retried.len(), &retried[0].body[..], retried[0].reconsume_times), (1, &b"a"[..], 1));
    let looked = old.ok(code::QUERY_CONSUMER_OFFSET, &stands).await;
    assert_eq!(looked.field("offset"), Some("3"));
}

/// Routes of a topic tell a producer of gRPC what is there before it sends, so they must not refuse it.
#[tokio::test]
async fn the_first_message_makes_its_topic_over_grpc_as_well_when_that_is_on() {
    for create in [false, true] {
        let broker = Broker::start_with(|config, _| config.auto_create_topics = create).await;
        let grpc = GrpcBeside::start(broker.shard.handle(), broker.view.clone()).await;
        let mut client = grpc.client().await;
        for (topic, made) in [("fresh", create), ("%RETRY%g", false), ("TBW102", false)] {
            let request = QueryRouteRequest { topic: Some(support::resource(topic)), endpoints: None };
            let route = client.query_route(request).await.unwrap().into_inner();
            let found = (support::code(route.status), route.message_queues.len());
            assert_eq!(found, if made { (Code::Ok, 8) } else { (Code::TopicNotFound, 0) }, "{topic}");
        }
        let request = SendMessageRequest { messages: vec![support::message("fresh", "id", b"m")] };
        let sent = client.send_message(request).await.unwrap().into_inner();
        assert_eq!(support::code(sent.status), if create { Code::Ok } else { Code::TopicNotFound });
        let name = TopicName::new("fresh").unwrap();
        let made = broker.shard.handle().ask(move |engine, _| engine.topic(&name)).unwrap().await.unwrap();
        assert_eq!(made.map(|topic| topic.config.write_queues), create.then_some(8));
    }
}

/// The operator is told to create a topic only if that can be done by hand.
#[tokio::test]
async fn reserved_topics_are_neither_made_nor_advised() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    for (topic, advised) in [("nowhere", true), ("%RETRY%nobody", false)] {
        let answer = client.call(code::GET_TOPIC_STATS_INFO, &[("topic", topic)]).await;
        let remark = answer.remark.unwrap();
        assert_eq!(remark.contains("topic create"), advised, "{remark}");
    }
    for topic in ["rmq_sys_x", "SCHEDULE_TOPIC_XXXX"] {
        let fields = [("topic", topic), ("readQueueNums", "1"), ("writeQueueNums", "1"), ("perm", "6")];
        let refused = client.call(code::UPDATE_AND_CREATE_TOPIC, &fields).await;
        assert!(refused.code != code::SUCCESS && refused.remark.unwrap().contains("reserved"), "{topic}");
    }
    remoting_support::create_topic(&mut client, "batch", 1, "+queue.type=BatchCQ").await;
    let runtime = remoting_support::json(&client.ok(code::GET_BROKER_RUNTIME_INFO, &[]).await);
    for key in [
        "dispatchMaxBuffer",
        "getTransferedTps",
        "putMessageEntireTimeMax",
        "remainTransientStoreBufferNumbs",
    ] {
        assert!(runtime["table"][key].is_string(), "rocketmq-exporter reads {key}");
    }
}
