//! Attributes of topics and groups as tools write them: `+key=value` sets, `-key` removes.

use std::collections::BTreeMap;

use redstart_engine::{LITE_EXPIRATION, MessageType, TopicName};
use redstart_wire::remoting::code;

use crate::{
    grpc::{BIND_TOPIC, EXCLUSIVE, SUB_MODEL},
    remoting::refusal::Refusal,
};

/// Prefix of attributes that belong to the broker. They are not shown and cannot be set.
const HIDDEN: &str = "remoting.";
const CHANGES_MAX: usize = 128;
/// The attribute by which an operator gives a topic its type.
pub(super) const MESSAGE_TYPE: &str = "message.type";

/// A requested change: a new value, or the removal of an attribute.
pub(super) type Changes = Vec<(String, Option<String>)>;

fn refused(why: String) -> Refusal {
    Refusal::new(code::SYSTEM_ERROR, why)
}

/// Reads `+key=value,-key`.
pub(super) fn parse(text: &str) -> Result<Changes, Refusal> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let change = |word: &str| match (word.strip_prefix('+'), word.strip_prefix('-')) {
        (Some(word), _) => {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| refused(format!("the attribute {word:?} has no value; write +key=value")))?;
            Ok((key.to_owned(), Some(value.to_owned())))
        }
        (_, Some(key)) => Ok((key.to_owned(), None)),
        _ => Err(refused(format!("the attribute {word:?} begins with neither + (set) nor - (remove)"))),
    };
    bounded(words.map(change).collect::<Result<_, _>>()?)
}

/// The same out of a JSON object, whose keys carry the sign; without one they set.
pub(super) fn of_object(attributes: BTreeMap<String, String>) -> Result<Changes, Refusal> {
    let change = |(key, value): (String, String)| match key.strip_prefix('-') {
        Some(key) => (key.to_owned(), None),
        None => (key.strip_prefix('+').unwrap_or(&key).to_owned(), Some(value)),
    };
    bounded(attributes.into_iter().map(change).collect())
}

fn bounded(changes: Changes) -> Result<Changes, Refusal> {
    if changes.len() > CHANGES_MAX {
        let why = format!("{} attributes in one request, the limit is {CHANGES_MAX}", changes.len());
        return Err(refused(why));
    }
    Ok(changes)
}

/// A topic's attributes after the changes, and its type if they name one. On creation there is nothing to remove.
pub(super) fn of_topic(
    old: Option<&BTreeMap<String, String>>,
    changes: Changes,
) -> Result<(BTreeMap<String, String>, Option<MessageType>), Refusal> {
    let mut attributes = old.cloned().unwrap_or_default();
    let mut message_type = None;
    for (key, value) in changes {
        match (&value, old) {
            (None, None) => {
                let why = format!("the attribute {key} cannot be removed: the topic is only being created");
                return Err(refused(why));
            }
            (None, Some(old)) if !old.contains_key(&key) => {
                return Err(refused(format!("the topic has no attribute {key} to remove")));
            }
            _ => {}
        }
        match (key.as_str(), value.as_deref()) {
            (MESSAGE_TYPE, value) => message_type = Some(kind(value)?),
            (LITE_EXPIRATION, Some(value)) if value.parse::<i64>().is_ok_and(|minutes| minutes >= -1) => {}
            (LITE_EXPIRATION, Some(value)) => {
                return Err(must_be(&key, value, "minutes, or -1 for never"));
            }
            (_, None) | ("cleanup.policy", Some("DELETE")) => {}
            // Batches are stored message by message: both kinds mean the same here.
            ("queue.type", Some("SimpleCQ" | "BatchCQ")) => {}
            ("reserve.time", Some("-1")) => {}
            ("queue.type" | "cleanup.policy" | "reserve.time", Some(value)) => {
                return Err(refused(unsupported(&key, value)));
            }
            _ => {
                let why = format!(
                    "there is no attribute {key}; there are {MESSAGE_TYPE}, {LITE_EXPIRATION}, queue.type, cleanup.policy and reserve.time"
                );
                return Err(refused(why));
            }
        }
        match value {
            Some(value) => attributes.insert(key, value),
            None => attributes.remove(&key),
        };
    }
    Ok((attributes, message_type))
}

fn must_be(key: &str, value: &str, what: &str) -> Refusal {
    refused(format!("the attribute {key} is {value:?}; it must be {what}"))
}

/// RocketMQ's word for "no type was chosen" is UNSPECIFIED.
fn kind(value: Option<&str>) -> Result<MessageType, Refusal> {
    match value {
        None | Some("UNSPECIFIED") => Ok(MessageType::default()),
        Some(value) => value.parse().map_err(|error| refused(format!("{error}"))),
    }
}

