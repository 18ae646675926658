//! The properties that users may set: which names are taken, and how many there may be.

use redstart_engine::{DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, LITE_TOPIC};

/// User properties of a message, and the bytes of their names and values.
pub(crate) const COUNT_MAX: usize = 128;
pub(crate) const BYTES_MAX: usize = 16 << 10;
/// The property in which the producer's trace context is stored.
pub(crate) const TRACE_CONTEXT: &str = "TRACE_CONTEXT";

/// Property names that the protocols and the broker use. Users cannot set them.
const RESERVED: &[&str] = &[
    "TRACE_ON",
    "MSG_REGION",
    "KEYS",
    "TAGS",
    "WAIT",
    "DELAY",
    "RETRY_TOPIC",
    "REAL_TOPIC",
    "REAL_QID",
    "TRAN_MSG",
    "PGROUP",
    "MIN_OFFSET",
    "MAX_OFFSET",
    "BUYER_ID",
    "ORIGIN_MESSAGE_ID",
    "TRANSFER_FLAG",
    "CORRECTION_FLAG",
    "MQ2_FLAG",
    "RECONSUME_TIME",
    "UNIQ_KEY",
    "MAX_RECONSUME_TIMES",
    "CONSUME_START_TIME",
    "POP_CK",
    "POP_CK_OFFSET",
    "1ST_POP_TIME",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "DUP_INFO",
    "EXTEND_UNIQ_INFO",
    "INSTANCE_ID",
    "CORRELATION_ID",
    "REPLY_TO_CLIENT",
    "TTL",
    "ARRIVE_TIME",
    "PUSH_REPLY_TIME",
    "CLUSTER",
    "MSG_TYPE",
    "INNER_MULTI_QUEUE_OFFSET",
    "TIMER_DELAY_MS",
    "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_OUT_MS",
    "TIMER_DEL_UNIQKEY",
    "TIMER_DELAY_LEVEL",
    "__BORNHOST",
    "BORN_TIMESTAMP",
    "__SHARDINGKEY",
    "__transactionId__",
    TRACE_CONTEXT,
    LITE_TOPIC,
    DLQ_ORIGIN_TOPIC,
    DLQ_ORIGIN_MESSAGE_ID,
];

/// Properties that a user may not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedProperties {
    #[error("property is used by system: {0}")]
    Reserved(String),
    #[error("too many user properties, max is {COUNT_MAX}; the message has {0}")]
    TooMany(usize),
    #[error("the total size of user property is too large, max is {BYTES_MAX}; it is {0}")]
    TooLarge(usize),
}

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Checks the properties that a producer sets itself. Properties with a field of their own in the protocol are not counted.
pub(crate) fn check<'a>(
    properties: impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone,
) -> Result<(), RefusedProperties> {
    if let Some((name, _)) = properties.clone().find(|(name, _)| is_reserved(name)) {
        return Err(RefusedProperties::Reserved(name.to_owned()));
    }
    if properties.len() > COUNT_MAX {
        return Err(RefusedProperties::TooMany(properties.len()));
    }
    let size: usize = properties.map(|(name, value)| name.len() + value.len()).sum();
    if size > BYTES_MAX {
        return Err(RefusedProperties::TooLarge(size));
    }
    Ok(())
}
