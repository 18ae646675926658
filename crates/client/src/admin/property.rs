//! Names of a message's properties that tools look at or set.

pub const TAGS: &str = "TAGS";
pub const KEYS: &str = "KEYS";
pub const UNIQUE_KEY: &str = "UNIQ_KEY";
pub const MESSAGE_GROUP: &str = "__SHARDINGKEY";
pub const WAIT: &str = "WAIT";
pub const DELIVER_AT: &str = "TIMER_DELIVER_MS";
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
pub const DEAD_LETTER_ORIGIN: &str = "DLQ_ORIGIN_TOPIC";
pub const REAL_TOPIC: &str = "REAL_TOPIC";
