use super::{BROKER, CLUSTER, ONE_BROKER, OR_CLUSTER, Spec, command};
use crate::mqadmin::{
    cluster, export, names,
    option::{Opt, switch, value},
    progress, settings,
};

const KEY: Opt = value("k", "key", "Name of the setting").required();
const VALUE: Opt = value("v", "value", "Its value").required();
const NAMESPACE: Opt = value("s", "namespace", "The namespace").required();
const NAME: Opt = value("b", "brokerName", "Name of the broker").required();
const EVERY: Opt = value("i", "interval", "Again and again, with so many seconds between");
const WHICH: Opt = value("c", "cluster", "Name of the cluster; everywhere without -b and -c");
const FOLDER: Opt = value("f", "filePath", "The folder to write to, /tmp/rocketmq/export without it");

pub const COMMANDS: &[Spec] = &[
    command!(
        "clusterList",
        "List the brokers with their load.",
        cluster::list,
        [switch("m", "moreStats", "With what was sent and read in two days"), EVERY, CLUSTER]
    ),
    command!("brokerStatus", "Show what a broker says of itself.", cluster::status, [ONE_BROKER, OR_CLUSTER]),
    command!(
        "brokerConsumeStats",
        "Show how far all groups of a broker have read.",
        progress::of_broker,
        [
            BROKER.required(),
            value("t", "timeoutMillis", "How long to wait, 50000 without it"),
            value("l", "level", "Only queues in which so many messages are not consumed"),
            value("o", "order", "Whether only ordered topics are meant (true|false)"),
        ]
    ),
    command!("haStatus", "Show the copies of a broker.", cluster::ha_status, [CLUSTER, BROKER, EVERY]),
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
        [BROKER, CLUSTER, value("a", "updateAllBroker", "Whether slaves are meant as well"), KEY, VALUE]
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
        [NAMESPACE, value("k", "key", "The key").required(), VALUE]
    ),
    command!(
        "deleteKvConfig",
        "Delete a value from the name servers.",
        names::delete,
        [NAMESPACE, value("k", "key", "The key").required()]
    ),
    command!(
        "wipeWritePerm",
        "Let nobody write to a broker, in all name servers of -n.",
        names::wipe_permission,
        [NAME]
    ),
    command!(
        "addWritePerm",
        "Let everybody write to a broker again, in all name servers of -n.",
        names::add_permission,
        [NAME]
    ),
    command!("cleanExpiredCQ", "Have old queues removed.", settings::clean_queues, [BROKER, WHICH]),
    command!(
        "cleanUnusedTopic",
        "Have unused topics' queues removed.",
        settings::clean_topics,
        [BROKER, WHICH]
    ),
    command!(
        "deleteExpiredCommitLog",
        "Have old files of the log removed.",
        settings::clean_log,
        [BROKER, WHICH]
    ),
    command!(
        "exportMetadata",
        "Write topics and consumer groups to a file.",
        export::metadata,
        [
            CLUSTER,
            BROKER,
            FOLDER,
            switch("t", "topic", "Only topics"),
            switch("g", "subscriptionGroup", "Only consumer groups"),
            switch("s", "specialTopic", "With the retry and dead-letter topics"),
        ]
    ),
    command!(
        "exportConfigs",
        "Write brokers' settings to a file.",
        export::configs,
        [CLUSTER.required(), FOLDER]
    ),
    command!(
        "exportMetrics",
        "Write brokers' figures to a file.",
        export::metrics,
        [CLUSTER.required(), FOLDER]
    ),
];
