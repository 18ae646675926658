//! A message as a producer makes it, and what is refused before anything is sent.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redstart_wire::remoting::PROPERTIES_BYTES_MAX;

/// The property by which Redstart drops a second message with the same key.
pub(crate) const DEDUP_KEY: &str = "DEDUP_KEY";

const TOPIC_LEN_MAX: usize = 127;
const MESSAGE_GROUP_LEN_MAX: usize = 64;
const USER_PROPERTIES_MAX: usize = 128;
const USER_PROPERTIES_BYTES_MAX: usize = 16 << 10;
/// The largest body that every server takes.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;

/// Names of properties that belong to the protocols.
const RESERVED: &[&str] = &[
    "1ST_POP_TIME",
    "ARRIVE_TIME",
    "BORN_TIMESTAMP",
    "BUYER_ID",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "CLUSTER",
    "CONSUME_START_TIME",
    "CORRECTION_FLAG",
    "CORRELATION_ID",
    "DELAY",
    "DLQ_ORIGIN_MESSAGE_ID",
    "DLQ_ORIGIN_TOPIC",
    "DUP_INFO",
    "EXTEND_UNIQ_INFO",
    "INNER_BASE",
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
    "INNER_NUM",
    "INSTANCE_ID",
    "KEYS",
    "MAX_OFFSET",
    "MAX_RECONSUME_TIMES",
    "MIN_OFFSET",
    "MQ2_FLAG",
    "MSG_REGION",
    "MSG_TYPE",
    "ORIGIN_MESSAGE_ID",
    "PGROUP",
    "POP_CK",
    "POP_CK_OFFSET",
    "PUSH_REPLY_TIME",
    "REAL_QID",
    "REAL_TOPIC",
    "RECONSUME_TIME",
    "REPLY_TO_CLIENT",
    "RETRY_TOPIC",
    "TAGS",
    "TIMER_DELAY_LEVEL",
    "TIMER_DELAY_MS",
    "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS",
    "TIMER_DEL_UNIQKEY",
    "TIMER_DEQUEUE_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_OUT_MS",
    "TIMER_ROLL_TIMES",
    "TRACE_CONTEXT",
    "TRACE_ON",
    "TRANSACTION_CHECK_TIMES",
    "TRANSFER_FLAG",
    "TRAN_MSG",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "TTL",
    "UNIQ_KEY",
    "WAIT",
    "_SYS_MSG_PRIORITY_",
    "__BORNHOST",
    "__CRC32#",
    "__SHARDINGKEY",
    "__STARTDELIVERTIME",
    "__transactionId__",
];

/// Whether a property belongs to the protocols. Such a property is not shown to the application.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A message: what a producer sends and what a consumer gets.
///
/// ```
/// # use std::time::Duration;
/// # use redstart_client::Message;
/// let order = Message::new("orders", "{\"id\":1042}")
///     .tag("created")
///     .key("order-1042")
///     .property("region", "eu")
///     .after(Duration::from_secs(30));
/// assert_eq!(order.topic(), "orders");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) topic: String,
    pub(crate) body: Bytes,
    pub(crate) tag: Option<String>,
    pub(crate) keys: Vec<String>,
    pub(crate) group: Option<String>,
    pub(crate) delivery: Option<DeliveryTime>,
    pub(crate) priority: Option<u8>,
    pub(crate) shard: Option<ShardKey>,
    pub(crate) properties: Vec<(String, String)>,
}

/// When a delayed message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryTime {
    /// This long after it is sent.
    After(Duration),
    /// At this time; at once if it is over.
    At(SystemTime),
}

impl DeliveryTime {
    /// Milliseconds since 1970.
    pub(crate) fn to_ms(self, now_ms: i64) -> i64 {
        match self {
            DeliveryTime::After(delay) => now_ms.saturating_add(delay.as_millis() as i64),
            DeliveryTime::At(time) => {
                time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
            }
        }
    }
}

/// What [`Selector::Hash`](crate::Selector::Hash) computes the queue of a message from, with Java's hash of each type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardKey {
    /// As Java's `String`.
    Text(String),
    /// As Java's `Integer`.
    Int(i32),
    /// As Java's `Long`.
    Long(i64),
}

impl From<&str> for ShardKey {
    fn from(text: &str) -> ShardKey {
        ShardKey::Text(text.to_owned())
    }
}

impl From<String> for ShardKey {
    fn from(text: String) -> ShardKey {
        ShardKey::Text(text)
    }
}

impl From<i32> for ShardKey {
    fn from(number: i32) -> ShardKey {
        ShardKey::Int(number)
    }
}

impl From<i64> for ShardKey {
    fn from(number: i64) -> ShardKey {
        ShardKey::Long(number)
    }
}

impl ShardKey {
    pub(crate) fn hash(&self) -> i32 {
        match self {
            ShardKey::Text(text) => crate::java::string_hash(text),
            ShardKey::Int(number) => *number,
            ShardKey::Long(number) => crate::java::long_hash(*number),
        }
    }
}

