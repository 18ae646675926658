//! What a crash must not make possible.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::Arc;

use redstart_engine::{AckError, Config, Engine, GroupConfig, MessageType, Timestamp};
use redstart_log::{DiskLog, Log, Options, sim::SimStorage};
use support::{Broker, message, one_queue, secs};

fn open(disk: &SimStorage, now: Timestamp) -> Broker {
    let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
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
