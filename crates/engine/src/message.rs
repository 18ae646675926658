//! A message as a producer hands it in, and as it is read back.

use bytes::Bytes;

use crate::{
    Timestamp,
    codec::{Malformed, Put, Take},
    config::Limits,
    filter::{Properties, tag_hash},
    topic::MessageType,
};

/// Property by which a producer asks for deduplication.
pub const DEDUP_KEY: &str = "DEDUP_KEY";
/// Property that holds the name of the lite topic a message belongs to.
pub const LITE_TOPIC: &str = "__LITE_TOPIC";

/// What a producer sends. Immutable once stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Made by the client; kept unchanged.
    pub id: String,
    pub tag: Option<String>,
    pub keys: Vec<String>,
    /// Messages of one group are stored in one queue and delivered in order to ordered consumers.
    pub group: Option<String>,
    pub deliver_at: Option<Timestamp>,
    pub priority: Option<u8>,
    pub born_at: Timestamp,
    pub born_host: String,
    /// The producer's own flag and the protocol's flags (such as compression), passed on unchanged.
    pub flag: i32,
    pub system_flag: i32,
    pub properties: Vec<(String, String)>,
    pub body: Bytes,
}

/// A message that breaks a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("the message body has {size} bytes, the limit is {limit}")]
    BodyTooLarge { size: usize, limit: usize },
    #[error("properties, tag and keys have {size} bytes together, the limit is {limit}")]
    PropertiesTooLarge { size: usize, limit: usize },
    #[error("the property name {name:?} is empty or has a control character")]
    PropertyName { name: String },
    #[error("the value of property {name:?} has a control character")]
    PropertyValue { name: String },
    #[error("the tag {tag:?} is blank, or has a '|' or a control character")]
    Tag { tag: String },
    #[error("the key {key:?} is blank or has a control character")]
    Key { key: String },
    #[error("the message group has {len} bytes, the limit is {limit}")]
    GroupLength { len: usize, limit: usize },
    #[error("the message group {group:?} is blank or has a control character")]
    Group { group: String },
    #[error("the message id is empty")]
    IdMissing,
    #[error("the message id has {len} bytes, the limit is {limit}")]
    IdTooLong { len: usize, limit: usize },
    #[error("delivery at {deliver_at} is {delay_ms} ms ahead, the limit is {limit_ms} ms")]
    DelayTooLong { deliver_at: Timestamp, delay_ms: u64, limit_ms: u64 },
    #[error("a batch of {count} messages: the limits are 1 and {limit}")]
    BatchCount { count: usize, limit: usize },
    #[error("the batch has {size} bytes of bodies, the limit is {limit}")]
    BatchTooLarge { size: usize, limit: usize },
    #[error("message {index} of the batch is {found}, the first one is {first}: a batch has one type")]
    BatchMixed { index: usize, found: MessageType, first: MessageType },
    #[error("a batch cannot hold {found} messages")]
    BatchType { found: MessageType },
    #[error("message {index} of the batch is of another lite topic than the first one: a batch has one")]
    BatchLiteTopics { index: usize },
}

const ID_BYTES_MAX: usize = 255;

impl Message {
    pub fn tag_hash(&self) -> i32 {
        self.tag.as_deref().map_or(0, tag_hash)
    }

    /// The lock under which ordered groups deliver this message; 0 for messages without a group.
    pub fn group_hash(&self) -> u32 {
        self.group.as_deref().map_or(0, group_hash)
    }

    pub fn dedup_key(&self) -> Option<&str> {
        self.properties.iter().find(|(name, _)| name == DEDUP_KEY).map(|(_, value)| value.as_str())
    }

    pub fn lite_topic(&self) -> Option<&str> {
        self.properties.iter().find(|(name, _)| name == LITE_TOPIC).map(|(_, value)| value.as_str())
    }

    /// The type by the message's own attributes; the first that fits wins.
    pub fn message_type(&self, half: bool) -> MessageType {
        if half {
            MessageType::Transaction
        } else if self.deliver_at.is_some() {
            MessageType::Delay
        } else if self.group.is_some() {
            MessageType::Fifo
        } else if self.priority.is_some() {
            MessageType::Priority
        } else if self.lite_topic().is_some() {
            MessageType::Lite
        } else {
            MessageType::Normal
        }
    }

    pub fn validate(&self, limits: &Limits, now: Timestamp) -> Result<(), Invalid> {
        if self.body.len() > limits.body_bytes_max {
            return Err(Invalid::BodyTooLarge { size: self.body.len(), limit: limits.body_bytes_max });
        }
        if self.id.is_empty() {
            return Err(Invalid::IdMissing);
        }
        if self.id.len() > ID_BYTES_MAX {
            return Err(Invalid::IdTooLong { len: self.id.len(), limit: ID_BYTES_MAX });
        }
        self.validate_properties(limits)?;
        if let Some(tag) = &self.tag
            && (blank_or_control(tag) || tag.contains('|'))
        {
            return Err(Invalid::Tag { tag: tag.clone() });
        }
        if let Some(key) = self.keys.iter().find(|key| blank_or_control(key)) {
            return Err(Invalid::Key { key: key.clone() });
        }
        if let Some(group) = &self.group {
            validate_group(group, limits.message_group_bytes_max)?;
        }
        let limit = limits.delay_max;
        match self.deliver_at {
            Some(at) if at.since(now) > limit => Err(Invalid::DelayTooLong {
                deliver_at: at,
                delay_ms: at.0.saturating_sub(now.0),
                limit_ms: limit.as_millis() as u64,
            }),
            _ => Ok(()),
        }
    }

