//! Delivery: pop, ack, retry, dead letters, order, priority.

use redstart_engine::*;

use crate::support::*;

fn ids(got: &[Got]) -> Vec<&str> {
    got.iter().map(|got| got.id.as_str()).collect()
}

fn broker(message_type: MessageType, config: GroupConfig) -> Broker {
    let mut broker = Broker::default();
    broker.create_topic("t", one_queue(message_type));
    broker.create_group("g", config);
    broker
}

fn in_group(id: &str, name: &str) -> Message {
    Message { group: Some(name.to_owned()), ..message(id) }
}

#[test]
fn a_message_is_delivered_once_and_gone_after_its_ack() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    let got = broker.pop("g", "t", 32, secs(10));
    assert_eq!(ids(&got), ["a"]);
    assert_eq!(got[0].attempt, 1);
    assert!(broker.ids("g", "t").is_empty(), "invisible while in flight");
    broker.ack(&got[0]);
    broker.pass(secs(60));
    assert!(broker.ids("g", "t").is_empty());
}

#[test]
fn a_message_is_not_visible_before_it_is_durable() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.engine.send(&topic("t"), &[message("a")], SendOptions::default(), broker.now).unwrap();
    broker.engine.submit(broker.now).unwrap();
    assert!(broker.ids("g", "t").is_empty());
    broker.commit();
    assert_eq!(broker.ids("g", "t"), ["a"]);
}

#[test]
fn an_unacked_message_comes_again_with_a_higher_attempt() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    let first = broker.pop("g", "t", 1, secs(10));
    broker.pass(millis(9_999));
    assert!(broker.pop("g", "t", 1, secs(10)).is_empty());
    broker.pass(millis(1));
    let second = broker.pop("g", "t", 1, secs(10));
    assert_eq!((ids(&second), second[0].attempt), (vec!["a"], 2));
    assert_eq!(
        broker.engine.ack(first[0].receipt, broker.now),
        Err(AckError::Expired),
        "the old receipt is void"
    );
    broker.ack(&second[0]);
    assert_eq!(broker.engine.ack(second[0].receipt, broker.now), Ok(()), "acking twice is as good as once");
}

#[test]
fn past_the_last_attempt_a_message_is_a_dead_letter_exactly_once() {
    let config = GroupConfig { retries_max: 3, ..GroupConfig::default() };
    let mut broker = broker(MessageType::Normal, config);
    broker.send(
        "t",
        Message { tag: Some("x".into()), properties: vec![("k".into(), "v".into())], ..message("a") },
    );
    for attempt in 1..=4 {
        let got = broker.pop("g", "t", 1, secs(10));
        assert_eq!(got[0].attempt, attempt);
        broker.pass(secs(10));
    }
    assert!(broker.pop("g", "t", 1, secs(10)).is_empty());
    broker.pass(secs(1));
    broker.pass(secs(1));
    let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!((progress[0].lag(), progress[0].in_flight), (0, 0));

    broker.create_group("undertaker", GroupConfig::default());
    let dead = broker.pop("undertaker", "%DLQ%g", 32, secs(10));
    assert_eq!(ids(&dead), ["a"]);
    let reader = broker.engine.reader();
    let found = broker.engine.message_at(&topic("%DLQ%g"), QueueId(0), QueueOffset(0)).unwrap();
    let fetched = fetch(&*reader, found.position, found.size).unwrap();
    let view = fetched.message().unwrap();
    assert_eq!(view.property(DLQ_ORIGIN_TOPIC), Some("t"));
    assert_eq!(view.property(DLQ_ORIGIN_MESSAGE_ID), Some("a"));
    assert_eq!(view.property(DLQ_ATTEMPTS), Some("4"));
    assert_eq!((view.property("k"), view.tag, view.body), (Some("v"), Some("x"), &b"body of a"[..]));

    broker.engine.resend_dead_letter(&topic("%DLQ%g"), QueueId(0), QueueOffset(0), broker.now).unwrap();
    broker.commit();
    assert_eq!(broker.ids("g", "t"), ["a"], "resent to where it came from");
}

