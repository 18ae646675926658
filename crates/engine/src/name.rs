//! Names that users give to topics and groups. A name never becomes a path.

use std::{borrow::Borrow, fmt, sync::Arc};

/// Longest topic and group names; retry and dead-letter topics carry a prefix and may be longer.
pub const TOPIC_LEN_MAX: usize = 127;
pub const GROUP_LEN_MAX: usize = 120;
pub const SYSTEM_TOPIC_LEN_MAX: usize = 255;
pub const LITE_TOPIC_LEN_MAX: usize = 64;

pub const RETRY_PREFIX: &str = "%RETRY%";
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Names of lite topics as the engine knows them: prefix, parent, separator, own name. The separator is no character of
/// a name, so no user can type one, and its two parts can be separated.
const LITE_PREFIX: &str = "%LMQ%$";
const LITE_SEPARATOR: char = '$';

/// Topics that exist for the broker itself. Users can neither create nor send to them.
const RESERVED_TOPICS: &[&str] = &[
    "TBW102",
    "BenchmarkTest",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
];
const RESERVED_TOPIC_PREFIXES: &[&str] = &["rmq_sys_", RETRY_PREFIX, DLQ_PREFIX, "%LMQ%", "rocketmq-broker-"];

const RESERVED_GROUPS: &[&str] = &[
    "DEFAULT_CONSUMER",
    "DEFAULT_PRODUCER",
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
    "SELF_TEST_P_GROUP",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PULL",
    "CID_RMQ_SYS_TRANS",
];
const RESERVED_GROUP_PREFIXES: &[&str] = &["CID_RMQ_SYS_", "CID_HOUSEKEEPING"];

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a {what} name must not be empty")]
    Empty { what: &'static str },
    #[error("the {what} name has {len} bytes, the limit is {limit}")]
    TooLong { what: &'static str, len: usize, limit: usize },
    #[error(
        "the {what} name {name:?} has the character {bad:?} at byte {at}; letters, digits, '%', '|', '_' and '-' are allowed"
    )]
    Character { what: &'static str, name: String, bad: char, at: usize },
    #[error(
        "the lite topic name {name:?} has the character {bad:?} at byte {at}; letters, digits, '_' and '-' are allowed"
    )]
    LiteCharacter { name: String, bad: char, at: usize },
    #[error("the {what} name {name:?} is reserved for the broker")]
    Reserved { what: &'static str, name: String },
}

/// A valid topic name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// A valid consumer group name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Arc<str>);

/// The name of a lite topic within its parent. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LiteName(Arc<str>);

impl LiteName {
    pub fn new(name: &str) -> Result<LiteName, Error> {
        check_length("lite topic", name, LITE_TOPIC_LEN_MAX)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        match name.char_indices().find(|(_, c)| !allowed(*c)) {
            Some((at, bad)) => Err(Error::LiteCharacter { name: name.to_owned(), bad, at }),
            None => Ok(LiteName(name.into())),
        }
    }
}

impl TopicName {
    pub fn new(name: &str) -> Result<TopicName, Error> {
        let limit = if is_prefixed(name) { SYSTEM_TOPIC_LEN_MAX } else { TOPIC_LEN_MAX };
        check("topic", name, limit)?;
        Ok(TopicName(name.into()))
    }

    /// The engine's topic for a lite topic.
    pub fn lite(parent: &TopicName, lite: &LiteName) -> TopicName {
        TopicName(format!("{LITE_PREFIX}{parent}{LITE_SEPARATOR}{lite}").into())
    }

    /// The parent and the own name of a lite topic; `None` for every other topic.
    pub fn lite_parts(&self) -> Option<(TopicName, LiteName)> {
        let (parent, lite) = self.0.strip_prefix(LITE_PREFIX)?.rsplit_once(LITE_SEPARATOR)?;
        Some((TopicName::new(parent).ok()?, LiteName::new(lite).ok()?))
    }

    /// The parent of a lite topic that is given by its engine name; `None` for every other text.
    pub fn parent_of_lite(name: &str) -> Option<TopicName> {
        let lite = name.starts_with(LITE_PREFIX).then(|| TopicName(name.into()))?;
        lite.lite_parts().map(|(parent, _)| parent)
    }

    pub fn is_lite(&self) -> bool {
        self.0.starts_with(LITE_PREFIX)
    }

    /// A name as it was stored: also that of a lite topic.
    pub(crate) fn stored(name: &str) -> Result<TopicName, Error> {
        let lite = TopicName(name.into());
        if lite.lite_parts().is_some() { Ok(lite) } else { TopicName::new(name) }
    }

    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.0, RESERVED_TOPICS, RESERVED_TOPIC_PREFIXES)
    }

    /// Refuses what only the broker may create.
    pub fn not_reserved(&self) -> Result<(), Error> {
        if self.is_reserved() {
            return Err(Error::Reserved { what: "topic", name: self.to_string() });
        }
        Ok(())
    }

    pub fn is_dead_letter(&self) -> bool {
        self.0.starts_with(DLQ_PREFIX)
    }

    pub fn is_retry(&self) -> bool {
        self.0.starts_with(RETRY_PREFIX)
    }

    /// The name of the group whose retries a topic holds.
    pub fn retried_group(&self) -> Option<&str> {
        self.0.strip_prefix(RETRY_PREFIX)
    }
}

