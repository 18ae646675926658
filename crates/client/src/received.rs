//! A message as a consumer gets it: what the sender wrote, and what the server knows of the delivery.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

use crate::{BodyError, CallError, Message, Queue, message};

/// A message as a consumer gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    pub(crate) id: String,
    pub(crate) queue: Queue,
    pub(crate) offset: i64,
    pub(crate) attempt: u32,
    pub(crate) body: Result<Bytes, BodyError>,
    pub(crate) tag: Option<String>,
    pub(crate) keys: Vec<String>,
    pub(crate) group: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) born_at: SystemTime,
    pub(crate) stored_at: SystemTime,
    pub(crate) deliver_at: Option<SystemTime>,
    pub(crate) born_host: String,
    pub(crate) dead_letter: Option<DeadLetterOrigin>,
    pub(crate) reply_to: Option<ReplyTo>,
}

/// Where the answer to a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    /// The broker that knows the client that asked.
    pub address: Arc<str>,
    pub broker: String,
    pub cluster: String,
    pub client: String,
    pub correlation: String,
    /// As the request has it.
    pub ttl: Option<String>,
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The message does not expect an answer.
    #[error("the message expects no answer")]
    NotARequest,
    /// The broker did not take the answer, or the client that asked is gone.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Where a dead letter came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterOrigin {
    /// The topic that the message was sent to.
    pub topic: String,
    /// The id that it had there.
    pub id: String,
    /// Why it is a dead letter, where the server says so.
    pub reason: Option<String>,
}

/// The property in which Redstart says why a message is a dead letter.
pub(crate) const DEAD_LETTER_REASON: &str = "DLQ_REASON";

pub(crate) fn time_of_ms(ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl Received {
    /// The id that the producer gave it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.queue.topic
    }

    /// The body as it was sent: a compressed one is unpacked. Empty if that was impossible, see
    /// [`body_error`](Received::body_error).
    pub fn body(&self) -> &Bytes {
        static EMPTY: Bytes = Bytes::new();
        self.body.as_ref().unwrap_or(&EMPTY)
    }

    /// Why the body cannot be shown.
    pub fn body_error(&self) -> Option<&BodyError> {
        self.body.as_ref().err()
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The message group, whose messages come in order.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// The priority.
    pub fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All properties that the producer set.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How often it was delivered to the group, this time included: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Its place in the queue.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// When the producer made it, by the producer's clock.
    pub fn born_at(&self) -> SystemTime {
        self.born_at
    }

    /// The host that it was made on, as far as the server says.
    pub fn born_host(&self) -> &str {
        &self.born_host
    }

    /// When the server stored it.
    pub fn stored_at(&self) -> SystemTime {
        self.stored_at
    }

    /// When it was due, if it was delayed.
    pub fn deliver_at(&self) -> Option<SystemTime> {
        self.deliver_at
    }

    /// Where it came from, if this is a dead letter.
    pub fn origin(&self) -> Option<&DeadLetterOrigin> {
        self.dead_letter.as_ref()
    }

    /// Whether the producer waits for an answer: see [`Delivery::reply`](crate::Delivery::reply).
    pub fn expects_reply(&self) -> bool {
        self.reply_to.is_some()
    }

    /// Whether this is a request whose time was over before now, so that its producer has stopped waiting.
    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        let ttl = self.reply_to.as_ref().and_then(|to| to.ttl.as_ref()?.parse().ok());
        ttl.is_some_and(|ttl| self.born_at + Duration::from_millis(ttl) < now)
    }

    /// A message with the same body, tag, keys, message group and properties, to send on to `topic`.
    pub fn forward_to(&self, topic: impl Into<String>) -> Message {
        let mut message = Message::new(topic, self.body().clone());
        message.tag.clone_from(&self.tag);
        message.keys.clone_from(&self.keys);
        message.group.clone_from(&self.group);
        let own = self
            .properties
            .iter()
            .filter(|(name, _)| name != message::DEDUP_KEY && !name.starts_with("DLQ_"));
        message.properties = own.cloned().collect();
        message
    }

    /// Bytes that it holds in memory, about.
    pub(crate) fn weight(&self) -> usize {
        self.body().len() + 512
    }
}

/// Without the body, which may be long or private.
impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("offset", &self.offset)
            .field("attempt", &self.attempt)
            .field("tag", &self.tag)
            .field("group", &self.group)
            .field("body_bytes", &self.body().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn message(id: &str) -> Received {
        Received {
            id: id.to_owned(),
            queue: Queue::new("t", "b", 0),
            offset: 0,
            attempt: 1,
            body: Ok("x".into()),
            tag: None,
            keys: Vec::new(),
            group: None,
            priority: None,
            properties: Vec::new(),
            born_at: SystemTime::UNIX_EPOCH,
            stored_at: SystemTime::UNIX_EPOCH,
            deliver_at: None,
            born_host: String::new(),
            dead_letter: None,
            reply_to: None,
        }
    }

    #[test]
    fn a_request_expires_when_its_producer_has_stopped_waiting() {
        let mut request = message("1");
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        assert!(!request.is_expired(at(u64::from(u32::MAX))), "no request");
        let to = ReplyTo {
            address: "a:1".into(),
            broker: String::new(),
            cluster: String::new(),
            client: String::new(),
            correlation: String::new(),
            ttl: Some("3000".to_owned()),
        };
        request.reply_to = Some(to.clone());
        assert!(!request.is_expired(at(3000)) && request.is_expired(at(3001)));
        for ttl in [None, Some("soon".to_owned())] {
            request.reply_to = Some(ReplyTo { ttl, ..to.clone() });
            assert!(!request.is_expired(at(u64::from(u32::MAX))));
        }
    }
}
