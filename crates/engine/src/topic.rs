//! Topics: what an operator sets, and what the engine knows of each.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use crate::{
    QueueId, TopicId, TopicName,
    codec::{Malformed, Put, Take},
    config::Limits,
    queue::Queue,
};

/// What kind of messages a topic takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum MessageType {
    #[default]
    Normal = 0,
    Fifo = 1,
    Delay = 2,
    Transaction = 3,
    /// Takes all of the above.
    Mixed = 4,
    Priority = 5,
    /// The parent of lite topics, and their messages.
    Lite = 6,
}

impl MessageType {
    const ALL: [(MessageType, &'static str); 7] = [
        (MessageType::Normal, "NORMAL"),
        (MessageType::Fifo, "FIFO"),
        (MessageType::Delay, "DELAY"),
        (MessageType::Transaction, "TRANSACTION"),
        (MessageType::Mixed, "MIXED"),
        (MessageType::Priority, "PRIORITY"),
        (MessageType::Lite, "LITE"),
    ];

    /// Whether a topic of this type takes a message of that type.
    pub fn takes(self, message: MessageType) -> bool {
        match self {
            MessageType::Mixed => !matches!(message, MessageType::Priority | MessageType::Lite),
            // A message without a priority has the lowest.
            MessageType::Priority => matches!(message, MessageType::Priority | MessageType::Normal),
            _ => self == message,
        }
    }

    /// How many types there are; each is below it as a number.
    pub const COUNT: usize = Self::ALL.len();

    pub fn all() -> impl Iterator<Item = MessageType> {
        Self::ALL.iter().map(|(kind, _)| *kind)
    }

    fn from_byte(byte: u8) -> Option<MessageType> {
        Self::all().find(|kind| *kind as u8 == byte)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

/// The text names no message type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no message type; there are NORMAL, FIFO, DELAY, TRANSACTION, MIXED, PRIORITY and LITE")]
pub struct UnknownMessageType(pub String);

impl FromStr for MessageType {
    type Err = UnknownMessageType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
            .map(|(kind, _)| *kind)
            .ok_or_else(|| UnknownMessageType(text.to_owned()))
    }
}

/// Read and write permission, with RocketMQ's numbers: 6 both, 4 read, 2 write, 0 none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    pub read: bool,
    pub write: bool,
}

impl Permission {
    pub const BOTH: Permission = Permission { read: true, write: true };

    pub fn from_bits(bits: u8) -> Permission {
        Permission { read: bits & 4 != 0, write: bits & 2 != 0 }
    }

    pub fn bits(self) -> u8 {
        u8::from(self.read) * 4 + u8::from(self.write) * 2
    }
}

/// What an operator sets for a topic.
///
/// Layout:
///
/// | field | size | |
/// |---|---|---|
/// | message type | u8 | the number of [`MessageType`] |
/// | read queues | u32 | |
/// | write queues | u32 | |
/// | permission | u8 | 4 read + 2 write |
/// | dedup window | u64 | in ms; 0 for none |
/// | attributes | u32, then pairs of strings | sorted by name |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    pub message_type: MessageType,
    /// Queues that consumers are shown. After shrinking, older queues stay readable until drained.
    pub read_queues: u32,
    pub write_queues: u32,
    pub permission: Permission,
    /// How long a dedup key is remembered; `None` turns deduplication off.
    pub dedup_window: Option<Duration>,
    /// Further attributes, kept for the protocols that know them.
    pub attributes: BTreeMap<String, String>,
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig {
            message_type: MessageType::Normal,
            read_queues: 8,
            write_queues: 8,
            permission: Permission::BOTH,
            dedup_window: None,
            attributes: BTreeMap::new(),
        }
    }
}

