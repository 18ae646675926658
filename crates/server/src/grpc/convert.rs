//! Conversion of messages between the protocol and the engine.

use std::{collections::HashMap, time::Duration};

use redstart_engine::{
    DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, FetchError, Fetched, LITE_TOPIC, LiteName, Message, MessageType,
    Timestamp,
};
use redstart_wire::v2::{
    Code, DeadLetterQueue, Digest, DigestType, Encoding, Message as WireMessage, MessageType as WireType,
    Resource, SystemProperties,
};
use sha1::{Digest as _, Sha1};

use super::refusal::Refusal;
use crate::{
    signer::to_hex,
    user_properties::{self, TRACE_CONTEXT},
};

/// Bit of the system flag: the body is compressed.
const COMPRESSED: i32 = 1;
const MESSAGE_GROUP_LEN_MAX: usize = 64;
pub(super) fn duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: time.as_secs() as i64, nanos: time.subsec_nanos() as i32 }
}

/// A duration of the protocol; `None` if it is negative.
pub(super) fn from_duration(time: &prost_types::Duration) -> Option<Duration> {
    Duration::try_from(*time).ok()
}

pub(super) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: (at.0 / 1000) as i64, nanos: (at.0 % 1000) as i32 * 1_000_000 }
}

pub(super) fn from_timestamp(at: &prost_types::Timestamp) -> Timestamp {
    let ms = i128::from(at.seconds) * 1000 + i128::from(at.nanos) / 1_000_000;
    Timestamp(u64::try_from(ms.max(0)).unwrap_or(u64::MAX))
}

/// A message as the engine stores it.
pub(super) fn to_engine(message: WireMessage) -> Result<Message, Refusal> {
    let system = message.system_properties.unwrap_or_default();
    if message.body.is_empty() {
        return Err(Refusal::new(Code::MessageBodyEmpty, "message body cannot be empty"));
    }
    let told = message.user_properties.iter();
    user_properties::check(told.map(|(name, value)| (name.as_str(), value.as_str())))?;
    if system.message_group.as_ref().is_some_and(|group| group.len() > MESSAGE_GROUP_LEN_MAX) {
        let why = format!("message group exceed the max size {MESSAGE_GROUP_LEN_MAX}");
        return Err(Refusal::new(Code::IllegalMessageGroup, why));
    }
    let mut properties: Vec<(String, String)> = message.user_properties.into_iter().collect();
    properties.sort_unstable();
    properties.extend(system.trace_context.map(|context| (TRACE_CONTEXT.to_owned(), context)));
    if let Some(lite) = system.lite_topic {
        let lite = LiteName::new(&lite)?;
        properties.push((LITE_TOPIC.to_owned(), lite.to_string()));
    }
    // An unknown encoding is refused: consumers would misread the body.
    let Ok(encoding) = Encoding::try_from(system.body_encoding) else {
        let why = format!("the body encoding {} is not known", system.body_encoding);
        return Err(Refusal::new(Code::MessageCorrupted, why));
    };
    let gzip = encoding == Encoding::Gzip;
    Ok(Message {
        id: system.message_id,
        tag: system.tag.filter(|tag| !tag.is_empty()),
        keys: system.keys,
        group: system.message_group.filter(|group| !group.is_empty()),
        deliver_at: system.delivery_timestamp.as_ref().map(from_timestamp),
        priority: system.priority.map(|priority| priority.clamp(0, u8::MAX.into()) as u8),
        born_at: system.born_timestamp.as_ref().map(from_timestamp).unwrap_or_default(),
        born_host: system.born_host,
        flag: 0,
        system_flag: if gzip { COMPRESSED } else { 0 },
        properties,
        body: message.body,
    })
}

/// The delivery of a message: its queue, times and receipt handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope {
    pub topic: Resource,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub stored_at: Timestamp,
    pub attempt: i32,
    pub receipt_handle: Option<String>,
    pub invisible: Option<Duration>,
}

/// Clients accept SHA-1 and MD5; processors have instructions for SHA-1.
fn digest(body: &[u8]) -> Digest {
    Digest { r#type: DigestType::Sha1.into(), checksum: to_hex(&Sha1::digest(body)) }
}

/// A stored message as a client gets it.
pub(super) fn to_wire(fetched: &Fetched, envelope: Envelope) -> Result<WireMessage, FetchError> {
    let message_type = fetched.message_type()?;
    let body = fetched.body()?;
    let view = fetched.message()?;
    let mut user_properties = HashMap::with_capacity(view.properties.len());
    let (mut trace_context, mut origin_topic, mut origin_id, mut lite_topic) = (None, None, None, None);
    for (name, value) in &view.properties {
        match *name {
            TRACE_CONTEXT => trace_context = Some((*value).to_owned()),
            LITE_TOPIC => lite_topic = Some((*value).to_owned()),
            DLQ_ORIGIN_TOPIC => origin_topic = Some((*value).to_owned()),
            DLQ_ORIGIN_MESSAGE_ID => origin_id = Some((*value).to_owned()),
            // Properties between 4.x clients and the broker are not shown to users.
            name if user_properties::is_reserved(name) => {}
            name => {
                user_properties.insert(name.to_owned(), (*value).to_owned());
            }
        }
    }
    let gzip = view.system_flag & COMPRESSED != 0;
    let system = SystemProperties {
        tag: view.tag.map(str::to_owned),
        keys: view.keys.iter().map(|key| (*key).to_owned()).collect(),
        message_id: view.id.to_owned(),
        body_digest: Some(digest(&body)),
        body_encoding: if gzip { Encoding::Gzip } else { Encoding::Identity }.into(),
        message_type: wire_type(message_type).into(),
        born_timestamp: Some(timestamp(view.born_at)),
        born_host: view.born_host.to_owned(),
        store_timestamp: Some(timestamp(envelope.stored_at)),
        store_host: String::new(),
        delivery_timestamp: view.deliver_at.map(timestamp),
        receipt_handle: envelope.receipt_handle,
        queue_id: envelope.queue_id,
        queue_offset: Some(envelope.queue_offset),
        invisible_duration: envelope.invisible.map(duration),
        delivery_attempt: Some(envelope.attempt),
        message_group: view.group.map(str::to_owned),
        trace_context,
        orphaned_transaction_recovery_duration: None,
        dead_letter_queue: origin_topic
            .map(|topic| DeadLetterQueue { topic, message_id: origin_id.unwrap_or_default() }),
        lite_topic,
        priority: view.priority.map(i32::from),
    };
    Ok(WireMessage { topic: Some(envelope.topic), user_properties, system_properties: Some(system), body })
}

pub(super) fn wire_type(message_type: MessageType) -> WireType {
    match message_type {
        MessageType::Normal | MessageType::Mixed => WireType::Normal,
        MessageType::Fifo => WireType::Fifo,
        MessageType::Delay => WireType::Delay,
        MessageType::Transaction => WireType::Transaction,
        MessageType::Priority => WireType::Priority,
        MessageType::Lite => WireType::Lite,
    }
}
