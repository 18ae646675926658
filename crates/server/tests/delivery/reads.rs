//! A read that fails says nothing about the message.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redstart_wire::{
    remoting::{Command, code},
    v2::{AckMessageEntry, AckMessageRequest, Code, PullMessageRequest, pull_message_response::Content},
};
use tokio::time::Instant;

use crate::{
    broker::{Broker, GROUP, INVISIBLE_SECONDS, SOON, TOPIC, pop},
    remoting_support::{self, Client, messages, request},
    support::{self, code, handle_of, id_of, receive_request, resource},
};

const MESSAGES: usize = 200;
/// How long every fifth read fails.
const TROUBLE: Duration = Duration::from_secs(2);

/// Faults of the disk that end after a while, in which some reads must have failed.
struct ReadFaults<'a> {
    broker: &'a Broker,
    began: Instant,
}

impl<'a> ReadFaults<'a> {
    fn begin(broker: &'a Broker, every: u64) -> ReadFaults<'a> {
        broker.faults.fail_every(every);
        ReadFaults { broker, began: Instant::now() }
    }

    /// Ends the faults when their time is over; fails the test when messages are still missing long after that.
    fn check(&self) {
        let elapsed = self.began.elapsed();
        if elapsed > TROUBLE && self.broker.read_errors() > 0 {
            self.broker.faults.fail_every(0);
        }
        assert!(elapsed < TROUBLE + 2 * SOON, "messages are missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_consumers_get_every_message_once_with_its_first_attempt_though_reads_fail() {
    let broker = Broker::start().await;
    broker.store(MESSAGES, 100).await;
    broker.join().await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let read_faults = ReadFaults::begin(&broker, 5);
    let mut attempts = BTreeMap::new();
    while attempts.len() < MESSAGES {
        read_faults.check();
        let mut request = receive_request(GROUP, TOPIC);
        request.invisible_duration = Some(prost_types::Duration { seconds: INVISIBLE_SECONDS, nanos: 0 });
        request.long_polling_timeout = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        request.batch_size = 8;
        let (status, got) = support::receive(&mut client, request).await;
        let expected = [Code::Ok, Code::MessageNotFound, Code::InternalServerError];
        assert!(expected.contains(&status), "{status:?}");
        assert_eq!(status == Code::Ok, !got.is_empty());
        for message in got {
            let attempt = message.system_properties.as_ref().unwrap().delivery_attempt;
            assert_eq!(attempts.insert(id_of(&message).to_owned(), attempt), None, "it was acked before");
            let entry = AckMessageEntry { receipt_handle: handle_of(&message), ..AckMessageEntry::default() };
            let ack = AckMessageRequest {
                group: Some(resource(GROUP)),
                topic: Some(resource(TOPIC)),
                entries: vec![entry],
            };
            assert_eq!(code(client.ack_message(ack).await.unwrap().into_inner().status), Code::Ok);
        }
    }
    assert!(attempts.values().all(|attempt| *attempt == Some(1)), "{attempts:?}");
    assert!(broker.read_errors() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_pulls_go_on_at_the_message_that_could_not_be_read() {
    let broker = Broker::start().await;
    broker.store(MESSAGES, 100).await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let read_faults = ReadFaults::begin(&broker, 5);
    let (mut next, mut ids) = (0, Vec::new());
    while ids.len() < MESSAGES {
        read_faults.check();
        let request = PullMessageRequest {
            group: Some(resource(GROUP)),
            message_queue: receive_request(GROUP, TOPIC).message_queue,
            offset: next,
            batch_size: 32,
            ..PullMessageRequest::default()
        };
        let mut stream = client.pull_message(request).await.unwrap().into_inner();
        while let Some(response) = stream.message().await.unwrap() {
            match response.content.unwrap() {
                Content::Status(status) if status.code == i32::from(Code::InternalServerError) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Content::Status(status) => assert_eq!(status.code, i32::from(Code::Ok)),
                Content::Message(message) => ids.push(id_of(&message).to_owned()),
                Content::NextOffset(offset) => next = offset,
            }
        }
        assert_eq!(next as usize, ids.len(), "nothing lies between what was read and where it goes on");
    }
    assert_eq!(ids, (0..MESSAGES).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(broker.read_errors() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn remoting_pops_bring_every_message_once_with_its_first_attempt_though_reads_fail() {
    let broker = Broker::start().await;
    broker.store(MESSAGES, 100).await;
    let mut client = Client::connect(broker.front_ends.remoting).await;
    let read_faults = ReadFaults::begin(&broker, 5);
    let mut ids = BTreeSet::new();
    while ids.len() < MESSAGES {
        read_faults.check();
        let answer = client.call_with(pop(8, 1000)).await;
        let expected = [code::SUCCESS, code::POLLING_TIMEOUT, code::SYSTEM_ERROR];
        assert!(expected.contains(&answer.code), "{} {:?}", answer.code, answer.remark);
        // The messages stay with this consumer: one that was done unseen never comes.
        for message in messages(&answer).iter().filter(|_| answer.code == code::SUCCESS) {
            assert_eq!(message.reconsume_times, 0);
            let id = remoting_support::properties(message)["UNIQ_KEY"].clone();
            assert!(ids.insert(id), "it is still invisible");
        }
    }
    assert!(broker.read_errors() > 0);
}

fn pull(offset: i64) -> Command {
    let offset = offset.to_string();
    let fields = [
        ("consumerGroup", GROUP),
        ("topic", TOPIC),
        ("queueId", "0"),
        ("queueOffset", &offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    request(code::PULL_MESSAGE, &fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn remoting_pulls_do_not_go_past_a_message_that_could_not_be_read() {
    let broker = Broker::start().await;
    broker.store(MESSAGES, 3000).await;
    let mut client = Client::connect(broker.front_ends.remoting).await;
    let read_faults = ReadFaults::begin(&broker, 2);
    let (mut next, mut offsets) = (0, Vec::new());
    while offsets.len() < MESSAGES {
        read_faults.check();
        let answer = client.call_with(pull(next)).await;
        match answer.code {
            code::SUCCESS => offsets.extend(messages(&answer).iter().map(|message| message.queue_offset)),
            code::SYSTEM_ERROR => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            other => assert_eq!(other, code::PULL_RETRY_IMMEDIATELY, "{:?}", answer.remark),
        }
        next = answer.field("nextBeginOffset").unwrap().parse().unwrap();
        assert_eq!(next as usize, offsets.len(), "nothing lies between what was read and where it goes on");
    }
    assert_eq!(offsets, (0..MESSAGES as i64).collect::<Vec<_>>());
    assert!(broker.read_errors() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_read_fails_is_an_error_and_does_not_say_that_there_is_no_message() {
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.front_ends.remoting).await;
    remoting_support::send_message(&mut client, TOPIC, 0, "", "k").await;
    let key = [
        ("topic", TOPIC),
        ("key", "k"),
        ("maxNum", "10"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    let found = client.ok(code::QUERY_MESSAGE, &key).await;
    let offset = messages(&found)[0].physical_offset.to_string();
    client.ok(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await;

    broker.faults.fail_every(1);
    let answer = client.call(code::QUERY_MESSAGE, &key).await;
    assert_eq!(answer.code, code::SYSTEM_ERROR, "{:?}", answer.remark);
    let answer = client.call(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await;
    assert_eq!(answer.code, code::SYSTEM_ERROR, "{:?}", answer.remark);

    broker.faults.fail_every(0);
    client.ok(code::QUERY_MESSAGE, &key).await;
    client.ok(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await;
}