/// A message that cannot be sent as it is. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// The topic has characters or a length that servers refuse.
    #[error(
        "{topic:?} is no name of a topic: letters, digits, '%', '|', '_' and '-', at most {TOPIC_LEN_MAX}"
    )]
    Topic {
        /// As it was given.
        topic: String,
    },
    /// The body is empty.
    #[error("the body is empty")]
    EmptyBody,
    /// The body is larger than the server takes.
    #[error("a body of {size} bytes, the limit is {limit}")]
    BodyTooLarge {
        /// Bytes of the body.
        size: usize,
        /// Bytes that the server takes.
        limit: usize,
    },
    /// A tag, key, message group or property holds what the protocols cannot carry.
    #[error("the {what} {value:?} {why}")]
    Text {
        /// Which part of the message.
        what: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name of a property belongs to the protocols.
    #[error("the property {name} belongs to the protocol")]
    Reserved {
        /// The property's name.
        name: String,
    },
    /// There are too many properties, or they are too long.
    #[error(
        "{count} properties with {size} bytes, the limits are {USER_PROPERTIES_MAX} and {USER_PROPERTIES_BYTES_MAX}"
    )]
    Properties {
        /// Number of properties.
        count: usize,
        /// Bytes of all names and values.
        size: usize,
    },
    /// Two features that exclude each other.
    #[error("{one} and {other} exclude each other")]
    Conflict {
        /// The first.
        one: &'static str,
        /// The second.
        other: &'static str,
    },
}

impl Message {
    /// A message without tag, keys or properties.
    pub fn new(topic: impl Into<String>, body: impl Into<Bytes>) -> Message {
        Message {
            topic: topic.into(),
            body: body.into(),
            tag: None,
            keys: Vec::new(),
            group: None,
            delivery: None,
            priority: None,
            shard: None,
            properties: Vec::new(),
        }
    }

    /// The tag that consumers can select by. A message has at most one.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Message {
        self.tag = Some(tag.into());
        self
    }

    /// Adds a key, by which operators find the message.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Message {
        self.keys.push(key.into());
        self
    }

    /// The message group: messages of one group are delivered in the order in which they were stored. The topic must have
    /// type FIFO where the server checks types.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Message {
        self.group = Some(group.into());
        self
    }

    /// Delivers the message this long after it is sent. The topic must have type DELAY where the server checks types.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Message {
        self.delivery = Some(DeliveryTime::After(delay));
        self
    }

    /// Delivers the message at this time.
    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Message {
        self.delivery = Some(DeliveryTime::At(time));
        self
    }

    /// The priority; higher ones are delivered first. The topic must have type PRIORITY.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Message {
        self.priority = Some(priority);
        self
    }

    /// Sets a property; of two with one name the later counts. Consumers can select by properties with SQL92.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Message {
        let name = name.into();
        self.properties.retain(|(known, _)| *known != name);
        self.properties.push((name, value.into()));
        self
    }

    /// Within the topic's window, Redstart stores a second message with the same key not again and answers with the first.
    /// Apache's servers ignore the key.
    #[must_use]
    pub fn dedup_key(self, key: impl Into<String>) -> Message {
        self.property(DEDUP_KEY, key)
    }

    /// What [`Selector::Hash`](crate::Selector::Hash) computes the queue from.
    #[must_use]
    pub fn shard_by(mut self, key: impl Into<ShardKey>) -> Message {
        self.shard = Some(key.into());
        self
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The value of a property that was set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Refuses what no server would take, or what a consumer would get in another shape.
    pub(crate) fn check(&self, body_bytes_max: usize) -> Result<(), InvalidMessage> {
        if !is_topic_name(&self.topic) {
            return Err(InvalidMessage::Topic { topic: self.topic.clone() });
        }
        if self.body.is_empty() {
            return Err(InvalidMessage::EmptyBody);
        }
        if self.body.len() > body_bytes_max {
            return Err(InvalidMessage::BodyTooLarge { size: self.body.len(), limit: body_bytes_max });
        }
        self.check_conflicts()?;
        if let Some(tag) = &self.tag {
            check_text("tag", tag, |tag| tag.contains('|').then_some("holds '|'"))?;
        }
        for key in &self.keys {
            let blank = |key: &str| {
                key.contains(char::is_whitespace).then_some("holds a blank, which separates keys")
            };
            check_text("key", key, blank)?;
        }
        if let Some(group) = &self.group {
            let long =
                |group: &str| (group.len() > MESSAGE_GROUP_LEN_MAX).then_some("is longer than 64 bytes");
            check_text("message group", group, long)?;
        }
        self.check_properties()
    }

    fn check_conflicts(&self) -> Result<(), InvalidMessage> {
        let features = [
            ("a message group", self.group.is_some()),
            ("a time of delivery", self.delivery.is_some()),
            ("a priority", self.priority.is_some()),
        ];
        let mut given = features.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
        match (given.next(), given.next()) {
            (Some(one), Some(other)) => Err(InvalidMessage::Conflict { one, other }),
            _ => Ok(()),
        }
    }

    /// Refuses what a message whose delivery waits for a transaction cannot have.
    pub(crate) fn check_transactional(&self) -> Result<(), InvalidMessage> {
        let features = [
            ("a message group", self.group.is_some()),
            ("a time of delivery", self.delivery.is_some()),
            ("a priority", self.priority.is_some()),
        ];
        match features.into_iter().find(|(_, given)| *given) {
            Some((other, _)) => Err(InvalidMessage::Conflict { one: "a transaction", other }),
            None => Ok(()),
        }
    }

    pub(crate) fn check_properties(&self) -> Result<(), InvalidMessage> {
        for (name, value) in &self.properties {
            if is_reserved(name) {
                return Err(InvalidMessage::Reserved { name: name.clone() });
            }
            check_text("property name", name, |_| None)?;
            check_text("property value", value, |_| None)?;
        }
        let (count, size) = (self.properties.len(), self.properties_bytes());
        if count > USER_PROPERTIES_MAX || size > USER_PROPERTIES_BYTES_MAX {
            return Err(InvalidMessage::Properties { count, size });
        }
        Ok(())
    }

    fn properties_bytes(&self) -> usize {
        let named: usize = self.properties.iter().map(|(name, value)| name.len() + value.len()).sum();
        let keys: usize = self.keys.iter().map(String::len).sum();
        named + keys + self.tag.as_ref().map_or(0, String::len)
    }

    /// Bytes that count against a producer's limit.
    pub(crate) fn weight(&self) -> usize {
        self.body.len() + self.properties_bytes()
    }
}

