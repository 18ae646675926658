//! Answers with messages have a size that clients take.

use std::collections::BTreeSet;

use redstart_wire::remoting::{Command, code};

use crate::{
    broker::{Broker, GROUP, TOPIC, pop, until},
    remoting_support::{Client, messages, request},
    support::{self, id_of, receive_request},
};

const COUNT: usize = 24;
const BODY: usize = 1 << 20;
/// The 4.x clients refuse more in one frame.
const FRAME_MAX: usize = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_come_with_several_pops_and_their_first_attempts() {
    let broker = Broker::start().await;
    broker.store(COUNT, BODY).await;
    let mut client = Client::connect(broker.front_ends.remoting).await;
    let mut offsets = BTreeSet::new();
    until("all messages came", async || {
        let answer = client.call_with(pop(32, 5000)).await;
        assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
        assert!(answer.body.len() < FRAME_MAX, "{} bytes", answer.body.len());
        for message in messages(&answer) {
            assert_eq!(message.reconsume_times, 0);
            assert!(offsets.insert(message.queue_offset), "it is still invisible");
        }
        offsets.len() == COUNT
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_come_with_several_grpc_receives_and_their_first_attempts() {
    let broker = Broker::start().await;
    broker.store(COUNT, BODY).await;
    broker.join().await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let mut ids = BTreeSet::new();
    until("all messages came", async || {
        let (_, got) = support::receive(&mut client, receive_request(GROUP, TOPIC)).await;
        assert!(got.len() * BODY <= FRAME_MAX, "{} messages", got.len());
        for message in got {
            assert_eq!(message.system_properties.as_ref().unwrap().delivery_attempt, Some(1));
            assert!(ids.insert(id_of(&message).to_owned()));
        }
        ids.len() == COUNT
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_finds_much_brings_as_much_as_fits() {
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.front_ends.remoting).await;
    let body = "x".repeat(BODY);
    let properties = redstart_wire::remoting::encode_properties([("KEYS", "k")]);
    for _ in 0..COUNT {
        let fields = [
            ("producerGroup", "p"),
            ("topic", TOPIC),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "0"),
            ("sysFlag", "0"),
            ("bornTimestamp", "1"),
            ("flag", "0"),
            ("properties", &properties),
        ];
        let send = Command { body: body.clone().into(), ..request(code::SEND_MESSAGE, &fields) };
        assert_eq!(client.call_with(send).await.code, code::SUCCESS);
    }
    let key = [
        ("topic", TOPIC),
        ("key", "k"),
        ("maxNum", "32"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    let answer = client.ok(code::QUERY_MESSAGE, &key).await;
    assert!(answer.body.len() < FRAME_MAX, "{} bytes", answer.body.len());
    let offsets: Vec<i64> = messages(&answer).iter().map(|message| message.queue_offset).collect();
    assert!(offsets.len() > 1);
    assert!(offsets.contains(&(COUNT as i64 - 1)), "the newest are among them: {offsets:?}");
}
