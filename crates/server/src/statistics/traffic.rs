//! What is counted of a topic, and of a group in a topic.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use redstart_engine::MessageType;

use super::{Distribution, Histogram, Meter, table::Counted};

/// RocketMQ's bounds of message sizes in bytes, of delays and of open transactions in seconds.
static SIZE_BOUNDS: [u64; 6] = [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
static DELAY_BOUNDS: [u64; 6] = [60, 600, 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600];
static FINISH_BOUNDS: [u64; 6] = [5, 60, 600, 3600, 12 * 3600, 24 * 3600];

/// Messages of one type that were stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    pub kind: MessageType,
    pub messages: usize,
    pub body_bytes: usize,
    /// Bytes that they take in the log.
    pub log_bytes: usize,
}

/// Messages of one type that were stored in a topic.
#[derive(Debug)]
struct Incoming {
    bytes: AtomicU64,
    sizes: Histogram<6>,
}

/// Delayed and transactional messages of a topic.
#[derive(Debug)]
pub(super) struct Deferred {
    pub due: AtomicU64,
    pub delays: Histogram<6>,
    pub rolled_back: AtomicU64,
    pub finished: Histogram<6>,
}

/// What is counted of a topic. Most topics take one type of messages and none of them delayed, so the other counters are made
/// on first use.
#[derive(Debug, Default)]
pub(super) struct OfTopic {
    put: Meter,
    incoming: [OnceLock<Box<Incoming>>; MessageType::COUNT],
    deferred: OnceLock<Box<Deferred>>,
}

/// What is counted of a group in a topic.
#[derive(Debug, Default)]
pub(super) struct OfGroup {
    pub got: Meter,
    pub dead_lettered: AtomicU64,
}

impl OfTopic {
    pub fn put(&self, stored: Stored) {
        let Stored { kind, messages, body_bytes, log_bytes: bytes } = stored;
        self.put.add(messages, body_bytes);
        let Some(incoming) = self.incoming.get(kind as usize) else { return };
        let incoming = incoming.get_or_init(|| {
            Box::new(Incoming { bytes: AtomicU64::new(0), sizes: Histogram::new(&SIZE_BOUNDS) })
        });
        incoming.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        incoming.sizes.observe_many((bytes / messages.max(1)) as u64, messages as u64);
    }

    pub fn deferred(&self) -> &Deferred {
        self.deferred.get_or_init(|| {
            Box::new(Deferred {
                due: AtomicU64::new(0),
                delays: Histogram::new(&DELAY_BOUNDS),
                rolled_back: AtomicU64::new(0),
                finished: Histogram::new(&FINISH_BOUNDS),
            })
        })
    }

    pub fn traffic(&self) -> TopicTraffic {
        let incoming = MessageType::all().filter_map(|kind| {
            let incoming = self.incoming.get(kind as usize)?.get()?;
            let bytes = incoming.bytes.load(Ordering::Relaxed);
            Some(IncomingTraffic { kind, bytes, sizes: incoming.sizes.distribution() })
        });
        let deferred = self.deferred.get().map(|deferred| DeferredTraffic {
            due: deferred.due.load(Ordering::Relaxed),
            delays: deferred.delays.distribution(),
            rolled_back: deferred.rolled_back.load(Ordering::Relaxed),
            finished: deferred.finished.distribution(),
        });
        TopicTraffic { incoming: incoming.collect(), deferred }
    }
}

impl OfGroup {
    pub fn traffic(&self) -> GroupTraffic {
        let dead_lettered = self.dead_lettered.load(Ordering::Relaxed);
        GroupTraffic { messages: self.got.count(), bytes: self.got.bytes(), dead_lettered }
    }
}

impl Counted for OfTopic {
    fn meter(&self) -> &Meter {
        &self.put
    }
}

impl Counted for OfGroup {
    fn meter(&self) -> &Meter {
        &self.got
    }
}

/// What was stored in a topic since it was first counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicTraffic {
    pub incoming: Vec<IncomingTraffic>,
    pub deferred: Option<DeferredTraffic>,
}

/// Messages of one type; their number is `sizes.count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingTraffic {
    pub kind: MessageType,
    pub bytes: u64,
    pub sizes: Distribution,
}

/// Delays and the times that transactions were open are in seconds; how many there were is in their distributions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredTraffic {
    pub due: u64,
    pub delays: Distribution,
    pub rolled_back: u64,
    /// How long committed transactions were open.
    pub finished: Distribution,
}

/// Messages of a topic that a group was given, and those that were moved to its dead-letter topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupTraffic {
    pub messages: u64,
    pub bytes: u64,
    pub dead_lettered: u64,
}
