//! Every metric there is: its name, type, labels and meaning, in one place. The names and labels of RocketMQ are those that
//! the Prometheus exporter of its broker 5.5.0 shows, which appends the unit to a name.

/// What a value may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Which labels come before a metric's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `cluster`, `node_type="broker"` and `node_id`, as RocketMQ has them.
    Broker,
    /// The same with `node_type="proxy"`.
    Proxy,
    /// None.
    Own,
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub scope: Scope,
    /// Its own labels, in the order of the values of a sample.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! families {
    ($($id:ident: $scope:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $id: &Family = &Family {
            name: $name, kind: Kind::$kind, scope: Scope::$scope, labels: &[$($label),*], help: $help,
        };)*
        /// All metrics, in the order in which they are written.
        pub const FAMILIES: &[&Family] = &[$($id),*];
    };
}

families! {
    // Traffic.
    MESSAGES_IN: Broker Counter "rocketmq_messages_in_total" ["topic", "message_type", "is_system"]
        "Messages stored, without retries and dead letters";
    THROUGHPUT_IN: Broker Counter "rocketmq_throughput_in_total" ["topic", "message_type", "is_system"]
        "Bytes of messages stored, as they are in the log";
    MESSAGE_SIZE: Broker Histogram "rocketmq_message_size" ["topic", "message_type", "is_system"]
        "Bytes of a stored message; each message of a batch counts with their mean";
    MESSAGES_OUT: Broker Counter "rocketmq_messages_out_total" ["topic", "consumer_group", "is_system"]
        "Messages handed out to consumers, every delivery counted";
    THROUGHPUT_OUT: Broker Counter "rocketmq_throughput_out_total" ["topic", "consumer_group", "is_system"]
        "Bytes of messages handed out: to 4.x pulls as they are sent, to others as they are in the log";
    SEND_TO_DLQ: Broker Counter "rocketmq_send_to_dlq_messages_total" ["topic", "consumer_group", "is_system"]
        "Messages that went to the dead letters of a group";
    RPC_LATENCY: Broker Histogram "rocketmq_rpc_latency_milliseconds"
        ["protocol_type", "request_code", "response_code", "is_long_polling", "result"]
        "Time from a request to its answer; is_long_polling tells whether the request may wait for messages";

    // Transactions and delayed messages.
    HALF_MESSAGES: Broker Gauge "rocketmq_half_messages" ["topic"]
        "Transactional messages that are neither committed nor rolled back";
    COMMIT_MESSAGES: Broker Counter "rocketmq_commit_messages_total" ["topic"]
        "Transactional messages committed";
    ROLLBACK_MESSAGES: Broker Counter "rocketmq_rollback_messages_total" ["topic"]
        "Transactional messages rolled back, by their producer or because it said nothing";
    FINISH_LATENCY: Broker Histogram "rocketmq_finish_message_latency_milliseconds" ["topic"]
        "Time from a half message to its commit; in seconds, whatever its name says, as RocketMQ has it";
    TIMING_MESSAGES: Broker Gauge "rocketmq_timing_messages" ["storage_type", "storage_medium", "topic"]
        "Delayed messages that are not yet due";
    TIMER_ENQUEUE: Broker Counter "rocketmq_timer_enqueue_total" ["storage_type", "storage_medium", "topic"]
        "Messages that were stored to become visible later";
    TIMER_DEQUEUE: Broker Counter "rocketmq_timer_dequeue_total" ["storage_type", "storage_medium", "topic"]
        "Delayed messages that became visible";
    DELAY_LATENCY: Broker Histogram "rocketmq_delay_message_latency_seconds"
        ["storage_type", "storage_medium", "topic"]
        "Delays that messages were stored with";
    TIMER_DEQUEUE_LAG: Broker Gauge "rocketmq_timer_dequeue_lag" ["storage_type", "storage_medium"]
        "Delayed messages that are due and not yet visible; counted up to 100000";
    TIMER_DEQUEUE_LATENCY: Broker Gauge "rocketmq_timer_dequeue_latency_milliseconds"
        ["storage_type", "storage_medium"]
        "Time since the first overdue delayed message was due";

    // Consumer groups.
    LAG_MESSAGES: Broker Gauge "rocketmq_consumer_lag_messages"
        ["consumer_group", "topic", "is_retry", "is_system"]
        "Messages that the group has not finished: ready, in flight and held back by order";
    LAG_LATENCY: Broker Gauge "rocketmq_consumer_lag_latency_milliseconds"
        ["consumer_group", "topic", "is_retry", "is_system"]
        "Age of the oldest message that the group has not finished";
    INFLIGHT: Broker Gauge "rocketmq_consumer_inflight_messages"
        ["consumer_group", "topic", "is_retry", "is_system"]
        "Messages handed out and neither acknowledged nor given up";
    QUEUEING_LATENCY: Broker Gauge "rocketmq_consumer_queueing_latency_milliseconds"
        ["consumer_group", "topic", "is_retry", "is_system"]
        "Age of the oldest message that no consumer of the group was given";
    READY: Broker Gauge "rocketmq_consumer_ready_messages"
        ["consumer_group", "topic", "is_retry", "is_system"]
        "Messages that no consumer of the group was given";

    // Clients.
    PRODUCER_CONNECTIONS: Broker Gauge "rocketmq_producer_connections" ["language", "version", "protocol_type"]
        "Producers that are known; of 4.x clients, one for each of their groups";
    CONSUMER_CONNECTIONS: Broker Gauge "rocketmq_consumer_connections"
        ["consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"]
        "Consumers that are known";

    // The broker.
    BROKER_PERMISSION: Broker Gauge "rocketmq_broker_permission" []
        "4 for reading and 2 for writing";
    TOPIC_NUMBER: Broker Gauge "rocketmq_topic_number" [] "Topics, without lite topics";
    GROUP_NUMBER: Broker Gauge "rocketmq_consumer_group_number" [] "Consumer groups";
    WATERMARK: Broker Gauge "rocketmq_processor_watermark" ["processor"]
        "Requests that wait for the shard, whatever they are";
    PROXY_UP: Proxy Gauge "rocketmq_proxy_up" ["proxy_mode"] "Whether clients are served over gRPC";

    // Storage.
    STORAGE_SIZE: Broker Gauge "rocketmq_storage_size_bytes" ["storage_type", "storage_medium"]
        "Bytes in use on the volume that holds the data";
    RESERVE_TIME: Broker Gauge "rocketmq_storage_message_reserve_time_milliseconds"
        ["storage_type", "storage_medium"]
        "Age of the oldest messages that are kept";
    FLUSH_BEHIND: Broker Gauge "rocketmq_storage_flush_behind_bytes" ["storage_type", "storage_medium"]
        "Bytes written to the log and not yet durable";
    DISPATCH_BEHIND: Broker Gauge "rocketmq_storage_dispatch_behind_bytes" ["storage_type", "storage_medium"]
        "Bytes written to the log that have not taken effect";

    // The engine.
    COMMIT_LATENCY: Own Histogram "redstart_commit_latency_seconds" []
        "Time from a frame's write until it is known to be durable";
    FLUSH_LATENCY: Own Histogram "redstart_flush_latency_seconds" [] "Time of making the log durable";
    FRAME_RECORDS: Own Histogram "redstart_frame_records" []
        "Records written with one frame: messages, acknowledgements, deliveries, changes";
    FRAME_BYTES: Own Histogram "redstart_frame_bytes" [] "Bytes written with one frame";
    FLUSHES: Own Counter "redstart_flushes_total" [] "Times the log was made durable";
    CHECKPOINT_AGE: Own Gauge "redstart_checkpoint_age_seconds" []
        "Time since a checkpoint was written; since the start, while none was";
    CHECKPOINT_FRAMES: Own Gauge "redstart_frames_since_checkpoint" []
        "Frames that a start would have to read again; 0 while a checkpoint is written";
    WAITING: Own Gauge "redstart_waiting_receives" [] "Receives that are held until there is a message";
    RECEIVES_EMPTY: Own Counter "redstart_empty_receives_total" [] "Receives that ended without a message";
    SEGMENTS_REMOVED: Own Counter "redstart_segments_removed_total" ["reason"]
        "Segments removed, by reason: expired, or disk_full for those that went before their time";
    READ_ERRORS: Own Counter "redstart_message_read_errors_total" []
        "Reads of stored messages for clients that failed; the messages are read again later";
    GIVEN_BACK: Own Counter "redstart_deliveries_given_back_total" []
        "Deliveries that went back to their queue because their answer did not reach the consumer, or was full";
    PASSED_OVER: Own Counter "redstart_messages_passed_over_total" ["reason"]
        "Messages that a group did not get because they are lost, by reason: damaged or removed";
    REMOVED_EARLY: Own Counter "redstart_messages_removed_early_total" ["state"]
        "Messages of segments that went before their time, by state: unconsumed for those that some group had not finished";
    SCRUBBED: Own Counter "redstart_scrubbed_bytes_total" []
        "Bytes of stored segments and indexes that were checked in the background";
    SCRUB_DAMAGE: Own Counter "redstart_scrub_damaged_files_total" ["kind"]
        "Files that the check in the background has found damaged, by kind: segment or index";
    LOG_BYTES: Own Gauge "redstart_log_bytes" [] "Bytes of the log from its oldest to its newest frame";
    LOG_SEGMENTS: Own Gauge "redstart_log_segments" [] "Segments of the log";
    DAMAGED_SEGMENTS: Own Gauge "redstart_damaged_segment" ["segment"]
        "1 for each segment that is damaged together with its index, which was given up";
    DISK_SIZE: Own Gauge "redstart_disk_size_bytes" [] "Size of the volume that holds the data";
    DISK_FREE: Own Gauge "redstart_disk_free_bytes" [] "Free space on the volume that holds the data";
    DEDUP_KEYS: Own Gauge "redstart_dedup_keys" [] "Deduplication keys that are remembered";
    LITE_TOPICS: Own Gauge "redstart_lite_topics" [] "Lite topics of all parents";
    BUDGET_USED: Own Gauge "redstart_memory_budget_used_bytes" ["budget"]
        "Bytes in use of what messages on their way may take";
    BUDGET_LIMIT: Own Gauge "redstart_memory_budget_limit_bytes" ["budget"]
        "Bytes that messages on their way may take";
    CONNECTIONS: Own Gauge "redstart_connections" ["protocol"] "Open connections";
    CERTIFICATE_EXPIRY: Own Gauge "redstart_tls_certificate_expiry_timestamp_seconds" []
        "When the TLS certificate in use ends, in seconds of Unix time";
    SURVEY_AGE: Own Gauge "redstart_survey_age_seconds" []
        "Age of what the shard was asked for: lags, held messages, sizes";
    SURVEY_TIME: Own Gauge "redstart_survey_shard_seconds" []
        "Time for which the shard was kept by the last survey, in slices of half a millisecond";
    SERIES_LEFT_OUT: Own Gauge "redstart_subscriptions_left_out" []
        "Pairs of a group and a topic that no metric tells of, because there are too many";
    CLOCK_AHEAD: Own Gauge "redstart_wall_clock_ahead_seconds" []
        "How far the machine's clock is ahead of the broker's time, which follows it by at most three minutes an hour";
    CLOCK_SUSPICIOUS: Own Gauge "redstart_clock_suspicious" []
        "1 while the machine's clock and the broker's time are more than five minutes apart: nothing is removed because of its age";
    BUILD_INFO: Own Gauge "redstart_build_info" ["version"] "1, with the version of the broker";
    UPTIME: Own Gauge "redstart_uptime_seconds" [] "Time since the shard was opened";

    // The cluster, of a node that has peers.
    REPLICA_LEADS: Own Gauge "redstart_replica_leads" ["node"]
        "1 while this node of a cluster leads, else 0";
    REPLICA_TERM: Own Gauge "redstart_replica_term" ["node"]
        "Term of the replica on this node";
    REPLICA_APPENDED: Own Gauge "redstart_replica_appended_frames" ["node"]
        "Last frame of this node's log";
    REPLICA_COMMITTED: Own Gauge "redstart_replica_committed_frames" ["node"]
        "Last frame that this node knows to be committed";
    REPLICA_APPLIED: Own Gauge "redstart_replica_applied_frames" ["node"]
        "Last frame that is part of this node's state";
    REPLICA_ELECTIONS: Own Counter "redstart_replica_elections_won_total" ["node"]
        "Times that this node has begun to lead";
    REPLICA_LAG: Own Gauge "redstart_replica_lag_frames" ["peer"]
        "Frames that a peer has not acknowledged, as its leader knows";
    PEER_CONNECTED: Own Gauge "redstart_peer_connected" ["peer"]
        "1 while this node has a connection to the peer, else 0";
    PEER_SENT: Own Counter "redstart_peer_sent_bytes_total" ["peer"]
        "Bytes sent to the peer";
    PEER_DROPPED: Own Counter "redstart_peer_dropped_messages_total" ["peer"]
        "Messages not sent because the link to the peer was down or full";
    RELAYED: Own Gauge "redstart_connections_relayed" ["node"]
        "Connections of clients that this node passes on to the leader";
    RELAYED_TOTAL: Own Counter "redstart_connections_relayed_total" ["node"]
        "Connections that this node has passed on";
    HELD: Own Gauge "redstart_connections_held" ["node"]
        "Connections of clients that wait for a leader";
    GIVEN_UP: Own Counter "redstart_connections_given_up_total" ["node"]
        "Connections that were closed because there was no leader for too long";

    // The process, under the names that Prometheus clients use.
    PROCESS_CPU: Own Counter "process_cpu_seconds_total" [] "CPU time of the process";
    PROCESS_RSS: Own Gauge "process_resident_memory_bytes" [] "Resident memory of the process";
    PROCESS_VSZ: Own Gauge "process_virtual_memory_bytes" [] "Virtual memory of the process";
    PROCESS_FDS: Own Gauge "process_open_fds" [] "Open files and sockets";
    PROCESS_FDS_MAX: Own Gauge "process_max_fds" [] "Files and sockets that may be open";
    PROCESS_START: Own Gauge "process_start_time_seconds" [] "When the process was started, in seconds of Unix time";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_valid_and_there_is_one_of_each() {
        let word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let mut seen = HashSet::new();
        for family in FAMILIES {
            assert!(seen.insert(family.name), "{} is there twice", family.name);
            assert!(word(family.name) && family.labels.iter().all(|label| word(label)), "{family:?}");
            assert_eq!(family.name.ends_with("_total"), family.kind == Kind::Counter, "{}", family.name);
            assert!(!family.help.is_empty() && !family.help.contains('\n'), "{}", family.name);
        }
    }

    #[test]
    fn every_metric_is_documented_with_its_type_and_labels() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let document = std::fs::read_to_string(path).expect("the document is there");
        for family in FAMILIES {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!(
                "| `{}` | {} | {} | {} |",
                family.name,
                family.kind.name(),
                labels.join(", "),
                family.help
            );
            assert!(document.lines().any(|line| line == row), "docs/metrics.md lacks the line\n{row}");
        }
    }
}
