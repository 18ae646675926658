//! What happens to a message that did not reach its consumer: it is given back, or passed over with proof.

use std::time::Duration;

use redstart_engine::*;
use redstart_log::{Options, Position};

use crate::support::{faulty::Switches, *};

fn ids(got: &[Got]) -> Vec<&str> {
    got.iter().map(|got| got.id.as_str()).collect()
}

fn receipts(got: &[Got]) -> Vec<Receipt> {
    got.iter().map(|got| got.receipt).collect()
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

fn give_back(broker: &mut Broker, got: &[Got], delay: Duration) {
    for result in broker.engine.give_back(&receipts(got), delay, broker.now) {
        result.unwrap();
    }
}

#[test]
fn what_is_given_back_comes_at_once_and_does_not_count() {
    let mut broker = broker(MessageType::Normal, GroupConfig { retries_max: 0, ..GroupConfig::default() });
    for id in ["a", "b", "c"] {
        broker.send("t", message(id));
    }
    for _ in 0..5 {
        let got = broker.pop("g", "t", 32, secs(60));
        assert_eq!(ids(&got), ["a", "b", "c"]);
        assert!(got.iter().all(|got| got.attempt == 1), "{got:?}");
        give_back(&mut broker, &got, Duration::ZERO);
    }
    // Nothing went to the dead letters although every delivery was the last one allowed.
    broker.pass(secs(120));
    broker.pass(secs(1));
    assert!(broker.engine.topic(&topic("%DLQ%g")).is_none());
    let got = broker.pop("g", "t", 32, secs(60));
    got.iter().for_each(|got| broker.ack(got));
    let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!((progress[0].lag(), progress[0].in_flight), (0, 0));
}

#[test]
fn giving_back_wakes_the_group_and_replaces_the_receipt() {
    let mut broker = broker(MessageType::Normal, GroupConfig::default());
    broker.send("t", message("a"));
    let got = broker.pop("g", "t", 1, secs(60));
    broker.engine.take_wakes();
    let new = broker.engine.give_back(&receipts(&got), secs(3), broker.now)[0].unwrap();
    let wakes = broker.engine.take_wakes();
    assert_eq!(wakes.groups, [(new.group, new.queue.topic)]);
    assert_eq!(broker.engine.ack(got[0].receipt, broker.now), Err(AckError::Expired));
    assert!(broker.ids("g", "t").is_empty(), "not before the delay is over");
    broker.pass(secs(3));
    assert_eq!(broker.pop("g", "t", 1, secs(60))[0].attempt, 1);
}

#[test]
fn a_delivery_whose_time_ran_out_can_still_be_given_back_if_there_was_no_other() {
    let mut broker = broker(MessageType::Normal, GroupConfig { retries_max: 1, ..GroupConfig::default() });
    broker.send("t", message("a"));
    let first = broker.pop("g", "t", 1, secs(10));
    broker.pass(secs(11));
    give_back(&mut broker, &first, Duration::ZERO);
    let second = broker.pop("g", "t", 1, secs(10));
    assert_eq!(second[0].attempt, 1);
    let late = broker.engine.give_back(&receipts(&first), Duration::ZERO, broker.now);
    assert_eq!(late, [Err(AckError::Expired)], "the next consumer keeps its message");
    broker.ack(&second[0]);
    let late = broker.engine.give_back(&receipts(&second), Duration::ZERO, broker.now);
    assert_eq!(late, [Err(AckError::Expired)], "what is done stays done");
}

#[test]
fn an_ordered_group_gets_what_was_given_back_in_order_and_before_the_rest() {
    let config = GroupConfig { ordered: true, ..GroupConfig::default() };
    let mut broker = broker(MessageType::Fifo, config);
    for (id, name) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
        broker.send("t", in_group(id, name));
    }
    let got = broker.pop("g", "t", 32, secs(60));
    assert_eq!(ids(&got), ["a1", "a2", "b1", "a3"]);
    // The second of the group did not arrive, nor what is behind it.
    give_back(&mut broker, &[got[1].clone(), got[3].clone()], Duration::ZERO);
    assert!(broker.ids("g", "t").is_empty(), "the first one holds the lock");
    broker.engine.take_wakes();
    broker.ack(&got[0]);
    assert!(!broker.engine.take_wakes().groups.is_empty());
    let again = broker.pop("g", "t", 1, secs(60));
    assert_eq!((ids(&again), again[0].attempt), (vec!["a2"], 1));
    assert!(broker.ids("g", "t").is_empty(), "the third waits for the second");
    broker.ack(&again[0]);
    assert_eq!(broker.ids("g", "t"), ["a3"]);
}

