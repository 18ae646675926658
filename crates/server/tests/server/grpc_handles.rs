//! Handles are good for what they were made for, and for nothing else.

use redstart_engine::{GroupConfig, MessageType, Start, TopicName};
use redstart_wire::v2::{
    self, AckMessageEntry, AckMessageRequest, AckMessageResponse, ChangeInvisibleDurationRequest, Code,
    EndTransactionRequest, ForwardMessageToDeadLetterQueueRequest, RecallMessageRequest,
    TransactionResolution,
};

use crate::support::*;

/// Two topics and two groups that have joined both.
async fn broker() -> Broker {
    let broker = Broker::start().await;
    for topic in ["t1", "t2"] {
        broker.topic(topic, MessageType::Mixed).await;
    }
    for group in ["g1", "g2"] {
        broker.group(group, GroupConfig::default()).await;
        for topic in ["t1", "t2"] {
            let names = (redstart_engine::GroupName::new(group).unwrap(), TopicName::new(topic).unwrap());
            let joined =
                broker.shard().ask(move |engine, _| engine.join(&names.0, &names.1, Start::Earliest));
            joined.unwrap().await.unwrap().unwrap();
        }
    }
    broker
}

async fn ack(client: &mut Client, group: &str, topic: &str, handles: &[&str]) -> AckMessageResponse {
    let entries = handles
        .iter()
        .map(|handle| AckMessageEntry {
            message_id: "m".to_owned(),
            receipt_handle: (*handle).to_owned(),
            ..AckMessageEntry::default()
        })
        .collect();
    let request = AckMessageRequest { group: Some(resource(group)), topic: Some(resource(topic)), entries };
    client.ack_message(request).await.unwrap().into_inner()
}

fn change(group: &str, topic: &str, handle: &str) -> ChangeInvisibleDurationRequest {
    ChangeInvisibleDurationRequest {
        group: Some(resource(group)),
        topic: Some(resource(topic)),
        receipt_handle: handle.to_owned(),
        invisible_duration: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        ..ChangeInvisibleDurationRequest::default()
    }
}

fn forward(group: &str, topic: &str, handle: &str) -> ForwardMessageToDeadLetterQueueRequest {
    ForwardMessageToDeadLetterQueueRequest {
        group: Some(resource(group)),
        topic: Some(resource(topic)),
        receipt_handle: handle.to_owned(),
        ..ForwardMessageToDeadLetterQueueRequest::default()
    }
}

#[tokio::test]
async fn a_receipt_fits_only_its_own_group_and_topic() {
    let broker = broker().await;
    let mut client = broker.client("c").await;
    send(&mut client, message("t1", "m", b"body")).await;
    let (_, got) = receive(&mut client, receive_request("g1", "t1")).await;
    let handle = handle_of(&got[0]);

    for (group, topic, code_) in [
        ("g2", "t1", Code::InvalidReceiptHandle),
        ("g1", "t2", Code::InvalidReceiptHandle),
        ("no-such-group", "t1", Code::InvalidReceiptHandle),
        ("g1", "no-such-topic", Code::TopicNotFound),
        ("", "t1", Code::IllegalConsumerGroup),
        ("g1", "", Code::IllegalTopic),
    ] {
        let acked = ack(&mut client, group, topic, &[&handle]).await;
        assert_eq!(acked.entries.len(), 1, "the Rust client looks at the first entry whatever happened");
        let status = acked.entries[0].status.clone().unwrap();
        assert_eq!(code(Some(status.clone())), code_, "ack {group:?} {topic:?}");
        if code_ == Code::InvalidReceiptHandle {
            for name in ["g1", "t1", group, topic] {
                assert!(status.message.contains(name), "{:?} does not name {name}", status.message);
            }
        }
        let changed =
            client.change_invisible_duration(change(group, topic, &handle)).await.unwrap().into_inner();
        assert_eq!(code(changed.status), code_, "change {group:?} {topic:?}");
        assert_eq!(changed.receipt_handle, handle, "Java stores what a refusal carries");
        let forwarded =
            client.forward_message_to_dead_letter_queue(forward(group, topic, &handle)).await.unwrap();
        assert_eq!(code(forwarded.into_inner().status), code_, "forward {group:?} {topic:?}");
    }
    let changed = client.change_invisible_duration(change("g1", "t1", &handle)).await.unwrap().into_inner();
    assert_eq!(code(changed.status), Code::Ok, "nothing of that touched the delivery");
    let acked = ack(&mut client, "g1", "t1", &[&changed.receipt_handle]).await;
    assert_eq!(code(acked.status), Code::Ok);
    broker.stop().await;
}