#[test]
fn a_dead_letter_is_written_even_if_nobody_asks_any_more() {
    let mut broker = broker(MessageType::Normal, GroupConfig { retries_max: 0, ..GroupConfig::default() });
    broker.send("t", message("a"));
    broker.pop("g", "t", 1, secs(10));
    assert_eq!(broker.engine.next_deadline(), Some(broker.now.after(secs(10))));
    broker.pass(secs(10)); // creates the topic
    broker.pass(secs(0)); // stores the dead letter
    assert_eq!(broker.engine.topic(&topic("%DLQ%g")).unwrap().queues[0].2, QueueOffset(1));
}

#[test]
fn a_message_given_back_as_failed_waits_for_its_delay_and_counts() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    for wait in [10, 30, 60] {
        let got = broker.pop("g", "t", 1, secs(5));
        broker.engine.change_invisible(got[0].receipt, secs(wait), broker.now).unwrap();
        broker.pass(millis(wait * 1000 - 1));
        assert!(broker.pop("g", "t", 1, secs(5)).is_empty());
        broker.pass(millis(1));
    }
    assert_eq!(broker.pop("g", "t", 1, secs(5))[0].attempt, 4);
}

#[test]
fn changing_the_invisible_time_counts_from_the_call_and_replaces_the_receipt() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    let got = broker.pop("g", "t", 1, secs(10));
    broker.pass(secs(8));
    let receipt = broker.engine.change_invisible(got[0].receipt, secs(20), broker.now).unwrap();
    assert_eq!(broker.engine.ack(got[0].receipt, broker.now), Err(AckError::Expired));
    broker.pass(secs(19));
    assert!(broker.ids("g", "t").is_empty());
    assert_eq!(broker.engine.ack(receipt, broker.now), Ok(()));
}

#[test]
fn a_stuck_message_group_does_not_block_its_neighbours() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    for (id, name) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b")] {
        broker.send("t", in_group(id, name));
    }
    let first = broker.pop("g", "t", 1, secs(10));
    assert_eq!(ids(&first), ["a1"]);
    let second = broker.pop("g", "t", 32, secs(30));
    assert_eq!(ids(&second), ["b1", "b2"], "group a is locked, b comes whole and in order");
    broker.ack(&second[0]);
    broker.ack(&second[1]);
    broker.pass(secs(10));
    let again = broker.pop("g", "t", 32, secs(10));
    assert_eq!((ids(&again), again[0].attempt), (vec!["a1"], 2), "the next of a only after a1");
    broker.ack(&again[0]);
    assert_eq!(broker.ids("g", "t"), ["a2", "a3"]);
}

#[test]
fn a_dead_letter_opens_the_lock_of_its_message_group() {
    let mut broker = broker(MessageType::Fifo, GroupConfig { retries_max: 0, ..GroupConfig::ordered() });
    broker.send("t", in_group("a1", "a"));
    broker.send("t", in_group("a2", "a"));
    broker.pop("g", "t", 1, secs(10));
    assert!(broker.ids("g", "t").is_empty());
    broker.pass(secs(10));
    broker.pass(secs(0));
    assert_eq!(broker.ids("g", "t"), ["a2"]);
}

#[test]
fn messages_without_a_group_are_ordered_by_queue() {
    let mut broker = broker(MessageType::Normal, GroupConfig::ordered());
    broker.send("t", message("a"));
    broker.send("t", message("b"));
    let got = broker.pop("g", "t", 1, secs(10));
    assert_eq!(ids(&got), ["a"]);
    assert!(broker.ids("g", "t").is_empty());
    broker.ack(&got[0]);
    assert_eq!(broker.ids("g", "t"), ["b"]);
}

