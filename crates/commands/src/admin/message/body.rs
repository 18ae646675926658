//! The body of a message as text or base64.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use redstart_client::admin::Message;
use serde::Serialize;

use crate::admin::output::one_line;

/// Characters of a body in a one-line summary.
const SUMMARY_MAX: usize = 80;

/// The fields of a body in JSON: text if it is UTF-8, base64 otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Body {
    /// Size of the body that the producer sent, before compression.
    body_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// Why the body could not be decompressed; the other fields then hold it as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_error: Option<String>,
}

impl Body {
    pub fn of(message: &Message) -> Body {
        let (bytes, body_error) = match message.body() {
            Ok(bytes) => (bytes, None),
            Err(error) => (message.stored.body.clone(), Some(error.to_string())),
        };
        let text = if body_error.is_none() { String::from_utf8(bytes.to_vec()).ok() } else { None };
        Body {
            body_bytes: bytes.len(),
            body_base64: text.is_none().then(|| BASE64_STANDARD.encode(&bytes)),
            body: text,
            body_error,
        }
    }

    /// The whole body, or why it cannot be shown.
    pub fn text(&self) -> String {
        match (&self.body, &self.body_error) {
            (Some(text), _) => text.split('\n').map(one_line).collect::<Vec<_>>().join("\n"),
            (None, Some(error)) => format!("({error}; {} bytes)", self.body_bytes),
            (None, None) => {
                format!("({} bytes of binary data; write them to a file with --raw)", self.body_bytes)
            }
        }
    }

    /// The beginning of the body on one line.
    pub fn summary(&self) -> String {
        match &self.body {
            Some(text) => summary(text),
            None => format!("({} bytes)", self.body_bytes),
        }
    }
}

/// The beginning of a text on one line.
fn summary(text: &str) -> String {
    let mut short: String = one_line(text).chars().take(SUMMARY_MAX + 1).collect();
    if short.chars().count() > SUMMARY_MAX {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_short_line() {
        assert_eq!(summary("a\nb\u{1b}[2J"), "a b [2J");
        let long = summary(&"é".repeat(200));
        assert!(long.chars().count() == 81 && long.ends_with('…'));
    }

    #[test]
    fn a_binary_body_is_described() {
        let binary = Body { body_bytes: 3, body_base64: Some("AAEC".to_owned()), ..Body::default() };
        assert_eq!(binary.text(), "(3 bytes of binary data; write them to a file with --raw)");
        let packed = Body { body_bytes: 3, body_error: Some("packed".to_owned()), ..Body::default() };
        assert_eq!((packed.text().as_str(), packed.summary().as_str()), ("(packed; 3 bytes)", "(3 bytes)"));
        let text = Body { body_bytes: 3, body: Some("a\nb".to_owned()), ..Body::default() };
        assert_eq!((text.text().as_str(), text.summary().as_str()), ("a\nb", "a b"));
    }
}
