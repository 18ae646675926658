//! What `/metrics` tells of 4.x clients.

use redstart_server::http::Sources;
use redstart_wire::remoting::{Command, code};

use crate::http_support::Pages;
use crate::remoting_support::{Broker, consumer, producer, request, send_message};
use crate::support::one_shard;

#[tokio::test(flavor = "multi_thread")]
async fn clients_calls_and_connections_of_the_older_protocol_are_counted() {
    let (broker, pages) = (Broker::start().await, Pages::start().await);
    pages.serving(Sources {
        shards: one_shard(broker.shard.handle()).await,
        grpc: None,
        remoting: Some(broker.view.clone()),
        http: None,
        tls: None,
    });
    let mut client = broker.with_topic("t", 1).await;
    let heartbeat =
        |body: String| Command { body: body.into(), version: 475, ..Command::request(code::HEART_BEAT) };
    client.call_with(heartbeat(producer("p1", "makers"))).await;
    let mut other = broker.client().await;
    other.call_with(heartbeat(consumer("c1", "takers", "t", "*"))).await;
    for body in ["one", "two", "three"] {
        send_message(&mut client, "t", 0, "a", body).await;
    }
    let pull = [
        ("consumerGroup", "takers"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "2"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "1"),
    ];
    other.ok(code::PULL_MESSAGE, &pull).await;
    let stored = [("consumerGroup", "takers"), ("topic", "t"), ("queueId", "0"), ("commitOffset", "2")];
    other.call_with(request(code::UPDATE_CONSUMER_OFFSET, &stored)).await;

    let found = pages.scrape().await;
    let calls = |request, response| {
        let labels = [
            ("protocol_type", "remoting"),
            ("request_code", request),
            ("response_code", response),
            ("result", "success"),
        ];
        found.value("rocketmq_rpc_latency_milliseconds_count", &labels)
    };
    assert_eq!(calls("send_message", "success"), Some(3.0));
    assert_eq!(calls("heart_beat", "success"), Some(2.0));
    assert_eq!(calls("pull_message", "success"), Some(1.0));
    let made = [("topic", "t"), ("message_type", "normal")];
    assert_eq!(found.value("rocketmq_messages_in_total", &made), Some(3.0));
    let taken = [("topic", "t"), ("consumer_group", "takers")];
    assert_eq!(found.value("rocketmq_messages_out_total", &taken), Some(2.0));
    assert_eq!(found.value("rocketmq_consumer_lag_messages", &taken), Some(1.0));
    assert_eq!(found.value("rocketmq_consumer_ready_messages", &taken), Some(1.0));
    let kind = [("language", "rust"), ("version", "v5_3_1"), ("protocol_type", "remoting")];
    // The consumer's heartbeat names its inner producer, too.
    assert_eq!(found.value("rocketmq_producer_connections", &kind), Some(2.0));
    let group = [("consumer_group", "takers"), ("consume_mode", "push"), ("is_system", "false")];
    assert_eq!(found.value("rocketmq_consumer_connections", &[&kind[..], &group].concat()), Some(1.0));
    assert_eq!(found.value("redstart_connections", &[("protocol", "remoting")]), Some(2.0));
    assert_eq!(found.value("redstart_connections", &[("protocol", "namesrv")]), Some(0.0));
}