#[test]
fn one_per_group_takes_the_first_of_each_group_whether_new_unlocked_or_timed_out() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    for (id, name) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b"), ("c1", "c")] {
        broker.send("t", in_group(id, name));
    }
    let new = broker.pop_one_per_group("g", "t");
    assert_eq!(ids(&new), ["a1", "b1", "c1"]);
    assert!(broker.pop_one_per_group("g", "t").is_empty(), "each group has one in flight");
    broker.ack(&new[0]);
    broker.ack(&new[1]);
    let unlocked = broker.pop_one_per_group("g", "t");
    assert_eq!(ids(&unlocked), ["a2", "b2"]);
    broker.pass(secs(10));
    let timed_out = broker.pop_one_per_group("g", "t");
    assert_eq!(ids(&timed_out), ["a2", "b2", "c1"], "again, and a3 stays behind a2");
    broker.ack(&timed_out[0]);
    assert_eq!(ids(&broker.pop_one_per_group("g", "t")), ["a3"]);
}

#[test]
fn one_per_group_takes_apart_what_an_ordinary_answer_held_together() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    for id in ["a1", "a2", "a3"] {
        broker.send("t", in_group(id, "a"));
    }
    assert_eq!(ids(&broker.pop("g", "t", 32, secs(10))), ["a1", "a2", "a3"]);
    broker.pass(secs(10));
    for id in ["a1", "a2", "a3"] {
        let got = broker.pop_one_per_group("g", "t");
        assert_eq!(ids(&got), [id]);
        assert!(broker.pop_one_per_group("g", "t").is_empty(), "the rest waits for {id}");
        broker.ack(&got[0]);
    }
}

#[test]
fn one_per_group_counts_messages_without_a_group_as_one_group_of_each_queue() {
    let mut broker = Broker::default();
    broker.create_topic("t", TopicConfig { read_queues: 2, write_queues: 2, ..TopicConfig::default() });
    broker.create_group("g", GroupConfig::ordered());
    for (id, queue) in [("p1", 0), ("p2", 0), ("q1", 1), ("q2", 1)] {
        let options = SendOptions { queue: Some(QueueId(queue)), ..SendOptions::default() };
        broker.send_with("t", message(id), options).unwrap();
    }
    let mut got = broker.pop_one_per_group("g", "t");
    got.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(ids(&got), ["p1", "q1"]);
}

#[test]
fn one_per_group_changes_nothing_for_a_group_without_order() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::default());
    for id in ["a1", "a2"] {
        broker.send("t", in_group(id, "a"));
    }
    assert_eq!(ids(&broker.pop_one_per_group("g", "t")), ["a1", "a2"]);
}

#[test]
fn the_same_attempt_gets_the_same_messages_again() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    broker.send("t", in_group("a1", "a"));
    broker.send("t", in_group("a2", "a"));
    let (g, t) = (group("g"), topic("t"));
    let mut pop = Pop {
        group: &g,
        topic: &t,
        queue: None,
        max: 1,
        invisible: secs(10),
        filter: &Filter::All,
        attempt: Some("try-1"),
        client: "c",
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
    };
    assert_eq!(ids(&broker.pop_with(&pop)), ["a1"]);
    let again = broker.pop_with(&pop);
    assert_eq!((ids(&again), again[0].attempt), (vec!["a1"], 1));
    pop.attempt = Some("try-2");
    assert!(broker.pop_with(&pop).is_empty());
}

#[test]
fn a_higher_priority_overtakes_and_what_failed_comes_after_what_is_new() {
    let mut broker = broker(MessageType::Priority, GroupConfig::default());
    for (id, priority) in [("low1", 0), ("high1", 9), ("mid", 5), ("high2", 9), ("low2", 0)] {
        broker.send("t", Message { priority: Some(priority), ..message(id) });
    }
    let got = broker.pop("g", "t", 2, secs(10));
    assert_eq!(ids(&got), ["high1", "high2"]);
    broker.pass(secs(10));
    assert_eq!(broker.ids("g", "t"), ["mid", "low1", "low2", "high1", "high2"]);
}

