//! A dead letter: the topic it came from, and the message to send again.

use redstart_client::admin::{Message, OutgoingMessage, POP_RETRY_SEPARATORS, RETRY_PREFIX, property};
use redstart_wire::remoting::flag;

/// Properties of a message's deliveries, not of the message. They do not hold for a message that is sent again: it has not been
/// delivered yet, and its delay has passed and its transaction is decided.
const LEFT_OUT: [&str; 24] = [
    property::RETRY_TOPIC,
    property::DELIVER_AT,
    property::REAL_TOPIC,
    "REAL_QID",
    "ORIGIN_MESSAGE_ID",
    "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
    "DELAY",
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_DELAY_LEVEL",
    "TRAN_MSG",
    "PGROUP",
    "__transactionId__",
    "TRANSACTION_CHECK_TIMES",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "POP_CK",
    "1ST_POP_TIME",
    "CONSUME_START_TIME",
    // The broker would drop a second message with this key as a duplicate.
    "DEDUP_KEY",
];
const DEAD_LETTER_PROPERTIES: &str = "DLQ_";

/// The topic that a dead letter of `group` was sent to.
pub fn origin(group: &str, message: &Message) -> Option<String> {
    let named =
        message.property(property::DEAD_LETTER_ORIGIN).or_else(|| message.property(property::RETRY_TOPIC))?;
    let Some(retried) = named.strip_prefix(RETRY_PREFIX) else { return Some(named.to_owned()) };
    // For consumers that pop, Apache names the retry topic: the group's name and the topic's name together.
    let topic = retried.strip_prefix(group)?.strip_prefix(POP_RETRY_SEPARATORS)?;
    (!topic.is_empty()).then(|| topic.to_owned())
}

/// The message to send to `topic`. It keeps its id, as with mqadmin.
pub fn again(message: &Message, topic: &str) -> OutgoingMessage {
    let kept = |name: &str| !LEFT_OUT.contains(&name) && !name.starts_with(DEAD_LETTER_PROPERTIES);
    let properties = message.properties.iter().filter(|(name, _)| kept(name));
    OutgoingMessage {
        topic: topic.to_owned(),
        body: message.stored.body.clone(),
        properties: properties.map(|(name, value)| (name.clone(), value.clone())).collect(),
        flag: message.stored.flag,
        system_flag: message.stored.system_flag & flag::OF_PRODUCER,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use redstart_wire::remoting::{StoredMessage, encode_properties};

    use super::*;

    fn letter(properties: &[(&str, &str)]) -> Message {
        let stored = StoredMessage {
            topic: "%DLQ%g".into(),
            queue_id: 0,
            flag: 3,
            queue_offset: 0,
            physical_offset: 0,
            system_flag: flag::COMPRESSED | flag::TRANSACTION_COMMIT,
            born_at: 0,
            born_host: "127.0.0.1:1".parse().unwrap(),
            stored_at: 0,
            store_host: "127.0.0.1:2".parse().unwrap(),
            reconsume_times: 16,
            prepared_transaction_offset: 0,
            properties: encode_properties(properties.iter().copied()).into(),
            body: Bytes::from_static(b"body"),
        };
        Message::new("broker-a", stored)
    }

    #[test]
    fn the_topic_of_a_dead_letter_is_found() {
        let cases = [
            (vec![("RETRY_TOPIC", "orders")], Some("orders")),
            (vec![("RETRY_TOPIC", "%RETRY%g_orders")], Some("orders")),
            (vec![("RETRY_TOPIC", "%RETRY%g+orders")], Some("orders")),
            (vec![("RETRY_TOPIC", "%RETRY%g")], None),
            (vec![("RETRY_TOPIC", "x"), ("DLQ_ORIGIN_TOPIC", "orders")], Some("orders")),
            (vec![("TAGS", "a")], None),
        ];
        for (properties, topic) in cases {
            assert_eq!(origin("g", &letter(&properties)).as_deref(), topic, "{properties:?}");
        }
    }

    #[test]
    fn it_is_sent_again_without_the_properties_of_its_deliveries() {
        let letter = letter(&[
            ("UNIQ_KEY", "ID"),
            ("TAGS", "a"),
            ("colour", "red"),
            ("__SHARDINGKEY", "customer-7"),
            ("DELAY", "3"),
            ("TRAN_MSG", "true"),
            ("DLQ_ATTEMPTS", "16"),
            ("RETRY_TOPIC", "orders"),
        ]);
        let sent = again(&letter, "orders");
        let names: Vec<&str> = sent.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["TAGS", "UNIQ_KEY", "__SHARDINGKEY", "colour"]);
        assert_eq!((sent.flag, sent.system_flag, &sent.body[..]), (3, flag::COMPRESSED, &b"body"[..]));
    }
}