impl GroupName {
    pub fn new(name: &str) -> Result<GroupName, Error> {
        check("group", name, GROUP_LEN_MAX)?;
        Ok(GroupName(name.into()))
    }

    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.0, RESERVED_GROUPS, RESERVED_GROUP_PREFIXES)
    }

    pub fn not_reserved(&self) -> Result<(), Error> {
        if self.is_reserved() {
            return Err(Error::Reserved { what: "group", name: self.to_string() });
        }
        Ok(())
    }

    /// The topic that holds this group's dead letters.
    pub fn dead_letter_topic(&self) -> TopicName {
        TopicName(format!("{DLQ_PREFIX}{}", self.0).into())
    }

    /// The topic in which 4.x clients look for this group's retries.
    pub fn retry_topic(&self) -> TopicName {
        TopicName(format!("{RETRY_PREFIX}{}", self.0).into())
    }
}

fn is_prefixed(name: &str) -> bool {
    name.starts_with(RETRY_PREFIX) || name.starts_with(DLQ_PREFIX)
}

fn is_reserved(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    names.contains(&name) || prefixes.iter().any(|p| name.starts_with(p))
}

fn check_length(what: &'static str, name: &str, limit: usize) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Empty { what });
    }
    if name.len() > limit {
        return Err(Error::TooLong { what, len: name.len(), limit });
    }
    Ok(())
}

fn check(what: &'static str, name: &str, limit: usize) -> Result<(), Error> {
    check_length(what, name, limit)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '|' | '_' | '-');
    if let Some((at, bad)) = name.char_indices().find(|(_, c)| !allowed(*c)) {
        return Err(Error::Character { what, name: name.to_owned(), bad, at });
    }
    Ok(())
}

macro_rules! name_traits {
    ($($name:ident),*) => {$(
        impl $name {
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{:?}", self.0) }
        }
    )*};
}

name_traits!(TopicName, GroupName, LiteName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_character_and_length_rules() {
        let long = "a".repeat(TOPIC_LEN_MAX);
        for good in ["a", "Order_Topic-1", "a%b|c", &long, &format!("%DLQ%{}", "g".repeat(200))] {
            assert!(TopicName::new(good).is_ok(), "{good}");
        }
        let over = "a".repeat(TOPIC_LEN_MAX + 1);
        for bad in ["", "a b", "a/b", "../etc", "a\0", "日本", "a+b", &over] {
            assert!(TopicName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            TopicName::new("ab/c"),
            Err(Error::Character { what: "topic", name: "ab/c".into(), bad: '/', at: 2 })
        );
    }

    #[test]
    fn a_lite_topic_is_told_by_its_name_and_nobody_can_type_one() {
        let long = "x".repeat(LITE_TOPIC_LEN_MAX);
        for (parent, lite) in [("p", "l"), ("a%b|c", "A_b-9"), (&"p".repeat(TOPIC_LEN_MAX), &long)] {
            let (parent, lite) = (TopicName::new(parent).unwrap(), LiteName::new(lite).unwrap());
            let whole = TopicName::lite(&parent, &lite);
            assert_eq!(whole.lite_parts(), Some((parent, lite)));
            assert!(whole.is_reserved());
            assert!(TopicName::new(whole.as_str()).is_err(), "{whole}");
            assert_eq!(TopicName::stored(whole.as_str()), Ok(whole));
        }
        for bad in ["", "a b", "a$b", "a%", "a|b", "é", &"x".repeat(LITE_TOPIC_LEN_MAX + 1)] {
            assert!(LiteName::new(bad).is_err(), "{bad:?}");
        }
        for other in ["p", "%DLQ%g", "%LMQ%", "%LMQ%x"] {
            assert_eq!(TopicName::new(other).unwrap().lite_parts(), None, "{other}");
        }
        for broken in ["%LMQ%$p", "%LMQ%$$l", "%LMQ%$p$", "%LMQ%$p$a$b"] {
            assert!(TopicName::stored(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn reserved_names_are_known_by_name_and_by_prefix() {
        for name in ["TBW102", "rmq_sys_x", "%RETRY%g", "%DLQ%g", "rocketmq-broker-1", "SCHEDULE_TOPIC_XXXX"]
        {
            assert!(TopicName::new(name).unwrap().not_reserved().is_err(), "{name}");
        }
        assert!(TopicName::new("orders").unwrap().not_reserved().is_ok());
        assert!(GroupName::new("CID_RMQ_SYS_x").unwrap().not_reserved().is_err());
        assert!(GroupName::new("shop").unwrap().not_reserved().is_ok());
    }
}
