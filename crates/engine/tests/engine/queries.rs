//! Finding messages again, what happened to each, and topics that change their shape or come back.

use redstart_engine::*;
use redstart_log::Options;

use crate::support::*;

fn broker(message_type: MessageType) -> Broker {
    let mut broker = Broker::default();
    broker.create_topic("t", one_queue(message_type));
    broker.create_group("g", GroupConfig { retries_max: 1, ..GroupConfig::default() });
    broker
}

fn keyed(id: &str, keys: &[&str]) -> Message {
    Message { keys: keys.iter().map(|&key| key.to_owned()).collect(), ..message(id) }
}

fn half() -> SendOptions {
    SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() }
}

fn id_of(broker: &Broker, found: &Found) -> String {
    let fetched = fetch(&*broker.engine.reader(), found.position, found.size).unwrap();
    fetched.message().unwrap().id.to_owned()
}

fn query(broker: &Broker, key: &str, from: Timestamp, to: Timestamp, max: usize) -> Vec<String> {
    let found = broker.query("t", key, from, to, max).unwrap().found;
    found.iter().map(|found| id_of(broker, found)).collect()
}

fn everything(broker: &Broker, key: &str) -> Vec<String> {
    query(broker, key, Timestamp(0), Timestamp::MAX, 32)
}

#[test]
fn a_key_finds_its_messages_newest_first_within_the_time_asked_for() {
    let mut broker = broker(MessageType::Normal);
    let start = broker.now;
    for (id, keys) in [("a", &["x"][..]), ("b", &["x", "y"]), ("c", &["y"]), ("d", &["x"])] {
        broker.send("t", keyed(id, keys));
        broker.pass(secs(10));
    }
    let at = |seconds| start.after(secs(seconds));
    assert_eq!(everything(&broker, "x"), ["d", "b", "a"]);
    assert_eq!(query(&broker, "x", at(0), Timestamp::MAX, 2), ["d", "b"]);
    assert_eq!(query(&broker, "x", at(1), at(29), 32), ["b"]);
    assert_eq!(query(&broker, "x", at(0), at(10), 32), ["b", "a"], "both ends count");
    assert_eq!(everything(&broker, "y"), ["c", "b"]);
    assert_eq!(everything(&broker, "z"), [""; 0]);
}

#[test]
fn a_message_is_found_once_however_often_it_names_its_key() {
    let mut broker = broker(MessageType::Normal);
    broker.send("t", keyed("a", &["x", "x", "a"]));
    assert_eq!(everything(&broker, "x"), ["a"]);
    assert_eq!(everything(&broker, "a"), ["a"]);
}

#[test]
fn a_message_is_found_by_id_by_place_and_by_position_and_only_in_its_topic() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("other", one_queue(MessageType::Normal));
    broker.send("other", message("a"));
    let receipt = broker.send("t", message("a"));
    let expected = Found {
        queue: receipt.queue,
        offset: QueueOffset(0),
        position: receipt.position,
        size: receipt.size,
        stored_at: receipt.stored_at,
    };
    let by_id = broker.query("t", "a", Timestamp(0), Timestamp::MAX, 32).unwrap().found;
    assert_eq!(by_id, [expected]);
    assert_eq!(broker.engine.message_at(&topic("t"), QueueId(0), QueueOffset(0)).unwrap(), expected);
    assert_eq!(broker.engine.message_by_position(receipt.position).unwrap(), expected);
    assert!(broker.engine.message_by_position(redstart_log::Position(receipt.position.0 + 1)).is_err());
}

