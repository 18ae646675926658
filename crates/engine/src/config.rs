//! What an operator may set, with defaults in one place.

use std::time::Duration;

use crate::ConsumeFrom;

/// The largest body that an operator may allow. Clients take frames of 16 MiB, and a message has properties too.
pub const BODY_BYTES_CEILING: usize = 12 << 20;

/// Settings of the engine. `Config::default()` is what a broker starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub limits: Limits,
    pub transactions: Transactions,
    pub retention: Retention,
    /// Where a group without [`CONSUME_FROM`](crate::CONSUME_FROM) begins in a topic that is new to it.
    pub new_groups_from: ConsumeFrom,
    /// Refuse a message whose type is not the topic's.
    pub check_message_type: bool,
    #[cfg(feature = "planted")]
    pub planted: Option<crate::Planted>,
}

/// Bounds on what a caller may send or ask for. Each has an error that names the limit and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub body_bytes_max: usize,
    /// Keys and values of properties, tag and keys together.
    pub properties_bytes_max: usize,
    pub message_group_bytes_max: usize,
    pub batch_bytes_max: usize,
    pub batch_messages_max: usize,
    pub delay_max: Duration,
    pub queues_max: u32,
    pub topics_max: usize,
    /// Lite topics of all parents together; they count as topics, too.
    pub lite_topics_max: usize,
    pub groups_max: usize,
    pub receive_batch_max: usize,
    pub invisible_max: Duration,
    /// Messages of one group out of one queue that may be in flight.
    pub flights_max: usize,
    /// Messages that may be blocked behind locked message groups, for one consumer group and queue.
    pub blocked_max: usize,
    pub dedup_window_max: Duration,
    pub dedup_keys_max: usize,
    pub transactions_open_max: usize,
    pub timers_max: usize,
    /// Queue entries looked at by one pop or pull, so that a selective filter cannot delay other requests.
    pub scan_entries_max: usize,
    /// Messages whose properties one pop may read for its filter.
    pub scan_reads_max: usize,
    /// Index blocks and records that one query by key may look at, in all its steps.
    pub query_probes_max: usize,
    /// Dedup keys that are put into a checkpoint in one step, before other requests are served.
    pub checkpoint_step_keys: usize,
}

/// When an undecided transaction is asked about, and when it is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transactions {
    pub first_check_after: Duration,
    pub check_interval: Duration,
    pub checks_max: u32,
    pub open_max: Duration,
}

/// How long and up to which fullness of the volume data is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    pub keep: Duration,
    /// From this fullness on everything older than `keep` is removed at once, also if the times in the log look wrong.
    pub clean_percent: u8,
    /// From this fullness on the oldest segments are removed before their time, until the volume is below it.
    pub forced_percent: u8,
    /// From this fullness on nothing new is stored.
    pub refuse_percent: u8,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            limits: Limits::default(),
            transactions: Transactions::default(),
            retention: Retention::default(),
            new_groups_from: ConsumeFrom::default(),
            check_message_type: true,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Limits {
            body_bytes_max: 4 << 20,
            properties_bytes_max: i16::MAX as usize,
            message_group_bytes_max: 64,
            batch_bytes_max: 4 << 20,
            batch_messages_max: 4096,
            delay_max: Duration::from_secs(40 * DAY),
            queues_max: 1024,
            topics_max: 1_000_000,
            lite_topics_max: 100_000,
            groups_max: 1_000_000,
            receive_batch_max: 32,
            invisible_max: Duration::from_secs(12 * 3600),
            flights_max: 100_000,
            blocked_max: 100_000,
            dedup_window_max: Duration::from_secs(15 * DAY),
            dedup_keys_max: 10_000_000,
            transactions_open_max: 1_000_000,
            timers_max: 50_000_000,
            scan_entries_max: 4096,
            scan_reads_max: 256,
            query_probes_max: 1 << 16,
            checkpoint_step_keys: 512,
        }
    }
}

impl Default for Transactions {
    fn default() -> Self {
        Transactions {
            first_check_after: Duration::from_secs(6),
            check_interval: Duration::from_secs(30),
            checks_max: 15,
            open_max: Duration::from_secs(4 * 3600),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            keep: Duration::from_secs(72 * 3600),
            clean_percent: 75,
            forced_percent: 85,
            refuse_percent: 90,
        }
    }
}
