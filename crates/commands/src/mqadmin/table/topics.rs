//! Commands for topics.

use super::{BROKER, CLUSTER, ONE_BROKER, OR_CLUSTER, PARENT, Spec, TOPIC, command};
use crate::mqadmin::{
    option::{Opt, switch, value},
    topic_views as views, topics,
};

const ATTRIBUTES: Opt = value("a", "attributes", "Attributes to change: +key=value,-key");
const PERMISSION: &str = "Permission: 2 write, 4 read, 6 both";

pub const COMMANDS: &[Spec] = &[
    command!(
        "updateTopic",
        "Create or change a topic.",
        topics::update,
        [
            ONE_BROKER,
            OR_CLUSTER,
            ATTRIBUTES,
            TOPIC,
            value("r", "readQueueNums", "Number of queues to read from, default 8"),
            value("w", "writeQueueNums", "Number of queues to write to, default 8"),
            value("p", "perm", PERMISSION),
            value("o", "order", "Whether the topic is ordered (true|false)"),
            value("u", "unit", "Whether the topic belongs to a unit (true|false)"),
            value("s", "hasUnitSub", "Whether units subscribe to it (true|false)"),
        ]
    ),
    command!(
        "updateTopicList",
        "Create or change the topics listed in a file.",
        topics::update_list,
        [ONE_BROKER, OR_CLUSTER, value("f", "filename", "File with a JSON array of topics").required()]
    ),
    command!("deleteTopic", "Delete a topic and its messages.", topics::delete, [TOPIC, CLUSTER.required()]),
    command!(
        "updateTopicPerm",
        "Change the permission of a topic.",
        topics::update_permission,
        [BROKER, CLUSTER, TOPIC, value("p", "perm", PERMISSION).required()]
    ),
    command!(
        "topicList",
        "List the topics.",
        views::list,
        [switch("c", "clusterModel", "Include clusters and consumer groups")]
    ),
    command!(
        "topicRoute",
        "Show the brokers and queues of a topic.",
        views::route,
        [TOPIC, switch("l", "list", "Print a table")]
    ),
    command!("topicStatus", "Show a topic's queues and their offsets.", views::status, [TOPIC, PARENT]),
    command!("topicClusterList", "Show the clusters that have a topic.", views::clusters, [TOPIC]),
    command!(
        "allocateMQ",
        "Show how the queues of a topic would be allocated to consumers.",
        topics::allocate,
        [TOPIC, value("i", "ipList", "Addresses of the consumers, separated by commas").required()]
    ),
    command!(
        "updateOrderConf",
        "Read, set or delete the order configuration of a topic.",
        topics::update_order,
        [
            TOPIC,
            value("v", "orderConf", "Queues by broker: broker1:4;broker2:4"),
            value("m", "method", "get, put or delete").required(),
        ]
    ),
    command!(
        "statsAll",
        "Show the send and receive rates of topics.",
        views::statistics,
        [switch("a", "activeTopic", "Only topics with traffic"), value("t", "topic", "Only this topic")]
    ),
];