#[test]
fn a_message_given_back_keeps_its_place_among_priorities() {
    let mut broker = broker(MessageType::Priority, GroupConfig::default());
    for (id, priority) in [("low", 1), ("high", 9), ("mid", 5)] {
        broker.send("t", Message { priority: Some(priority), ..message(id) });
    }
    let got = broker.pop("g", "t", 1, secs(60));
    assert_eq!(ids(&got), ["high"]);
    give_back(&mut broker, &got, Duration::ZERO);
    assert_eq!(broker.ids("g", "t"), ["high", "mid", "low"], "it has not failed");
    let failed = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!(failed[0].in_flight, 3);
}

#[test]
fn giving_back_outlives_a_restart() {
    let mut broker = broker(MessageType::Normal, GroupConfig { retries_max: 0, ..GroupConfig::default() });
    broker.send("t", message("a"));
    let got = broker.pop("g", "t", 1, secs(10));
    give_back(&mut broker, &got, secs(1));
    broker.commit();
    let receipt = broker.engine.give_back(&receipts(&got), secs(1), broker.now);
    assert_eq!(receipt, [Err(AckError::Expired)], "given back already");
    broker.pass(secs(100));
    broker.pass(secs(1));
    assert_eq!(broker.pop("g", "t", 1, secs(10))[0].attempt, 1);
}

fn faulty() -> (Broker, Switches) {
    let (mut broker, switches) = Broker::faulty(Config::default(), Options::default());
    broker.create_topic("t", one_queue(MessageType::Normal));
    broker.create_group("g", GroupConfig { retries_max: 0, ..GroupConfig::default() });
    (broker, switches)
}

fn pop_raw(broker: &mut Broker, filter: &Filter) -> Popped {
    let (by, from) = (group("g"), topic("t"));
    let pop = Pop {
        group: &by,
        topic: &from,
        queue: None,
        max: 32,
        invisible: secs(60),
        filter,
        attempt: None,
        client: "test",
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
    };
    broker.engine.pop(&pop, broker.now).unwrap()
}

/// The proof that a delivered message is lost, or none.
fn proof(broker: &Broker, delivery: &Delivery) -> Option<Proof> {
    fetch(&*broker.engine.reader(), delivery.position, delivery.size).err()?.proof()
}

#[test]
fn a_message_is_passed_over_with_proof_only_and_that_is_counted() {
    let (mut broker, switches) = faulty();
    for id in ["a", "b", "c"] {
        broker.send("t", message(id));
    }
    let popped = pop_raw(&mut broker, &Filter::All);
    let [a, b, c] = popped.deliveries[..] else { panic!("{popped:?}") };
    switches.lock().messages = true;
    assert!([a, b, c].iter().all(|delivery| proof(&broker, delivery).is_none()), "IO errors prove nothing");
    switches.lock().messages = false;
    switches.lock().damaged.insert(a.position);
    switches.lock().removed.insert(b.position);
    let (damaged, removed) = (proof(&broker, &a).unwrap(), proof(&broker, &b).unwrap());
    assert_eq!((damaged.loss(), removed.loss()), (Loss::Damaged, Loss::Removed));
    assert_eq!(broker.engine.pass_over(c.receipt, damaged), Err(AckError::Unknown), "of another message");
    broker.engine.take_events();
    broker.engine.pass_over(a.receipt, damaged).unwrap();
    broker.engine.pass_over(b.receipt, removed).unwrap();
    assert_eq!(broker.engine.passed_over(), PassedOver { damaged: 1, removed: 1 });
    let losses: Vec<Loss> = broker
        .engine
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::PassedOver { loss, .. } => Some(loss),
            _ => None,
        })
        .collect();
    assert_eq!(losses, [Loss::Damaged, Loss::Removed]);
    broker.ack(&Got { id: "c".into(), attempt: 1, receipt: c.receipt });
    let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!((progress[0].lag(), progress[0].in_flight), (0, 0));
}