#[test]
fn a_priority_counts_in_the_whole_topic_and_not_queue_by_queue() {
    let mut broker = Broker::default();
    let config = TopicConfig { read_queues: 4, write_queues: 4, ..one_queue(MessageType::Priority) };
    broker.create_topic("t", config);
    broker.create_group("g", GroupConfig::default());
    for n in 0..12 {
        // 7 and 5 share the highest queue and still count as two.
        let priority = [None, Some(1), Some(7), Some(5)][n % 4];
        broker.send("t", Message { priority, ..message(&format!("{}-{n}", priority.unwrap_or(0))) });
    }
    let mut levels = Vec::new();
    while let [first, ..] = &broker.pop("g", "t", 2, secs(60))[..] {
        levels.push(first.id.split('-').next().unwrap().to_owned());
    }
    assert_eq!(levels, ["7", "7", "5", "1", "1", "0"]);
}

#[test]
fn a_new_group_starts_at_the_newest_and_later_queues_from_their_beginning() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("before"));
    let (g, t) = (group("g"), topic("t"));
    let pop = Pop {
        group: &g,
        topic: &t,
        queue: None,
        max: 32,
        invisible: secs(10),
        filter: &Filter::All,
        attempt: None,
        client: "c",
        start: Start::Latest,
        one_per_group: false,
        in_order: false,
    };
    assert!(broker.pop_with(&pop).is_empty());
    broker.send("t", message("after"));
    broker.create_topic("t", TopicConfig { read_queues: 2, write_queues: 2, ..TopicConfig::default() });
    let options = SendOptions { queue: Some(QueueId(1)), ..SendOptions::default() };
    broker.send_with("t", message("new queue"), options).unwrap();
    let mut got = ids(&broker.pop_with(&pop)).into_iter().map(str::to_owned).collect::<Vec<_>>();
    got.sort();
    assert_eq!(got, ["after", "new queue"]);
}

#[test]
fn a_new_group_begins_where_its_attribute_or_the_brokers_setting_says() {
    let of_group = |from: Option<&str>| GroupConfig {
        attributes: from.map(|from| (CONSUME_FROM.to_owned(), from.to_owned())).into_iter().collect(),
        ..GroupConfig::default()
    };
    use ConsumeFrom::{Earliest, Latest};
    for (setting, attribute, begins) in [
        (Latest, None, Latest),
        (Latest, Some("earliest"), Earliest),
        (Earliest, None, Earliest),
        (Earliest, Some("latest"), Latest),
    ] {
        let mut broker = Broker::new(Config { new_groups_from: setting, ..Config::default() });
        broker.create_topic("t", one_queue(MessageType::Normal));
        broker.create_group("g", of_group(attribute));
        broker.send("t", message("before"));
        broker.engine.join(&group("g"), &topic("t"), Start::Configured).unwrap();
        broker.send("t", message("after"));
        // A group that has begun goes on where it is.
        broker.create_group("g", of_group(Some("latest")));
        let expected: &[&str] = if begins == Earliest { &["before", "after"] } else { &["after"] };
        assert_eq!(broker.ids("g", "t"), expected, "{setting} {attribute:?}");
    }
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    let refused = broker.engine.put_group(&group("h"), of_group(Some("yesterday"))).unwrap_err();
    assert!(refused.to_string().contains("latest"), "{refused}");
}

#[test]
fn filtered_messages_move_progress_and_do_not_block_a_message_group() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    for (id, tag) in [("a1", "no"), ("a2", "yes"), ("a3", "no")] {
        broker.send("t", Message { tag: Some(tag.into()), ..in_group(id, "a") });
    }
    for filter in [Filter::tags("yes || maybe").unwrap(), Filter::sql("TAGS = 'yes'").unwrap()] {
        broker.engine.reset(&group("g"), &topic("t"), None, ResetTo::Earliest).unwrap();
        let (g, t) = (group("g"), topic("t"));
        let pop = Pop {
            group: &g,
            topic: &t,
            queue: None,
            max: 32,
            invisible: secs(10),
            filter: &filter,
            attempt: None,
            client: "c",
            start: Start::Earliest,
            one_per_group: false,
            in_order: false,
        };
        let got = broker.pop_with(&pop);
        assert_eq!(ids(&got), ["a2"]);
        broker.ack(&got[0]);
        assert_eq!(broker.engine.progress(&g, &t).unwrap()[0].lag(), 0);
    }
}

