//! A clock that was wrong: what it may and may not do to what is stored and what waits.

use std::{sync::Arc, time::Duration};

use redstart_engine::*;
use redstart_log::{DiskLog, Log, Options, Usage, sim::SimStorage};

use crate::support::{Broker, group, message, millis, one_queue, secs, topic};

const HOUR: Duration = Duration::from_secs(3600);
const START: Timestamp = Timestamp(1_700_000_000_000);

fn open(disk: &SimStorage, now: Timestamp) -> Broker {
    let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
    let flusher = log.flusher();
    let (engine, _) = Engine::open(Box::new(log), Config::default()).unwrap();
    Broker { engine, flusher, now }
}

fn new(disk: &SimStorage) -> Broker {
    let mut broker = open(disk, START);
    broker.create_topic("t", one_queue(MessageType::Mixed));
    broker.create_group("g", GroupConfig::default());
    broker.create_topic("fifo", one_queue(MessageType::Fifo));
    broker.create_group("ordered", GroupConfig { ordered: true, ..GroupConfig::default() });
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    broker
}

fn grouped(id: &str) -> Message {
    Message { group: Some("a".to_owned()), ..message(id) }
}

fn delayed(id: &str, at: Timestamp) -> Message {
    Message { deliver_at: Some(at), ..message(id) }
}

fn half() -> SendOptions {
    SendOptions { half: Some(HalfOptions { check_after: Some(secs(6)) }), ..SendOptions::default() }
}

/// Messages of every kind are on their way when the clock is `ahead`; then it is right again, after a restart or without one.
fn wrong_for_a_while(ahead: Duration, restart: bool) {
    let what = format!("{ahead:?} ahead, restart {restart}");
    let disk = SimStorage::new(1);
    let mut broker = new(&disk);
    broker.send("t", message("early"));

    broker.now = START.after(ahead);
    broker.send("t", message("in flight"));
    let held = broker.pop("g", "t", 32, secs(30));
    assert_eq!(held.len(), 2);
    broker.send("fifo", grouped("first"));
    broker.send("fifo", grouped("second"));
    assert_eq!(broker.pop("ordered", "fifo", 1, secs(60)).len(), 1);
    broker.send_with("t", message("half"), half()).unwrap();
    let sent = broker.send("t", message("failed"));
    let back = SendBack {
        reason: None,
        group: &group("g"),
        position: sent.position,
        attempt: 0,
        delay: Some(secs(10)),
        retries_max: None,
        give_up: false,
        properties: Vec::new(),
    };
    broker.engine.send_back(&back, broker.now).unwrap();
    broker.commit();
    let failed = broker.pop("g", "t", 32, secs(30));
    broker.ack(&failed[0]);
    broker.commit();

    let right = START.after(secs(60));
    broker.now = right;
    if restart {
        drop(broker);
        broker = open(&disk, right);
    }
    assert!(broker.ids("g", "t").is_empty(), "{what}: still invisible");
    // What the wrong clock set comes as long after now as it would have come then.
    let checks: Vec<_> = (0..10).flat_map(|_| broker.pass(secs(1))).collect();
    assert_eq!(checks.len(), 1, "{what}: the transaction is asked about after 6 s");
    broker.engine.end_transaction(checks[0].id, false, broker.now).unwrap();
    broker.commit();
    assert_eq!(broker.ids("g", "%RETRY%g"), ["failed"], "{what}: the retry comes after 10 s");
    broker.pass(secs(21));
    let mut again = broker.pop("g", "t", 32, secs(30));
    again.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<_> = again.iter().map(|got| (got.id.as_str(), got.attempt)).collect();
    assert_eq!(ids, [("early", 2), ("in flight", 2)], "{what}");
    broker.pass(secs(31));
    let first = broker.pop("ordered", "fifo", 1, secs(30));
    assert_eq!(first.len(), 1, "{what}: the group is free again");
    broker.ack(&first[0]);
    assert_eq!(broker.ids("ordered", "fifo"), ["second"], "{what}");

    // What is new has the right times.
    let now = broker.now;
    broker.send("t", delayed("delayed", now.after(secs(5))));
    broker.send_with("t", message("another half"), half()).unwrap();
    let plain = broker.send("t", message("new"));
    let taken = broker.pop("g", "t", 32, secs(30));
    assert!(taken.iter().any(|got| got.id == "new"), "{what}: {taken:?}");
    assert!(taken.iter().all(|got| got.id != "delayed"), "{what}: a delayed message is not early");
    assert!(broker.pass(millis(4999)).is_empty(), "{what}");
    assert!(broker.ids("g", "t").iter().all(|id| id != "delayed"), "{what}: a delayed message is not early");
    broker.pass(millis(1));
    assert!(broker.ids("g", "t").iter().any(|id| id == "delayed"), "{what}: a delayed message is not late");
    assert_eq!(broker.pass(secs(2)).len(), 1, "{what}: the transaction is asked about after 6 s");
    broker.pass(secs(30));
    assert!(broker.ids("g", "t").iter().any(|id| id == "new"), "{what}: comes again after 30 s");

    // Order in a queue is order in time: store times do not go back.
    let Visibility::Visible(last) = plain.visibility else { panic!("{plain:?}") };
    let stored =
        |offset| broker.engine.message_at(&topic("t"), QueueId(0), QueueOffset(offset)).unwrap().stored_at;
    let times: Vec<_> = (0..=last.0).map(stored).collect();
    assert!(times.is_sorted(), "{what}: {times:?}");
}

