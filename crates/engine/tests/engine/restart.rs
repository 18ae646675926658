//! What a crash must not make possible.

use std::sync::Arc;

use redstart_engine::{AckError, Config, Engine, GroupConfig, Message, MessageType, SettingError, Timestamp};
use redstart_log::{DiskLog, Index, Log, Options, Position, sim::SimStorage};

use crate::support::{Broker, message, one_queue, secs};

fn open_log(disk: &SimStorage) -> DiskLog {
    open_log_with(disk, 64 << 10)
}

fn open_log_with(disk: &SimStorage, segment_bytes: u64) -> DiskLog {
    DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(segment_bytes)).unwrap().0
}

fn open(disk: &SimStorage, now: Timestamp) -> Broker {
    on(open_log(disk), now)
}

fn on(log: DiskLog, now: Timestamp) -> Broker {
    let flusher = log.flusher();
    let (engine, _) = Engine::open(Box::new(log), Config::default()).unwrap();
    Broker { engine, flusher, now }
}

#[test]
fn a_receipt_from_before_a_crash_fits_nothing_that_is_delivered_after_it() {
    let disk = SimStorage::new(1);
    let mut broker = open(&disk, Timestamp(1_000_000));
    broker.create_topic("t", one_queue(MessageType::Normal));
    broker.create_group("g", GroupConfig::default());
    broker.send("t", message("a"));
    // The fact of this delivery is not durable when the power goes.
    let lost = broker.pop("g", "t", 1, secs(60));
    assert_eq!(lost.len(), 1);
    let now = broker.now.after(secs(1));
    drop(broker);

    let mut broker = open(&disk.crash(2), now);
    let again = broker.pop("g", "t", 1, secs(60));
    assert_eq!((again[0].id.as_str(), again[0].attempt), ("a", 1));
    assert_eq!(broker.engine.ack(lost[0].receipt, broker.now), Err(AckError::Expired));
    assert_eq!(broker.engine.ack(again[0].receipt, broker.now), Ok(()));
}

#[test]
fn settings_are_in_force_when_durable_and_outlive_a_crash() {
    let disk = SimStorage::new(1);
    let mut broker = open(&disk, Timestamp(1_000_000));
    for (key, value) in [("a", Some("1")), ("b", Some("2")), ("a", None), ("c", Some("3"))] {
        broker.engine.put_setting("n", key, value).unwrap();
    }
    assert_eq!(broker.engine.setting("n", "b"), None, "not durable yet");
    broker.commit();
    assert_eq!(broker.engine.setting("n", "b"), Some("2"));
    assert_eq!(broker.engine.setting("other", "b"), None);
    for (key, value) in [("", "v".to_owned()), ("k", "v".repeat(65 << 10)), (&"k".repeat(256), String::new())]
    {
        assert!(broker.engine.put_setting("n", key, Some(&value)).is_err());
    }
    let now = broker.now;
    drop(broker);

    let broker = open(&disk.crash(2), now);
    let found: Vec<_> = broker.engine.settings("n").into_iter().collect();
    assert_eq!(found, [("b".to_owned(), "2".to_owned()), ("c".to_owned(), "3".to_owned())]);
}

#[test]
fn all_settings_together_have_a_limit() {
    let mut broker = open(&SimStorage::new(1), Timestamp(1_000_000));
    let value = "v".repeat(60 << 10);
    let refused = (0..1000).find_map(|n| {
        let put = broker.engine.put_setting("n", &n.to_string(), Some(&value));
        broker.commit();
        put.err()
    });
    assert!(matches!(refused, Some(SettingError::Full { .. })), "{refused:?}");
    broker.engine.put_setting("n", "1", None).unwrap();
    broker.commit();
    broker.engine.put_setting("n", "1", Some("small")).unwrap();
}

#[test]
fn a_log_with_records_of_a_newer_version_is_refused_as_such() {
    let disk = SimStorage::new(1);
    let mut log = open_log(&disk);
    // Length, checksum, kind and a body of one byte.
    let record = [10, 0, 0, 0, 0, 0, 0, 0, 62, 1];
    log.append(1_000_000, &record).unwrap();
    log.flusher().flush().unwrap();
    let error = Engine::open(Box::new(log), Config::default()).map(|_| ()).unwrap_err();
    assert!(error.is_newer(), "{error}");
    assert!(error.to_string().contains("record kind 62"), "{error}");
}

#[test]
fn a_checkpoint_of_a_newer_version_stops_the_start_and_a_damaged_one_does_not() {
    let disk = SimStorage::new(1);
    let mut broker = open(&disk, Timestamp(1_000_000));
    broker.create_topic("t", one_queue(MessageType::Normal));
    drop(broker);
    for (first_byte, newer) in [(0, false), (200, true)] {
        let log = open_log(&disk);
        log.checkpoints().save(Index(1), &[first_byte]).unwrap();
        match Engine::open(Box::new(log), Config::default()) {
            Ok((_, recovered)) => assert!(!newer && recovered.damaged_checkpoints.len() == 1),
            Err(error) => assert!(newer && error.is_newer(), "{error}"),
        }
    }
}

/// Sends until there are several segments, and compares their size.
fn fill(mut broker: Broker, disk: &SimStorage, segment_bytes: u64) {
    for n in 0..100 {
        let body = vec![0; 1 << 10].into();
        broker.send("t", Message { body, ..message(&n.to_string()) });
    }
    drop(broker);
    let segments = open_log(disk).segments();
    let largest = segments.iter().map(|segment| segment.end.0 - segment.id.0).max();
    assert!(segments.len() > 3 && largest <= Some(segment_bytes), "{segments:?}");
}

#[test]
fn a_shard_keeps_the_sizes_that_it_was_made_with_whatever_its_node_is_set_to() {
    let disk = SimStorage::new(1);
    let now = Timestamp(1_000_000);
    let made_with = Options::with_segment_bytes(32 << 10).sizes();
    // Written before sizes were recorded: the options count.
    let mut broker = on(open_log_with(&disk, 16 << 10), now);
    assert_eq!(broker.engine.sizes(), None);
    broker.create_topic("t", one_queue(MessageType::Normal));
    drop(broker);

    let mut broker = on(open_log_with(&disk, 32 << 10), now);
    broker.engine.record_sizes();
    broker.commit();
    assert_eq!(broker.engine.sizes(), Some(made_with));
    drop(broker);

    let mut broker = on(open_log_with(&disk, 128 << 10), now);
    assert_eq!(broker.engine.sizes(), Some(made_with));
    broker.engine.record_sizes();
    assert!(!broker.engine.has_batch(), "they are recorded once");
    fill(broker, &disk, 32 << 10);
}

#[test]
fn a_replica_that_comes_to_lead_begins_segments_of_the_same_size() {
    let now = Timestamp(1_000_000);
    let mut leader = on(open_log_with(&SimStorage::new(1), 32 << 10), now);
    leader.engine.record_sizes();
    leader.commit();
    let frame = leader.engine.reader().frame(Position(0)).unwrap().unwrap();

    let disk = SimStorage::new(2);
    let mut log = open_log_with(&disk, 128 << 10);
    log.copy(&frame).unwrap();
    let flusher = log.flusher();
    let committed = flusher.flush().unwrap();
    let (mut engine, _) = Engine::open_until(Box::new(log), Config::default(), Index(0)).unwrap();
    engine.follow(committed).unwrap();
    assert_eq!(engine.sizes(), leader.engine.sizes());
    engine.lead(2);
    let mut broker = Broker { engine, flusher, now };
    broker.create_topic("t", one_queue(MessageType::Normal));
    fill(broker, &disk, 32 << 10);
}
