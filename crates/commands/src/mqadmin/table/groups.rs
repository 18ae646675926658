//! Commands for consumer groups.

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
        "Create or change a consumer group.",
        groups::update,
        [
            BROKER,
            CLUSTER,
            GROUP,
            value("s", "consumeEnable", "Whether the group may consume (true|false)"),
            value("m", "consumeFromMinEnable", "Whether the group starts at the first message (true|false)"),
            value("d", "consumeBroadcastEnable", "Whether the group may broadcast (true|false)"),
            value("o", "consumeMessageOrderly", "Whether the group consumes in order (true|false)"),
            value("q", "retryQueueNums", "Number of queues of the retry topic"),
            value("r", "retryMaxTimes", "Largest number of retries of a message"),
            value(
                "p",
                "groupRetryPolicy",
                "Retry delays as JSON: \
                 {\"type\":\"EXPONENTIAL\",\"exponentialRetryPolicy\":{\"initial\":5000,\"max\":7200000,\"multiplier\":2}} or \
                 {\"type\":\"CUSTOMIZED\",\"customizedRetryPolicy\":{\"next\":[1000,5000,10000]}}"
            ),
            value("i", "brokerId", "Id of the broker to consume from"),
            value("w", "whichBrokerWhenConsumeSlowly", "Id of the broker for slow consumers"),
            value(
                "a",
                "notifyConsumerIdsChanged",
                "Whether consumers are notified of changes in the group (true|false)"
            ),
            value("", "attributes", "Attributes to change: +key=value,-key"),
        ]
    ),
    command!(
        "updateSubGroupList",
        "Create or change the consumer groups listed in a file.",
        groups::update_list,
        [ONE_BROKER, OR_CLUSTER, value("f", "filename", "File with a JSON array of groups").required()]
    ),
    command!(
        "deleteSubGroup",
        "Delete a consumer group.",
        groups::delete,
        [
            BROKER,
            CLUSTER,
            GROUP,
            value("r", "removeOffset", "Whether to delete its offsets as well (true|false)")
        ]
    ),
    command!("getConsumerConfig", "Show the settings of a consumer group.", groups::config, [GROUP]),
    command!(
        "setConsumeMode",
        "Set how the consumers of a group get the messages of a topic.",
        groups::set_mode,
        [
            BROKER,
            CLUSTER,
            value("t", "topicName", "Name of the topic").required(),
            GROUP,
            value("m", "mode", "PULL or POP").required(),
            value("q", "popShareQueueNum", "Number of queues that consumers share with POP"),
        ]
    ),
    command!(
        "consumerConnection",
        "Show the consumers of a group and their subscriptions.",
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
        "Show offsets and lag of a consumer group, or of all.",
        progress::show,
        [
            value("g", "groupName", "Name of the consumer group"),
            value("t", "topicName", "Only this topic"),
            value("s", "showClientIP", "Whether to show the host that consumes each queue (true|false)"),
            PARENT,
        ]
    ),
    command!(
        "consumerStatus",
        "Show the internal state of consumers.",
        clients::status,
        [
            CONSUMERS,
            value("i", "clientId", "Only the consumer with this id"),
            BROKER,
            switch("s", "jstack", "Include thread stacks"),
        ]
    ),
    command!(
        "resetOffsetByTime",
        "Reset a group to a time without restarting its consumers.",
        offsets::reset,
        [
            MOVED,
            TOPIC,
            value("s", "timestamp", "now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS").required(),
            value("f", "force", "Whether to move forward as well (true|false), default true"),
            value("b", "broker", "Address of a broker, with -q"),
            value("q", "queue", "Only this queue of the broker"),
            value("o", "offset", "Offset to set in the queue"),
            PARENT,
        ]
    ),
    command!(
        "skipAccumulatedMessage",
        "Reset a group to the end of a topic.",
        offsets::skip,
        [
            MOVED,
            TOPIC,
            value("f", "force", "Whether to move forward as well (true|false), default true"),
            PARENT
        ]
    ),
    command!(
        "cloneGroupOffset",
        "Copy the offsets of one group to another.",
        offsets::clone,
        [
            value("s", "srcGroup", "Group to copy from").required(),
            value("d", "destGroup", "Group to copy to").required(),
            TOPIC,
            value("o", "offline", "Ignored"),
        ]
    ),
    command!("startMonitoring", "Report every minute which groups lag, until stopped.", monitor::run, []),
];
