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
const PARENT_TOPIC: Opt = value("p", "parentTopic", "Name of the topic they are in").required();
const LITE_GROUP: Opt = Opt { long: "group", ..GROUP };
const MAP_FILE: Opt = value("mf", "mapFile", "File with the layout");
const FORCE: Opt = value("fr", "forceReplace", "Whether to replace the old layout (true|false)");
const EVERY: Opt = value("i", "interval", "Again and again, with so many seconds between");

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
            value("v", "value", "Its value").required(),
        ]
    ),
    command!(
        "getSyncStateSet",
        "Show which copies of a broker are up to date.",
        controller::sync_state,
        [CONTROLLER, CLUSTER, value("b", "brokerName", "Name of the broker"), EVERY]
    ),
    command!(
        "electMaster",
        "Make one copy of a broker the master.",
        controller::elect,
        [
            CONTROLLER,
            value("b", "brokerId", "Id of the copy").required(),
            value("bn", "brokerName", "Name of the broker").required(),
            CLUSTER.required(),
        ]
    ),
    command!(
        "cleanBrokerMetadata",
        "Make the controllers forget a broker.",
        controller::clean,
        [
            CONTROLLER,
            value("b", "brokerControllerIdsToClean", "Ids of its copies, separated by ';'"),
            value("bn", "brokerName", "Name of the broker").required(),
            CLUSTER,
            switch("l", "cleanLivingBroker", "Also if it is there"),
        ]
    ),
    command!(
        "resetMasterFlushOffset",
        "Tell a slave how much of the master's log is safe.",
        special::reset_flush_offset,
        [BROKER.required(), value("o", "offset", "The offset").required()]
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
        "Choose how a broker reads its log ahead.",
        special::read_ahead,
        [BROKER, CLUSTER, value("m", "commitLogReadAheadMode", "0 as usual, 1 at random").required()]
    ),
    command!(
        "getColdDataFlowCtrInfo",
        "Show who reads old messages.",
        special::cold_reads,
        [BROKER, CLUSTER]
    ),
    command!(
        "updateColdDataFlowCtrGroupConfig",
        "Limit how fast a group reads old messages.",
        special::update_cold_reads,
        [BROKER, CLUSTER, COLD_GROUP, value("v", "threshold", "Bytes of a second").required()]
    ),
    command!(
        "removeColdDataFlowCtrGroupConfig",
        "Lift that limit.",
        special::remove_cold_reads,
        [BROKER, CLUSTER, COLD_GROUP]
    ),
    command!(
        "exportPopRecord",
        "Have a broker move its records of popped messages.",
        special::pop_records,
        [CLUSTER, BROKER, value("d", "dryRun", "Whether only to say where (true|false)")]
    ),
    command!(
        "switchTimerEngine",
        "Choose how a broker keeps delayed messages.",
        special::switch_timer,
        [ONE_BROKER, OR_CLUSTER, value("e", "engineType", "R: RocksDB, F: files").required()]
    ),
    command!(
        "rocksDBConfigToJson",
        "Have a broker write its settings out of RocksDB.",
        special::rocksdb_config,
        [
            value("t", "configType", "topics, subscriptionGroups or consumerOffsets"),
            value("p", "configPath", "Folder of the database"),
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
            value("p", "path", "Folder of the database").required(),
            value("t", "configType", "topics or subscriptionGroups").required(),
            value("j", "jsonEnable", "Whether to print JSON (true|false)"),
        ]
    ),
    command!(
        "checkRocksdbCqWriteProgress",
        "Have a broker compare its queues in RocksDB and in files.",
        special::rocksdb_queues,
        [
            value("c", "cluster", "Name of the cluster").required(),
            value("t", "topic", "Only this topic"),
            value("cf", "checkFrom", "Stored at this time or later"),
        ]
    ),
    command!(
        "dumpCompactionLog",
        "Show a compaction log of Apache's broker.",
        special::compaction_log,
        [value("f", "file", "The file")]
    ),
    command!(
        "updateStaticTopic",
        "Create a topic with a fixed number of queues over several brokers.",
        special::static_topic,
        [
            value("c", "clusters", "Names of clusters, separated by commas").one_of(1),
            value("b", "brokers", "Names of brokers, separated by commas").one_of(1),
            TOPIC,
            value("qn", "totalQueueNum", "How many queues").required(),
            MAP_FILE,
            FORCE,
        ]
    ),
    command!(
        "remappingStaticTopic",
        "Move the queues of such a topic.",
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
            switch("d", "showDetail", "With topics and groups"),
        ]
    ),
    command!("getParentTopicInfo", "Show a topic that has lite topics.", lite::parent, [PARENT_TOPIC]),
    command!(
        "getLiteTopicInfo",
        "Show a lite topic.",
        lite::topic,
        [
            PARENT_TOPIC,
            value("l", "liteTopic", "Name of the lite topic").required(),
            switch("s", "showClientId", "With those who subscribe"),
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
            switch("s", "showDetail", "With the lite topics"),
        ]
    ),
    command!(
        "getLiteGroupInfo",
        "Show how far a group has read lite topics.",
        lite::group,
        [
            PARENT_TOPIC,
            LITE_GROUP,
            value("l", "liteTopic", "Only this lite topic"),
            value("k", "topK", "How many of each broker, 20 without it"),
        ]
    ),
    command!(
        "triggerLiteDispatch",
        "Have the lite topics of a group looked at again.",
        lite::dispatch,
        [
            PARENT_TOPIC,
            LITE_GROUP,
            value("c", "clientId", "Only this client"),
            value("b", "brokerName", "Only this broker"),
        ]
    ),
];
