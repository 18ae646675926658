use super::{BROKER, CLUSTER, ONE_BROKER, OR_CLUSTER, PARENT, Spec, TOPIC, command};
use crate::mqadmin::{
    option::{Opt, switch, value},
    topic_views as views, topics,
};

const ATTRIBUTES: Opt = value("a", "attributes", "Attributes to change: +key=value,-key");
const PERMISSION: &str = "What is allowed: 2 to write, 4 to read, 6 both";

pub const COMMANDS: &[Spec] = &[
    command!(
        "updateTopic",
        "Create a topic, or change it.",
        topics::update,
        [
            ONE_BROKER,
            OR_CLUSTER,
            ATTRIBUTES,
            TOPIC,
            value("r", "readQueueNums", "Queues to read from, 8 without it"),
            value("w", "writeQueueNums", "Queues to write to, 8 without it"),
            value("p", "perm", PERMISSION),
            value("o", "order", "Whether the topic is ordered (true|false)"),
            value("u", "unit", "Whether the topic is of a unit (true|false)"),
            value("s", "hasUnitSub", "Whether units subscribe to it (true|false)"),
        ]
    ),
    command!(
        "updateTopicList",
        "Create or change the topics of a file.",
        topics::update_list,
        [ONE_BROKER, OR_CLUSTER, value("f", "filename", "File with a JSON array of topics").required()]
    ),
    command!("deleteTopic", "Delete a topic with its messages.", topics::delete, [TOPIC, CLUSTER.required()]),
    command!(
        "updateTopicPerm",
        "Change who may write to a topic and read it.",
        topics::update_permission,
        [BROKER, CLUSTER, TOPIC, value("p", "perm", PERMISSION).required()]
    ),
    command!(
        "topicList",
        "List the topics.",
        views::list,
        [switch("c", "clusterModel", "With their clusters and consumer groups")]
    ),
    command!(
        "topicRoute",
        "Show where a topic's queues are.",
        views::route,
        [TOPIC, switch("l", "list", "As a table")]
    ),
    command!("topicStatus", "Show a topic's queues and their offsets.", views::status, [TOPIC, PARENT]),
    command!("topicClusterList", "Show the clusters that have a topic.", views::clusters, [TOPIC]),
    command!(
        "allocateMQ",
        "Show how a topic's queues would be shared by consumers.",
        topics::allocate,
        [TOPIC, value("i", "ipList", "The consumers, separated by commas").required()]
    ),
    command!(
        "updateOrderConf",
        "Read, set or delete the queues of an ordered topic.",
        topics::update_order,
        [
            TOPIC,
            value("v", "orderConf", "Queues by broker: broker1:4;broker2:4"),
            value("m", "method", "get, put or delete").required(),
        ]
    ),
    command!(
        "statsAll",
        "Show how much is sent to topics and read from them.",
        views::statistics,
        [switch("a", "activeTopic", "Only topics in use"), value("t", "topic", "Only this topic")]
    ),
];