/// A topic configuration that breaks a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    #[error("{what} is {value}; it must be from 1 to {limit}")]
    QueueCount { what: &'static str, value: u32, limit: u32 },
    #[error("the dedup window of {value_ms} ms is over the limit of {limit_ms} ms")]
    DedupWindow { value_ms: u64, limit_ms: u64 },
    #[error("the attributes have {size} bytes, the limit is {limit}")]
    AttributesTooLarge { size: usize, limit: usize },
}

pub(crate) const ATTRIBUTES_BYTES_MAX: usize = 16 << 10;

impl TopicConfig {
    pub fn validate(&self, limits: &Limits) -> Result<(), InvalidConfig> {
        let limit = limits.queues_max;
        for (what, value) in [("read queues", self.read_queues), ("write queues", self.write_queues)] {
            if value == 0 || value > limit {
                return Err(InvalidConfig::QueueCount { what, value, limit });
            }
        }
        let limit = limits.dedup_window_max;
        match self.dedup_window {
            Some(window) if window > limit => {
                return Err(InvalidConfig::DedupWindow {
                    value_ms: window.as_millis() as u64,
                    limit_ms: limit.as_millis() as u64,
                });
            }
            _ => {}
        }
        validate_attributes(&self.attributes)
            .map_err(|size| InvalidConfig::AttributesTooLarge { size, limit: ATTRIBUTES_BYTES_MAX })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.message_type as u8);
        out.put_u32(self.read_queues);
        out.put_u32(self.write_queues);
        out.put_u8(self.permission.bits());
        out.put_u64(self.dedup_window.map_or(0, |window| window.as_millis() as u64));
        put_attributes(&self.attributes, out);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<TopicConfig, Malformed> {
        let byte = take.u8()?;
        let unknown = Malformed::Newer { what: "message type", found: byte };
        let message_type = MessageType::from_byte(byte).ok_or(unknown)?;
        Ok(TopicConfig {
            message_type,
            read_queues: take.u32()?,
            write_queues: take.u32()?,
            permission: Permission::from_bits(take.u8()?),
            dedup_window: match take.u64()? {
                0 => None,
                ms => Some(Duration::from_millis(ms)),
            },
            attributes: take_attributes(take)?,
        })
    }
}

/// The size of attributes that are over the limit is the error.
pub(crate) fn validate_attributes(attributes: &BTreeMap<String, String>) -> Result<(), usize> {
    let size = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ATTRIBUTES_BYTES_MAX { Err(size) } else { Ok(()) }
}

/// Layout: u32 count, then for each the name and the value (u32 length + UTF-8).
pub(crate) fn put_attributes(attributes: &BTreeMap<String, String>, out: &mut Vec<u8>) {
    out.put_u32(attributes.len() as u32);
    for (key, value) in attributes {
        out.put_str(key);
        out.put_str(value);
    }
}

pub(crate) fn take_attributes(take: &mut Take<'_>) -> Result<BTreeMap<String, String>, Malformed> {
    (0..take.count(8)?).map(|_| Ok((take.str()?.to_owned(), take.str()?.to_owned()))).collect()
}

/// A topic and its queues. A queue takes memory only once a message came to it.
#[derive(Debug)]
pub(crate) struct Topic {
    pub id: TopicId,
    pub name: TopicName,
    pub config: TopicConfig,
    pub queues: Vec<Queue>,
    /// Where the next message without a group and without a queue of its own goes.
    pub round_robin: u32,
}

impl Topic {
    pub fn new(id: TopicId, name: TopicName, config: TopicConfig) -> Topic {
        Topic { id, name, config, queues: Vec::new(), round_robin: 0 }
    }

    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(id.0 as usize)
    }

    pub fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        let index = id.0 as usize;
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, Queue::default);
        }
        &mut self.queues[index]
    }

    /// Queues that may be read: the configured ones, and older ones that still hold messages.
    pub fn readable(&self) -> u32 {
        let used = self.queues.iter().rposition(|queue| !queue.is_empty()).map_or(0, |last| last as u32 + 1);
        self.config.read_queues.max(used)
    }
}