#[test]
fn what_is_not_visible_is_not_found_and_its_time_is_when_it_became_visible() {
    let mut broker = broker(MessageType::Mixed);
    let due = broker.now.after(secs(60));
    let delayed = broker.send("t", Message { deliver_at: Some(due), ..keyed("delayed", &["x"]) });
    let committed = broker.send_with("t", keyed("committed", &["x"]), half()).unwrap();
    let dropped = broker.send_with("t", keyed("dropped", &["x"]), half()).unwrap();
    assert!(everything(&broker, "x").is_empty());
    assert!(matches!(
        broker.engine.message_by_position(delayed.position),
        Err(QueryError::UnknownPosition { position }) if position == delayed.position
    ));
    broker.pass(secs(30));
    broker.engine.end_transaction(committed.position, true, broker.now).unwrap();
    broker.engine.end_transaction(dropped.position, false, broker.now).unwrap();
    broker.commit();
    assert_eq!(everything(&broker, "x"), ["committed"]);
    broker.pass(secs(30));
    assert_eq!(everything(&broker, "x"), ["delayed", "committed"]);
    assert_eq!(query(&broker, "x", due, due, 32), ["delayed"]);
    assert_eq!(broker.engine.message_by_position(delayed.position).unwrap().stored_at, due);
}

fn trace(broker: &Broker, position: redstart_log::Position) -> Vec<TraceEvent> {
    broker.engine.trace(position).run().unwrap().into_iter().map(|step| step.event).collect()
}

fn delivered(attempt: u16, until: Timestamp) -> TraceEvent {
    TraceEvent::Delivered { group: "g".into(), client: "test".into(), attempt, until }
}

#[test]
fn a_trace_tells_of_delivery_retry_and_ack() {
    let mut broker = broker(MessageType::Normal);
    let receipt = broker.send("t", message("a"));
    let bystander = broker.send("t", message("b"));
    let first = broker.pop("g", "t", 1, secs(10));
    let until = broker.now.after(secs(10));
    broker.engine.change_invisible(first[0].receipt, secs(10), broker.now).unwrap();
    let retry_at = broker.now.after(secs(10));
    broker.pass(secs(10));
    let again = broker.pop("g", "t", 1, secs(5));
    broker.ack(&again[0]);
    broker.commit();
    let visible = |offset| TraceEvent::Visible { queue: receipt.queue, offset: QueueOffset(offset) };
    assert_eq!(
        trace(&broker, receipt.position),
        [
            TraceEvent::Stored,
            visible(0),
            delivered(1, until),
            TraceEvent::Rescheduled { group: "g".into(), visible_at: retry_at, given_back: true },
            delivered(2, broker.now.after(secs(5))),
            TraceEvent::Acked { group: "g".into() },
        ]
    );
    assert_eq!(trace(&broker, bystander.position), [TraceEvent::Stored, visible(1)]);
}

#[test]
fn a_trace_tells_of_the_dead_letter() {
    let mut broker = broker(MessageType::Normal);
    let receipt = broker.send("t", message("a"));
    for _ in 0..2 {
        assert_eq!(broker.pop("g", "t", 1, secs(10)).len(), 1);
        broker.pass(secs(10));
    }
    broker.pass(secs(0));
    let events = trace(&broker, receipt.position);
    assert_eq!(events.last(), Some(&TraceEvent::DeadLettered { group: "g".into() }), "{events:?}");
    assert_eq!(events.len(), 5, "{events:?}");
}

#[test]
fn a_trace_tells_how_a_delayed_message_went_on() {
    let mut broker = broker(MessageType::Delay);
    let due = broker.now.after(secs(60));
    let [sent, recalled] =
        ["a", "b"].map(|id| broker.send("t", Message { deliver_at: Some(due), ..message(id) }));
    let Visibility::Delayed(key) = recalled.visibility else { panic!("{recalled:?}") };
    broker.engine.recall(key, broker.now).unwrap();
    broker.pass(secs(60));
    let visible = TraceEvent::Visible { queue: sent.queue, offset: QueueOffset(0) };
    assert_eq!(trace(&broker, sent.position), [TraceEvent::Stored, visible]);
    assert_eq!(trace(&broker, recalled.position), [TraceEvent::Stored, TraceEvent::Recalled]);
    let steps = broker.engine.trace(sent.position).run().unwrap();
    assert_eq!(steps.iter().map(|step| step.at).collect::<Vec<_>>(), [sent.stored_at, due]);
}

