//! Bodies with a type.

use std::fmt::Display;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Message, Received};

/// Turns values into bodies and back.
pub trait Codec<T>: Send + Sync + 'static {
    /// Why a value has no body, or a body no value.
    type Error: Display + Send;

    /// The body of a value.
    fn encode(&self, value: &T) -> Result<Bytes, Self::Error>;

    /// The value of a body.
    fn decode(&self, body: &[u8]) -> Result<T, Self::Error>;
}

/// Bodies of JSON.
///
/// ```
/// use redstart_client::{Json, Message};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order {
///     id: u32,
/// }
///
/// let message = Message::encode("orders", &Json, &Order { id: 7 })?;
/// assert_eq!(&message.body()[..], br#"{"id":7}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    type Error = serde_json::Error;

    fn encode(&self, value: &T) -> Result<Bytes, serde_json::Error> {
        serde_json::to_vec(value).map(Bytes::from)
    }

    fn decode(&self, body: &[u8]) -> Result<T, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

/// Why a body has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be decoded: {why}")]
#[non_exhaustive]
pub struct DecodeError {
    /// In the words of the codec.
    pub why: String,
}

/// What becomes of a message whose body has no value: no retry will change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Poison {
    /// It goes to the dead letters, with the codec's words as the reason.
    #[default]
    DeadLetter,
    /// It comes again by the retry policy, for example until a newer program reads it.
    Retry,
    /// It is dropped.
    Drop,
}

impl Message {
    /// A message whose body is a value.
    pub fn encode<T, C: Codec<T>>(
        topic: impl Into<String>,
        codec: &C,
        value: &T,
    ) -> Result<Message, C::Error> {
        Ok(Message::new(topic, codec.encode(value)?))
    }
}

impl Received {
    /// The value of the body.
    pub fn decode<T, C: Codec<T>>(&self, codec: &C) -> Result<T, DecodeError> {
        if let Some(error) = self.body_error() {
            return Err(DecodeError { why: error.to_string() });
        }
        codec.decode(self.body()).map_err(|error| DecodeError { why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::tests::message;

    #[test]
    fn values_come_back_and_other_bodies_are_errors() {
        let sent = Message::encode("t", &Json, &vec![1, 2]).expect("a body");
        let mut received = message("1");
        received.body = Ok(sent.body().clone());
        assert_eq!(received.decode::<Vec<u32>, _>(&Json), Ok(vec![1, 2]));
        received.body = Ok("no JSON".into());
        let error = received.decode::<Vec<u32>, _>(&Json).expect_err("no value");
        assert!(error.to_string().starts_with("the body cannot be decoded: "), "{error}");
        received.body = Err(crate::BodyError::TooLarge);
        assert!(received.decode::<Vec<u32>, _>(&Json).is_err());
    }
}