#[test]
fn a_proof_does_not_end_a_later_delivery() {
    let (mut broker, switches) = faulty();
    broker.create_group("g", GroupConfig::default());
    broker.send("t", message("a"));
    let first = pop_raw(&mut broker, &Filter::All).deliveries[0];
    broker.pass(secs(61));
    let second = pop_raw(&mut broker, &Filter::All).deliveries[0];
    switches.lock().damaged.insert(first.position);
    let proof = proof(&broker, &first).unwrap();
    assert_eq!(broker.engine.pass_over(first.receipt, proof), Err(AckError::Expired));
    assert_eq!(broker.engine.passed_over(), PassedOver::default());
    assert_eq!(broker.engine.ack(second.receipt, broker.now), Ok(()), "it is in flight as before");
}

#[test]
fn a_read_error_under_a_filter_skips_nothing_and_says_when_to_look_again() {
    let (mut broker, switches) = faulty();
    let filter = Filter::sql("n = 1").unwrap();
    for id in ["a", "b"] {
        broker.send("t", Message { properties: vec![("n".into(), "1".into())], ..message(id) });
    }
    switches.lock().messages = true;
    let popped = pop_raw(&mut broker, &filter);
    assert!(popped.deliveries.is_empty() && !popped.more, "{popped:?}");
    assert_eq!(popped.ask_again_at, Some(broker.now.after(READ_AGAIN_AFTER)));
    assert_eq!(switches.lock().reads, 1, "the search ends with the first failure");
    switches.lock().messages = false;
    let popped = pop_raw(&mut broker, &filter);
    assert_eq!((popped.deliveries.len(), popped.ask_again_at), (2, None));
    assert_eq!(broker.engine.passed_over(), PassedOver::default());
}

#[test]
fn a_damaged_message_under_a_filter_is_passed_over_and_counted() {
    let (mut broker, switches) = faulty();
    let filter = Filter::sql("n = 1").unwrap();
    let mut positions: Vec<Position> = Vec::new();
    for id in ["a", "b"] {
        let sent = broker.send("t", Message { properties: vec![("n".into(), "1".into())], ..message(id) });
        positions.push(sent.position);
    }
    switches.lock().damaged.insert(positions[0]);
    let popped = pop_raw(&mut broker, &filter);
    let got: Vec<Position> = popped.deliveries.iter().map(|delivery| delivery.position).collect();
    assert_eq!(got, positions[1..]);
    assert_eq!(broker.engine.passed_over(), PassedOver { damaged: 1, removed: 0 });
}

#[test]
fn a_dead_letter_that_cannot_be_read_waits_and_a_damaged_one_is_passed_over() {
    let (mut broker, switches) = faulty();
    let position = broker.send("t", message("a")).position;
    pop_raw(&mut broker, &Filter::All);
    broker.pass(secs(61)); // makes the topic of dead letters
    switches.lock().messages = true;
    broker.pass(secs(5));
    let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!(progress[0].lag(), 1, "an IO error is no reason to lose it");
    switches.lock().messages = false;
    switches.lock().damaged.insert(position);
    broker.pass(secs(5));
    broker.pass(secs(5));
    let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
    assert_eq!(progress[0].lag(), 0);
    assert_eq!(broker.engine.passed_over(), PassedOver { damaged: 1, removed: 0 });
}

#[test]
fn a_full_table_of_flights_does_not_ask_for_more_and_an_ack_wakes_the_group() {
    for ordered in [true, false] {
        let mut config = Config::default();
        config.limits.flights_max = 2;
        let mut broker = Broker::new(config);
        broker.create_topic("t", one_queue(MessageType::Fifo));
        broker.create_group("g", GroupConfig { ordered, ..GroupConfig::default() });
        // Two are in flight; of a third group, one message waits for a lock that is free again.
        for (id, name) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")] {
            broker.send("t", in_group(id, name));
        }
        let one = broker.pop_one_per_group("g", "t");
        assert_eq!(one.len(), 2, "{one:?}");
        let popped = pop_raw(&mut broker, &Filter::All);
        assert!(popped.deliveries.is_empty() && !popped.more, "ordered {ordered}: {popped:?}");
        broker.engine.take_wakes();
        broker.ack(&one[0]);
        assert!(!broker.engine.take_wakes().groups.is_empty(), "ordered {ordered}");
        let popped = pop_raw(&mut broker, &Filter::All);
        assert_eq!(popped.deliveries.len(), 1, "ordered {ordered}: {popped:?}");
        assert!(!pop_raw(&mut broker, &Filter::All).more, "ordered {ordered}");
    }
}

