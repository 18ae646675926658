//! Lite topics: order and turns, failures, pauses, where a group begins, and their end.

use std::sync::Arc;

use redstart_engine::*;
use redstart_log::{DiskLog, Log, Options, sim::SimStorage};

use crate::support::*;

const PARENT: &str = "p";
const GROUP: &str = "g";

fn lite(name: &str) -> LiteName {
    LiteName::new(name).unwrap()
}

fn lite_message(to: &str, id: &str) -> Message {
    Message { properties: vec![(LITE_TOPIC.to_owned(), to.to_owned())], ..message(id) }
}

fn parent(expiration: Option<&str>) -> TopicConfig {
    let attributes = expiration.map(|minutes| (LITE_EXPIRATION.to_owned(), minutes.to_owned()));
    TopicConfig {
        message_type: MessageType::Lite,
        attributes: attributes.into_iter().collect(),
        ..TopicConfig::default()
    }
}

fn set_up(config: GroupConfig, expiration: Option<&str>) -> Broker {
    let mut broker = Broker::default();
    broker.create_topic(PARENT, parent(expiration));
    broker.create_group(GROUP, config);
    broker
}

fn make(broker: &mut Broker, names: &[&str]) -> Vec<TopicId> {
    let names: Vec<LiteName> = names.iter().map(|name| lite(name)).collect();
    broker.engine.ensure_lites(&topic(PARENT), &names).unwrap();
    broker.commit();
    let ids = broker.engine.lite_ids(&topic(PARENT), &names);
    ids.into_iter().map(|id| id.unwrap()).collect()
}

fn send(broker: &mut Broker, to: &str, ids: &[&str]) {
    make(broker, &[to]);
    for id in ids {
        broker.send(PARENT, lite_message(to, id));
    }
}

fn pop_with(
    broker: &mut Broker,
    names: &[&str],
    max: usize,
    after: Option<TopicId>,
    attempt: Option<&str>,
) -> Vec<Got> {
    let names: Vec<LiteName> = names.iter().map(|name| lite(name)).collect();
    let mut ids: Vec<TopicId> =
        broker.engine.lite_ids(&topic(PARENT), &names).into_iter().flatten().collect();
    ids.sort_unstable();
    let (by, from) = (group(GROUP), topic(PARENT));
    let pop = Pop {
        group: &by,
        topic: &from,
        queue: None,
        max,
        invisible: secs(10),
        filter: &Filter::All,
        attempt,
        client: "test",
        start: Start::Latest,
        one_per_group: false,
        in_order: false,
    };
    let popped = broker.engine.pop_lite(&pop, &ids, after, broker.now).unwrap();
    let reader = broker.engine.reader();
    let read = |delivery: &Delivery| {
        let fetched = fetch(&*reader, delivery.position, delivery.size).unwrap();
        assert_eq!(fetched.message_type().unwrap(), MessageType::Lite);
        let id = fetched.message().unwrap().id.to_owned();
        Got { id, attempt: delivery.attempt, receipt: delivery.receipt }
    };
    popped.deliveries.iter().map(read).collect()
}

fn pop(broker: &mut Broker, names: &[&str]) -> Vec<Got> {
    pop_with(broker, names, 32, None, None)
}

/// Lets time pass, and what is idle go.
fn pass(broker: &mut Broker, time: std::time::Duration) {
    broker.now = broker.now.after(time);
    broker.engine.expire_lites(broker.now);
    broker.pass(secs(0));
}

fn ids(got: &[Got]) -> Vec<&str> {
    got.iter().map(|got| got.id.as_str()).collect()
}

fn open(disk: &SimStorage, now: Timestamp) -> (Broker, Recovered) {
    let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
    let flusher = log.flusher();
    let (engine, recovered) = Engine::open(Box::new(log), Config::default()).unwrap();
    (Broker { engine, flusher, now }, recovered)
}

