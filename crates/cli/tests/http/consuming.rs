use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::{Broker, PATIENCE, bodies};

#[tokio::test]
async fn a_receive_waits_for_a_message_and_not_longer() {
    let broker = Broker::start();
    broker.topic("t", 4, "NORMAL").await;
    let began = Instant::now();
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 300})).await.len(), 0);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    let mut waiting = broker.connect().await;
    waiting.begin("/v1/topics/t/groups/g/receive", &[], br#"{"wait_ms":30000}"#).await;
    broker.send("t", json!({"body": "x"})).await;
    let answer = tokio::time::timeout(Duration::from_secs(20), waiting.answer())
        .await
        .expect("before its time")
        .unwrap();
    assert_eq!(answer.json()["messages"][0]["body"], json!("x"));
}

#[tokio::test]
async fn a_client_that_goes_away_takes_no_message_with_it() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.receive("t", "g", json!({})).await;
    let mut gone = broker.connect().await;
    gone.begin("/v1/topics/t/groups/g/receive", &[], br#"{"wait_ms":30000}"#).await;
    // The receive is waiting when its connection ends.
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(gone);
    broker.send("t", json!({"body": "x"})).await;
    let received = broker.receive("t", "g", json!({"wait_ms": 5000})).await;
    assert_eq!(bodies(&received), ["x"]);
    assert_eq!(received[0]["attempt"], json!(1), "the delivery that reached nobody does not count");
}

#[tokio::test]
async fn filters_choose() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    for (body, tag, price) in [("1", "red", "5"), ("2", "blue", "15"), ("3", "green", "25")] {
        broker.send("t", json!({"body": body, "tag": tag, "properties": {"price": price}})).await;
    }
    let by = async |group: &str, filter: Value| {
        let mut wanted = json!({"max": 32});
        wanted.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        broker.receive("t", group, wanted).await
    };
    assert_eq!(bodies(&by("tags", json!({"tags": "red||green"})).await), ["1", "3"]);
    assert_eq!(
        bodies(&by("sql", json!({"sql": "price BETWEEN 10 AND 20 OR TAGS = 'green'"})).await),
        ["2", "3"]
    );
    assert_eq!(bodies(&by("all", json!({"tags": "*"})).await), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_nack_brings_the_message_again_when_it_says() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.send("t", json!({"body": "x"})).await;
    let first = broker.receive("t", "g", json!({})).await;
    let (handle, began) = (json!({"handle": first[0]["handle"], "delay_ms": 400}), Instant::now());
    assert_eq!(broker.consume("t", "g", "nack", handle.clone()).await.status, 200);
    let again = broker.receive("t", "g", json!({"wait_ms": 20_000})).await;
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert_eq!((bodies(&again), &again[0]["attempt"]), (vec!["x"], &json!(2)));
    let stale = broker.consume("t", "g", "nack", handle).await;
    assert_eq!((stale.status, stale.code()), (410, "handle_expired".to_owned()));
    broker.ack("t", "g", &again[0]).await;
    // The default ladder of a group begins with ten seconds.
    broker.send("t", json!({"body": "y"})).await;
    let first = broker.receive("t", "g", json!({"wait_ms": 5000})).await;
    let returned = broker.consume("t", "g", "nack", json!({"handle": first[0]["handle"]})).await;
    assert_eq!(returned.status, 200);
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 2000})).await.len(), 0);
}

#[tokio::test]
async fn what_is_renewed_stays_away_and_keeps_its_handle() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.send("t", json!({"body": "x"})).await;
    let received = broker.receive("t", "g", json!({"invisible_ms": 10_000})).await;
    let renewal = json!({"handle": received[0]["handle"], "invisible_ms": 40_000});
    assert_eq!(broker.consume("t", "g", "renew", renewal).await.status, 200);
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 12_000})).await.len(), 0, "its first time is over");
    broker.ack("t", "g", &received[0]).await;
}

#[tokio::test]
async fn a_dead_letter_says_where_it_comes_from_and_can_be_consumed() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let sent = broker.send("t", json!({"body": "bad", "properties": {"a": "1"}})).await;
    let received = broker.receive("t", "g", json!({})).await;
    let given_up = json!({"handle": received[0]["handle"], "reason": "cannot be parsed"});
    let answer = broker.consume("t", "g", "dead-letter", given_up.clone()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let letters = broker.receive("%25DLQ%25g", "cleaner", json!({"wait_ms": 5000})).await;
    assert_eq!(bodies(&letters), ["bad"]);
    assert_eq!(letters[0]["dead_letter_of"], json!({"topic": "t", "id": sent["id"]}));
    assert_eq!(letters[0]["properties"]["a"], json!("1"));
    assert_eq!(broker.consume("t", "g", "dead-letter", given_up).await.status, 410);
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 300})).await.len(), 0);
}

#[tokio::test]
async fn past_its_last_attempt_a_message_becomes_a_dead_letter() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.group("g", false, 1).await;
    broker.send("t", json!({"body": "x"})).await;
    for attempt in 1..=2 {
        let received = broker.receive("t", "g", json!({"wait_ms": 20_000})).await;
        assert_eq!(received[0]["attempt"], json!(attempt));
        let returned = json!({"handle": received[0]["handle"], "delay_ms": 100});
        assert_eq!(broker.consume("t", "g", "nack", returned).await.status, 200);
    }
    // The next receive of the group finds that it was the last attempt.
    assert_eq!(broker.receive("t", "g", json!({"wait_ms": 1000})).await.len(), 0);
    let letters = broker.receive("%25DLQ%25g", "cleaner", json!({"wait_ms": 20_000})).await;
    assert_eq!(bodies(&letters), ["x"]);
}

