use std::time::{Duration, Instant};

use serde_json::json;

use crate::broker::{Broker, bodies};

#[tokio::test]
async fn a_message_comes_back_with_all_that_was_said_of_it() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let sent = broker
        .send(
            "t",
            json!({"body": "hé\n", "tag": "red", "keys": ["k1", "k2"], "properties": {"a": "1", "ü": "2"}}),
        )
        .await;
    assert_eq!(
        (&sent["queue"], &sent["offset"], &sent["broker"]),
        (&json!(0), &json!(0), &json!("broker-a"))
    );
    let received = broker.receive("t", "g", json!({"max": 32})).await;
    let [message] = &received[..] else { panic!("{received:?}") };
    for (field, expected) in [
        ("id", sent["id"].clone()),
        ("topic", json!("t")),
        ("body", json!("hé\n")),
        ("tag", json!("red")),
        ("keys", json!(["k1", "k2"])),
        ("properties", json!({"a": "1", "ü": "2"})),
        ("attempt", json!(1)),
        ("offset", json!(0)),
        ("message_group", json!(null)),
    ] {
        assert_eq!(message[field], expected, "{field}");
    }
    broker.ack("t", "g", message).await;
}

#[tokio::test]
async fn bytes_travel_as_base64_or_as_they_are() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.send("t", json!({"body_base64": "AP8="})).await;
    let received = broker.receive("t", "g", json!({})).await;
    assert_eq!((&received[0]["body_base64"], &received[0]["body"]), (&json!("AP8="), &json!(null)));
    broker.ack("t", "g", &received[0]).await;
    // What curl sends with -d or --data-binary is not JSON by its type.
    let mut http = broker.connect().await;
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Message-Tag", "blue"),
        ("Message-Key", "k"),
        ("Message-Property", "a=b=c"),
    ];
    let body: Vec<u8> = (0..=255).collect();
    let sent = http.ask("/v1/topics/t/messages", &headers, &body).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let raw = [("Accept", "application/octet-stream")];
    let answer = http.ask("/v1/topics/t/groups/g/receive", &raw, b"").await;
    assert_eq!((answer.status, &answer.body), (200, &body));
    assert_eq!(answer.header("message-id"), sent.json()["id"].as_str());
    assert_eq!(answer.header("message-tag"), Some("blue"));
    assert_eq!(answer.header("message-property"), Some("a=b=c"));
    let handle = answer.header("message-handle").expect("a handle").to_owned();
    let acked = http.post("/v1/topics/t/groups/g/ack", &json!({"handle": handle})).await;
    assert_eq!(acked.status, 200, "{}", acked.text());
    let none = http.ask("/v1/topics/t/groups/g/receive", &raw, b"").await;
    assert_eq!((none.status, none.body.len()), (204, 0));
}

#[tokio::test]
async fn a_list_is_stored_whole_or_not_at_all() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let stored = broker.send("t", json!([{"body": "1"}, {"body": "2"}, {"body": "3"}])).await;
    let offsets: Vec<_> =
        stored.as_array().expect("a list").iter().map(|one| one["offset"].as_u64()).collect();
    assert_eq!(offsets, [Some(0), Some(1), Some(2)]);
    for (list, code) in [
        (json!([]), "bad_batch"),
        (json!([{"body": "4"}, {"body": "5", "delay_ms": 1}]), "bad_batch"),
        (json!([{"body": "4"}, {"body": ""}]), "body_missing"),
        (json!([{"body": "4"}, {"body": "5", "tag": "a|b"}]), "bad_message"),
    ] {
        let answer = broker.post("/v1/topics/t/messages", &list).await;
        assert_eq!((answer.status, answer.code()), (400, code.to_owned()));
    }
    let received = broker.receive("t", "g", json!({"max": 32})).await;
    assert_eq!(bodies(&received), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_delayed_message_comes_when_it_is_due_or_not_at_all_when_it_is_recalled() {
    let broker = Broker::start();
    broker.topic("d", 1, "DELAY").await;
    let began = Instant::now();
    let soon = broker.send("d", json!({"body": "soon", "delay_ms": 400})).await;
    let later = broker.send("d", json!({"body": "later", "delay_ms": 1500})).await;
    assert_eq!((&soon["offset"], soon["recall_handle"].is_string()), (&json!(null), true));
    let recall = json!({"handle": later["recall_handle"]});
    let recalled = broker.post("/v1/topics/d/recall", &recall).await;
    assert_eq!((recalled.status, recalled.json()), (200, json!({"recalled": true})));
    let again = broker.post("/v1/topics/d/recall", &recall).await;
    assert_eq!((again.status, again.code()), (404, "message_not_found".to_owned()));
    let received = broker.receive("d", "g", json!({"max": 32, "wait_ms": 30_000})).await;
    assert_eq!(bodies(&received), ["soon"]);
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let late = broker.post("/v1/topics/d/recall", &json!({"handle": soon["recall_handle"]})).await;
    assert_eq!((late.status, late.code()), (410, "already_delivered".to_owned()));
    let received = broker.receive("d", "g", json!({"wait_ms": 1500})).await;
    assert_eq!(received.len(), 0, "the other was recalled");
    let answer =
        broker.post("/v1/topics/d/messages", &json!({"body": "x", "delay_ms": 3_500_000_000_u64})).await;
    assert_eq!((answer.status, answer.code()), (400, "delay_too_long".to_owned()));
}

#[tokio::test]
async fn topics_and_types_are_as_for_every_protocol() {
    let broker = Broker::start();
    broker.topic("normal", 1, "NORMAL").await;
    for (topic, message, status, code) in [
        ("missing", json!({"body": "x"}), 404, "topic_not_found"),
        ("normal", json!({"body": "x", "message_group": "g"}), 409, "type_mismatch"),
        ("normal", json!({"body": "x", "delay_ms": 1}), 409, "type_mismatch"),
        ("%25DLQ%25g", json!({"body": "x"}), 403, "reserved_name"),
        ("a%20b", json!({"body": "x"}), 400, "bad_name"),
    ] {
        let answer = broker.post(&format!("/v1/topics/{topic}/messages"), &message).await;
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{topic}");
    }
    let answer = broker.post("/v1/topics/missing/messages", &json!({"body": "x"})).await;
    assert_eq!(answer.json()["hint"], json!("create it with: redstart topic create missing"));
    let creating = Broker::with(&["--auto-create-topics=true"]);
    creating.send("new", json!({"body": "first"})).await;
    assert_eq!(bodies(&creating.receive("new", "g", json!({})).await), ["first"]);
}

#[tokio::test]
async fn a_priority_goes_first() {
    let broker = Broker::start();
    broker.topic("p", 1, "PRIORITY").await;
    for (body, priority) in [("low", 1), ("high", 9)] {
        broker.send("p", json!({"body": body, "priority": priority})).await;
    }
    let received = broker.receive("p", "g", json!({"max": 2})).await;
    assert_eq!(received[0]["body"], json!("high"), "{received:?}");
    assert_eq!(received[0]["priority"], json!(9));
}
