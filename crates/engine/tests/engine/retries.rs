//! What waits in a group's retry topic comes to consumers that receive by topic.

use std::sync::Arc;

use redstart_engine::*;
use redstart_log::{DiskLog, Log, Options, sim::SimStorage};

use crate::support::*;

fn broker() -> Broker {
    with_topics(Broker::default())
}

fn with_topics(mut broker: Broker) -> Broker {
    for name in ["t", "u", "%RETRY%g"] {
        broker.create_topic(name, one_queue(MessageType::Mixed));
    }
    broker.create_group("g", GroupConfig { retries_max: 3, ..GroupConfig::default() });
    broker
}

/// A consumer that pulls has failed with a message, `attempt` deliveries after its first.
fn hand_back(broker: &mut Broker, sent: &SendReceipt, attempt: u16) {
    let back = SendBack {
        reason: None,
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
    let offset = broker.engine.consumer_offset(&group("g"), &topic("%RETRY%g"), QueueId(0)).unwrap();
    assert_eq!(offset, Some(QueueOffset(3)), "nothing is left for consumers that pull");
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
    broker.pass(secs(0));
    assert_eq!(pull(&mut broker, "%DLQ%g"), left(&[("a", 0)]));
}

#[test]
fn what_was_received_from_the_retry_topic_itself_comes_to_receives_of_its_own_topic() {
    let mut broker = broker();
    let (a, b) = (broker.send("t", message("a")), broker.send("u", message("b")));
    hand_back(&mut broker, &a, 0);
    hand_back(&mut broker, &b, 0);
    broker.pass(secs(1));
    assert_eq!(broker.pop("g", "%RETRY%g", 32, secs(10)).len(), 2);
    broker.pass(secs(3600));
    assert_eq!(shown(&receive(&mut broker, "t")), [("a", 3)]);
    assert_eq!(shown(&receive(&mut broker, "u")), [("b", 3)]);
}

#[test]
fn a_message_whose_topic_is_deleted_does_not_stay_in_flight_in_the_retry_topic() {
    let mut broker = broker();
    let b = broker.send("u", message("b"));
    hand_back(&mut broker, &b, 0);
    broker.pass(secs(1));
    assert!(receive(&mut broker, "t").is_empty(), "it is passed over");
    broker.engine.delete_topic(&topic("u")).unwrap();
    broker.commit();
    assert!(receive(&mut broker, "t").is_empty());
    assert_eq!(stored_offset(&broker, "%RETRY%g"), Some(1));
}

#[test]
fn a_retry_that_waited_for_a_receive_of_its_topic_counts_on_below_a_lowered_limit() {
    let mut broker = broker();
    let a = broker.send("t", message("a"));
    hand_back(&mut broker, &a, 2);
    broker.create_group("g", GroupConfig { retries_max: 1, ..GroupConfig::default() });
    broker.pass(secs(1));
    assert!(receive(&mut broker, "u").is_empty(), "it is passed over");
    assert_eq!(shown(&receive(&mut broker, "t")), [("a", 4)]);
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

fn stored_offset(broker: &Broker, of: &str) -> Option<u64> {
    let offset = broker.engine.consumer_offset(&group("g"), &topic(of), QueueId(0)).unwrap();
    offset.map(|offset| offset.0)
}

/// What a consumer that pulls finds from its stored offset on, with the deliveries before.
fn pull(broker: &mut Broker, from: &str) -> Vec<(String, u16)> {
    let name = topic(from);
    let offset = broker.engine.pull_from(&group("g"), &name, QueueId(0)).unwrap().unwrap_or(QueueOffset(0));
    let pull =
        Pull { topic: &name, queue: QueueId(0), offset, max: 32, bytes_max: 1 << 20, filter: &Filter::All };
    let pulled = broker.engine.pull(&pull).unwrap();
    broker.engine.commit_offset(&group("g"), &name, QueueId(0), pulled.next).unwrap();
    let reader = broker.engine.reader();
    let id = |found: &PulledMessage| {
        fetch(&*reader, found.position, found.size).unwrap().message().unwrap().id.to_owned()
    };
    pulled.messages.iter().map(|found| (id(found), found.attempt)).collect()
}

fn left(ids: &[(&str, u16)]) -> Vec<(String, u16)> {
    ids.iter().map(|(id, attempt)| ((*id).to_owned(), *attempt)).collect()
}

#[test]
fn consumers_that_pull_get_what_receives_have_left_once_and_nothing_that_was_acked() {
    let mut broker = broker();
    receive(&mut broker, "t");
    for id in ["a", "b", "c", "d"] {
        broker.send("t", message(id));
    }
    let got = receive(&mut broker, "t");
    broker.ack(&got[1]);
    broker.ack(&got[3]);
    broker.send("t", message("e"));
    assert_eq!(pull(&mut broker, "t"), left(&[("e", 0)]), "neither what was acked nor what is held");
    assert!(pull(&mut broker, "%RETRY%g").is_empty());
    broker.ack(&got[2]);
    broker.pass(secs(10));
    broker.pass(secs(0));
    assert_eq!(pull(&mut broker, "%RETRY%g"), left(&[("a", 1)]), "with its count");
    assert!(pull(&mut broker, "%RETRY%g").is_empty() && pull(&mut broker, "t").is_empty());
    assert_eq!((stored_offset(&broker, "t"), stored_offset(&broker, "%RETRY%g")), (Some(5), Some(1)));
    broker.pass(secs(3600));
    assert!(receive(&mut broker, "t").is_empty(), "nothing comes back to receives either");
}

#[test]
fn a_delivery_that_did_not_count_is_not_lost_to_consumers_that_pull() {
    let mut broker = broker();
    receive(&mut broker, "t");
    broker.send("t", message("a"));
    let got = receive(&mut broker, "t");
    broker.engine.give_back(&[got[0].receipt], secs(1), broker.now)[0].unwrap();
    assert!(pull(&mut broker, "t").is_empty());
    broker.pass(secs(1));
    broker.pass(secs(0));
    assert_eq!(pull(&mut broker, "%RETRY%g"), left(&[("a", 0)]));
}

#[test]
fn the_last_attempt_is_a_dead_letter_whoever_consumes() {
    let mut broker = broker();
    receive(&mut broker, "t");
    broker.send("t", message("a"));
    for _ in 0..4 {
        assert_eq!(receive(&mut broker, "t").len(), 1);
        broker.pass(secs(10));
    }
    assert!(pull(&mut broker, "t").is_empty());
    broker.pass(secs(10));
    broker.pass(secs(0));
    assert!(pull(&mut broker, "%RETRY%g").is_empty());
    assert_eq!(pull(&mut broker, "%DLQ%g"), left(&[("a", 0)]));
}

#[test]
fn in_order_a_consumer_that_pulls_begins_with_what_is_not_done() {
    let mut broker = broker();
    broker.create_group("g", GroupConfig { ordered: true, ..GroupConfig::default() });
    receive(&mut broker, "t");
    for (id, order) in [("a", "1"), ("b", "2"), ("c", "1")] {
        broker.send("t", Message { group: Some(order.to_owned()), ..message(id) });
    }
    let got = receive(&mut broker, "t");
    broker.ack(&got[1]);
    assert_eq!(pull(&mut broker, "t"), left(&[("a", 0), ("b", 0), ("c", 0)]), "in its place");
    broker.pass(secs(60));
    broker.pass(secs(0));
    assert!(pull(&mut broker, "%RETRY%g").is_empty() && receive(&mut broker, "t").is_empty());
    assert_eq!(stored_offset(&broker, "t"), Some(3), "what it has stored is done");
}

#[test]
fn a_group_that_goes_back_to_receives_gets_its_messages_in_place() {
    let mut broker = broker();
    receive(&mut broker, "t");
    broker.send("t", message("a"));
    receive(&mut broker, "t");
    assert!(pull(&mut broker, "t").is_empty());
    assert!(receive(&mut broker, "t").is_empty(), "held");
    broker.pass(secs(10));
    assert_eq!(shown(&receive(&mut broker, "t")), [("a", 2)]);
}

fn open(disk: &SimStorage, now: Timestamp) -> Broker {
    let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
    let flusher = log.flusher();
    let (engine, _) = Engine::open(Box::new(log), Config::default()).unwrap();
    Broker { engine, flusher, now }
}

#[test]
fn what_was_left_to_consumers_that_pull_survives_a_crash() {
    for moved in [false, true] {
        let disk = SimStorage::new(1);
        let mut broker = with_topics(open(&disk, Timestamp(1_000_000)));
        receive(&mut broker, "t");
        broker.send("t", message("a"));
        receive(&mut broker, "t");
        assert!(pull(&mut broker, "t").is_empty());
        broker.commit();
        if moved {
            broker.pass(secs(10));
        }
        let now = broker.now;
        drop(broker);
        let mut broker = open(&disk.crash(2), now);
        broker.pass(secs(10));
        broker.pass(secs(0));
        assert_eq!(pull(&mut broker, "%RETRY%g"), left(&[("a", 1)]), "moved before: {moved}");
        assert_eq!(stored_offset(&broker, "t"), Some(1));
    }
}
