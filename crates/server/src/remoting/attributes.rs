//! Attributes of topics and groups as administrators change them: `+key=value` sets one, `-key` takes it away.

use std::collections::BTreeMap;

use redstart_engine::{LITE_EXPIRATION, TopicName};

use crate::grpc::{BIND_TOPIC, EXCLUSIVE, SUB_MODEL};

/// An attribute that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadAttribute {
    #[error("the attribute {0:?} is neither of the form +key=value nor -key")]
    Form(String),
    #[error("the attribute {key} is {value:?}; it must be {expected}")]
    Value { key: String, value: String, expected: &'static str },
}

/// What is to become of attributes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// `None` takes the attribute away.
    by_key: BTreeMap<String, Option<String>>,
}

impl Changes {
    /// Reads `+key=value,-key`, as the header of a topic has it.
    pub fn parse(text: &str) -> Result<Changes, BadAttribute> {
        let mut changes = Changes::default();
        for text in text.split(',').filter(|text| !text.is_empty()) {
            let form = || BadAttribute::Form(text.to_owned());
            match text.split_at_checked(1) {
                Some(("+", rest)) => {
                    let (key, value) = rest.split_once('=').ok_or_else(form)?;
                    changes.set(key, value)?;
                }
                Some(("-", key)) => drop(changes.by_key.insert(key.to_owned(), None)),
                _ => return Err(form()),
            }
        }
        Ok(changes)
    }

    /// Reads a map whose keys carry the sign, as the body of a group has it; a key without one is set.
    pub fn of_map(map: BTreeMap<String, String>) -> Result<Changes, BadAttribute> {
        let mut changes = Changes::default();
        for (key, value) in map {
            match key.strip_prefix('-') {
                Some(key) => drop(changes.by_key.insert(key.to_owned(), None)),
                None => changes.set(key.strip_prefix('+').unwrap_or(&key), &value)?,
            }
        }
        Ok(changes)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadAttribute> {
        let expected = match key {
            LITE_EXPIRATION if value.parse::<i64>().is_ok_and(|minutes| minutes >= -1) => None,
            LITE_EXPIRATION => Some("minutes, or -1 for never"),
            BIND_TOPIC if TopicName::new(value).is_ok_and(|topic| !topic.is_reserved()) => None,
            BIND_TOPIC => Some("the name of a topic"),
            SUB_MODEL if ["Shared", EXCLUSIVE].iter().any(|model| model.eq_ignore_ascii_case(value)) => None,
            SUB_MODEL => Some("Shared or Exclusive"),
            _ => None,
        };
        match expected {
            Some(expected) => {
                Err(BadAttribute::Value { key: key.to_owned(), value: value.to_owned(), expected })
            }
            None => {
                self.by_key.insert(key.to_owned(), Some(value.to_owned()));
                Ok(())
            }
        }
    }

    /// The value that is to be set.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.by_key.get(key)?.as_deref()
    }

    /// What is not named stays as it was.
    pub fn apply(self, attributes: &mut BTreeMap<String, String>) {
        for (key, value) in self.by_key {
            match value {
                Some(value) => drop(attributes.insert(key, value)),
                None => drop(attributes.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn attributes_are_set_and_taken_away_and_others_stay() {
        let mut attributes = map(&[("a", "1"), ("b", "2"), ("c", "3")]);
        Changes::parse("+a=9,-b,+message.type=LITE").unwrap().apply(&mut attributes);
        assert_eq!(attributes, map(&[("a", "9"), ("c", "3"), ("message.type", "LITE")]));
        Changes::of_map(map(&[("+lite.bind.topic", "p"), ("-a", ""), ("c", "4")]))
            .unwrap()
            .apply(&mut attributes);
        assert_eq!(attributes, map(&[("c", "4"), ("lite.bind.topic", "p"), ("message.type", "LITE")]));
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for bad in ["a=1", "+a", "x"] {
            assert!(matches!(Changes::parse(bad), Err(BadAttribute::Form(_))), "{bad}");
        }
        for bad in [
            "+lite.topic.expiration=-2",
            "+lite.topic.expiration=soon",
            "+lite.sub.model=Mine",
            "+lite.bind.topic=a$b",
        ] {
            assert!(matches!(Changes::parse(bad), Err(BadAttribute::Value { .. })), "{bad}");
        }
        for good in ["+lite.topic.expiration=-1", "+lite.sub.model=Exclusive", ""] {
            assert!(Changes::parse(good).is_ok(), "{good}");
        }
    }
}