/// Opens the same disk anew; from a checkpoint, when one is wanted.
fn restart(mut broker: Broker, disk: &SimStorage, checkpoint: bool) -> Broker {
    if checkpoint {
        let job = broker.engine.checkpoint().expect("everything is durable");
        broker.engine.job_done(job.run()).unwrap();
    }
    let now = broker.now;
    drop(broker);
    let (broker, recovered) = open(disk, now);
    assert_eq!(recovered.checkpoint.0 > 0, checkpoint);
    broker
}

#[test]
fn each_lite_topic_gives_its_messages_in_order_and_one_at_a_time() {
    let mut broker = set_up(GroupConfig::default(), None);
    send(&mut broker, "a", &["a1", "a2"]);
    send(&mut broker, "b", &["b1"]);
    send(&mut broker, "c", &["c1"]);
    let got = pop(&mut broker, &["a", "b"]);
    assert_eq!(ids(&got), ["a1", "b1"], "only what was asked for, one of each");
    assert!(pop(&mut broker, &["a", "b"]).is_empty(), "the rest waits for the first");
    broker.ack(&got[0]);
    assert_eq!(ids(&pop(&mut broker, &["a", "b"])), ["a2"]);
    assert_eq!(ids(&pop(&mut broker, &["c", "unknown"])), ["c1"]);
}

#[test]
fn a_failing_message_stays_at_the_head_and_holds_up_only_its_own_lite_topic() {
    let mut broker = set_up(GroupConfig { retries_max: 2, ..GroupConfig::default() }, None);
    send(&mut broker, "bad", &["bad1", "bad2"]);
    send(&mut broker, "good", &["good1", "good2"]);
    for attempt in 1..=3 {
        let got = pop(&mut broker, &["bad"]);
        assert_eq!((ids(&got), got[0].attempt), (vec!["bad1"], attempt));
        let good = pop(&mut broker, &["bad", "good"]);
        let expected: &[&str] = [&["good1"][..], &["good2"], &[]][usize::from(attempt) - 1];
        assert_eq!(ids(&good), expected);
        good.iter().for_each(|got| broker.ack(got));
        broker.pass(secs(10));
    }
    // The last attempt has failed: the dead-letter topic is made, the letter written, and the lite topic goes on.
    broker.pass(secs(1));
    broker.pass(secs(1));
    assert_eq!(ids(&pop(&mut broker, &["bad"])), ["bad2"]);
    broker.create_group("readers", GroupConfig::default());
    let dead = broker.pop("readers", "%DLQ%g", 32, secs(60));
    assert_eq!(ids(&dead), ["bad1"]);
}

#[test]
fn a_dead_letter_tells_its_parent_and_its_lite_topic_and_can_be_sent_again() {
    let mut broker = set_up(GroupConfig::default(), None);
    send(&mut broker, "a", &["a1"]);
    let got = pop(&mut broker, &["a"]);
    let receipt = got[0].receipt;
    assert!(
        broker.engine.forward_to_dead_letters(receipt, None, broker.now).is_err(),
        "makes the topic first"
    );
    broker.commit();
    broker.engine.forward_to_dead_letters(receipt, None, broker.now).unwrap();
    broker.commit();
    let dead = topic("%DLQ%g");
    let found = broker.engine.message_at(&dead, QueueId(0), QueueOffset(0)).unwrap();
    let fetched = fetch(&*broker.engine.reader(), found.position, found.size).unwrap();
    let view = fetched.message().unwrap();
    assert_eq!((view.property(DLQ_ORIGIN_TOPIC), view.property(LITE_TOPIC)), (Some(PARENT), Some("a")));
    broker.engine.resend_dead_letter(&dead, QueueId(0), QueueOffset(0), broker.now).unwrap();
    broker.commit();
    assert_eq!(ids(&pop(&mut broker, &["a"])), ["a1"]);
}

