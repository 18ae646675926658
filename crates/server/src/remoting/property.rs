//! Names of properties that mean something to the protocol.

pub(super) const TAGS: &str = "TAGS";
pub(super) const KEYS: &str = "KEYS";
pub(super) const UNIQUE_KEY: &str = "UNIQ_KEY";
pub(super) const SHARDING_KEY: &str = "__SHARDINGKEY";
pub(super) const DELAY_LEVEL: &str = "DELAY";
pub(super) const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
pub(super) const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
pub(super) const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
/// The priority of Apache's 5.4 and later.
pub(super) const PRIORITY: &str = "_SYS_MSG_PRIORITY_";
/// The time of delivery in milliseconds, as the clients of Alibaba Cloud (`ons-client`) and the documentation of its and
/// Tencent's services set it. Apache's broker does not read it.
pub(super) const START_DELIVER_TIME: &str = "__STARTDELIVERTIME";
pub(super) const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
pub(super) const TRANSACTION_PREPARED: &str = "TRAN_MSG";
pub(super) const TRANSACTION_ID: &str = "__transactionId__";
pub(super) const PRODUCER_GROUP: &str = "PGROUP";
pub(super) const CHECK_IMMUNITY: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
pub(super) const MSG_REGION: &str = "MSG_REGION";
pub(super) const TRACE_ON: &str = "TRACE_ON";
pub(super) const CLUSTER: &str = "CLUSTER";
pub(super) const POP_HANDLE: &str = "POP_CK";
pub(super) const RETRY_TOPIC: &str = "RETRY_TOPIC";
pub(super) const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
pub(super) const RECONSUME_TIME: &str = "RECONSUME_TIME";
pub(super) const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
pub(super) const PUSH_REPLY_TIME: &str = "PUSH_REPLY_TIME";

/// The region that clients assume when they are told none.
pub(super) const REGION: &str = "DefaultRegion";
