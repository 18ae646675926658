//! A backlog that is on the disk only: a request can be refused instead of waiting for the disk.

use std::sync::Arc;

use redstart_engine::*;
use redstart_log::{DiskLog, Log, Options, sim::SimStorage};

use crate::support::{Broker, group, message, one_queue, secs, topic};

/// A broker whose first messages are in a sealed segment that nothing of is in memory.
fn cold_backlog(disk: &SimStorage) -> Broker {
    let open = || {
        let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(16 << 10)).unwrap();
        let flusher = log.flusher();
        let (engine, _) = Engine::open(Box::new(log), Config::default()).unwrap();
        Broker { engine, flusher, now: Timestamp(1_000_000) }
    };
    let mut broker = open();
    broker.create_topic("t", one_queue(MessageType::Normal));
    broker.create_group("g", GroupConfig::default());
    broker.pop("g", "t", 1, secs(60));
    for n in 0..200 {
        broker.send("t", message(&n.to_string()));
    }
    while let Some(job) = broker.engine.seal() {
        broker.engine.job_done(job.run()).unwrap();
    }
    let job = broker.engine.checkpoint().unwrap();
    broker.engine.job_done(job.run()).unwrap();
    drop(broker);
    let broker = open();
    disk.evict();
    broker
}

fn pop<'a>(group: &'a GroupName, topic: &'a TopicName) -> Pop<'a> {
    Pop {
        group,
        topic,
        queue: None,
        max: 32,
        invisible: secs(60),
        filter: &Filter::All,
        attempt: None,
        client: "test",
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
    }
}

#[test]
fn a_cold_index_is_told_and_the_request_succeeds_once_it_was_read() {
    let disk = SimStorage::new(1);
    let mut broker = cold_backlog(&disk);
    let (group, topic) = (group("g"), topic("t"));
    let pull = Pull {
        topic: &topic,
        queue: QueueId(0),
        offset: QueueOffset(0),
        max: 8,
        bytes_max: 1 << 20,
        filter: &Filter::All,
    };

    let cached = broker.engine.run_cached(Vec::new(), |engine| engine.pull(&pull));
    let Err(OffsetError::Index(IndexError::Cold(part))) = cached.result else {
        panic!("the pull waited for the disk");
    };
    assert_eq!(cached.missed, Some(part));
    let (pop, now) = (pop(&group, &topic), broker.now);
    let cached = broker.engine.run_cached(Vec::new(), |engine| engine.pop(&pop, now));
    assert!(cached.result.unwrap_err().is_cold());

    let JobDone::Read(warmed) = broker.engine.warm(part).run() else { panic!("no part was read") };
    // However soon the system forgets it.
    disk.evict();
    let cached = broker.engine.run_cached(vec![warmed], |engine| engine.pull(&pull));
    assert_eq!(cached.result.unwrap().messages.len(), 8);
    let cached = broker.engine.run_cached(cached.parts, |engine| engine.pop(&pop, now));
    assert_eq!(cached.result.unwrap().deliveries.len(), 32);
    assert_eq!(cached.missed, None);
}

#[test]
fn a_filter_does_not_wait_for_bodies_and_gives_what_it_has_before_them() {
    let disk = SimStorage::new(1);
    let mut broker = cold_backlog(&disk);
    let (group, topic, now) = (group("g"), topic("t"), broker.now);
    let filter = Filter::sql("a IS NULL").unwrap();
    let pop = Pop { filter: &filter, ..pop(&group, &topic) };
    let mut lent = Vec::new();
    let delivered = loop {
        let cached = broker.engine.run_cached(lent, |engine| engine.pop(&pop, now));
        lent = cached.parts;
        match (cached.result, cached.missed) {
            (Ok(popped), _) if !popped.deliveries.is_empty() => break popped.deliveries.len(),
            (_, Some(part)) => {
                let JobDone::Read(warmed) = broker.engine.warm(part).run() else {
                    panic!("no part was read")
                };
                lent.push(warmed);
                disk.evict();
            }
            (result, None) => panic!("{result:?}"),
        }
    };
    assert_eq!(delivered, 1, "the first body");
}