#[test]
fn a_noisy_lite_topic_does_not_starve_the_others() {
    let mut broker = set_up(GroupConfig::default(), None);
    let names = ["a", "b", "c", "d"];
    for name in names {
        let many: Vec<String> = (0..if name == "b" { 50 } else { 2 }).map(|n| format!("{name}{n}")).collect();
        send(&mut broker, name, &many.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (mut order, mut after) = (Vec::new(), None);
    for _ in 0..8 {
        let got = pop_with(&mut broker, &names, 1, after, None);
        after = Some(got[0].receipt.queue.topic);
        broker.ack(&got[0]);
        order.push(got[0].id.clone());
    }
    assert_eq!(order, ["a0", "b0", "c0", "d0", "a1", "b1", "c1", "d1"]);
    assert_eq!(pop_with(&mut broker, &names, 2, None, None).len(), 1, "only the noisy one is left");
}

#[test]
fn a_lost_answer_is_given_again_to_the_same_attempt_only() {
    let mut broker = set_up(GroupConfig::default(), None);
    send(&mut broker, "a", &["a1", "a2"]);
    send(&mut broker, "b", &["b1"]);
    let names = ["a", "b"];
    let first = pop_with(&mut broker, &names, 32, None, Some("one"));
    let again = pop_with(&mut broker, &names, 32, None, Some("one"));
    assert_eq!((ids(&first), ids(&again)), (vec!["a1", "b1"], vec!["a1", "b1"]));
    assert!(again.iter().all(|got| got.attempt == 1));
    assert!(pop_with(&mut broker, &names, 32, None, Some("two")).is_empty());
}

#[test]
fn a_suspended_lite_topic_pauses_and_the_delivery_does_not_count() {
    let mut broker = set_up(GroupConfig { retries_max: 1, ..GroupConfig::default() }, None);
    send(&mut broker, "a", &["a1", "a2"]);
    for _ in 0..5 {
        let got = pop(&mut broker, &["a"]);
        assert_eq!((ids(&got), got[0].attempt), (vec!["a1"], 1));
        broker.engine.suspend(got[0].receipt, secs(30), broker.now).unwrap();
        broker.pass(millis(29_999));
        assert!(pop(&mut broker, &["a"]).is_empty());
        broker.pass(millis(1));
    }
    let got = pop(&mut broker, &["a"]);
    broker.engine.change_invisible(got[0].receipt, secs(1), broker.now).unwrap();
    broker.pass(secs(1));
    assert_eq!(pop(&mut broker, &["a"])[0].attempt, 2, "a failure counts");
}

#[test]
fn a_subscriber_may_say_where_its_group_goes_on() {
    let mut broker = set_up(GroupConfig::default(), None);
    let mut times = Vec::new();
    for n in 0..6 {
        times.push(broker.now);
        send(&mut broker, "a", &[&format!("a{n}")]);
        broker.pass(secs(1));
    }
    let a = make(&mut broker, &["a"])[0];
    let cases = [
        (LiteOffset::Last, Some("a0"), "a new group begins at the earliest"),
        (LiteOffset::Max, None, "the end"),
        (LiteOffset::Min, Some("a0"), "the beginning"),
        (LiteOffset::At(QueueOffset(4)), Some("a4"), "an offset"),
        (LiteOffset::Last, Some("a5"), "at its offset: a4 was acked"),
        (LiteOffset::Back(2), Some("a4"), "two before a6"),
        (LiteOffset::Back(99), Some("a0"), "not before the beginning"),
        (LiteOffset::At(QueueOffset(99)), None, "not beyond the end"),
        (LiteOffset::Time(times[3]), Some("a3"), "by time"),
    ];
    for (offset, expected, why) in cases {
        broker.engine.join_lite(&group(GROUP), a, offset).unwrap();
        let got = pop(&mut broker, &["a"]);
        assert_eq!(got.first().map(|got| got.id.as_str()), expected, "{why}");
        got.iter().for_each(|got| broker.ack(got));
    }
    broker.create_group("new", GroupConfig::default());
    broker.engine.join_lite(&group("new"), a, LiteOffset::Back(2)).unwrap();
    let name = TopicName::lite(&topic(PARENT), &lite("a"));
    let offset = broker.engine.consumer_offset(&group("new"), &name, QueueId(0)).unwrap();
    assert_eq!(offset, Some(QueueOffset(4)), "a new group counts back from the end");
}

#[test]
fn a_lite_topic_goes_when_nobody_has_sent_to_it_for_its_time() {
    let mut broker = set_up(GroupConfig::default(), Some("10"));
    broker.create_topic("forever", parent(Some("-1")));
    broker.engine.ensure_lites(&topic("forever"), &[lite("x")]).unwrap();
    send(&mut broker, "young", &["1"]);
    send(&mut broker, "old", &["1"]);
    pass(&mut broker, secs(300));
    send(&mut broker, "young", &["2"]);
    pass(&mut broker, secs(299));
    assert!(broker.engine.take_expired_lites().is_empty());
    pass(&mut broker, secs(1));
    let expired: Vec<_> = broker.engine.take_expired_lites().into_iter().map(|(_, p, l)| (p, l)).collect();
    assert_eq!(expired, [(topic(PARENT), lite("old"))]);
    let known = broker.engine.lite_ids(&topic(PARENT), &[lite("young"), lite("old")]);
    assert!(known[0].is_some() && known[1].is_none());
    assert!(broker.engine.lite_ids(&topic("forever"), &[lite("x")])[0].is_some());
    send(&mut broker, "old", &["3"]);
    assert_eq!(ids(&pop(&mut broker, &["old"])), ["3"], "made anew, it begins anew");
}

#[test]
fn a_message_on_its_way_keeps_its_lite_topic_and_a_topic_on_its_way_out_takes_none() {
    let mut broker = set_up(GroupConfig::default(), Some("1"));
    make(&mut broker, &["a", "b"]);
    broker.now = broker.now.after(secs(60));
    let sent = |broker: &mut Broker, to: &str| {
        broker.engine.send(&topic(PARENT), &[lite_message(to, "m")], SendOptions::default(), broker.now)
    };
    sent(&mut broker, "a").unwrap();
    broker.engine.expire_lites(broker.now);
    assert!(
        matches!(sent(&mut broker, "b"), Err(SendError::UnknownLiteTopic { .. })),
        "its deletion is under way: the message would be lost with it"
    );
    broker.commit();
    assert_eq!(ids(&pop(&mut broker, &["a", "b"])), ["m"]);
    send(&mut broker, "b", &["b1"]);
    assert_eq!(ids(&pop(&mut broker, &["b"])), ["b1"]);
}

#[test]
fn types_are_told_apart_in_both_directions() {
    let mut broker = set_up(GroupConfig::default(), None);
    broker.create_topic("normal", one_queue(MessageType::Normal));
    broker.create_topic("mixed", one_queue(MessageType::Mixed));
    make(&mut broker, &["a"]);
    for (to, sent, names) in [
        (PARENT, message("1"), ["LITE", "NORMAL"]),
        (PARENT, Message { priority: Some(1), ..lite_message("a", "1") }, ["LITE", "PRIORITY"]),
        ("normal", lite_message("a", "1"), ["NORMAL", "LITE"]),
        ("mixed", lite_message("a", "1"), ["MIXED", "LITE"]),
    ] {
        let error = broker.send_with(to, sent, SendOptions::default()).unwrap_err().to_string();
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
    }
    let two = [lite_message("a", "1"), lite_message("b", "2")];
    let error = broker.engine.send(&topic(PARENT), &two, SendOptions::default(), broker.now).unwrap_err();
    assert_eq!(error, SendError::Invalid(InvalidMessage::BatchLiteTopics { index: 1 }));
    let unknown = broker.send_with(PARENT, lite_message("b", "1"), SendOptions::default());
    assert_eq!(unknown, Err(SendError::UnknownLiteTopic { topic: topic(PARENT), lite: lite("b") }));
}

#[test]
fn lite_topics_are_counted_shown_to_nobody_and_gone_with_their_parent() {
    let config = Config { limits: Limits { lite_topics_max: 3, ..Limits::default() }, ..Config::default() };
    let mut broker = Broker::new(config);
    broker.create_topic(PARENT, parent(None));
    broker.create_topic("normal", one_queue(MessageType::Normal));
    broker.create_group(GROUP, GroupConfig::default());
    send(&mut broker, "a", &["a1"]);
    assert_eq!(ids(&pop(&mut broker, &["a"])), ["a1"]);
    let p = topic(PARENT);
    broker.engine.ensure_lites(&p, &[lite("a"), lite("b")]).unwrap();
    assert_eq!(
        broker.engine.ensure_lites(&p, &[lite("c"), lite("d")]),
        Err(LiteError::TooMany { value: 2, limit: 3 }),
        "what is on its way counts"
    );
    let refused = broker.engine.ensure_lites(&topic("normal"), &[lite("a")]);
    assert!(matches!(refused, Err(LiteError::NotLite { found: MessageType::Normal, .. })));
    broker.commit();
    assert_eq!(broker.engine.topic_names(), [topic("normal"), p.clone()]);
    assert!(broker.engine.topics_of(&group(GROUP)).is_empty());
    broker.engine.delete_topic(&p).unwrap();
    assert!(matches!(broker.engine.ensure_lites(&p, &[lite("c")]), Err(LiteError::Deleting { .. })));
    broker.commit();
    broker.create_topic(PARENT, parent(None));
    assert_eq!(broker.engine.lite_ids(&p, &[lite("a"), lite("b")]), [None, None]);
    make(&mut broker, &["x", "y", "z"]);
}

#[test]
fn everything_comes_back_after_a_restart() {
    for checkpoint in [false, true] {
        let disk = SimStorage::new(1);
        let (mut broker, _) = open(&disk, Timestamp(1_000_000));
        broker.create_topic(PARENT, parent(Some("10")));
        broker.create_group(GROUP, GroupConfig { retries_max: 1, ..GroupConfig::default() });
        send(&mut broker, "acked", &["1", "2"]);
        send(&mut broker, "suspended", &["1"]);
        send(&mut broker, "failed", &["1"]);
        make(&mut broker, &["empty"]);
        let got = pop(&mut broker, &["acked", "suspended", "failed"]);
        broker.ack(&got[0]);
        broker.engine.suspend(got[1].receipt, secs(20), broker.now).unwrap();
        broker.engine.change_invisible(got[2].receipt, secs(20), broker.now).unwrap();
        broker.commit();
        let mut broker = restart(broker, &disk, checkpoint);
        assert_eq!(ids(&pop(&mut broker, &["acked", "suspended", "failed"])), ["2"]);
        broker.pass(secs(20));
        let got = pop(&mut broker, &["suspended", "failed"]);
        assert_eq!(got.iter().map(|got| got.attempt).collect::<Vec<_>>(), [1, 2], "checkpoint: {checkpoint}");
        pass(&mut broker, secs(579));
        assert!(broker.engine.take_expired_lites().is_empty());
        pass(&mut broker, secs(1));
        assert_eq!(broker.engine.take_expired_lites().len(), 4, "their ages came back, too");
        let mut broker = restart(broker, &disk, checkpoint);
        let names = ["acked", "suspended", "failed", "empty"].map(lite);
        assert_eq!(broker.engine.lite_ids(&topic(PARENT), &names), [None; 4]);
        send(&mut broker, "acked", &["3"]);
        assert_eq!(ids(&pop(&mut broker, &["acked"])), ["3"]);
    }
}