#[test]
fn a_trace_tells_how_a_transaction_ended() {
    let mut broker = broker(MessageType::Transaction);
    let [kept, dropped] = ["a", "b"].map(|id| broker.send_with("t", message(id), half()).unwrap());
    broker.engine.end_transaction(kept.position, true, broker.now).unwrap();
    broker.engine.end_transaction(dropped.position, false, broker.now).unwrap();
    broker.commit();
    let visible = TraceEvent::Visible { queue: kept.queue, offset: QueueOffset(0) };
    assert_eq!(trace(&broker, kept.position), [TraceEvent::Stored, visible]);
    assert_eq!(trace(&broker, dropped.position), [TraceEvent::Stored, TraceEvent::RolledBack]);
}

#[test]
fn a_trace_follows_a_message_through_its_retry_topic_to_the_dead_letters() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    broker.create_topic("%DLQ%g", one_queue(MessageType::Mixed));
    let receipt = broker.send("t", message("a"));
    for attempt in [0, 1] {
        let back = SendBack {
            reason: None,
            group: &group("g"),
            position: receipt.position,
            attempt,
            delay: Some(secs(5)),
            retries_max: None,
            give_up: false,
            properties: Vec::new(),
        };
        broker.engine.send_back(&back, broker.now).unwrap();
        broker.commit();
        broker.pass(secs(5));
    }
    let events = trace(&broker, receipt.position);
    assert!(matches!(events[2], TraceEvent::SentBack { .. }), "{events:?}");
    assert!(matches!(events[3], TraceEvent::Visible { queue, .. } if queue != receipt.queue), "{events:?}");
    assert_eq!(events.last(), Some(&TraceEvent::DeadLettered { group: "g".into() }));

    // Its dead letter names the topic it was sent to, and can go back there.
    let found = broker.engine.message_at(&topic("%DLQ%g"), QueueId(0), QueueOffset(0)).unwrap();
    let fetched = fetch(&*broker.engine.reader(), found.position, found.size).unwrap();
    assert_eq!(fetched.message().unwrap().property(DLQ_ORIGIN_TOPIC), Some("t"));
    broker.engine.resend_dead_letter(&topic("%DLQ%g"), QueueId(0), QueueOffset(0), broker.now).unwrap();
    broker.commit();
    assert_eq!(everything(&broker, "a"), ["a", "a"]);
}

fn queues(count: u32, message_type: MessageType) -> TopicConfig {
    TopicConfig { read_queues: count, write_queues: count, ..one_queue(message_type) }
}

#[test]
fn queues_taken_away_stay_readable_and_take_no_more_messages() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("t", queues(4, MessageType::Normal));
    let to = |queue| SendOptions { queue: Some(QueueId(queue)), ..SendOptions::default() };
    for queue in 0..4 {
        broker.send_with("t", message(&format!("q{queue}")), to(queue)).unwrap();
    }
    broker.create_topic("t", queues(1, MessageType::Normal));
    assert!(broker.send_with("t", message("late"), to(3)).is_err());
    let view = broker.engine.topic(&topic("t")).unwrap();
    assert_eq!((view.config.read_queues, view.queues.len()), (1, 4));
    for n in 0..6 {
        broker.send("t", message(&format!("late{n}")));
    }
    let ends: Vec<u64> =
        broker.engine.topic(&topic("t")).unwrap().queues.iter().map(|(_, _, end)| end.0).collect();
    assert_eq!(ends, [7, 1, 1, 1]);
    let mut got = broker.ids("g", "t");
    got.sort();
    assert_eq!(got, ["late0", "late1", "late2", "late3", "late4", "late5", "q0", "q1", "q2", "q3"]);
    broker.create_topic("t", queues(4, MessageType::Normal));
    let receipt = broker.send_with("t", message("again"), to(3)).unwrap();
    assert_eq!(receipt.visibility, Visibility::Visible(QueueOffset(1)), "the queue goes on where it was");
    assert_eq!(broker.ids("g", "t"), ["again"]);
}

