//! Commands for controllers, containers, RocksDB, static topics and lite topics.

use super::{BROKER, CLUSTER, GROUP, ONE_BROKER, OR_CLUSTER, Spec, TOPIC, command};
use crate::mqadmin::{
    controller, lite,
    option::{Opt, switch, value},
    special,
};

const CONTROLLER: Opt =
    value("a", "controllerAddress", "Addresses of the controllers, separated by ';'").required();
const CONTAINER: Opt = value("c", "brokerContainerAddr", "Address of the container of brokers").required();
const COLD_GROUP: Opt = value("g", "consumerGroup", "Name of the consumer group").required();
const PARENT_TOPIC: Opt = value("p", "parentTopic", "Name of the parent topic").required();
const LITE_GROUP: Opt = Opt { long: "group", ..GROUP };
const MAP_FILE: Opt = value("mf", "mapFile", "File with the layout");
const FORCE: Opt = value("fr", "forceReplace", "Whether to replace the old layout (true|false)");
const EVERY: Opt = value("i", "interval", "Repeat with this interval in seconds");

pub const COMMANDS: &[Spec] = &[
    command!("getControllerMetaData", "Show the controllers.", controller::metadata, [CONTROLLER]),
    command!("getControllerConfig", "Show the settings of controllers.", controller::config, [CONTROLLER]),
    command!(
        "updateControllerConfig",
        "Change a setting of controllers.",
        controller::update_config,
        [
            CONTROLLER,
            value("k", "key", "Name of the setting").required(),
            value("v", "value", "Value of the setting").required(),
        ]
    ),
    command!(
        "getSyncStateSet",
        "Show which replicas of a broker are in sync.",
        controller::sync_state,
        [CONTROLLER, CLUSTER, value("b", "brokerName", "Name of the broker"), EVERY]
    ),
    command!(
        "electMaster",
        "Elect a replica of a broker as master.",
        controller::elect,
        [
            CONTROLLER,
            value("b", "brokerId", "Id of the replica").required(),
            value("bn", "brokerName", "Name of the broker").required(),
            CLUSTER.required(),
        ]
    ),
    command!(
        "cleanBrokerMetadata",
        "Remove the metadata of a broker from the controllers.",
        controller::clean,
        [
            CONTROLLER,
            value("b", "brokerControllerIdsToClean", "Ids of its replicas, separated by ';'"),
            value("bn", "brokerName", "Name of the broker").required(),
            CLUSTER,
            switch("l", "cleanLivingBroker", "Even if the broker is alive"),
        ]
    ),
    command!(
        "resetMasterFlushOffset",
        "Set the flush offset of the master on a slave.",
        special::reset_flush_offset,
        [BROKER.required(), value("o", "offset", "Offset").required()]
    ),
    command!(
        "addBroker",
        "Start a broker in a container.",
        special::add_broker,
        [CONTAINER, value("b", "brokerConfigPath", "File with its settings").required()]
    ),
    command!(
        "removeBroker",
        "Stop a broker of a container.",
        special::remove_broker,
        [CONTAINER, value("b", "brokerIdentity", "clusterName:brokerName:brokerId").required()]
    ),
    command!(
        "setCommitLogReadAheadMode",
        "Set the read-ahead mode of the commit log.",
        special::read_ahead,
        [BROKER, CLUSTER, value("m", "commitLogReadAheadMode", "0 default, 1 random").required()]
    ),
    command!(
        "getColdDataFlowCtrInfo",
        "Show the consumers of cold messages.",
        special::cold_reads,
        [BROKER, CLUSTER]
    ),
    command!(
        "updateColdDataFlowCtrGroupConfig",
        "Limit the rate at which a group reads cold messages.",
        special::update_cold_reads,
        [BROKER, CLUSTER, COLD_GROUP, value("v", "threshold", "Bytes per second").required()]
    ),
    command!(
        "removeColdDataFlowCtrGroupConfig",
        "Remove the limit on cold reads of a group.",
        special::remove_cold_reads,
        [BROKER, CLUSTER, COLD_GROUP]
    ),
    command!(
        "exportPopRecord",
        "Ask a broker to export its records of popped messages.",
        special::pop_records,
        [CLUSTER, BROKER, value("d", "dryRun", "Whether to change nothing (true|false)")]
    ),
    command!(
        "switchTimerEngine",
        "Set the timer engine of a broker.",
        special::switch_timer,
        [ONE_BROKER, OR_CLUSTER, value("e", "engineType", "R: RocksDB, F: files").required()]
    ),
    command!(
        "rocksDBConfigToJson",
        "Ask a broker to export its settings from RocksDB.",
        special::rocksdb_config,
        [
            value("t", "configType", "topics, subscriptionGroups or consumerOffsets"),
            value("p", "configPath", "Directory of the database"),
            value("e", "exportFile", "File to write to"),
            value("j", "jsonEnable", "Whether to print JSON (true|false)"),
            value("c", "cluster", "Name of the cluster, for all its brokers"),
            BROKER,
        ]
    ),
    command!(
        "exportMetadataInRocksDB",
        "Show settings in the RocksDB files of Apache's broker.",
        special::rocksdb_files,
        [
            value("p", "path", "Directory of the database").required(),
            value("t", "configType", "topics or subscriptionGroups").required(),
            value("j", "jsonEnable", "Whether to print JSON (true|false)"),
        ]
    ),
    command!(
        "checkRocksdbCqWriteProgress",
        "Ask a broker to compare its queues in RocksDB and in files.",
        special::rocksdb_queues,
        [
            value("c", "cluster", "Name of the cluster").required(),
            value("t", "topic", "Only this topic"),
            value("cf", "checkFrom", "Only messages stored from this time on"),
        ]
    ),
    command!(
        "dumpCompactionLog",
        "Show a compaction log of Apache's broker.",
        special::compaction_log,
        [value("f", "file", "File")]
    ),
    command!(
        "updateStaticTopic",
        "Create a topic with a fixed number of queues over several brokers.",
        special::static_topic,
        [
            value("c", "clusters", "Names of clusters, separated by commas").one_of(1),
            value("b", "brokers", "Names of brokers, separated by commas").one_of(1),
            TOPIC,
            value("qn", "totalQueueNum", "Number of queues").required(),
            MAP_FILE,
            FORCE,
        ]
    ),
    command!(
        "remappingStaticTopic",
        "Move the queues of a static topic.",
        special::static_topic,
        [
            value("c", "clusters", "Names of clusters, separated by commas").one_of(1),
            value("b", "brokers", "Names of brokers, separated by commas").one_of(1),
            TOPIC,
            MAP_FILE,
            FORCE,
        ]
    ),
    command!(
        "getBrokerLiteInfo",
        "Show how many lite topics a broker has.",
        lite::broker,
        [
            ONE_BROKER,
            Opt { long: "cluster", ..OR_CLUSTER },
            switch("d", "showDetail", "Include topics and groups"),
        ]
    ),
    command!("getParentTopicInfo", "Show a parent topic and its lite topics.", lite::parent, [PARENT_TOPIC]),
    command!(
        "getLiteTopicInfo",
        "Show a lite topic.",
        lite::topic,
        [
            PARENT_TOPIC,
            value("l", "liteTopic", "Name of the lite topic").required(),
            switch("s", "showClientId", "Include the subscribers"),
        ]
    ),
    command!(
        "getLiteClientInfo",
        "Show the lite topics of a client.",
        lite::client,
        [
            PARENT_TOPIC,
            LITE_GROUP,
            value("c", "clientId", "Id of the client").required(),
            switch("s", "showDetail", "Include the lite topics"),
        ]
    ),
    command!(
        "getLiteGroupInfo",
        "Show offsets and lag of a group in lite topics.",
        lite::group,
        [
            PARENT_TOPIC,
            LITE_GROUP,
            value("l", "liteTopic", "Only this lite topic"),
            value("k", "topK", "Number of lite topics per broker, default 20"),
        ]
    ),
    command!(
        "triggerLiteDispatch",
        "Dispatch the lite topics of a group again.",
        lite::dispatch,
        [
            PARENT_TOPIC,
            LITE_GROUP,
            value("c", "clientId", "Only this client"),
            value("b", "brokerName", "Only this broker"),
        ]
    ),
];