#[test]
fn a_clock_that_was_ahead_for_a_while_holds_nothing_up() {
    for ahead in [HOUR, 73 * HOUR, 24 * 365 * 73 * HOUR] {
        for restart in [false, true] {
            wrong_for_a_while(ahead, restart);
        }
    }
}

#[test]
fn a_step_back_does_not_hold_up_redeliveries() {
    let mut broker = new(&SimStorage::new(1));
    broker.send("t", message("a"));
    assert_eq!(broker.pop("g", "t", 1, secs(30)).len(), 1);
    broker.now = START.before(HOUR);
    assert!(broker.ids("g", "t").is_empty());
    broker.pass(secs(31));
    assert_eq!(broker.ids("g", "t"), ["a"]);
}

#[test]
fn delayed_messages_keep_their_time_unless_no_right_clock_can_have_set_it() {
    let disk = SimStorage::new(1);
    let mut broker = new(&disk);
    let in_two_days = START.after(48 * HOUR);
    broker.send("t", delayed("in two days", in_two_days));
    // In this run the clock is ahead by a day.
    broker.now = START.after(24 * HOUR);
    broker.send("t", delayed("a day more", broker.now.after(24 * HOUR)));
    drop(broker);
    let mut broker = open(&disk, START);
    broker.pass(48 * HOUR - millis(1));
    assert!(broker.ids("g", "t").is_empty(), "never early");
    broker.pass(millis(1));
    assert_eq!(broker.ids("g", "t").len(), 2);

    // In this one by 73 years.
    let disk = SimStorage::new(1);
    let mut broker = new(&disk);
    broker.now = START.after(24 * 365 * 73 * HOUR);
    broker.send("t", delayed("in an hour", broker.now.after(HOUR)));
    drop(broker);
    let mut broker = open(&disk, START);
    broker.pass(millis(1));
    let moved = broker.now;
    drop(broker);
    // The new time is durable.
    let mut broker = open(&disk, moved);
    broker.pass(HOUR - secs(1));
    assert!(broker.ids("g", "t").is_empty());
    broker.pass(secs(2));
    assert_eq!(broker.ids("g", "t"), ["in an hour"]);
    assert_eq!(broker.engine.deferred().delayed, 0);
}

/// Fills `count` segments, and makes checkpoints that cover them.
fn fill(broker: &mut Broker, count: usize) {
    let goal = broker.engine.log().segments().len() + count;
    while broker.engine.log().segments().len() < goal {
        let body = vec![0; 8 << 10].into();
        broker.send("t", Message { body, ..message("m") });
    }
    for _ in 0..2 {
        broker.send("t", message("between checkpoints"));
        let jobs: Vec<_> = std::iter::from_fn(|| broker.engine.seal()).collect();
        for job in jobs.into_iter().chain(broker.engine.checkpoint()) {
            broker.engine.job_done(job.run()).unwrap();
        }
    }
}

fn retire_all(broker: &mut Broker) -> Vec<Retired> {
    std::iter::from_fn(|| broker.retire()).collect()
}

#[test]
fn nothing_goes_because_of_its_age_while_the_time_is_suspicious() {
    let mut broker = new(&SimStorage::new(1));
    fill(&mut broker, 4);
    broker.engine.set_time_suspicious(true);
    broker.now = START.after(73 * HOUR);
    assert_eq!(retire_all(&mut broker), []);
    broker.engine.set_time_suspicious(false);
    assert_eq!(retire_all(&mut broker).len(), 1);
}

#[test]
fn after_a_gap_in_the_log_segments_go_slowly() {
    let disk = SimStorage::new(1);
    let mut broker = new(&disk);
    fill(&mut broker, 5);
    drop(broker);
    // The machine was off for a year, or its clock is wrong.
    let mut broker = open(&disk, START.after(24 * 365 * HOUR));
    assert_eq!(retire_all(&mut broker), []);
    for _ in 0..2 {
        broker.now = broker.now.after(secs(599));
        assert_eq!(retire_all(&mut broker), []);
        broker.now = broker.now.after(secs(1));
        assert_eq!(retire_all(&mut broker).len(), 1);
    }
    // Messages of the new time do not end that, nor does a restart.
    broker.send("t", message("new"));
    let now = broker.now;
    drop(broker);
    let mut broker = open(&disk, now.after(secs(1)));
    assert_eq!(retire_all(&mut broker), []);
    // What is old goes at once when the disk fills up.
    broker.engine.set_usage(Usage { total: 100, free: 25 });
    let rest = retire_all(&mut broker);
    assert!(rest.len() >= 2 && rest.iter().all(|retired| !retired.forced), "{rest:?}");
}

#[test]
fn what_is_not_old_goes_only_when_the_disk_is_very_full_and_is_told_of() {
    let mut broker = new(&SimStorage::new(1));
    broker.create_group("behind", GroupConfig::default());
    fill(&mut broker, 3);
    let all = broker.pop("g", "t", 32, secs(30));
    all.iter().for_each(|got| broker.ack(got));
    assert_eq!(broker.pop("behind", "t", 1, secs(30)).len(), 1);
    for (free, goes) in [(25, false), (16, false), (15, true), (2, true)] {
        broker.engine.set_usage(Usage { total: 100, free });
        let retired = broker.retire();
        assert_eq!(retired.is_some(), goes, "{free} % free");
        let Some(retired) = retired else { continue };
        assert!(retired.forced);
        let contents = retired.contents.unwrap();
        assert_eq!(contents.topics, [(topic("t"), contents.messages)]);
        assert_eq!((contents.messages, contents.unconsumed), (7, 7));
        assert_eq!((contents.oldest, contents.newest), (START, START));
    }
}