#[test]
fn a_message_group_stays_on_its_queue_while_the_count_holds() {
    let mut broker = broker(MessageType::Fifo);
    broker.create_topic("t", queues(8, MessageType::Fifo));
    let mut homes = std::collections::BTreeMap::new();
    for round in 0..3 {
        for n in 0..20 {
            let name = format!("order-{n}");
            // The client's own choice of a queue does not count.
            let options = SendOptions { queue: Some(QueueId(round)), ..SendOptions::default() };
            let sent = Message { group: Some(name.clone()), ..message(&format!("{n}-{round}")) };
            let queue = broker.send_with("t", sent, options).unwrap().queue.queue;
            assert_eq!(*homes.entry(name).or_insert(queue), queue);
        }
        // Settings other than the count make no difference.
        let attributes = [("round".to_owned(), round.to_string())].into();
        broker.create_topic("t", TopicConfig { attributes, ..queues(8, MessageType::Fifo) });
    }
    assert!(homes.values().collect::<std::collections::BTreeSet<_>>().len() > 3, "spread over the queues");
}

#[test]
fn each_client_of_a_group_is_served_by_its_own_filter() {
    let mut broker = broker(MessageType::Normal);
    for (id, tag) in [("a1", "A"), ("b1", "B"), ("a2", "A"), ("b2", "B")] {
        broker.send("t", Message { tag: Some(tag.into()), ..message(id) });
    }
    let (g, t) = (group("g"), topic("t"));
    let mut got = |filter: &Filter, max| {
        let pop = Pop {
            group: &g,
            topic: &t,
            queue: None,
            max,
            invisible: secs(60),
            filter,
            attempt: None,
            client: "test",
            start: Start::Earliest,
            one_per_group: false,
            in_order: false,
        };
        broker.pop_with(&pop).into_iter().map(|got| got.id).collect::<Vec<_>>()
    };
    assert_eq!(got(&Filter::tags("A").unwrap(), 1), ["a1"]);
    assert_eq!(got(&Filter::tags("B").unwrap(), 1), ["b1"]);
    assert_eq!(
        got(&Filter::sql("TAGS = 'B'").unwrap(), 32),
        ["b2"],
        "a2 was passed over for the whole group"
    );
    assert!(got(&Filter::All, 32).is_empty());
}

#[test]
fn a_topic_created_again_under_its_name_starts_empty() {
    let mut broker = broker(MessageType::Mixed);
    broker.send("t", keyed("old", &["x"]));
    broker.send("t", Message { deliver_at: Some(broker.now.after(secs(60))), ..message("late") });
    let open = broker.send_with("t", message("half"), half()).unwrap();
    let held = broker.pop("g", "t", 1, secs(600));
    let before = broker.engine.topic(&topic("t")).unwrap().id;
    broker.engine.delete_topic(&topic("t")).unwrap();
    broker.commit();
    assert!(broker.engine.topic(&topic("t")).is_none());

    broker.create_topic("t", one_queue(MessageType::Mixed));
    let view = broker.engine.topic(&topic("t")).unwrap();
    assert_ne!(view.id, before);
    assert_eq!(view.queues, [(QueueId(0), QueueOffset(0), QueueOffset(0))]);
    assert!(everything(&broker, "x").is_empty());
    assert_eq!(broker.engine.ack(held[0].receipt, broker.now), Err(AckError::Unknown));
    assert!(broker.engine.groups_of(&topic("t")).is_empty(), "no group has consumed the new one");
    let id = open.position;
    let refused = broker.engine.end_transaction(id, true, broker.now);
    assert_eq!(refused, Err(TransactionError::TopicGone { id }), "there is nothing to commit to");
    broker.pass(secs(60));
    assert!(
        broker.ids("g", "t").is_empty(),
        "what was on its way to the old topic does not turn up in the new one"
    );
    let receipt = broker.send("t", message("new"));
    assert_eq!(receipt.visibility, Visibility::Visible(QueueOffset(0)));
    assert_eq!(broker.ids("g", "t"), ["new"]);
}

#[test]
fn a_name_is_free_again_when_its_deletion_is_durable() {
    let mut broker = broker(MessageType::Normal);
    broker.send("t", message("a"));
    broker.engine.delete_topic(&topic("t")).unwrap();
    broker.engine.delete_group(&group("g")).unwrap();
    let deleting = |error: AdminError| matches!(error, AdminError::Deleting { .. });
    assert!(deleting(broker.engine.put_topic(&topic("t"), TopicConfig::default()).unwrap_err()));
    assert!(deleting(broker.engine.delete_topic(&topic("t")).unwrap_err()));
    assert!(deleting(broker.engine.put_group(&group("g"), GroupConfig::default()).unwrap_err()));
    assert!(deleting(broker.engine.delete_group(&group("g")).unwrap_err()));
    broker.commit();
    broker.create_topic("t", one_queue(MessageType::Normal));
    broker.create_group("g", GroupConfig::default());
    assert_eq!(broker.send("t", message("b")).visibility, Visibility::Visible(QueueOffset(0)));
    assert_eq!(broker.ids("g", "t"), ["b"]);
}

