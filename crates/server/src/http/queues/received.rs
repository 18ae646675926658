//! A received message as its consumer gets it: in JSON, or as the body of the answer with headers.

use std::{collections::BTreeMap, fmt::Display};

use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use redstart_engine::{DEDUP_KEY, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, Delivery, MessageView};
use serde::{Serialize, Serializer};

use super::unpack::Unpacked;
use crate::user_properties;

/// A delivery, as the consumer names it later.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub topic: &'a str,
    pub broker: &'a str,
    pub handle: String,
    pub delivery: &'a Delivery,
}

/// A received message. Queue offsets stay below 2^53, which JSON's numbers hold exactly.
#[derive(Debug, Serialize)]
pub(super) struct Received<'a> {
    pub id: &'a str,
    pub handle: &'a str,
    pub topic: &'a str,
    pub broker: &'a str,
    pub queue: u32,
    pub offset: u64,
    /// Counts from 1.
    pub attempt: u16,
    pub tag: Option<&'a str>,
    pub keys: &'a [&'a str],
    pub message_group: Option<&'a str>,
    pub priority: Option<u8>,
    pub dedup_key: Option<&'a str>,
    pub properties: BTreeMap<&'a str, &'a str>,
    pub born_at_ms: u64,
    pub born_host: &'a str,
    pub stored_at_ms: u64,
    pub deliver_at_ms: Option<u64>,
    pub dead_letter_of: Option<DeadLetterOf<'a>>,
    #[serde(flatten)]
    pub body: ShownBody<'a>,
}

/// Where a dead letter comes from.
#[derive(Debug, Serialize)]
pub(super) struct DeadLetterOf<'a> {
    pub topic: &'a str,
    pub id: Option<&'a str>,
}

/// The body, under one of two names.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ShownBody<'a> {
    Text {
        body: &'a str,
    },
    Bytes {
        #[serde(serialize_with = "base64")]
        body_base64: &'a [u8],
        #[serde(skip_serializing_if = "Option::is_none")]
        compression: Option<&'static str>,
    },
}

fn base64<S: Serializer>(bytes: &&[u8], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&base64::display::Base64Display::new(bytes, &STANDARD))
}

impl<'a> Received<'a> {
    pub fn new(envelope: &'a Envelope<'a>, view: &'a MessageView<'a>, body: ShownBody<'a>) -> Received<'a> {
        let Envelope { topic, broker, ref handle, delivery } = *envelope;
        let origin = view.property(DLQ_ORIGIN_TOPIC);
        let is_own = |(name, _): &&(&str, &str)| *name != DEDUP_KEY && !user_properties::is_reserved(name);
        Received {
            id: view.id,
            handle,
            topic,
            broker,
            queue: delivery.receipt.queue.queue.0,
            offset: delivery.receipt.offset.0,
            attempt: delivery.attempt,
            tag: view.tag,
            keys: &view.keys,
            message_group: view.group,
            priority: view.priority,
            dedup_key: view.property(DEDUP_KEY),
            properties: view.properties.iter().filter(is_own).copied().collect(),
            born_at_ms: view.born_at.0,
            born_host: view.born_host,
            stored_at_ms: delivery.stored_at.0,
            deliver_at_ms: view.deliver_at.map(|at| at.0),
            dead_letter_of: origin
                .map(|topic| DeadLetterOf { topic, id: view.property(DLQ_ORIGIN_MESSAGE_ID) }),
            body,
        }
    }

    /// The same as headers, for an answer whose body is the message's. Their values are UTF-8.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: &dyn Display| {
            // A value that no header can hold is left out; JSON has it.
            if let Ok(value) = HeaderValue::from_bytes(value.to_string().as_bytes()) {
                headers.append(HeaderName::from_static(name), value);
            }
        };
        put("message-id", &self.id);
        put("message-handle", &self.handle);
        put("message-broker", &self.broker);
        put("message-queue", &self.queue);
        put("message-offset", &self.offset);
        put("message-attempt", &self.attempt);
        put("message-born-at-ms", &self.born_at_ms);
        put("message-stored-at-ms", &self.stored_at_ms);
        for (name, text) in [
            ("message-tag", self.tag),
            ("message-group", self.message_group),
            ("message-dedup-key", self.dedup_key),
        ] {
            if let Some(text) = text {
                put(name, &text);
            }
        }
        self.keys.iter().for_each(|key| put("message-key", key));
        for (name, value) in &self.properties {
            put("message-property", &format_args!("{name}={value}"));
        }
        if let Some(priority) = self.priority {
            put("message-priority", &priority);
        }
        if let Some(at) = self.deliver_at_ms {
            put("message-deliver-at-ms", &at);
        }
        if let ShownBody::Bytes { compression: Some(compression), .. } = self.body {
            put("message-compression", &compression);
        }
        headers
    }
}

