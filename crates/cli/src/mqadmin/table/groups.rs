use super::{BROKER, CLUSTER, GROUP, ONE_BROKER, OR_CLUSTER, PARENT, Spec, TOPIC, command};
use crate::mqadmin::{
    clients, groups, monitor, offsets,
    option::{Opt, switch, value},
    progress,
};

const CONSUMERS: Opt = value("g", "consumerGroup", "Name of the consumer group").required();
const MOVED: Opt = value("g", "group", "Name of the consumer group").required();

pub const COMMANDS: &[Spec] = &[
    command!(
        "updateSubGroup",
        "Create a consumer group, or change it.",
        groups::update,
        [
            BROKER,
            CLUSTER,
            GROUP,
            value("s", "consumeEnable", "Whether it may consume (true|false)"),
            value("m", "consumeFromMinEnable", "Whether it begins at the first message (true|false)"),
            value("d", "consumeBroadcastEnable", "Whether it may broadcast (true|false)"),
            value("o", "consumeMessageOrderly", "Whether it consumes in order (true|false)"),
            value("q", "retryQueueNums", "Queues of its retry topic"),
            value("r", "retryMaxTimes", "How often a message comes again at most"),
            value(
                "p",
                "groupRetryPolicy",
                "When it comes again, as JSON: \
                 {\"type\":\"EXPONENTIAL\",\"exponentialRetryPolicy\":{\"initial\":5000,\"max\":7200000,\"multiplier\":2}} or \
                 {\"type\":\"CUSTOMIZED\",\"customizedRetryPolicy\":{\"next\":[1000,5000,10000]}}"
            ),
            value("i", "brokerId", "Id of the broker to consume from"),
            value("w", "whichBrokerWhenConsumeSlowly", "Id of the broker for slow consumers"),
            value("a", "notifyConsumerIdsChanged", "Whether consumers are told of each other (true|false)"),
            value("", "attributes", "Attributes to change: +key=value,-key"),
        ]
    ),
    command!(
        "updateSubGroupList",
        "Create or change the consumer groups of a file.",
        groups::update_list,
        [ONE_BROKER, OR_CLUSTER, value("f", "filename", "File with a JSON array of groups").required()]
    ),
    command!(
        "deleteSubGroup",
        "Delete a consumer group.",
        groups::delete,
        [BROKER, CLUSTER, GROUP, value("r", "removeOffset", "Whether its offsets go as well (true|false)")]
    ),
    command!("getConsumerConfig", "Show the settings of a consumer group.", groups::config, [GROUP]),
    command!(
        "setConsumeMode",
        "Choose how a group's consumers get a topic's messages.",
        groups::set_mode,
        [
            BROKER,
            CLUSTER,
            value("t", "topicName", "Name of the topic").required(),
            GROUP,
            value("m", "mode", "PULL or POP").required(),
            value("q", "popShareQueueNum", "Queues that consumers share when they pop"),
        ]
    ),
    command!(
        "consumerConnection",
        "Show the consumers of a group and what they subscribe to.",
        clients::consumers,
        [CONSUMERS, BROKER]
    ),
    command!(
        "producerConnection",
        "Show the producers of a group.",
        clients::producers,
        [value("g", "producerGroup", "Name of the producer group").required(), TOPIC]
    ),
    command!(
        "producer",
        "Show all producers of a broker.",
        clients::all_producers,
        [value("b", "broker", "Address of the broker, host:port").required()]
    ),
    command!(
        "consumerProgress",
        "Show how far a group has read, or all of them.",
        progress::show,
        [
            value("g", "groupName", "Name of the consumer group"),
            value("t", "topicName", "Only this topic"),
            value("s", "showClientIP", "Whether the host that reads a queue is shown (true|false)"),
            PARENT,
        ]
    ),
    command!(
        "consumerStatus",
        "Show the inside of consumers.",
        clients::status,
        [
            CONSUMERS,
            value("i", "clientId", "Only the consumer with this id"),
            BROKER,
            switch("s", "jstack", "With the stacks of its threads"),
        ]
    ),
    command!(
        "resetOffsetByTime",
        "Move a group to a time, without restarting its consumers.",
        offsets::reset,
        [
            MOVED,
            TOPIC,
            value("s", "timestamp", "now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS").required(),
            value("f", "force", "Whether it may move forward as well, true without it (true|false)"),
            value("b", "broker", "Address of a broker, with -q"),
            value("q", "queue", "Only this queue of the broker"),
            value("o", "offset", "To this offset of the queue"),
            PARENT,
        ]
    ),
    command!(
        "skipAccumulatedMessage",
        "Move a group to the end of a topic.",
        offsets::skip,
        [
            MOVED,
            TOPIC,
            value("f", "force", "Whether it may move forward as well, true without it (true|false)"),
            PARENT
        ]
    ),
    command!(
        "cloneGroupOffset",
        "Give one group the offsets of another.",
        offsets::clone,
        [
            value("s", "srcGroup", "The group to copy from").required(),
            value("d", "destGroup", "The group to copy to").required(),
            TOPIC,
            value("o", "offline", "Whether group or topic are offline; without effect"),
        ]
    ),
    command!("startMonitoring", "Say every minute which groups lag, until ended.", monitor::run, []),
];
