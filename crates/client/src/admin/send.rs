//! Sending a message to a queue of a topic.

use std::{
    hash::{BuildHasher, RandomState},
    net::Ipv4Addr,
    sync::atomic::{AtomicU16, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use redstart_wire::remoting::{Command, FieldError, body::TopicRoute, code, encode_properties};

use super::{Admin, Error, cluster, property, refused};
use crate::java::string_hash as java_hash;

const PRODUCER_GROUP: &str = "TOOLS_PRODUCER";
const WRITE: u8 = 2;
/// The template for topics that a send creates. It has no effect here: every topic exists already.
const DEFAULT_TOPIC: &str = "TBW102";
const DEFAULT_QUEUES: u32 = 4;

/// A message to send. Tag, keys and the like are properties: see [`OutgoingMessage::set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    pub topic: String,
    pub body: Bytes,
    pub properties: Vec<(String, String)>,
    pub flag: i32,
    /// Says whether and how the body is compressed.
    pub system_flag: i32,
}

impl OutgoingMessage {
    /// A message with an id of its own.
    pub fn new(topic: &str, body: Bytes) -> OutgoingMessage {
        let properties = vec![
            (property::UNIQUE_KEY.to_owned(), message_id()),
            (property::WAIT.to_owned(), true.to_string()),
        ];
        OutgoingMessage { topic: topic.to_owned(), body, properties, flag: 0, system_flag: 0 }
    }

    /// Sets a property; the later value counts.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.properties.retain(|(known, _)| known != name);
        self.properties.push((name.to_owned(), value.to_string()));
    }

    pub fn set_tag(&mut self, tag: &str) {
        self.set(property::TAGS, tag);
    }

    pub fn set_keys(&mut self, keys: &[String]) {
        self.set(property::KEYS, keys.join(" "));
    }

    /// Messages of one group are delivered in order.
    pub fn set_message_group(&mut self, group: &str) {
        self.set(property::MESSAGE_GROUP, group);
    }

    /// Milliseconds since 1970.
    pub fn set_deliver_at(&mut self, time: i64) {
        self.set(property::DELIVER_AT, time);
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendStatus {
    Stored,
    /// Stored, and not yet known to be on the disk or on a second broker.
    FlushDiskTimeout,
    FlushSlaveTimeout,
    SlaveNotAvailable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub status: SendStatus,
    pub message_id: String,
    pub offset_id: String,
    pub broker: String,
    pub queue: i32,
    pub queue_offset: i64,
    /// The handle with which a delayed message can be recalled.
    pub recall_handle: Option<String>,
}

/// A queue that can be written to, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub broker: String,
    pub address: String,
    pub queue: i32,
}

impl Admin {
    /// Sends to a queue of the topic: that of its message group, else any.
    pub async fn send(&self, message: &OutgoingMessage) -> Result<Receipt, Error> {
        let places = places(&self.route(&message.topic).await?);
        let index = match message.property(property::MESSAGE_GROUP) {
            Some(group) => consistent_hash(java_hash(group).into(), places.len()),
            None => random() as usize % places.len().max(1),
        };
        let place = places.get(index).ok_or_else(|| Error::NotWritable { topic: message.topic.clone() })?;
        self.send_to(&place.address, &place.broker, place.queue, message).await
    }

    /// Sends to one queue of a broker; -1 leaves the queue to the broker.
    pub async fn send_to(
        &self,
        broker: &str,
        name: &str,
        queue: i32,
        message: &OutgoingMessage,
    ) -> Result<Receipt, Error> {
        let properties = message.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut request = Command::request(code::SEND_MESSAGE_V2)
            .with_field("a", PRODUCER_GROUP)
            .with_field("b", &message.topic)
            .with_field("c", DEFAULT_TOPIC)
            .with_field("d", DEFAULT_QUEUES)
            .with_field("e", queue)
            .with_field("f", message.system_flag)
            .with_field("g", now())
            .with_field("h", message.flag)
            .with_field("i", encode_properties(properties))
            .with_field("j", 0)
            .with_field("k", false)
            .with_field("m", false)
            .with_field("n", name);
        request.body = message.body.clone();
        let answer = self.answer(broker, request, self.timeout).await?;
        let status = match answer.code {
            code::SUCCESS => SendStatus::Stored,
            code::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
            code::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
            code::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
            _ => return Err(refused(broker, code::SEND_MESSAGE_V2, answer).about_topic(&message.topic)),
        };
        let read = |error: FieldError| Error::field(broker, code::SEND_MESSAGE_V2, &error);
        let offset_id = answer.required("msgId").map_err(read)?.to_owned();
        Ok(Receipt {
            status,
            message_id: message
                .property(property::UNIQUE_KEY)
                .or_else(|| answer.field("transactionId"))
                .map_or_else(|| offset_id.clone(), str::to_owned),
            offset_id,
            broker: name.to_owned(),
            queue: answer.number("queueId").map_err(read)?,
            queue_offset: answer.number("queueOffset").map_err(read)?,
            recall_handle: answer.field("recallHandle").map(str::to_owned),
        })
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

fn random() -> u32 {
    RandomState::new().hash_one(0_u8) as u32
}

/// All queues that can be written to, in the order in which RocketMQ counts them.
pub fn places(route: &TopicRoute) -> Vec<Place> {
    let mut places = Vec::new();
    for queues in route.queue_datas.iter().filter(|queues| queues.perm & WRITE != 0) {
        let broker = route.broker_datas.iter().find(|broker| broker.broker_name == queues.broker_name);
        let Some(address) = broker.and_then(|broker| cluster::master(&broker.broker_addrs)) else { continue };
        places.extend((0..queues.write_queue_nums).map(|queue| Place {
            broker: queues.broker_name.clone(),
            address: address.clone(),
            queue: queue as i32,
        }));
    }
    places.sort_by(|one, other| (&one.broker, one.queue).cmp(&(&other.broker, other.queue)));
    places
}

/// The bucket of an input by the jump consistent hash of Lamping and Veach, as RocketMQ's proxy chooses the queue of a
/// message group: all producers choose the same queue for a group.
fn consistent_hash(input: i64, buckets: usize) -> usize {
    let mut state = input as u64;
    let mut candidate = 0_usize;
    loop {
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let fraction = f64::from(((state >> 33) as i32).wrapping_add(1)) / f64::from(1_u32 << 31);
        let next = (candidate + 1) as f64 / fraction;
        if next < 0.0 || next >= buckets as f64 {
            return candidate;
        }
        candidate = next as usize;
    }
}

/// An id as RocketMQ's clients make them: host, process, instance, time, counter.
pub fn message_id() -> String {
    static COUNTER: AtomicU16 = AtomicU16::new(0);
    const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;
    let mut bytes = Ipv4Addr::LOCALHOST.octets().to_vec();
    bytes.extend((std::process::id() as u16).to_be_bytes());
    bytes.extend(random().to_be_bytes());
    bytes.extend(((now() % MONTH_MS) as u32).to_be_bytes());
    bytes.extend(COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_group_has_one_queue_of_those_there_are() {
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(java_hash("é漢"), 233 * 31 + 0x6f22);
        // As the library that RocketMQ's proxy uses has them, for 4, 8, 16 and 1000 queues.
        for (group, queues) in [
            ("hello", [3, 4, 8, 577]),
            ("customer-7", [2, 7, 12, 324]),
            ("é漢", [2, 2, 2, 381]),
            ("", [0, 0, 0, 0]),
            ("orders-123456", [1, 1, 9, 719]),
        ] {
            let chosen = [4, 8, 16, 1000].map(|count| consistent_hash(java_hash(group).into(), count));
            assert_eq!(chosen, queues, "{group}");
        }
        for input in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(consistent_hash(input, 1), 0);
            let (eight, nine) = (consistent_hash(input, 8), consistent_hash(input, 9));
            assert!(eight < 8 && (nine == eight || nine == 8), "{input}: {eight} {nine}");
        }
    }

    #[test]
    fn ids_differ() {
        let (one, two) = (message_id(), message_id());
        assert!(one.len() == 32 && one != two);
    }
}
