//! The broker as a deterministic state machine over the log.
//!
//! [`Engine`] holds topics, queues, groups, deliveries, timers and transactions. It has no clock, no socket, no thread
//! and no random number of its own: the same requests at the same times on the same log give the same answers.

mod apply;
mod checkpoint;
mod codec;
mod config;
mod consume_from;
mod dedup;
mod entry;
pub mod filter;
mod group;
mod index;
mod lite_topics;
mod message;
mod message_ref;
mod name;
mod open_transactions;
mod ops;
mod planted;
mod pop;
mod queue;
mod record;
mod speculation;
mod state;
mod timer;
mod topic;
mod types;

pub use apply::OffsetGap;
pub use codec::Malformed;
pub use config::{BODY_BYTES_CEILING, Config, Limits, Retention, Transactions};
pub use consume_from::{CONSUME_FROM, ConsumeFrom, UnknownConsumeFrom};
pub use entry::Entry;
pub use filter::Filter;
pub use group::{GroupConfig, InvalidConfig as InvalidGroupConfig, RetryPolicy};
pub use index::{ColdPart, IndexCheck, IndexError, IndexFault, Warmed};
pub use message::{DEDUP_KEY, Invalid as InvalidMessage, LITE_TOPIC, Message, MessageView, group_hash};
pub use name::{
    DLQ_PREFIX, Error as NameError, GroupName, LITE_TOPIC_LEN_MAX, LiteName, RETRY_PREFIX, TopicName,
};
pub use ops::*;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use pop::Receipt;
pub use record::{
    FetchError, Fetched, Loss, Opened, Proof, fetch, fetch_at, fetch_each, fetch_each_if_cached,
    fetch_if_cached,
};
pub use timer::TimerKey;
pub use topic::{
    InvalidConfig as InvalidTopicConfig, MessageType, Permission, TopicConfig, UnknownMessageType,
};
pub use types::{GroupId, QueueId, QueueKey, QueueOffset, Ticket, Timestamp, TopicId};
