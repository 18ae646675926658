//! A message as a producer sends it, in JSON or as a body with headers, and what the engine stores of it.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use redstart_engine::{DEDUP_KEY, Message, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;

use super::{
    super::refusal::Refusal,
    bounded::{Bounded, Pairs},
    read_json,
};
use crate::{signer::to_hex, user_properties};

/// Messages of a request. The engine may take fewer.
const MESSAGES_MAX: usize = 4096;
const KEYS_MAX: usize = 128;

/// A message in JSON.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    /// The body as text.
    body: Option<String>,
    /// The body in base64, for bytes that are no text.
    body_base64: Option<String>,
    tag: Option<String>,
    #[serde(default)]
    keys: Bounded<String, KEYS_MAX>,
    #[serde(default)]
    properties: Pairs<{ user_properties::COUNT_MAX }>,
    message_group: Option<String>,
    delay_ms: Option<u64>,
    deliver_at_ms: Option<u64>,
    priority: Option<u8>,
    dedup_key: Option<String>,
    id: Option<String>,
}

/// A message and its body, which may be bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Draft {
    sent: Sent,
    body: Bytes,
}

/// One message, or a list of messages that are stored all or none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Drafts {
    One(Box<Draft>),
    Many(Vec<Draft>),
}

/// Where and when a message was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub remote: SocketAddr,
    pub now: Timestamp,
}

impl Drafts {
    /// Reads an object or a list of objects.
    pub fn from_json(bytes: &[u8]) -> Result<Drafts, Refusal> {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'[') {
            return Ok(Drafts::One(Box::new(read_json::<Sent>(bytes)?.decoded()?)));
        }
        let Bounded(list) = read_json::<Bounded<Sent, MESSAGES_MAX>>(bytes)?;
        Ok(Drafts::Many(list.into_iter().map(Sent::decoded).collect::<Result<_, _>>()?))
    }
}

impl Sent {
    /// The body that the message names, as text or in base64.
    fn decoded(mut self) -> Result<Draft, Refusal> {
        let body = match (self.body.take(), self.body_base64.take()) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(encoded)) => {
                let decoded = STANDARD.decode(encoded.as_bytes());
                let decoded = decoded.map_err(|error| bad("bad_base64", format!("body_base64: {error}")))?;
                Bytes::from(decoded)
            }
            (None, None) => return Err(bad("body_missing", "the message has neither body nor body_base64")),
            (Some(_), Some(_)) => {
                return Err(bad("bad_message", "the message has both body and body_base64"));
            }
        };
        Ok(Draft { sent: self, body })
    }

    /// Reads what headers say of a message whose body is the body of the request.
    fn from_headers(headers: &HeaderMap) -> Result<Sent, Refusal> {
        let mut sent = Sent::default();
        for name in headers.keys() {
            let Some(field) = name.as_str().strip_prefix("message-") else { continue };
            match field {
                "tag" => sent.tag = one(headers, name)?,
                "key" => sent.keys = Bounded(texts(headers, name, KEYS_MAX)?),
                "property" => sent.properties = Pairs(properties(headers, name)?),
                "group" => sent.message_group = one(headers, name)?,
                "delay-ms" => sent.delay_ms = number(headers, name)?,
                "deliver-at-ms" => sent.deliver_at_ms = number(headers, name)?,
                "priority" => sent.priority = number(headers, name)?,
                "dedup-key" => sent.dedup_key = one(headers, name)?,
                "id" => sent.id = one(headers, name)?,
                // A misspelt header would be lost silently.
                _ => return Err(bad("bad_header", format!("the header {name} is not known"))),
            }
        }
        Ok(sent)
    }
}

impl Draft {
    pub fn from_raw(headers: &HeaderMap, body: Bytes) -> Result<Draft, Refusal> {
        Ok(Draft { sent: Sent::from_headers(headers)?, body })
    }

