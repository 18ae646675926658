use std::time::Duration;

use redstart_client::{Filter, Message};
use serde_json::json;

use crate::broker::{Broker, PATIENCE, bodies};

#[tokio::test]
async fn what_http_sends_clients_of_both_protocols_receive() {
    let broker = Broker::start();
    broker.topic("t", 2, "NORMAL").await;
    for (group, client) in [("five", broker.client().await), ("four", broker.remoting_client().await)] {
        let receiver =
            client.receiver(group).subscribe("t", Filter::all()).from_start().build().await.unwrap();
        let sent = broker
            .send("t", json!({"body": group, "tag": "red", "keys": ["k"], "properties": {"a": "1"}, "dedup_key": "d"}))
            .await;
        let message = loop {
            let message = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("in time").unwrap();
            if message.body() == group.as_bytes() {
                break message;
            }
            message.ack().await.unwrap();
        };
        assert_eq!(message.id(), sent["id"].as_str().unwrap());
        assert_eq!((message.tag(), message.property("a")), (Some("red"), Some("1")));
        message.ack().await.unwrap();
    }
}

#[tokio::test]
async fn what_clients_of_both_protocols_send_http_receives_as_it_was() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let large = "0123456789".repeat(2000);
    for client in [broker.client().await, broker.remoting_client().await] {
        // The body is compressed on its way.
        let producer = client.producer().build().await.unwrap();
        producer.send(Message::new("t", large.clone()).tag("red").property("a", "1")).await.unwrap();
        producer.send(Message::new("t", "small")).await.unwrap();
        let received = broker.receive("t", "g", json!({"max": 2, "wait_ms": 5000})).await;
        assert_eq!(bodies(&received), [large.as_str(), "small"]);
        assert_eq!((&received[0]["tag"], &received[0]["properties"]), (&json!("red"), &json!({"a": "1"})));
        assert_eq!(received[0]["compression"], json!(null));
        for message in &received {
            broker.ack("t", "g", message).await;
        }
    }
}

#[tokio::test]
async fn a_group_is_shared_by_consumers_of_http_and_of_a_client() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.send("t", json!([{"body": "1"}, {"body": "2"}])).await;
    let first = broker.receive("t", "g", json!({"max": 1})).await;
    let client = broker.client().await;
    let receiver = client.receiver("g").subscribe("t", Filter::all()).build().await.unwrap();
    let second = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("in time").unwrap();
    assert_eq!((bodies(&first), &second.body()[..]), (vec!["1"], &b"2"[..]));
    second.ack().await.unwrap();
    let returned = json!({"handle": first[0]["handle"], "delay_ms": 0});
    assert_eq!(broker.consume("t", "g", "nack", returned).await.status, 200);
    let again = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("in time").unwrap();
    assert_eq!((&again.body()[..], again.attempt()), (&b"1"[..], 2));
    again.ack().await.unwrap();
    drop(receiver);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 300})).await.len(), 0, "both are done");
}