fn unsupported(key: &str, value: &str) -> String {
    let why = match key {
        "queue.type" => "queues are of one kind, SimpleCQ or BatchCQ",
        "cleanup.policy" => "messages are kept for a time and then deleted, DELETE",
        _ => "messages are kept for one time in all topics, -1 (see the setting fileReservedTime)",
    };
    format!("the attribute {key} cannot be {value}: {why}")
}

/// The attributes that are shown.
pub(super) fn shown(attributes: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    attributes
        .iter()
        .filter(|(key, _)| !key.starts_with(HIDDEN))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The name of an attribute of the broker's own.
pub(super) fn hidden(key: &str) -> String {
    format!("{HIDDEN}{key}")
}

/// A group's attributes after the changes. Names that the broker does not know are allowed: clients use them.
pub(super) fn of_group(
    old: &BTreeMap<String, String>,
    changes: Changes,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut attributes = old.clone();
    for (key, value) in changes {
        if key.is_empty() || key.starts_with(HIDDEN) {
            return Err(refused(format!("the attribute {key:?} cannot be set")));
        }
        match (key.as_str(), value.as_deref()) {
            (BIND_TOPIC, Some(topic)) if !TopicName::new(topic).is_ok_and(|topic| !topic.is_reserved()) => {
                return Err(must_be(&key, topic, "the name of a topic"));
            }
            (SUB_MODEL, Some(model))
                if !["Shared", EXCLUSIVE].iter().any(|known| known.eq_ignore_ascii_case(model)) =>
            {
                return Err(must_be(&key, model, "Shared or Exclusive"));
            }
            _ => {}
        }
        match value {
            Some(value) => attributes.insert(key, value),
            None => attributes.remove(&key),
        };
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(old: Option<&[(&str, &str)]>, text: &str) -> Result<Vec<String>, String> {
        let old: Option<BTreeMap<_, _>> =
            old.map(|old| old.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        let changes = parse(text).map_err(|refusal| refusal.remark)?;
        let (attributes, kind) = of_topic(old.as_ref(), changes).map_err(|refusal| refusal.remark)?;
        let kind = kind.map(|kind| kind.to_string());
        Ok(kind.into_iter().chain(attributes.into_iter().map(|(k, v)| format!("{k}={v}"))).collect())
    }

    #[test]
    fn attributes_are_set_and_removed_by_their_sign() {
        assert_eq!(topic(None, "").unwrap(), [""; 0]);
        assert_eq!(topic(None, "+message.type=FIFO").unwrap(), ["FIFO", "message.type=FIFO"]);
        let old = [("message.type", "FIFO"), ("cleanup.policy", "DELETE")];
        assert_eq!(
            topic(Some(&old), "+message.type=DELAY").unwrap(),
            ["DELAY", "cleanup.policy=DELETE", "message.type=DELAY"]
        );
        assert_eq!(topic(Some(&old), "-message.type").unwrap(), ["NORMAL", "cleanup.policy=DELETE"]);
        assert_eq!(topic(None, "+queue.type=SimpleCQ,+reserve.time=-1").unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (old, text, names) in [
            (None, "message.type=FIFO", "neither + (set) nor - (remove)"),
            (None, "+message.type", "has no value"),
            (None, "+message.type=ODD", "ODD"),
            (None, "-message.type", "only being created"),
            (Some(&[][..]), "-message.type", "no attribute message.type"),
            (None, "+other=1", "no attribute other"),
            (None, "+remoting.order=true", "no attribute remoting.order"),
            (None, "+queue.type=RocksDBCQ", "SimpleCQ"),
            (None, "+cleanup.policy=COMPACTION", "DELETE"),
            (None, "+reserve.time=5", "fileReservedTime"),
            (None, "+lite.topic.expiration=-2", "minutes"),
            (None, "+lite.topic.expiration=soon", "minutes"),
        ] {
            let refused = topic(old, text).unwrap_err();
            assert!(refused.contains(names), "{text}: {refused}");
        }
        let many = (0..200).map(|n| format!("+k{n}=v")).collect::<Vec<_>>().join(",");
        assert!(topic(None, &many).unwrap_err().contains("128"));
    }

    #[test]
    fn the_brokers_own_attributes_stay_its_own() {
        let old = [(hidden("x"), "1".to_owned()), ("a".to_owned(), "2".to_owned())].into();
        assert_eq!(shown(&old).len(), 1);
        for bad in ["-remoting.x", "+lite.bind.topic=a$b", "+lite.bind.topic=TBW102", "+lite.sub.model=Mine"]
        {
            assert!(of_group(&old, parse(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(of_group(&old, parse("+lite.bind.topic=p,+lite.sub.model=exclusive").unwrap()).is_ok());
        let changed = of_group(&old, parse("-a,+b=3").unwrap()).unwrap();
        assert_eq!(changed.keys().collect::<Vec<_>>(), ["b", "remoting.x"]);
    }
}
