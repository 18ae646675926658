//! Commands for brokers and name servers.

use super::{BROKER, CLUSTER, ONE_BROKER, OR_CLUSTER, Spec, command};
use crate::mqadmin::{
    cluster, export, names,
    option::{Opt, switch, value},
    progress, settings,
};

const KEY: Opt = value("k", "key", "Name of the setting").required();
const VALUE: Opt = value("v", "value", "Value of the setting").required();
const NAMESPACE: Opt = value("s", "namespace", "Namespace").required();
const NAME: Opt = value("b", "brokerName", "Name of the broker").required();
const EVERY: Opt = value("i", "interval", "Repeat with this interval in seconds");
const WHICH: Opt = value("c", "cluster", "Name of the cluster; all brokers without -b and -c");
const FOLDER: Opt = value("f", "filePath", "Directory to write to, default /tmp/rocketmq/export");

pub const COMMANDS: &[Spec] = &[
    command!(
        "clusterList",
        "List the brokers with their load.",
        cluster::list,
        [switch("m", "moreStats", "Include the message counts of the last two days"), EVERY, CLUSTER]
    ),
    command!(
        "brokerStatus",
        "Show run-time information of a broker.",
        cluster::status,
        [ONE_BROKER, OR_CLUSTER]
    ),
    command!(
        "brokerConsumeStats",
        "Show offsets and lag of all groups of a broker.",
        progress::of_broker,
        [
            BROKER.required(),
            value("t", "timeoutMillis", "Timeout in milliseconds, default 50000"),
            value("l", "level", "Only queues with at least this lag"),
            value("o", "order", "Whether to show ordered topics only (true|false)"),
        ]
    ),
    command!(
        "haStatus",
        "Show the replication status of a broker.",
        cluster::ha_status,
        [CLUSTER, BROKER, EVERY]
    ),
    command!(
        "getBrokerEpoch",
        "Show the epochs of a broker.",
        cluster::epochs,
        [CLUSTER, value("b", "brokerName", "Name of the broker"), EVERY]
    ),
    command!("getBrokerConfig", "Show the settings of a broker.", settings::broker, [BROKER, CLUSTER]),
    command!(
        "updateBrokerConfig",
        "Change a setting of a broker.",
        settings::update_broker,
        [
            BROKER,
            CLUSTER,
            value("a", "updateAllBroker", "Whether to update slaves as well (true|false)"),
            KEY,
            VALUE
        ]
    ),
    command!("getNamesrvConfig", "Show the settings of the name servers.", settings::name_servers, []),
    command!(
        "updateNamesrvConfig",
        "Change a setting of the name servers.",
        settings::update_name_servers,
        [KEY, VALUE]
    ),
    command!(
        "updateKvConfig",
        "Set a value in the name servers.",
        names::put,
        [NAMESPACE, value("k", "key", "Key").required(), VALUE]
    ),
    command!(
        "deleteKvConfig",
        "Delete a value from the name servers.",
        names::delete,
        [NAMESPACE, value("k", "key", "Key").required()]
    ),
    command!(
        "wipeWritePerm",
        "Remove the write permission of a broker in all name servers of -n.",
        names::wipe_permission,
        [NAME]
    ),
    command!(
        "addWritePerm",
        "Restore the write permission of a broker in all name servers of -n.",
        names::add_permission,
        [NAME]
    ),
    command!(
        "cleanExpiredCQ",
        "Ask brokers to remove expired queues.",
        settings::clean_queues,
        [BROKER, WHICH]
    ),
    command!(
        "cleanUnusedTopic",
        "Ask brokers to remove the queues of unused topics.",
        settings::clean_topics,
        [BROKER, WHICH]
    ),
    command!(
        "deleteExpiredCommitLog",
        "Ask brokers to remove expired log files.",
        settings::clean_log,
        [BROKER, WHICH]
    ),
    command!(
        "exportMetadata",
        "Export topics and consumer groups to a file.",
        export::metadata,
        [
            CLUSTER,
            BROKER,
            FOLDER,
            switch("t", "topic", "Only topics"),
            switch("g", "subscriptionGroup", "Only consumer groups"),
            switch("s", "specialTopic", "Include retry and dead-letter topics"),
        ]
    ),
    command!(
        "exportConfigs",
        "Export the settings of brokers to a file.",
        export::configs,
        [CLUSTER.required(), FOLDER]
    ),
    command!(
        "exportMetrics",
        "Export metrics of brokers to a file.",
        export::metrics,
        [CLUSTER.required(), FOLDER]
    ),
];