#[test]
fn a_duplicate_is_told_all_that_the_first_was_told() {
    let mut broker = Broker::default();
    broker.create_topic("t", TopicConfig { dedup_window: Some(secs(600)), ..one_queue(MessageType::Mixed) });
    let due = broker.now.after(secs(60));
    let copy =
        |id: &str, n: u32| Message { properties: vec![(DEDUP_KEY.into(), n.to_string())], ..message(id) };
    let later = |id: &str| Message { deliver_at: Some(due), ..copy(id, 2) };
    let firsts = [
        broker.send("t", copy("a", 1)),
        broker.send("t", later("b")),
        broker.send_with("t", copy("c", 3), half()).unwrap(),
    ];
    let seconds = [
        broker.send("t", copy("d", 1)),
        broker.send("t", later("e")),
        broker.send_with("t", copy("f", 3), half()).unwrap(),
    ];
    assert_eq!(seconds, firsts);
    let Visibility::Delayed(key) = seconds[1].visibility else { panic!("{:?}", seconds[1]) };
    broker.engine.recall(key, broker.now).unwrap();
}

#[test]
fn a_search_goes_on_in_short_steps_and_says_when_it_was_cut_short() {
    let mut broker = broker(MessageType::Normal);
    for n in 0..1500 {
        broker.send("t", keyed(&n.to_string(), &["often"]));
    }
    broker.send("t", keyed("once", &["seldom"]));
    let queried = broker.query("t", "often", Timestamp(0), Timestamp::MAX, 2000).unwrap();
    assert_eq!(queried.found.len(), 1024, "the newest");
    assert!(queried.found.windows(2).all(|pair| pair[0].position > pair[1].position));
    assert!(queried.truncated);
    assert!(queried.steps >= 1024 / 64, "{} steps", queried.steps);
    let queried = broker.query("t", "seldom", Timestamp(0), Timestamp::MAX, 32).unwrap();
    assert_eq!((queried.found.len(), queried.truncated, queried.steps), (1, false, 1));
}

#[test]
fn one_budget_holds_for_all_messages_of_a_search() {
    let limits = Limits { query_probes_max: 400, ..Limits::default() };
    let mut broker = Broker::new(Config { limits, ..Config::default() });
    broker.create_topic("t", one_queue(MessageType::Delay));
    // All become visible at one time: the place of each is looked for among all of them.
    let due = broker.now.after(secs(10));
    for n in 0..300 {
        let message = Message { deliver_at: Some(due), ..keyed(&n.to_string(), &["x"]) };
        broker.send("t", message);
    }
    broker.pass(secs(10));
    let queried = broker.query("t", "x", Timestamp(0), Timestamp::MAX, 300).unwrap();
    assert!(queried.truncated);
    assert!((1..=400 / 16).contains(&queried.found.len()), "{} found", queried.found.len());
}

#[test]
fn a_search_goes_on_through_a_segment_that_was_sealed_between_its_steps() {
    let (mut broker, _) = Broker::faulty(Config::default(), Options::with_segment_bytes(16 << 10));
    broker.create_topic("t", one_queue(MessageType::Normal));
    for n in 0..400 {
        broker.send("t", keyed(&n.to_string(), &["x"]));
    }
    let mut query = broker.engine.key_query(&topic("t"), "x", Timestamp(0), Timestamp::MAX, 400).unwrap();
    let found = loop {
        if let Some(job) = broker.engine.seal() {
            broker.engine.job_done(job.run()).unwrap();
        }
        match broker.engine.query_step(&query).unwrap() {
            QueryStep::Unfinished(next) => query = next,
            QueryStep::Done(answer) => break answer.found,
        }
    };
    assert_eq!(found.len(), 400);
}