#[test]
fn cold_bodies_are_told_and_those_before_them_are_served() {
    let disk = SimStorage::new(1);
    let mut broker = cold_backlog(&disk);
    let (group, topic) = (group("g"), topic("t"));
    let popped = broker.engine.pop(&pop(&group, &topic), broker.now).unwrap();
    let places: Vec<_> = popped.deliveries.iter().map(|one| (one.position, one.size)).collect();
    let reader = broker.engine.reader();
    assert!(fetch_if_cached(&*reader, places[0].0, places[0].1).unwrap().is_none());
    assert_eq!(fetch_each_if_cached(&*reader, &places, |n, _| panic!("{n} was read")), 0);

    for (position, size) in &places[..20] {
        fetch(&*reader, *position, *size).unwrap();
    }
    assert!(fetch_if_cached(&*reader, places[0].0, places[0].1).unwrap().is_some());
    let mut seen = Vec::new();
    let served = fetch_each_if_cached(&*reader, &places, |n, fetched| {
        fetched.unwrap();
        seen.push(n);
    });
    assert!(served >= 20, "{served}");
    assert_eq!(seen, (0..served).collect::<Vec<_>>());

    fetch_each(&*reader, &places, |_, fetched| assert!(fetched.is_ok()));
    assert_eq!(fetch_each_if_cached(&*reader, &places, |_, fetched| assert!(fetched.is_ok())), places.len());
}

#[test]
fn retention_goes_on_behind_a_segment_that_is_damaged_with_its_index() {
    let disk = SimStorage::new(1);
    let mut broker = cold_backlog(&disk);
    for n in 0..2 {
        broker.send("t", message(&format!("later {n}")));
        let job = broker.engine.checkpoint().unwrap();
        broker.engine.job_done(job.run()).unwrap();
    }
    let oldest = broker.engine.log().segments()[0];
    let index = format!("{:020}.idx", oldest.id.0);
    let last = disk.content(&index).unwrap().len() as u64 - 1;
    assert!(disk.flip_bit(&index, last, 0), "the checksum of its timers");
    assert!(disk.flip_bit(&format!("{:020}.log", oldest.id.0), 200, 0));

    broker.now = broker.now.after(secs(30 * 24 * 3600));
    assert!(broker.try_retire().is_err(), "the index is found damaged");
    let job = broker.engine.rebuild(broker.now).unwrap();
    assert!(broker.engine.rebuild(broker.now).is_none(), "it is being built");
    let error = broker.engine.job_done(job.run()).unwrap_err();
    assert_eq!(error.damaged_segment(), Some(oldest.id));
    assert_eq!(broker.engine.lost_segments().collect::<Vec<_>>(), [oldest.id]);
    let retired = broker.retire().unwrap();
    assert_eq!((retired.segment, retired.damaged), (oldest.id, true));
    assert_eq!(broker.engine.lost_segments().count(), 0);
}

#[test]
fn an_index_is_built_again_once_the_disk_reads_its_segment() {
    let disk = SimStorage::new(1);
    let mut broker = cold_backlog(&disk);
    let (group, topic) = (group("g"), topic("t"));
    let oldest = broker.engine.log().segments()[0];
    let index = format!("{:020}.idx", oldest.id.0);
    assert!(disk.flip_bit(&index, 200, 0), "an entry");
    assert!(broker.engine.pop(&pop(&group, &topic), broker.now).is_err());

    let job = broker.engine.rebuild(broker.now).unwrap();
    disk.fail_reads(true);
    let error = broker.engine.job_done(job.run()).unwrap_err();
    disk.fail_reads(false);
    assert_eq!(error.damaged_segment(), None, "{error}");
    assert!(broker.engine.rebuild(broker.now).is_none(), "not at once");
    broker.now = broker.now.after(secs(10));
    let job = broker.engine.rebuild(broker.now).unwrap();
    broker.engine.job_done(job.run()).unwrap();
    assert_eq!(broker.engine.pop(&pop(&group, &topic), broker.now).unwrap().deliveries.len(), 32);

    // It is written anew.
    let job = broker.engine.seal().unwrap();
    broker.engine.job_done(job.run()).unwrap();
    assert_eq!(broker.engine.pop(&pop(&group, &topic), broker.now).unwrap().deliveries.len(), 32);
}
