//! How large the properties of a message may be over each protocol, and that every consumer gets them.

use redstart_wire::{
    remoting::{code, encode_properties},
    v2::{self, Code},
};

use crate::remoting_support::{self, Broker, Client, consumer, messages, properties};
use crate::support::{self, front_ends::GrpcBeside};

const LIMIT: usize = 32_767;

/// Properties that are encoded to exactly this many bytes. The property `LARGE` takes nearly all of them.
fn sized(bytes: usize) -> String {
    let around = encode_properties([("UNIQ_KEY", "id"), ("TAGS", "a"), ("KEYS", "k"), ("LARGE", "v")]);
    let value = "v".repeat(bytes - around.len() + 1);
    encode_properties([("UNIQ_KEY", "id"), ("TAGS", "a"), ("KEYS", "k"), ("LARGE", &value)])
}

async fn send(client: &mut Client, properties: &str) -> redstart_wire::remoting::Command {
    let fields = [
        ("producerGroup", "p"),
        ("topic", "t"),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "0"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", properties),
    ];
    let command = remoting_support::request(code::SEND_MESSAGE, &fields);
    client.call_with(redstart_wire::remoting::Command { body: "m".into(), ..command }).await
}

/// A gRPC front end on the shard of the broker, and a client of it.
async fn over_grpc(broker: &Broker) -> (GrpcBeside, support::Client) {
    let grpc = GrpcBeside::start(broker.shard.handle(), broker.view.clone()).await;
    let client = grpc.client().await;
    (grpc, client)
}

#[tokio::test]
async fn properties_that_fill_a_record_over_remoting_reach_consumers_of_both_protocols() {
    let broker = Broker::start().await;
    let (_grpc, mut new) = over_grpc(&broker).await;
    let mut old = broker.with_topic("t", 1).await;
    let (_, none) = support::receive(
        &mut new,
        v2::ReceiveMessageRequest {
            long_polling_timeout: Some(prost_types::Duration::default()),
            ..support::receive_request("g", "t")
        },
    )
    .await;
    assert!(none.is_empty(), "the group is there from now on");

    let refused = send(&mut old, &sized(LIMIT + 1)).await;
    assert_eq!(refused.code, code::MESSAGE_ILLEGAL);
    assert!(refused.remark.unwrap().contains("properties length not matched"));
    let taken = send(&mut old, &sized(LIMIT)).await;
    assert_eq!(taken.code, code::SUCCESS, "{:?}", taken.remark);

    let (_, got) = support::receive(&mut new, support::receive_request("g", "t")).await;
    assert_eq!(got.len(), 1);
    let large = got[0].user_properties["LARGE"].len();
    assert!(large > LIMIT - 100, "{large}");
    assert_eq!(got[0].system_properties.as_ref().unwrap().tag(), "a");

    assert_eq!(old.call_json(code::HEART_BEAT, &consumer("c", "h", "t", "*")).await.code, code::SUCCESS);
    let pull = [
        ("consumerGroup", "h"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "1"),
    ];
    let pulled = messages(&old.call(code::PULL_MESSAGE, &pull).await);
    assert_eq!(pulled.len(), 1, "there is no room for what the broker adds, and it comes without that");
    let found = properties(&pulled[0]);
    assert_eq!(found["LARGE"].len(), large);
    assert_eq!(
        (found["UNIQ_KEY"].as_str(), found["TAGS"].as_str(), found["KEYS"].as_str()),
        ("id", "a", "k")
    );
}

#[tokio::test]
async fn over_grpc_what_the_producer_sets_counts_and_what_the_protocol_has_fields_for_does_not() {
    let broker = Broker::start().await;
    let (_grpc, mut client) = over_grpc(&broker).await;
    let _old = broker.with_topic("t", 1).await;
    let bytes = |count: usize| [("name".to_owned(), "v".repeat(count - "name".len()))].into();
    let many = |count: usize| (0..count).map(|n| (format!("p{n}"), "v".to_owned())).collect();
    let cases: [(std::collections::HashMap<String, String>, Code, &str); 4] = [
        (bytes(16 << 10), Code::Ok, ""),
        (
            bytes((16 << 10) + 1),
            Code::MessagePropertiesTooLarge,
            "the total size of user property is too large",
        ),
        (many(128), Code::Ok, ""),
        (many(129), Code::MessagePropertiesTooLarge, "too many user properties, max is 128"),
    ];
    for (user_properties, expected, words) in cases {
        let mut message = v2::Message { user_properties, ..support::message("t", "id", b"m") };
        let system = message.system_properties.as_mut().unwrap();
        system.tag = Some("t".repeat(1000));
        system.keys = vec!["k".repeat(1000)];
        let request = v2::SendMessageRequest { messages: vec![message] };
        let status = client.send_message(request).await.unwrap().into_inner().status.unwrap();
        assert!(status.message.contains(words), "{status:?}");
        assert_eq!(support::code(Some(status)), expected);
    }
}