#[test]
fn a_reset_takes_messages_out_of_flight_and_leaves_waiting_retries_alone() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    for id in ["a", "b", "c"] {
        broker.send("t", message(id));
    }
    let got = broker.pop("g", "t", 3, secs(10));
    broker.engine.change_invisible(got[1].receipt, secs(5), broker.now).unwrap(); // b waits for its retry
    broker.engine.reset(&group("g"), &topic("t"), None, ResetTo::Latest).unwrap();
    assert_eq!(broker.engine.ack(got[0].receipt, broker.now), Ok(()), "a is done: nothing to ack");
    assert!(broker.ids("g", "t").is_empty());
    broker.pass(secs(5));
    assert_eq!(broker.ids("g", "t"), ["b"]);
    broker.engine.reset(&group("g"), &topic("t"), None, ResetTo::Earliest).unwrap();
    assert_eq!(broker.ids("g", "t"), ["a", "b", "c"]);
}

#[test]
fn a_receipt_is_found_by_the_end_of_its_delivery_and_not_by_that_of_another() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    let got = broker.pop("g", "t", 1, secs(10)).remove(0);
    let (g, t, until) = (group("g"), topic("t"), broker.now.after(secs(10)));
    let find = |broker: &Broker, at| broker.engine.receipt_of(&g, &t, QueueId(0), QueueOffset(0), at);
    assert_eq!(find(&broker, until), Some(got.receipt));
    assert_eq!(find(&broker, Timestamp(until.0 + 1)), None);
    broker.pass(secs(11));
    let again = broker.pop("g", "t", 1, secs(10)).remove(0);
    assert_eq!(find(&broker, until), None, "of an earlier delivery");
    assert_eq!(find(&broker, broker.now.after(secs(10))), Some(again.receipt));
    assert_eq!(broker.engine.visible_at(again.receipt), Some(broker.now.after(secs(10))));
    broker.ack(&again);
    assert_eq!(find(&broker, broker.now.after(secs(10))), None, "done");
}

#[test]
fn a_client_without_types_may_send_anything_to_any_topic_but_a_lite_one() {
    let mut broker = broker(MessageType::Normal, GroupConfig::ordered());
    broker.create_topic("f", one_queue(MessageType::Fifo));
    broker.create_topic("l", one_queue(MessageType::Lite));
    let untyped = SendOptions { untyped: true, ..SendOptions::default() };
    for (to, message, options, taken) in [
        ("t", in_group("a", "x"), untyped, true),
        ("f", in_group("b", "x"), untyped, true),
        ("l", message("c"), untyped, false),
        ("t", in_group("d", "x"), SendOptions::default(), false),
        ("f", message("e"), SendOptions::default(), false),
    ] {
        match broker.send_with(to, message, options) {
            Ok(_) => assert!(taken, "{to}"),
            Err(error) => assert!(!taken && matches!(error, SendError::TypeMismatch { .. }), "{to}: {error}"),
        }
    }
}

#[test]
fn what_is_sent_without_a_group_to_a_fifo_topic_is_ordered_by_its_queue() {
    let mut broker = broker(MessageType::Fifo, GroupConfig::ordered());
    let untyped = SendOptions { untyped: true, ..SendOptions::default() };
    broker.pop("g", "t", 1, secs(10));
    for id in ["a", "b"] {
        broker.send_with("t", message(id), untyped).expect("stored");
    }
    let first = broker.pop("g", "t", 1, secs(10)).remove(0);
    assert!(broker.pop("g", "t", 1, secs(10)).is_empty(), "the queue is held by its first message");
    broker.ack(&first);
    assert_eq!(broker.pop("g", "t", 1, secs(10)).len(), 1);
}
