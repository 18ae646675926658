//! Floods over Remoting.

use std::time::Duration;

use bytes::BytesMut;
use redstart_wire::remoting::{Command, code, encode};
use tokio::{io::AsyncWriteExt, task::JoinSet};

use crate::{
    process::{COST_MAX, MIB, Process, WIDE_TOPIC},
    remoting_support::{Client, request},
};

/// A client that cannot write anything for this long is held up on purpose.
const STALLED: Duration = Duration::from_secs(5);

fn held_pull() -> Command {
    let fields = [
        ("consumerGroup", "g"),
        ("topic", WIDE_TOPIC),
        ("queueId", "7"),
        ("queueOffset", "0"),
        ("maxMsgNums", "1"),
        ("sysFlag", "6"),
        ("suspendTimeoutMillis", "25000"),
        ("subscription", "*"),
    ];
    request(code::PULL_MESSAGE, &fields)
}

/// Writes as much as the broker takes of so many copies of a frame; says how many bytes that were.
async fn flood(client: &mut Client, command: &Command, copies: i32) -> usize {
    let mut written = 0;
    for opaque in 0..copies {
        let mut bytes = BytesMut::new();
        encode(&Command { opaque, ..command.clone() }, &mut bytes);
        match tokio::time::timeout(STALLED, client.stream.write_all(&bytes)).await {
            Ok(Ok(())) => written += bytes.len(),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    written
}

/// Each is under 64 KiB, and waits for messages that do not come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_frames_that_are_held_count() {
    const CONNECTIONS: usize = 8;
    const FRAMES: i32 = 2000;
    let process = Process::start().await;
    let mut floods = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(process.remoting).await;
        let pull = Command { body: vec![7; 60 << 10].into(), ..held_pull() };
        floods.spawn(async move { (flood(&mut client, &pull, FRAMES).await, client) });
    }
    let held = floods.join_all().await;
    let written: usize = held.iter().map(|(written, _)| written).sum();
    println!("{} MiB were taken", written / MIB);
    process.check_cost("pulls with a body", COST_MAX).await;
    drop(held);
    process.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_with_many_ids_and_subscriptions_are_bounded() {
    const IDS: usize = 300;
    let process = Process::start().await;
    let mut client = Client::connect(process.remoting).await;
    let topic = "t".repeat(200);
    let subscriptions: Vec<String> =
        (0..3500).map(|n| format!(r#"{{"topic":"{topic}{n}","subString":"*","subVersion":1}}"#)).collect();
    let subscriptions = subscriptions.join(",");
    let mut refused = 0;
    for n in 0..IDS {
        let beat = format!(
            r#"{{"clientID":"c{n}","producerDataSet":[],"consumerDataSet":[{{"groupName":"g",
            "consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
            "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{subscriptions}]}}]}}"#
        );
        assert!(beat.len() < MIB, "{}", beat.len());
        let answer = client.call_json(code::HEART_BEAT, &beat).await;
        refused += usize::from(answer.code != code::SUCCESS);
    }
    assert!(refused > IDS / 2, "{refused}");
    process.check_cost("heartbeats", COST_MAX).await;
    process.serves().await;
}

/// Each object of the body is three bytes, and a structure of a hundred once it is decoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_body_becomes_when_it_is_decoded_counts() {
    let process = Process::start().await;
    let mut client = Client::connect(process.remoting).await;
    let objects = vec!["{}"; 4 << 20].join(",");
    let body = format!(r#"{{"consumerGroup":"g","clientId":"c","mqSet":[{objects}]}}"#);
    let (answer, ()) = tokio::join!(
        client.call_json(code::LOCK_BATCH_MQ, &body),
        process.check_cost("a body of empty objects", COST_MAX)
    );
    assert_eq!(answer.code, code::SYSTEM_BUSY, "{:?}", answer.remark);
    process.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_bounded() {
    let process = Process::start().await;
    let mut client = Client::connect(process.remoting).await;
    let topic = "t".repeat(120);
    let mut locked = 0;
    for group in 0..40 {
        let queues: Vec<String> =
            (0..20_000).map(|n| format!(r#"{{"topic":"{topic}","brokerName":"b","queueId":{n}}}"#)).collect();
        let body = format!(r#"{{"consumerGroup":"g{group}","clientId":"c","mqSet":[{}]}}"#, queues.join(","));
        let answer = client.call_json(code::LOCK_BATCH_MQ, &body).await;
        assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
        locked += crate::remoting_support::json(&answer)["lockOKMQSet"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(locked, 200_000);
    process.check_cost("locks", COST_MAX).await;
    process.serves().await;
}

/// Here a setting lets other brokers register.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registered_brokers_are_bounded() {
    let process = Process::start().await;
    let mut client = Client::connect(process.remoting).await;
    let topics: Vec<String> = (0..20_000)
        .map(|n| {
            let topic = format!("{}{n}", "t".repeat(100));
            format!(r#""{topic}":{{"topicName":"{topic}","readQueueNums":1,"writeQueueNums":1,"perm":6}}"#)
        })
        .collect();
    let body = format!(
        r#"{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{}}},"dataVersion":{{"counter":1,"timestamp":1}}}},"filterServerList":[]}}"#,
        topics.join(",")
    );
    for n in 0..40 {
        let name = format!("broker-{n}");
        let fields = [
            ("brokerName", name.as_str()),
            ("brokerAddr", "10.0.0.9:10911"),
            ("clusterName", "DefaultCluster"),
            ("brokerId", "0"),
        ];
        let register = Command { body: body.clone().into(), ..request(code::REGISTER_BROKER, &fields) };
        let answer = client.call_with(register).await;
        assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
    }
    process.check_cost("registered brokers", COST_MAX).await;
    process.serves().await;
}

/// A producer that does not read is asked about its transactions, or told of its group, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_says_to_a_client_that_does_not_read_counts() {
    let process = Process::start().await;
    let mut deaf = Client::connect(process.remoting).await;
    let producer = crate::remoting_support::producer("deaf", "p");
    assert_eq!(deaf.call_json(code::HEART_BEAT, &producer).await.code, code::SUCCESS);
    let properties = redstart_wire::remoting::encode_properties([("REPLY_TO_CLIENT", "deaf")]);
    let fields = [
        ("a", "p"),
        ("b", "DefaultCluster_REPLY_TOPIC"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1"),
        ("h", "0"),
        ("i", properties.as_str()),
    ];
    // Replies to what the deaf client asked: the broker pushes each of them to it.
    let reply = Command { body: vec![7; 3 * MIB].into(), ..request(code::SEND_REPLY_MESSAGE_V2, &fields) };
    let mut floods = JoinSet::new();
    for _ in 0..4 {
        let mut client = Client::connect(process.remoting).await;
        let reply = reply.clone();
        floods.spawn(async move { (flood(&mut client, &reply, 40).await, client) });
    }
    let held = floods.join_all().await;
    process.check_cost("replies for a client that does not read", COST_MAX + 64 * MIB).await;
    drop((held, deaf));
    process.serves().await;
}