    fn validate_properties(&self, limits: &Limits) -> Result<(), Invalid> {
        // Each with its separators: a property without a value counts as well.
        let size = self.properties.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>()
            + self.tag.as_ref().map_or(0, String::len)
            + self.keys.iter().map(|key| key.len() + 1).sum::<usize>();
        if size > limits.properties_bytes_max {
            return Err(Invalid::PropertiesTooLarge { size, limit: limits.properties_bytes_max });
        }
        for (name, value) in &self.properties {
            if name.is_empty() || has_control(name) {
                return Err(Invalid::PropertyName { name: name.clone() });
            }
            if has_control(value) {
                return Err(Invalid::PropertyValue { name: name.clone() });
            }
        }
        Ok(())
    }
}

fn validate_group(group: &str, limit: usize) -> Result<(), Invalid> {
    if group.is_empty() || group.len() > limit {
        return Err(Invalid::GroupLength { len: group.len(), limit });
    }
    if blank_or_control(group) {
        return Err(Invalid::Group { group: group.to_owned() });
    }
    Ok(())
}

fn has_control(text: &str) -> bool {
    // Bytes first: nearly all text is ASCII, and the C1 controls need two bytes.
    text.bytes().any(|b| !(0x20..0x7f).contains(&b)) && text.chars().any(char::is_control)
}

fn blank_or_control(text: &str) -> bool {
    text.trim().is_empty() || has_control(text)
}

/// Hash of a message group; never 0, which means "no group".
pub fn group_hash(group: &str) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64(group.as_bytes());
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

/// A stored message, read back without copying its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView<'a> {
    pub id: &'a str,
    pub tag: Option<&'a str>,
    pub keys: Vec<&'a str>,
    pub group: Option<&'a str>,
    pub deliver_at: Option<Timestamp>,
    pub priority: Option<u8>,
    pub born_at: Timestamp,
    pub born_host: &'a str,
    pub flag: i32,
    pub system_flag: i32,
    pub properties: Vec<(&'a str, &'a str)>,
    pub body: &'a [u8],
}

const HAS_TAG: u8 = 1;
const HAS_GROUP: u8 = 2;
const HAS_DELIVER_AT: u8 = 4;
const HAS_PRIORITY: u8 = 8;

/// Layout: flags u8, priority u8, deliver_at u64, born_at u64, flag i32, system flag i32, born host, id, tag, group
/// (strings: u32 length + UTF-8), u32 key count + keys, u32 property count + (name, value) pairs, body (u32 length +
/// bytes). The body comes last, so that a filter can read the properties without it.
pub(crate) fn encode(message: &Message, out: &mut Vec<u8>) {
    let flags = (u8::from(message.tag.is_some()) * HAS_TAG)
        | (u8::from(message.group.is_some()) * HAS_GROUP)
        | (u8::from(message.deliver_at.is_some()) * HAS_DELIVER_AT)
        | (u8::from(message.priority.is_some()) * HAS_PRIORITY);
    out.put_u8(flags);
    out.put_u8(message.priority.unwrap_or(0));
    out.put_u64(message.deliver_at.map_or(0, |at| at.0));
    out.put_u64(message.born_at.0);
    out.put_u32(message.flag as u32);
    out.put_u32(message.system_flag as u32);
    out.put_str(&message.born_host);
    out.put_str(&message.id);
    out.put_str(message.tag.as_deref().unwrap_or(""));
    out.put_str(message.group.as_deref().unwrap_or(""));
    out.put_u32(message.keys.len() as u32);
    for key in &message.keys {
        out.put_str(key);
    }
    out.put_u32(message.properties.len() as u32);
    for (name, value) in &message.properties {
        out.put_str(name);
        out.put_str(value);
    }
    out.put_bytes(&message.body);
}

impl<'a> MessageView<'a> {
    pub(crate) fn decode(take: &mut Take<'a>) -> Result<MessageView<'a>, Malformed> {
        let flags = take.u8()?;
        let priority = take.u8()?;
        let deliver_at = take.u64()?;
        let born_at = Timestamp(take.u64()?);
        let flag = take.u32()? as i32;
        let system_flag = take.u32()? as i32;
        let born_host = take.str()?;
        let id = take.str()?;
        let tag = take.str()?;
        let group = take.str()?;
        let count = take.count(4)?;
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(take.str()?);
        }
        let count = take.count(8)?;
        let mut properties = Vec::with_capacity(count);
        for _ in 0..count {
            properties.push((take.str()?, take.str()?));
        }
        let body = take.bytes()?;
        Ok(MessageView {
            id,
            tag: (flags & HAS_TAG != 0).then_some(tag),
            keys,
            group: (flags & HAS_GROUP != 0).then_some(group),
            deliver_at: (flags & HAS_DELIVER_AT != 0).then_some(Timestamp(deliver_at)),
            priority: (flags & HAS_PRIORITY != 0).then_some(priority),
            born_at,
            born_host,
            flag,
            system_flag,
            properties,
            body,
        })
    }

    pub fn property(&self, name: &str) -> Option<&'a str> {
        self.properties.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// A copy that can be stored again: for dead letters, resends and messages that are copied forward.
    pub fn to_message(&self) -> Message {
        Message {
            id: self.id.to_owned(),
            tag: self.tag.map(str::to_owned),
            keys: self.keys.iter().map(|&key| key.to_owned()).collect(),
            group: self.group.map(str::to_owned),
            deliver_at: self.deliver_at,
            priority: self.priority,
            born_at: self.born_at,
            born_host: self.born_host.to_owned(),
            flag: self.flag,
            system_flag: self.system_flag,
            properties: self
                .properties
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: Bytes::copy_from_slice(self.body),
        }
    }
}

impl Properties for MessageView<'_> {
    /// `TAGS` and `KEYS` read like properties, as filters expect.
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "TAGS" => self.tag,
            "KEYS" => self.keys.first().copied(),
            _ => self.property(name),
        }
    }
}
