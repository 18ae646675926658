//! What the audit log says of one request: one line of JSON, in ASCII. Names that a peer has chosen are cut to a bound, and
//! what is not visible ASCII is escaped, so that no name can look like another, end a line or drive a terminal.

use std::net::SocketAddr;

use serde::Serialize;

use crate::date;

const TEXT_LEN_MAX: usize = 256;
const OBJECTS_MAX: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// The caller may, but the request failed.
    Failed,
    /// The caller may not.
    Denied,
    /// The caller is not who it says to be.
    Unauthenticated,
}

/// One request, without its values: what a setting or a password was changed to is not known here.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Milliseconds since 1970.
    pub at: i64,
    /// The user that the caller has proved to be, or says to be if the outcome is `Unauthenticated`.
    pub user: Option<&'a str>,
    pub from: SocketAddr,
    /// `remoting`, `grpc`, `http`.
    pub port: &'a str,
    /// The name of the request.
    pub request: &'a str,
    pub objects: &'a [String],
    pub outcome: Outcome,
    /// The rule that decided, or what failed.
    pub why: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    from: SocketAddr,
    port: &'a str,
    request: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objects: Vec<&'a str>,
    /// Objects beyond those listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
}

impl Event<'_> {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let line = Line {
            time: date::rfc3339_of_millis(self.at),
            user: self.user.map(cut),
            from: self.from,
            port: self.port,
            request: cut(self.request),
            objects: self.objects.iter().take(OBJECTS_MAX).map(|object| cut(object)).collect(),
            more: self.objects.len().checked_sub(OBJECTS_MAX).filter(|more| *more > 0),
            outcome: self.outcome,
            why: cut(self.why),
        };
        // Only maps with keys that are no text could fail, and there are none.
        let mut text = ascii(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
        text
    }
}

fn cut(text: &str) -> &str {
    let end = (0..=TEXT_LEN_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// JSON in which everything but visible ASCII is escaped. Outside its texts there is nothing else.
fn ascii(json: &str) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a text does not fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event<'a>(user: &'a str, objects: &'a [String], why: &'a str) -> Event<'a> {
        Event {
            at: 1_704_196_800_007,
            user: Some(user),
            from: "10.0.0.1:4711".parse().unwrap(),
            port: "remoting",
            request: "DELETE_TOPIC_IN_BROKER",
            objects,
            outcome: Outcome::Denied,
            why,
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let objects = ["Topic:orders".to_owned()];
        let text = concat!(
            r#"{"time":"2024-01-02T12:00:00.007Z","user":"app","from":"10.0.0.1:4711","port":"remoting","#,
            r#""request":"DELETE_TOPIC_IN_BROKER","objects":["Topic:orders"],"outcome":"denied","why":"no rule allows it"}"#,
            "\n"
        );
        assert_eq!(event("app", &objects, "no rule allows it").line(), text);
    }

    #[test]
    fn names_of_a_peer_cannot_forge_a_line() {
        let line = event("a\n{\"user\":\"root\"}\u{1b}[2J\u{7f}", &[], "").line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains(r#""user":"a\n{\"user\":\"root\"}\u001b[2J\u007f""#), "{line}");
        // A look-alike of `root` and a change of direction are seen.
        let line = event("r\u{043e}ot\u{202e}\u{1f600}", &[], "").line();
        assert!(line.contains(r"r\u043eot\u202e\ud83d\ude00"), "{line}");
    }

    proptest! {
        #[test]
        fn a_line_is_bounded_ascii_and_reads_as_json(
            user in "\\PC{0,400}",
            objects in proptest::collection::vec("(?s).{0,400}", 0..30),
            why in "(?s).{0,400}",
        ) {
            let line = event(&user, &objects, &why).line();
            prop_assert!(line.is_ascii() && line.ends_with('\n') && line.matches('\n').count() == 1);
            prop_assert!(line.len() <= (OBJECTS_MAX + 3) * TEXT_LEN_MAX * 6 + 400);
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert!(user.starts_with(read["user"].as_str().unwrap()));
        }
    }
}