    /// The message as the engine stores it.
    pub fn into_message(self, origin: Origin) -> Result<Message, Refusal> {
        let Draft { sent, body } = self;
        if body.is_empty() {
            return Err(bad("body_missing", "the message body is empty"));
        }
        let Pairs(mut properties) = sent.properties;
        user_properties::check(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        if properties.iter().any(|(name, _)| name == DEDUP_KEY) {
            return Err(bad("bad_property", format!("{DEDUP_KEY} is set by the dedup key")));
        }
        if sent.dedup_key.as_deref() == Some("") {
            return Err(bad("bad_message", "the dedup key is empty"));
        }
        properties.extend(sent.dedup_key.map(|key| (DEDUP_KEY.to_owned(), key)));
        let deliver_at = match (sent.delay_ms, sent.deliver_at_ms) {
            (None, at) => at.map(Timestamp),
            (Some(delay), None) => Some(origin.now.after(Duration::from_millis(delay))),
            (Some(_), Some(_)) => {
                return Err(bad("bad_message", "the message has both a delay and a time of delivery"));
            }
        };
        Ok(Message {
            id: sent.id.map_or_else(new_id, Ok)?,
            tag: sent.tag,
            keys: sent.keys.0,
            group: sent.message_group,
            deliver_at,
            priority: sent.priority,
            born_at: origin.now,
            born_host: origin.remote.to_string(),
            flag: 0,
            system_flag: 0,
            properties,
            body,
        })
    }
}

/// 32 upper-case hexadecimal digits, as every client makes them.
fn new_id() -> Result<String, Refusal> {
    let mut id = [0; 16];
    let filled = SystemRandom::new().fill(&mut id);
    filled.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "no random numbers"))?;
    Ok(to_hex(&id))
}

fn bad(code: &'static str, why: impl Into<String>) -> Refusal {
    Refusal::bad(code, why)
}

/// The values of a header that may be there more than once. They are UTF-8.
fn texts(headers: &HeaderMap, name: &HeaderName, max: usize) -> Result<Vec<String>, Refusal> {
    let mut texts = Vec::new();
    for value in headers.get_all(name) {
        if texts.len() == max {
            return Err(bad("bad_header", format!("the header {name} is there more than {max} times")));
        }
        let text = std::str::from_utf8(value.as_bytes());
        texts
            .push(text.map_err(|_| bad("bad_header", format!("the header {name} is not UTF-8")))?.to_owned());
    }
    Ok(texts)
}

