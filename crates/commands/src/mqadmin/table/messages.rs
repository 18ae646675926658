//! Commands for messages.

use super::{PARENT, Spec, TOPIC, command};
use crate::mqadmin::{
    option::{Opt, switch, value},
    query, read, send,
};

const ID: Opt = value("i", "msgId", "Id of the message").required();
const FROM: Opt = value(
    "b",
    "beginTimestamp",
    "Only messages stored from this time on: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS",
);
const TO: Opt = value("e", "endTimestamp", "Only messages stored before this time");
const CHARSET: Opt = value("c", "charsetName", "Charset of the body; only UTF-8 is supported");
const TAGS: Opt = value("s", "subExpression", "Only messages with these tags: a || b");
const FORMAT: Opt = value("f", "bodyFormat", "Print the body in this charset; only UTF-8 is supported");
const HAND_TO: Opt = value("g", "consumerGroup", "Deliver the message to a consumer of this group, with -d");
const CLIENT: Opt = value("d", "clientId", "Client id of that consumer");
const AMOUNT: Opt = value("a", "amount", "Number of messages, default 100");
const SIZE: Opt = value("s", "size", "Size of a message in bytes, default 128");

pub const COMMANDS: &[Spec] = &[
    command!(
        "sendMessage",
        "Send a message.",
        send::one,
        [
            TOPIC,
            value("p", "body", "Body of the message in UTF-8").required(),
            value("k", "key", "Keys of the message"),
            value("c", "tags", "Tag of the message"),
            value("b", "broker", "Name of the broker, with -i"),
            value("i", "qid", "Queue id"),
            value("m", "msgTraceEnable", "Whether to write a trace (true|false)"),
        ]
    ),
    command!(
        "queryMsgById",
        "Show messages by id.",
        query::by_id,
        [
            TOPIC,
            ID,
            HAND_TO,
            CLIENT,
            value("s", "sendMessage", "Whether to send the messages again (true|false)"),
            value("u", "unitName", "Ignored"),
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
            value("k", "msgKey", "Key").required(),
            FROM,
            TO,
            value("m", "maxNum", "Largest number of messages, default 64"),
            value("p", "keyType", "Type of the key; only K is supported"),
            value("l", "lastKey", "Ignored"),
            PARENT,
        ]
    ),
    command!(
        "queryMsgByUniqueKey",
        "Show a message by the id that its producer assigned.",
        query::by_unique_key,
        [
            ID,
            HAND_TO,
            CLIENT,
            TOPIC,
            switch("a", "showAll", "Show all messages with this id, at most 32"),
            PARENT
        ]
    ),
    command!(
        "queryMsgByOffset",
        "Show a message by its queue offset.",
        query::by_offset,
        [
            TOPIC,
            value("b", "brokerName", "Name of the broker").required(),
            value("i", "queueId", "Queue id").required(),
            value("o", "offset", "Offset").required(),
            FORMAT,
        ]
    ),
    command!(
        "queryMsgTraceById",
        "Show the trace of a message.",
        query::trace,
        [
            ID,
            value("t", "traceTopic", "Topic of the traces"),
            FROM,
            TO,
            value("c", "maxNum", "Largest number of traces, default 64"),
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
            value("d", "printBody", "Whether to print bodies (true|false)"),
            value("l", "lmqParentTopic", "Parent topic of a light queue"),
        ]
    ),
    command!(
        "printMsgByQueue",
        "Print the messages of a queue or count their tags.",
        read::print_queue,
        [
            TOPIC,
            value("a", "brokerName", "Name of the broker").required(),
            value("i", "queueId", "Queue id").required(),
            CHARSET,
            TAGS,
            FROM,
            TO,
            value("p", "print msg", "Whether to print messages (true|false)"),
            value("d", "printBody", "Whether to print bodies (true|false)"),
            value("f", "calculate", "Whether to count tags (true|false)"),
        ]
    ),
    command!(
        "consumeMessage",
        "Print messages from the start of a queue or from an offset.",
        read::consume,
        [
            TOPIC,
            value("b", "brokerName", "Name of the broker"),
            value("i", "queueId", "Queue id, with -b"),
            value("o", "offset", "First offset, with -i"),
            value("g", "consumerGroup", "The group that reads; no offset is changed"),
            value(
                "s",
                "beginTimestamp",
                "Only messages stored from this time on: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS"
            ),
            TO,
            value("c", "MessageNumber", "Largest number of messages, default 128"),
        ]
    ),
    command!(
        "queryCq",
        "Show entries of a queue.",
        read::queue_entries,
        [
            TOPIC,
            value("q", "queue", "Queue id").required(),
            value("i", "index", "Offset of the first entry").required(),
            value("c", "count", "Number of entries, default 10"),
            value("b", "broker", "Address of the broker, host:port"),
            value("g", "consumer", "Consumer group whose subscription is applied"),
        ]
    ),
    command!(
        "checkMsgSendRT",
        "Measure the round-trip time of sends to a topic.",
        send::round_trips,
        [TOPIC, AMOUNT, SIZE]
    ),
    command!(
        "clusterRT",
        "Measure the round-trip time of sends to every broker, repeatedly.",
        send::cluster_round_trips,
        [
            AMOUNT,
            SIZE,
            value("c", "cluster", "Only this cluster"),
            value("p", "print log", "Whether to print log lines (true|false)"),
            value("m", "machine room", "Name of the machine room in these lines"),
            value("i", "interval", "Seconds between two measurements, default 10"),
        ]
    ),
    command!(
        "sendMsgStatus",
        "Send messages to the topic with the name of a broker.",
        send::to_broker,
        [
            value("b", "brokerName", "Name of the broker").required(),
            value("s", "messageSize", "Size of a message in bytes, default 128"),
            value("c", "count", "Number of messages, default 50"),
        ]
    ),
];
