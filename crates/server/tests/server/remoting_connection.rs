//! Remoting connections: frames, order, limits, ends.

use bytes::{BufMut, BytesMut};
use redstart_wire::remoting::{Command, Serialization, code, encode};
use tokio::io::AsyncWriteExt;

use crate::remoting_support::{self, Broker, Client, consumer, json, request};

#[tokio::test]
async fn an_unknown_code_is_answered_and_the_connection_stays() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for serialization in [Serialization::Json, Serialization::Binary] {
        let answer = client.call_with(Command { serialization, ..Command::request(9999) }).await;
        assert_eq!(answer.code, code::REQUEST_CODE_NOT_SUPPORTED);
        assert_eq!(answer.serialization, serialization, "answered as it was asked");
    }
    client.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
}

#[tokio::test]
async fn a_one_way_request_is_never_answered_not_even_when_it_fails() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    client.send(Command::request(9999).one_way()).await;
    client.send(request(code::GET_ROUTEINFO_BY_TOPIC, &[]).one_way()).await;
    let asked = client.send(Command::request(code::GET_BROKER_CLUSTER_INFO)).await;
    assert_eq!(client.next().await.unwrap().opaque, asked, "the first answer is the third request's");
}

#[tokio::test]
async fn frames_in_pieces_and_many_at_once_are_all_answered() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let mut bytes = BytesMut::new();
    for opaque in 0..500 {
        let command = Command { opaque, ..Command::request(code::GET_BROKER_CLUSTER_INFO) };
        encode(&command, &mut bytes);
    }
    for piece in bytes.chunks(777) {
        client.stream.write_all(piece).await.unwrap();
    }
    let mut answered: Vec<i32> = Vec::new();
    for _ in 0..500 {
        answered.push(client.next().await.unwrap().opaque);
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_frame_that_cannot_be_closes_the_connection() {
    let broker = Broker::start().await;
    let good_header = br#"{"code":106,"opaque":1}"#;
    for (length, word, header) in [
        (u32::MAX, 0, &good_header[..]),
        (17 << 20, 0, good_header),
        (2, 0, good_header),
        (4 + good_header.len() as u32, 0x00ff_ffff, good_header),
        (4 + good_header.len() as u32, 7 << 24 | good_header.len() as u32, good_header),
        (4 + 3, 3, b"{{{"),
    ] {
        let mut client = broker.client().await;
        let mut bytes = BytesMut::new();
        bytes.put_u32(length);
        bytes.put_u32(word);
        bytes.put_slice(header);
        client.stream.write_all(&bytes).await.unwrap();
        assert_eq!(client.next().await, None, "length {length:#x}, header word {word:#x}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_members_with_it() {
    let broker = Broker::start().await;
    let (mut stays, mut goes) = (broker.with_topic("t", 4).await, broker.client().await);
    for (client, id) in [(&mut stays, "a"), (&mut goes, "b")] {
        let answer = client.call_json(code::HEART_BEAT, &consumer(id, "g", "t", "*")).await;
        assert_eq!(answer.code, code::SUCCESS);
    }
    let list = stays.ok(code::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")]).await;
    assert_eq!(json(&list)["consumerIdList"], serde_json::json!(["a", "b"]));
    // Its own coming, the other's coming, and then its going.
    for _ in 0..2 {
        stays.asked(code::NOTIFY_CONSUMER_IDS_CHANGED).await;
    }
    drop(goes);
    let told = stays.asked(code::NOTIFY_CONSUMER_IDS_CHANGED).await;
    assert_eq!(told.field("consumerGroup"), Some("g"));
    assert!(told.is_one_way());
    let list = stays.ok(code::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")]).await;
    assert_eq!(json(&list)["consumerIdList"], serde_json::json!(["a"]));
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_ignored() {
    let broker = Broker::start().await;
    let mut client: Client = broker.client().await;
    let forged = Command::request(0).answer(0, None);
    client.write(&Command { opaque: 0, ..forged }).await;
    client.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
}

/// The Go client commits its offsets with requests that want an answer, and closes without waiting for it.
#[tokio::test]
async fn what_a_client_said_before_it_closed_is_done() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 4).await;
    let mut goes = broker.client().await;
    let at = |queue: &str, offset: &str| {
        let fields = [("consumerGroup", "new"), ("topic", "t"), ("queueId", queue), ("commitOffset", offset)];
        request(code::UPDATE_CONSUMER_OFFSET, &fields)
    };
    for queue in ["0", "1", "2", "3"] {
        goes.send(at(queue, "0")).await;
    }
    drop(goes);
    for queue in ["0", "1", "2", "3"] {
        let fields =
            [("consumerGroup", "new"), ("topic", "t"), ("queueId", queue), ("setZeroIfNotFound", "false")];
        let deadline = std::time::Instant::now() + remoting_support::PATIENCE;
        while client.call(code::QUERY_CONSUMER_OFFSET, &fields).await.code != code::SUCCESS {
            assert!(std::time::Instant::now() < deadline, "queue {queue} was not committed");
            tokio::task::yield_now().await;
        }
    }
}