/// Writes the indexes of full segments and two checkpoints, so that the oldest segment may go.
fn settle(broker: &mut Broker) {
    while let Some(job) = broker.engine.seal() {
        broker.engine.job_done(job.run()).unwrap();
    }
    for _ in 0..2 {
        broker.send("filler", message("f"));
        let job = broker.engine.checkpoint().unwrap();
        broker.engine.job_done(job.run()).unwrap();
    }
}

#[test]
fn a_lock_that_retention_frees_wakes_its_group() {
    let (mut broker, _) = Broker::faulty(Config::default(), Options::with_segment_bytes(64 << 10));
    broker.create_topic("t", one_queue(MessageType::Fifo));
    broker.create_topic("filler", one_queue(MessageType::Normal));
    broker.create_group("g", GroupConfig { ordered: true, ..GroupConfig::default() });
    broker.send("t", in_group("a1", "a"));
    let held = broker.pop("g", "t", 1, secs(12 * 3600));
    assert_eq!(ids(&held), ["a1"]);
    // The first one's segment is full, and the next message of its group is in another.
    for n in 0..8 {
        broker.send("filler", Message { body: vec![1; 10_000].into(), ..message(&n.to_string()) });
    }
    broker.send("t", in_group("a2", "a"));
    assert!(broker.ids("g", "t").is_empty(), "it waits for the lock");
    broker.now = broker.now.after(secs(11 * 3600));
    let renewed = broker.engine.renew(held[0].receipt, secs(12 * 3600), broker.now);
    assert_eq!(renewed, Ok(()));
    for _ in 0..7 {
        broker.now = broker.now.after(secs(11 * 3600));
        broker.engine.renew(held[0].receipt, secs(12 * 3600), broker.now).unwrap();
    }
    settle(&mut broker);
    broker.engine.take_wakes();
    assert!(broker.retire().is_some());
    let wakes = broker.engine.take_wakes();
    assert_eq!(wakes.groups, [(held[0].receipt.group, held[0].receipt.queue.topic)]);
    assert_eq!(broker.ids("g", "t"), ["a2"]);
}

#[test]
fn a_group_that_is_ordered_no_longer_wakes_what_waited_for_its_locks() {
    let mut broker = Broker::new(Config::default());
    broker.create_topic("t", one_queue(MessageType::Fifo));
    broker.create_group("g", GroupConfig { ordered: true, ..GroupConfig::default() });
    broker.send("t", in_group("a1", "a"));
    broker.send("t", in_group("a2", "a"));
    let first = broker.pop("g", "t", 1, secs(60));
    assert!(broker.ids("g", "t").is_empty(), "a2 waits for the lock of a1");
    let woken = (first[0].receipt.group, first[0].receipt.queue.topic);
    // A change of something else frees nothing.
    for (ordered, expected) in [(true, vec![]), (false, vec![woken]), (false, vec![])] {
        broker.engine.take_wakes();
        broker.create_group("g", GroupConfig { ordered, retries_max: 3, ..GroupConfig::default() });
        assert_eq!(broker.engine.take_wakes().groups, expected);
    }
    assert_eq!(broker.ids("g", "t"), ["a2"]);
}

#[test]
fn a_duplicate_of_a_delayed_message_can_be_recalled_while_the_disk_cannot_read() {
    let (mut broker, switches) = Broker::faulty(Config::default(), Options::default());
    broker.create_topic("t", TopicConfig { dedup_window: Some(secs(600)), ..one_queue(MessageType::Delay) });
    let due = broker.now.after(secs(60));
    let delayed = |id: &str| Message {
        deliver_at: Some(due),
        properties: vec![(DEDUP_KEY.to_owned(), "k".to_owned())],
        ..message(id)
    };
    let first = broker.send("t", delayed("a"));
    switches.lock().messages = true;
    let again = broker.send("t", delayed("b"));
    assert_eq!((again.position, again.visibility), (first.position, first.visibility));
    switches.lock().messages = false;
    assert_eq!(broker.send("t", delayed("c")), first);
}
