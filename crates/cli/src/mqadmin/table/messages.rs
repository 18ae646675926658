use super::{PARENT, Spec, TOPIC, command};
use crate::mqadmin::{
    option::{Opt, switch, value},
    query, read, send,
};

const ID: Opt = value("i", "msgId", "Id of the message").required();
const FROM: Opt =
    value("b", "beginTimestamp", "Stored at this time or later: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS");
const TO: Opt = value("e", "endTimestamp", "Stored before this time");
const CHARSET: Opt = value("c", "charsetName", "Only UTF-8");
const TAGS: Opt = value("s", "subExpression", "Only these tags: a || b");
const FORMAT: Opt = value("f", "bodyFormat", "Show the body as well: UTF-8");
const HAND_TO: Opt = value("g", "consumerGroup", "Hand the message to a consumer of this group, with -d");
const CLIENT: Opt = value("d", "clientId", "Id of that consumer");
const AMOUNT: Opt = value("a", "amount", "How many messages, 100 without it");
const SIZE: Opt = value("s", "size", "Bytes of a message, 128 without it");

pub const COMMANDS: &[Spec] = &[
    command!(
        "sendMessage",
        "Send a message.",
        send::one,
        [
            TOPIC,
            value("p", "body", "The body, as UTF-8").required(),
            value("k", "key", "Its keys"),
            value("c", "tags", "Its tag"),
            value("b", "broker", "Name of the broker, with -i"),
            value("i", "qid", "The queue"),
            value("m", "msgTraceEnable", "Whether a trace is written (true|false)"),
        ]
    ),
    command!(
        "queryMsgById",
        "Show messages by their ids.",
        query::by_id,
        [
            TOPIC,
            ID,
            HAND_TO,
            CLIENT,
            value("s", "sendMessage", "Whether to send them again (true|false)"),
            value("u", "unitName", "Name of the unit; without effect"),
            FORMAT,
            PARENT,
        ]
    ),
    command!(
        "queryMsgByKey",
        "Find messages by a key.",
        query::by_key,
        [
            TOPIC,
            value("k", "msgKey", "The key").required(),
            FROM,
            TO,
            value("m", "maxNum", "How many at most, 64 without it"),
            value("p", "keyType", "K: by keys"),
            value("l", "lastKey", "Where to go on; without effect"),
            PARENT,
        ]
    ),
    command!(
        "queryMsgByUniqueKey",
        "Show a message by the id its producer gave it.",
        query::by_unique_key,
        [ID, HAND_TO, CLIENT, TOPIC, switch("a", "showAll", "All that have this id, at most 32"), PARENT]
    ),
    command!(
        "queryMsgByOffset",
        "Show a message by its place in a queue.",
        query::by_offset,
        [
            TOPIC,
            value("b", "brokerName", "Name of the broker").required(),
            value("i", "queueId", "The queue").required(),
            value("o", "offset", "The offset").required(),
            FORMAT,
        ]
    ),
    command!(
        "queryMsgTraceById",
        "Show what clients said of a message's way.",
        query::trace,
        [
            ID,
            value("t", "traceTopic", "The topic of the traces"),
            FROM,
            TO,
            value("c", "maxNum", "How many traces at most, 64 without it"),
        ]
    ),
    command!(
        "printMsg",
        "Print the messages of a topic.",
        read::print,
        [
            TOPIC,
            CHARSET,
            TAGS,
            FROM,
            TO,
            value("d", "printBody", "Whether bodies are printed (true|false)"),
            value("l", "lmqParentTopic", "The topic whose brokers have a topic inside it"),
        ]
    ),
    command!(
        "printMsgByQueue",
        "Print the messages of a queue, or count their tags.",
        read::print_queue,
        [
            TOPIC,
            value("a", "brokerName", "Name of the broker").required(),
            value("i", "queueId", "The queue").required(),
            CHARSET,
            TAGS,
            FROM,
            TO,
            value("p", "print msg", "Whether messages are printed (true|false)"),
            value("d", "printBody", "Whether bodies are printed (true|false)"),
            value("f", "calculate", "Whether tags are counted (true|false)"),
        ]
    ),
    command!(
        "consumeMessage",
        "Print messages from where a queue begins, or from an offset.",
        read::consume,
        [
            TOPIC,
            value("b", "brokerName", "Name of the broker"),
            value("i", "queueId", "The queue, with -b"),
            value("o", "offset", "Where to begin, with -i"),
            value("g", "consumerGroup", "Name of a group; no group is moved, so without effect"),
            value(
                "s",
                "beginTimestamp",
                "Stored at this time or later: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS"
            ),
            TO,
            value("c", "MessageNumber", "How many at most, 128 without it"),
        ]
    ),
    command!(
        "queryCq",
        "Show entries of a queue.",
        read::queue_entries,
        [
            TOPIC,
            value("q", "queue", "The queue").required(),
            value("i", "index", "The first entry").required(),
            value("c", "count", "How many, 10 without it"),
            value("b", "broker", "Address of the broker, host:port"),
            value("g", "consumer", "Name of a consumer group, to see what fits its subscription"),
        ]
    ),
    command!("checkMsgSendRT", "Measure sends to a topic.", send::round_trips, [TOPIC, AMOUNT, SIZE]),
    command!(
        "clusterRT",
        "Measure sends to every broker, again and again.",
        send::cluster_round_trips,
        [
            AMOUNT,
            SIZE,
            value("c", "cluster", "Only this cluster"),
            value("p", "print log", "Whether to print lines for a log (true|false)"),
            value("m", "machine room", "What such a line calls the place"),
            value("i", "interval", "Seconds between two measurements, 10 without it"),
        ]
    ),
    command!(
        "sendMsgStatus",
        "Send to the topic of a broker's name.",
        send::to_broker,
        [
            value("b", "brokerName", "Name of the broker").required(),
            value("s", "messageSize", "Bytes of a message, 128 without it"),
            value("c", "count", "How many messages, 50 without it"),
        ]
    ),
];