// The properties that users may set, with those of the protocol, always fit into the text that Remoting has for them.
const _: () = assert!(USER_PROPERTIES_BYTES_MAX + 2 * USER_PROPERTIES_MAX + 4096 < PROPERTIES_BYTES_MAX);

pub(crate) fn is_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-');
    !name.is_empty() && name.len() <= TOPIC_LEN_MAX && name.bytes().all(legal)
}

fn check_text(
    what: &'static str,
    value: &str,
    more: impl Fn(&str) -> Option<&'static str>,
) -> Result<(), InvalidMessage> {
    let why = if value.trim().is_empty() {
        Some("is blank")
    } else if value.chars().any(char::is_control) {
        Some("holds a control character")
    } else {
        more(value)
    };
    why.map_or(Ok(()), |why| Err(InvalidMessage::Text { what, value: value.to_owned(), why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::new("t", "x")
    }

    #[test]
    fn what_no_server_takes_is_refused_and_named() {
        let later = Duration::from_secs(1);
        let many = (0..129).fold(message(), |message, n| message.property(format!("p{n}"), "v"));
        for (bad, says) in [
            (Message::new("", "x"), "no name of a topic"),
            (Message::new("a b", "x"), "no name of a topic"),
            (Message::new("t".repeat(128), "x"), "no name of a topic"),
            (Message::new("t", ""), "the body is empty"),
            (Message::new("t", vec![0; BODY_BYTES_MAX + 1]), "4194305 bytes, the limit is 4194304"),
            (message().tag(" "), "is blank"),
            (message().tag("a|b"), "holds '|'"),
            (message().key("a b"), "holds a blank"),
            (message().key("a\u{1}"), "control character"),
            (message().group("g".repeat(65)), "longer than 64 bytes"),
            (message().property("KEYS", "v"), "belongs to the protocol"),
            (message().property("", "v"), "is blank"),
            (message().property("k", "\u{2}"), "control character"),
            (message().property("k", "v".repeat(16 << 10)), "the limits are 128 and 16384"),
            (many, "129 properties"),
            (message().group("g").after(later), "a message group and a time of delivery exclude each other"),
            (message().priority(1).after(later), "a time of delivery and a priority exclude each other"),
        ] {
            let error = bad.check(BODY_BYTES_MAX).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_servers_take_is_sent() {
        for good in [
            message().tag("a").key("k1").key("k2").property("p", "v w").dedup_key("once"),
            message().group("g".repeat(64)),
            message().priority(0),
            message().at(SystemTime::UNIX_EPOCH),
            Message::new("%RETRY%g", vec![0; BODY_BYTES_MAX]),
        ] {
            assert_eq!(good.check(BODY_BYTES_MAX), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn the_later_value_of_a_property_counts() {
        let message = message().property("p", "1").property("q", "2").property("p", "3");
        assert_eq!((message.get("p"), message.get("q"), message.get("r")), (Some("3"), Some("2"), None));
        assert_eq!(message.properties.len(), 2);
    }

    #[test]
    fn a_delay_counts_from_the_send() {
        assert_eq!(DeliveryTime::After(Duration::from_millis(1500)).to_ms(10_000), 11_500);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(DeliveryTime::At(at).to_ms(10_000), 5000);
    }
}