#[tokio::test]
async fn handles_are_settled_one_by_one() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    broker.topic("other", 1, "NORMAL").await;
    broker.send("t", json!([{"body": "1"}, {"body": "2"}])).await;
    let received = broker.receive("t", "g", json!({"max": 2})).await;
    let handles: Vec<&str> = received.iter().map(|message| message["handle"].as_str().unwrap()).collect();
    // A handle is good for its own group and topic only.
    for (topic, group) in [("other", "g"), ("t", "someone")] {
        let answer = broker.consume(topic, group, "ack", json!({"handle": handles[0]})).await;
        assert_eq!((answer.status, answer.code()), (400, "bad_handle".to_owned()), "{topic} {group}");
    }
    let forged = format!("{}0", &handles[0][..handles[0].len() - 1]);
    let forged =
        if forged == handles[0] { format!("{}1", &handles[0][..handles[0].len() - 1]) } else { forged };
    let mixed = broker.consume("t", "g", "ack", json!({"handles": [handles[0], forged]})).await;
    assert_eq!((mixed.status, &mixed.json()["done"]), (207, &json!(1)));
    assert_eq!(mixed.json()["failed"][0]["handle"], json!(forged));
    assert_eq!(mixed.json()["failed"][0]["code"], json!("bad_handle"));
    let both = broker.consume("t", "g", "ack", json!({"handles": handles})).await;
    assert_eq!(
        (both.status, both.json()),
        (200, json!({"done": 2, "failed": []})),
        "an ack twice is as good as once"
    );
}

#[tokio::test]
async fn an_ordered_group_gets_one_message_of_a_message_group_at_a_time() {
    let broker = Broker::start();
    broker.topic("f", 1, "FIFO").await;
    broker.group("g", true, 16).await;
    for body in ["a1", "a2", "b1"] {
        broker.send("f", json!({"body": body, "message_group": &body[..1]})).await;
    }
    let first = broker.receive("f", "g", json!({"max": 1})).await;
    let second = broker.receive("f", "g", json!({"max": 1})).await;
    assert_eq!((bodies(&first), bodies(&second)), (vec!["a1"], vec!["b1"]));
    assert_eq!(first[0]["message_group"], json!("a"));
    assert_eq!(broker.receive("f", "g", json!({})).await.len(), 0, "a2 waits for a1");
    broker.ack("f", "g", &first[0]).await;
    assert_eq!(bodies(&broker.receive("f", "g", json!({"wait_ms": 5000})).await), ["a2"]);
}

#[tokio::test]
async fn several_shards_are_one_queue_to_a_consumer() {
    let broker = Broker::with(&["--shards=3"]);
    broker.command(&["topic", "create", "t"]);
    for n in 0..40 {
        broker.send("t", json!({"body": n.to_string()})).await;
    }
    let (mut got, mut brokers) = (Vec::new(), std::collections::BTreeSet::new());
    while got.len() < 40 {
        let received = broker.receive("t", "g", json!({"max": 8, "wait_ms": 20_000})).await;
        assert!(!received.is_empty());
        let handles: Vec<&Value> = received.iter().map(|message| &message["handle"]).collect();
        assert_eq!(broker.consume("t", "g", "ack", json!({"handles": handles})).await.status, 200);
        brokers.extend(received.iter().map(|message| message["broker"].as_str().unwrap().to_owned()));
        got.extend(received.iter().map(|message| message["body"].as_str().unwrap().to_owned()));
    }
    got.sort_unstable_by_key(|body| body.parse::<u32>().unwrap());
    assert_eq!(got, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(brokers.len(), 3, "{brokers:?}");
    // A receive that waits gets what any of them gets.
    for n in 0..6 {
        let mut waiting = broker.connect().await;
        waiting.begin("/v1/topics/t/groups/g/receive", &[], br#"{"wait_ms":30000}"#).await;
        broker.send("t", json!({"body": format!("w{n}")})).await;
        let answer = tokio::time::timeout(PATIENCE, waiting.answer()).await.expect("in time").unwrap();
        let message = answer.json()["messages"][0].clone();
        assert_eq!((&message["body"], &message["attempt"]), (&json!(format!("w{n}")), &json!(1)));
        broker.ack("t", "g", &message).await;
    }
}

#[tokio::test]
async fn dead_letters_are_received_though_only_one_of_several_shards_has_their_topic() {
    let broker = Broker::with(&["--shards=3"]);
    broker.command(&["topic", "create", "t"]);
    broker.send("t", json!({"body": "m"})).await;
    let received = broker.receive("t", "g", json!({"wait_ms": 20_000})).await;
    let given_up = json!({"handle": received[0]["handle"]});
    assert_eq!(broker.consume("t", "g", "dead-letter", given_up).await.status, 200);
    for _ in 0..3 {
        let letters = broker.receive("%25DLQ%25g", "reader", json!({"wait_ms": 20_000})).await;
        assert_eq!(bodies(&letters), ["m"]);
        let nack = json!({"handle": letters[0]["handle"], "delay_ms": 100});
        assert_eq!(broker.consume("%25DLQ%25g", "reader", "nack", nack).await.status, 200);
    }
    assert_eq!(broker.consume("%25DLQ%25none", "reader", "receive", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_broker_that_stops_answers_those_who_wait() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let mut waiting = broker.connect().await;
    waiting.begin("/v1/topics/t/groups/g/receive", &[], br#"{"wait_ms":30000}"#).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    broker.kill_gently();
    let answer =
        tokio::time::timeout(Duration::from_secs(10), waiting.answer()).await.expect("at once").unwrap();
    assert_eq!((answer.status, answer.json()), (200, json!({"messages": []})));
}