#[tokio::test]
async fn one_foreign_handle_among_several_is_refused_alone() {
    let broker = broker().await;
    let mut client = broker.client("c").await;
    for topic in ["t1", "t2"] {
        send(&mut client, message(topic, topic, b"body")).await;
    }
    let (_, own) = receive(&mut client, receive_request("g1", "t1")).await;
    let (_, foreign) = receive(&mut client, receive_request("g1", "t2")).await;
    let handles = [handle_of(&foreign[0]), handle_of(&own[0]), "nonsense".to_owned()];
    let acked = ack(&mut client, "g1", "t1", &handles.each_ref().map(String::as_str)).await;
    assert_eq!(code(acked.status), Code::MultipleResults);
    let codes: Vec<Code> = acked.entries.into_iter().map(|entry| code(entry.status)).collect();
    assert_eq!(codes, [Code::InvalidReceiptHandle, Code::Ok, Code::InvalidReceiptHandle]);
    broker.stop().await;
}

#[tokio::test]
async fn recall_handles_and_transaction_ids_fit_only_their_own_topic() {
    let broker = broker().await;
    let mut client = broker.client("c").await;
    let mut delayed = message("t1", "delayed", b"body");
    let in_an_hour = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let system = delayed.system_properties.as_mut().unwrap();
    system.delivery_timestamp = Some(in_an_hour.into());
    system.message_type = v2::MessageType::Delay.into();
    let recall_handle = send(&mut client, delayed).await.recall_handle;
    let recall =
        |topic| RecallMessageRequest { topic: Some(resource(topic)), recall_handle: recall_handle.clone() };
    let refused = client.recall_message(recall("t2")).await.unwrap().into_inner().status.unwrap();
    assert!(refused.message.contains("t1") && refused.message.contains("t2"), "{}", refused.message);
    assert_eq!(code(Some(refused)), Code::MessageNotFound);
    let recalled = client.recall_message(recall("t1")).await.unwrap().into_inner();
    assert_eq!((code(recalled.status), recalled.message_id.as_str()), (Code::Ok, "delayed"));

    let mut half = message("t1", "half", b"body");
    half.system_properties.as_mut().unwrap().message_type = v2::MessageType::Transaction.into();
    let transaction_id = send(&mut client, half).await.transaction_id;
    let end = |topic| EndTransactionRequest {
        topic: Some(resource(topic)),
        transaction_id: transaction_id.clone(),
        message_id: "half".to_owned(),
        resolution: TransactionResolution::Commit.into(),
        ..EndTransactionRequest::default()
    };
    let refused = client.end_transaction(end("t2")).await.unwrap().into_inner().status.unwrap();
    assert!(refused.message.contains("t1") && refused.message.contains("t2"), "{}", refused.message);
    assert_eq!(code(Some(refused)), Code::InvalidTransactionId);
    let ended = client.end_transaction(end("t1")).await.unwrap().into_inner();
    assert_eq!(code(ended.status), Code::Ok);
    let (_, got) = receive(&mut client, receive_request("g1", "t1")).await;
    assert_eq!(got.iter().map(id_of).collect::<Vec<_>>(), ["half"]);
    broker.stop().await;
}

#[tokio::test]
async fn a_go_push_consumer_gets_one_message_of_a_message_group_at_a_time() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Fifo).await;
    broker.group("g", GroupConfig::ordered()).await;
    let mut client = broker.client("c").await;
    let push = || v2::ReceiveMessageRequest { auto_renew: true, ..receive_request("g", "t") };
    let first = v2::ReceiveMessageRequest {
        long_polling_timeout: Some(prost_types::Duration { seconds: 0, nanos: 1 }),
        ..push()
    };
    assert_eq!(receive(&mut client, first).await.0, Code::MessageNotFound, "the group joins");
    for (id, group) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
        send(&mut client, in_group("t", id, group)).await;
    }
    let mut go = connect(broker.address, "go", "GO").await;
    let (_, got) = receive(&mut go, push()).await;
    assert_eq!(got.iter().map(id_of).collect::<Vec<_>>(), ["a1", "b1"]);
    ack(&mut go, "g", "t", &[&handle_of(&got[0]), &handle_of(&got[1])]).await;
    let (_, got) = receive(&mut client, push()).await;
    assert_eq!(got.iter().map(id_of).collect::<Vec<_>>(), ["a2", "a3"], "others get what there is");
    broker.stop().await;
}