fn one(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refusal> {
    Ok(texts(headers, name, 1)?.pop())
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &HeaderName) -> Result<Option<T>, Refusal> {
    let Some(text) = one(headers, name)? else { return Ok(None) };
    // A sign is no part of a number here.
    let number = Some(&text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| bad("bad_header", format!("the header {name} is no number in its range: {text:?}")))
}

/// `name=value` in each header.
fn properties(headers: &HeaderMap, header: &HeaderName) -> Result<Vec<(String, String)>, Refusal> {
    let mut pairs = Vec::new();
    for text in texts(headers, header, user_properties::COUNT_MAX)? {
        let pair = text.split_once('=');
        let (name, value) =
            pair.ok_or_else(|| bad("bad_header", format!("{header} is not name=value: {text:?}")))?;
        pairs.push((name.to_owned(), value.to_owned()));
    }
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(bad("bad_header", format!("the property {:?} is there twice", twice[0].0)));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const ORIGIN: Origin = Origin {
        remote: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7),
        now: Timestamp(1_000),
    };

    fn one_of(json: &str) -> Result<Message, Refusal> {
        match Drafts::from_json(json.as_bytes())? {
            Drafts::One(draft) => draft.into_message(ORIGIN),
            Drafts::Many(_) => panic!("one message"),
        }
    }

    #[test]
    fn json_and_headers_say_the_same() {
        let json = r#"{"body":"hi","tag":"red","keys":["k1","k2"],"properties":{"b":"2","a":"ü=1"},
            "message_group":"g","delay_ms":5,"priority":3,"dedup_key":"d","id":"7"}"#;
        let expected = one_of(json).unwrap();
        assert_eq!(expected.deliver_at, Some(Timestamp(1_005)));
        assert_eq!((expected.dedup_key(), expected.born_host.as_str()), (Some("d"), "127.0.0.1:7"));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("message-tag", "red"),
            ("message-key", "k1"),
            ("message-key", "k2"),
            ("message-property", "b=2"),
            ("message-property", "a=ü=1"),
            ("message-group", "g"),
            ("message-delay-ms", "5"),
            ("message-priority", "3"),
            ("message-dedup-key", "d"),
            ("message-id", "7"),
            ("user-agent", "curl"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let draft = Draft::from_raw(&headers, Bytes::from_static(b"hi")).unwrap();
        assert_eq!(draft.into_message(ORIGIN).unwrap(), expected);
    }

    #[test]
    fn bytes_come_in_base64_and_ids_are_made() {
        let message = one_of(r#"{"body_base64":"AP8="}"#).unwrap();
        assert_eq!(&message.body[..], [0, 255]);
        assert_eq!((message.id.len(), message.id == new_id().unwrap()), (32, false));
        assert!(message.id.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, code) in [
            ("", "bad_json"),
            ("{", "bad_json"),
            ("3", "bad_json"),
            ("{\"body\":\"\u{0}\"}", "bad_json"),
            (r#"{"body":"a"} x"#, "bad_json"),
            (r#"{"body":"a","body":"b"}"#, "bad_json"),
            (r#"{"body":"a","colour":"red"}"#, "bad_json"),
            (r#"{"body":"a","delay_ms":-1}"#, "bad_json"),
            (r#"{"body":"a","priority":256}"#, "bad_json"),
            (r#"{"body":"a","properties":{"a":"1","a":"2"}}"#, "bad_json"),
            (r#"{}"#, "body_missing"),
            (r#"{"body":""}"#, "body_missing"),
            (r#"{"body":"a","body_base64":"AA=="}"#, "bad_message"),
            (r#"{"body_base64":"A"}"#, "bad_base64"),
            (r#"{"body_base64":"AP8"}"#, "bad_base64"),
            (r#"{"body_base64":"A A="}"#, "bad_base64"),
            (r#"{"body":"a","delay_ms":1,"deliver_at_ms":1}"#, "bad_message"),
            (r#"{"body":"a","dedup_key":""}"#, "bad_message"),
            (r#"{"body":"a","properties":{"KEYS":"1"}}"#, "bad_property"),
            (r#"{"body":"a","properties":{"DEDUP_KEY":"1"}}"#, "bad_property"),
        ] {
            assert_eq!(one_of(json).map_err(|refusal| refusal.code), Err(code), "{json}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(Drafts::from_json(deep.as_bytes()).map_err(|refusal| refusal.code), Err("bad_json"));
        let many = format!("[{}]", vec!["{}"; MESSAGES_MAX + 1].join(","));
        assert_eq!(Drafts::from_json(many.as_bytes()).map_err(|refusal| refusal.code), Err("bad_json"));
        assert_eq!(
            Drafts::from_json(b"{\"body\":\"\xff\"}").map_err(|refusal| refusal.code),
            Err("bad_json")
        );
    }

    #[test]
    fn headers_that_are_wrong_are_named() {
        let cases: [&[(&str, &[u8])]; 7] = [
            &[("message-tag", b"a"), ("message-tag", b"b")],
            &[("message-tags", b"a")],
            &[("message-priority", b"256")],
            &[("message-delay-ms", b"+5")],
            &[("message-property", b"name")],
            &[("message-property", b"a=1"), ("message-property", b"a=2")],
            &[("message-tag", b"\xff")],
        ];
        for case in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in case {
                headers.append(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_bytes(value).unwrap(),
                );
            }
            let refused = Draft::from_raw(&headers, Bytes::from_static(b"x"));
            assert_eq!(refused.map_err(|refusal| refusal.code), Err("bad_header"), "{case:?}");
        }
    }
}
