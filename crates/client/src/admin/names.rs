//! Names that mean something to every server.

pub const RETRY_PREFIX: &str = "%RETRY%";
pub const DEAD_LETTER_PREFIX: &str = "%DLQ%";
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Between group and topic in the name of a retry topic of consumers that pop.
pub const POP_RETRY_SEPARATORS: [char; 2] = ['+', '_'];

const SYSTEM_PREFIXES: [&str; 2] = ["rmq_sys_", "RMQ_SYS_"];
const SYSTEM_TOPICS: [&str; 9] = [
    "TBW102",
    "SELF_TEST_TOPIC",
    "BenchmarkTest",
    "OFFSET_MOVED_EVENT",
    "SCHEDULE_TOPIC_XXXX",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "CHECKPOINT_TOPIC",
    "DefaultHeartBeatSyncerTopic",
    "DefaultCluster_REPLY_TOPIC",
];

/// Whether a topic is the server's own by its name alone. Topics named for the cluster and its brokers are not recognized
/// here: [`super::Admin::is_own_topic`] does that.
pub fn is_system_topic(topic: &str) -> bool {
    SYSTEM_PREFIXES.iter().any(|prefix| topic.starts_with(prefix)) || SYSTEM_TOPICS.contains(&topic)
}

const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";
const SYSTEM_GROUPS: [&str; 13] = [
    "DEFAULT_PRODUCER",
    "DEFAULT_CONSUMER",
    "TOOLS_CONSUMER",
    "SCHEDULE_CONSUMER",
    "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
    "SELF_TEST_P_GROUP",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PULL",
];

/// Whether a consumer group is the server's own.
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX) || SYSTEM_GROUPS.contains(&group)
}