/// How a body is shown: as text if it is some, and in base64 otherwise. Control characters would be six bytes each in JSON; text has few.
pub(super) fn shown(unpacked: &Unpacked, as_base64: bool) -> ShownBody<'_> {
    let (body, compression) = match unpacked {
        Unpacked::Plain(body) => (body, None),
        Unpacked::Packed { body, compression } => (body, Some(*compression)),
    };
    let is_text =
        |text: &&str| !text.bytes().any(|byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r'));
    let text = std::str::from_utf8(body).ok().filter(is_text);
    match text.filter(|_| !as_base64 && compression.is_none()) {
        Some(body) => ShownBody::Text { body },
        None => ShownBody::Bytes { body_base64: body, compression },
    }
}

/// The most bytes that a message of this stored size takes in JSON: each byte of a text becomes two at most.
pub(super) fn json_bytes_max(stored: usize) -> usize {
    const FIELDS: usize = 1024;
    2 * stored + FIELDS
}

impl Unpacked {
    pub fn bytes(&self) -> &Bytes {
        match self {
            Unpacked::Plain(body) | Unpacked::Packed { body, .. } => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use redstart_engine::{GroupId, QueueId, QueueKey, QueueOffset, Receipt, Timestamp, TopicId};
    use redstart_log::Position;

    use super::*;

    fn delivery() -> Delivery {
        let queue = QueueKey { topic: TopicId(1), queue: QueueId(2) };
        let receipt = Receipt { group: GroupId(1), queue, offset: QueueOffset(3), seq: 4 };
        Delivery { receipt, position: Position(5), size: 6, stored_at: Timestamp(7), attempt: 2 }
    }

    fn view<'a>(properties: &[(&'a str, &'a str)]) -> MessageView<'a> {
        MessageView {
            id: "ID",
            tag: Some("ü"),
            keys: vec!["k1", "k2"],
            group: None,
            deliver_at: None,
            priority: Some(1),
            born_at: Timestamp(8),
            born_host: "h",
            flag: 0,
            system_flag: 0,
            properties: properties.to_vec(),
            body: b"",
        }
    }

    #[test]
    fn a_message_reads_the_same_in_json_and_headers() {
        let delivery = delivery();
        let envelope = Envelope { topic: "t", broker: "b", handle: "H".to_owned(), delivery: &delivery };
        let view = view(&[("a", "1"), (DEDUP_KEY, "d"), ("UNIQ_KEY", "hidden"), (DLQ_ORIGIN_TOPIC, "from")]);
        let body = Unpacked::Plain(Bytes::from_static(b"hi"));
        let received = Received::new(&envelope, &view, shown(&body, false));
        let expected = r#"{"id":"ID","handle":"H","topic":"t","broker":"b","queue":2,"offset":3,"attempt":2,"tag":"ü","keys":["k1","k2"],"message_group":null,"priority":1,"dedup_key":"d","properties":{"a":"1"},"born_at_ms":8,"born_host":"h","stored_at_ms":7,"deliver_at_ms":null,"dead_letter_of":{"topic":"from","id":null},"body":"hi"}"#;
        assert_eq!(serde_json::to_string(&received).unwrap(), expected);
        let headers = received.headers();
        let all = |name| -> Vec<&[u8]> { headers.get_all(name).iter().map(HeaderValue::as_bytes).collect() };
        assert_eq!((all("message-tag"), all("message-key")), (vec!["ü".as_bytes()], vec![&b"k1"[..], b"k2"]));
        assert_eq!((all("message-property"), all("message-dedup-key")), (vec![&b"a=1"[..]], vec![&b"d"[..]]));
        assert_eq!(headers.get("message-handle").unwrap(), "H");
    }

    #[test]
    fn a_body_is_text_only_if_it_reads_as_text() {
        let shown_as = |body: &'static [u8], as_base64| {
            let body = Unpacked::Plain(Bytes::from_static(body));
            serde_json::to_string(&shown(&body, as_base64)).unwrap()
        };
        assert_eq!(shown_as(b"a\n\t\"", false), r#"{"body":"a\n\t\""}"#);
        assert_eq!(shown_as(b"a", true), r#"{"body_base64":"YQ=="}"#);
        assert_eq!(shown_as(b"\x00", false), r#"{"body_base64":"AA=="}"#);
        assert_eq!(shown_as(b"\xff", false), r#"{"body_base64":"/w=="}"#);
        let packed = Unpacked::Packed { body: Bytes::from_static(b"a"), compression: "lz4" };
        let json = serde_json::to_string(&shown(&packed, false)).unwrap();
        assert_eq!(json, r#"{"body_base64":"YQ==","compression":"lz4"}"#);
    }
}
