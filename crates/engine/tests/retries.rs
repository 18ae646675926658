//! What waits in a group's retry topic comes to consumers that receive by topic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use redstart_engine::*;
use support::*;

fn broker() -> Broker {
    let mut broker = Broker::default();
    for name in ["t", "u", "%RETRY%g"] {
        broker.create_topic(name, one_queue(MessageType::Mixed));
    }
    broker.create_group("g", GroupConfig { retries_max: 3, ..GroupConfig::default() });
    broker
}

/// A consumer that pulls has failed with a message, `attempt` deliveries after its first.
fn hand_back(broker: &mut Broker, sent: &SendReceipt, attempt: u16) {
    let back = SendBack {
        group: &group("g"),
        position: sent.position,
        attempt,
        delay: Some(secs(1)),
        retries_max: None,
        give_up: false,
        properties: Vec::new(),
    };
    broker.engine.send_back(&back, broker.now).unwrap();
    broker.commit();
}

fn receive(broker: &mut Broker, from: &str) -> Vec<Got> {
    let (by, from) = (group("g"), topic(from));
    let pop = Pop {
        group: &by,
        topic: &from,
        queue: None,
        max: 32,
        invisible: secs(10),
        filter: &Filter::All,
        attempt: None,
        client: "test",
        start: Start::Latest,
        one_per_group: false,
        in_order: false,
    };
    let popped = broker.engine.pop_with_retries(&pop, broker.now).unwrap();
    let reader = broker.engine.reader();
    let got = |delivery: &Delivery| Got {
        id: fetch(&*reader, delivery.position, delivery.size).unwrap().message().unwrap().id.to_owned(),
        attempt: delivery.attempt,
        receipt: delivery.receipt,
    };
    popped.deliveries.iter().map(got).collect()
}

fn shown(got: &[Got]) -> Vec<(&str, u16)> {
    got.iter().map(|got| (got.id.as_str(), got.attempt)).collect()
}

#[test]
fn each_message_comes_once_to_receives_of_its_own_topic() {
    let mut broker = broker();
    let (a, b, c) =
        (broker.send("t", message("a")), broker.send("u", message("b")), broker.send("t", message("c")));
    for (sent, attempt) in [(&a, 0), (&b, 1), (&c, 0)] {
        hand_back(&mut broker, sent, attempt);
    }
    assert!(receive(&mut broker, "t").is_empty(), "not before their time");
    broker.pass(secs(1));
    let got = receive(&mut broker, "t");
    assert_eq!(shown(&got), [("a", 2), ("c", 2)], "the count goes on");
    assert!(receive(&mut broker, "t").is_empty(), "they are held");
    let other = receive(&mut broker, "u");
    assert_eq!(shown(&other), [("b", 3)]);
    got.iter().chain(&other).for_each(|got| broker.ack(got));
    broker.pass(secs(60));
    assert!(receive(&mut broker, "t").is_empty() && receive(&mut broker, "u").is_empty());
    let stands = broker.engine.consumer_offset(&group("g"), &topic("%RETRY%g"), QueueId(0)).unwrap();
    assert_eq!(stands, Some(QueueOffset(3)), "nothing is left for those who pull");
}

#[test]
fn a_retry_that_fails_again_comes_again_and_ends_as_a_dead_letter() {
    let mut broker = broker();
    let a = broker.send("t", message("a"));
    hand_back(&mut broker, &a, 1);
    broker.pass(secs(1));
    for attempt in [3, 4] {
        assert_eq!(shown(&receive(&mut broker, "t")), [("a", attempt)]);
        broker.pass(secs(10));
    }
    assert!(receive(&mut broker, "t").is_empty());
    broker.pass(secs(1));
}

#[test]
fn a_receive_that_waits_is_woken_by_a_retry() {
    let mut broker = broker();
    let a = broker.send("t", message("a"));
    assert!(receive(&mut broker, "t").is_empty());
    hand_back(&mut broker, &a, 0);
    broker.engine.take_wakes();
    broker.pass(secs(1));
    let (by, of) =
        (broker.engine.group_id(&group("g")).unwrap(), broker.engine.topic_id(&topic("t")).unwrap());
    assert!(broker.engine.take_wakes().groups.contains(&(by, of)));
}
