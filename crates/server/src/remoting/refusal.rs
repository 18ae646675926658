//! Maps every error to a response code and a remark of the protocol.

use redstart_engine::{
    AckError, AdminError, FetchError, InvalidMessage, NameError, OffsetError, PopError, QueryError,
    RecallError, SendBackError, SendError, SettingError, TopicName, TransactionError, UnknownMessageType,
};
use redstart_wire::remoting::{BatchError, FieldError, TooLong, body::RegistrationError, code};

use crate::{
    access::{Denied, TooManyNames, Unauthenticated},
    byte_budget::Spent,
    shard::{ChangeError, ReceiveError, SendFailure, Unavailable},
    shards::CatalogueRefusal,
};

/// A refusal: response code and remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: i32,
    pub remark: String,
}

impl Refusal {
    pub fn new(code: i32, remark: impl Into<String>) -> Refusal {
        Refusal { code, remark: remark.into() }
    }

    pub fn invalid(remark: impl Into<String>) -> Refusal {
        Refusal::new(code::INVALID_PARAMETER, remark)
    }

    /// A limit is reached: official clients back off and try again.
    pub fn busy(what: &str, limit: usize) -> Refusal {
        Refusal::new(code::SYSTEM_BUSY, format!("[OVERLOAD]{what}: the limit is {limit}"))
    }

    /// A stored message could not be read. Clients try again.
    pub fn unread(error: &FetchError) -> Refusal {
        Refusal::new(code::SYSTEM_ERROR, format!("a message cannot be read now, try again: {error}"))
    }

    pub fn unsupported(request: i32) -> Refusal {
        Refusal::new(code::REQUEST_CODE_NOT_SUPPORTED, format!(" request type {request} not supported"))
    }

    pub fn unknown_topic(topic: &str) -> Refusal {
        let mut why = format!("topic[{topic}] not exist, apply first please!");
        // Operators cannot create reserved topics.
        if !TopicName::new(topic).is_ok_and(|topic| topic.is_reserved()) {
            why += &format!(" Create it with: redstart topic create {topic}");
        }
        Refusal::new(code::TOPIC_NOT_EXIST, why)
    }

    pub fn subscription(error: &redstart_engine::filter::Error) -> Refusal {
        let why = format!("parse the consumer's subscription failed: {error}");
        Refusal::new(code::SUBSCRIPTION_PARSE_FAILED, why)
    }

    pub fn unknown_group(group: &str) -> Refusal {
        let why = format!("subscription group [{group}] does not exist");
        Refusal::new(code::SUBSCRIPTION_GROUP_NOT_EXIST, why)
    }
}

// Programs search remarks for words. Where Apache's broker (5.4.0, the classes in `broker/processor`) refuses for the same
// reason, its words come first and our explanation follows.

impl From<InvalidMessage> for Refusal {
    fn from(error: InvalidMessage) -> Self {
        let words = match &error {
            InvalidMessage::BodyTooLarge { .. }
            | InvalidMessage::BatchTooLarge { .. }
            | InvalidMessage::PropertiesTooLarge { .. } => {
                "the message is illegal, maybe msg body or properties length not matched, too large: "
                    .to_owned()
            }
            InvalidMessage::DelayTooLong { limit_ms, .. } => format!(
                "timer message illegal, the delay time should not be bigger than the max delay {limit_ms}ms: "
            ),
            _ => String::new(),
        };
        Refusal::new(code::MESSAGE_ILLEGAL, format!("{words}{error}"))
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        let words = match &error {
            NameError::Empty { what } => format!("The specified {what} is blank: "),
            NameError::TooLong { what, .. } => {
                format!("The specified {what} is longer than {what} max length: ")
            }
            NameError::Character { what, .. } => {
                format!(
                    "The specified {what} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$: "
                )
            }
            NameError::Reserved { what: "topic", name } => {
                format!("The topic[{name}] is conflict with system topic: ")
            }
            NameError::Reserved { .. } | NameError::LiteCharacter { .. } => String::new(),
        };
        Refusal::new(code::INVALID_PARAMETER, format!("{words}{error}"))
    }
}

macro_rules! always {
    ($($error:ty => $code:ident,)*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Refusal::new(code::$code, error.to_string())
            }
        }
    )*};
}

always! {
    FieldError => INVALID_PARAMETER,
    serde_json::Error => INVALID_PARAMETER,
    UnknownMessageType => INVALID_PARAMETER,
    AdminError => INVALID_PARAMETER,
    SettingError => INVALID_PARAMETER,
    BatchError => MESSAGE_ILLEGAL,
    RegistrationError => INVALID_PARAMETER,
    TooLong => SYSTEM_ERROR,
    TooManyNames => INVALID_PARAMETER,
    RecallError => ILLEGAL_OPERATION,
    TransactionError => SYSTEM_ERROR,
}

impl From<Unauthenticated> for Refusal {
    fn from(error: Unauthenticated) -> Self {
        Refusal::new(code::NO_PERMISSION, error.to_string())
    }
}

impl From<Denied> for Refusal {
    fn from(error: Denied) -> Self {
        Refusal::new(code::NO_PERMISSION, error.to_string())
    }
}

impl From<Spent> for Refusal {
    fn from(spent: Spent) -> Self {
        Refusal::new(code::SYSTEM_BUSY, format!("[OVERLOAD]{spent}"))
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        match error {
            Unavailable::Overloaded { .. } => Refusal::new(code::SYSTEM_BUSY, format!("[OVERLOAD]{error}")),
            Unavailable::Stopped => Refusal::new(code::SERVICE_NOT_AVAILABLE, error.to_string()),
        }
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        let mut remark = error.to_string();
        let code = match error {
            SendError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            SendError::Deleting { .. } => code::TOPIC_NOT_EXIST,
            SendError::Name(error) => return error.into(),
            SendError::Invalid(error) => return error.into(),
            SendError::UnknownLiteTopic { .. } => code::TOPIC_NOT_EXIST,
            SendError::NotWritable { topic, .. } => {
                remark = format!("the topic[{topic}] sending message is forbidden: {remark}");
                code::NO_PERMISSION
            }
            SendError::UnknownQueue { queue, .. } => {
                remark = format!("request queueId[{queue}] is illegal: {remark}");
                code::INVALID_PARAMETER
            }
            SendError::TypeMismatch { .. } | SendError::BatchDedup => code::MESSAGE_ILLEGAL,
            SendError::TooMany { .. } => code::SYSTEM_BUSY,
            SendError::FirstUnread { .. } => code::SYSTEM_ERROR,
            SendError::DiskFull { .. } | SendError::NoRoom { .. } => {
                remark = format!("service not available now, the broker's disk is full: {remark}");
                code::SERVICE_NOT_AVAILABLE
            }
        };
        Refusal::new(code, remark)
    }
}

impl From<SendFailure> for Refusal {
    fn from(error: SendFailure) -> Self {
        match error {
            SendFailure::Refused(error) => error.into(),
            SendFailure::Log(why) => Refusal::new(code::SYSTEM_ERROR, why),
            SendFailure::Unavailable(error) => error.into(),
        }
    }
}

impl From<OffsetError> for Refusal {
    fn from(error: OffsetError) -> Self {
        let mut remark = error.to_string();
        let code = match error {
            OffsetError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            OffsetError::UnknownGroup { group } => return Refusal::unknown_group(group.as_str()),
            OffsetError::NotReadable { topic, .. } => {
                remark = format!("the topic[{topic}] pulling message is forbidden: {remark}");
                code::NO_PERMISSION
            }
            OffsetError::UnknownQueue { queue, .. } => {
                remark = format!("queueId[{queue}] is illegal: {remark}");
                code::INVALID_PARAMETER
            }
            OffsetError::Index(_) => code::SYSTEM_ERROR,
        };
        Refusal::new(code, remark)
    }
}

impl From<PopError> for Refusal {
    fn from(error: PopError) -> Self {
        let mut remark = error.to_string();
        let code = match error {
            PopError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            PopError::UnknownGroup { group } => return Refusal::unknown_group(group.as_str()),
            PopError::GroupDisabled { group } => {
                remark = format!("subscription group no permission, {group}: {remark}");
                code::NO_PERMISSION
            }
            PopError::NotReadable { topic, .. } => {
                remark = format!("the topic[{topic}] peeking message is forbidden: {remark}");
                code::NO_PERMISSION
            }
            PopError::UnknownQueue { queue, .. } => {
                remark = format!("queueId[{queue}] is illegal: {remark}");
                code::INVALID_PARAMETER
            }
            PopError::BatchSize { .. } => {
                remark = format!("pop message's num is greater than 32: {remark}");
                code::INVALID_PARAMETER
            }
            PopError::InvisibleTime { .. } => code::INVALID_PARAMETER,
            PopError::Index(_) => code::SYSTEM_ERROR,
        };
        Refusal::new(code, remark)
    }
}

impl From<AckError> for Refusal {
    fn from(error: AckError) -> Self {
        let code = match error {
            AckError::Unknown | AckError::Expired => code::NO_MESSAGE,
            AckError::InvisibleTime { .. } => code::INVALID_PARAMETER,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<SendBackError> for Refusal {
    fn from(error: SendBackError) -> Self {
        let code = match error {
            SendBackError::UnknownGroup { .. } => code::SUBSCRIPTION_GROUP_NOT_EXIST,
            SendBackError::NoRetryTopic { .. }
            | SendBackError::NoDeadLetterTopic { .. }
            | SendBackError::UnknownPosition { .. } => code::SYSTEM_ERROR,
            SendBackError::Unread { .. } => code::SYSTEM_BUSY,
        };
        let words = match &error {
            SendBackError::UnknownGroup { group } => format!("subscription group not exist, {group}: "),
            SendBackError::UnknownPosition { position } => {
                format!("look message by offset failed, {position}: ")
            }
            _ => String::new(),
        };
        Refusal::new(code, format!("{words}{error}"))
    }
}

impl Refusal {
    /// Why there is no answer about a position of the log. A position without a message is answered as one that the caller may
    /// not read.
    pub fn of_position(error: QueryError, not_found: impl Fn() -> Refusal) -> Refusal {
        match error {
            QueryError::UnknownPosition { .. } => not_found(),
            // What is between two messages reads as a damaged one.
            QueryError::Fetch(error) if error.proof().is_some() => not_found(),
            other => other.into(),
        }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::UnknownTopic { topic } => Refusal::unknown_topic(topic.as_str()),
            QueryError::Send(error) => error.into(),
            QueryError::UnknownOffset { .. } | QueryError::UnknownPosition { .. } => {
                let why = format!("can not find message by the offset: {error}");
                Refusal::new(code::SYSTEM_ERROR, why)
            }
            QueryError::NoOrigin | QueryError::Index(_) | QueryError::Fetch(_) => {
                Refusal::new(code::SYSTEM_ERROR, error.to_string())
            }
        }
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Pop(error) => error.into(),
            ReceiveError::WrongGroupKind { .. } => Refusal::new(code::NO_PERMISSION, error.to_string()),
            // A receive whose group has not begun begins it, and is not answered before.
            ReceiveError::NotBegun => Refusal::new(code::SYSTEM_ERROR, error.to_string()),
            ReceiveError::Pull(error) => error.into(),
            ReceiveError::Unavailable(error) => error.into(),
        }
    }
}

impl From<CatalogueRefusal> for Refusal {
    fn from(error: CatalogueRefusal) -> Self {
        match error {
            CatalogueRefusal::Admin(error) => error.into(),
            CatalogueRefusal::Setting(error) => error.into(),
        }
    }
}

impl<E: Into<Refusal>> From<ChangeError<E>> for Refusal {
    fn from(error: ChangeError<E>) -> Self {
        match error {
            ChangeError::Refused(error) => error.into(),
            ChangeError::Log(why) => Refusal::new(code::SYSTEM_ERROR, why),
            ChangeError::Unavailable(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use redstart_engine::{GroupName, QueueId, Timestamp};

    use super::*;

    fn topic() -> TopicName {
        TopicName::new("t").unwrap_or_else(|error| panic!("{error}"))
    }

    fn group() -> GroupName {
        GroupName::new("g").unwrap_or_else(|error| panic!("{error}"))
    }

    /// What programs find in the remarks of RocketMQ 5.4.0 for the same cause.
    #[test]
    fn remarks_keep_the_words_of_the_reference() {
        let (queue, queues, permission) = (QueueId(7), 1, 0);
        let too_large = "the message is illegal, maybe msg body or properties length not matched";
        let no_topic = "topic[t] not exist, apply first please!";
        let no_group = "subscription group [g] does not exist";
        let cases: Vec<(Refusal, &str)> = vec![
            (InvalidMessage::BodyTooLarge { size: 2, limit: 1 }.into(), too_large),
            (InvalidMessage::PropertiesTooLarge { size: 2, limit: 1 }.into(), too_large),
            (
                InvalidMessage::DelayTooLong { deliver_at: Timestamp(9), delay_ms: 9, limit_ms: 1 }.into(),
                "timer message illegal, the delay time should not be bigger than the max delay 1ms",
            ),
            (NameError::Empty { what: "topic" }.into(), "The specified topic is blank"),
            (
                NameError::TooLong { what: "topic", len: 2, limit: 1 }.into(),
                "The specified topic is longer than topic max length",
            ),
            (
                NameError::Character { what: "topic", name: "a/b".into(), bad: '/', at: 1 }.into(),
                "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
            ),
            (
                NameError::Reserved { what: "topic", name: "TBW102".into() }.into(),
                "The topic[TBW102] is conflict with system topic",
            ),
            (SendError::UnknownTopic { topic: topic() }.into(), no_topic),
            (OffsetError::UnknownTopic { topic: topic() }.into(), no_topic),
            (PopError::UnknownTopic { topic: topic() }.into(), no_topic),
            (QueryError::UnknownTopic { topic: topic() }.into(), no_topic),
            (OffsetError::UnknownGroup { group: group() }.into(), no_group),
            (PopError::UnknownGroup { group: group() }.into(), no_group),
            (
                SendError::NotWritable { topic: topic(), permission }.into(),
                "the topic[t] sending message is forbidden",
            ),
            (
                OffsetError::NotReadable { topic: topic(), permission }.into(),
                "the topic[t] pulling message is forbidden",
            ),
            (
                PopError::NotReadable { topic: topic(), permission }.into(),
                "the topic[t] peeking message is forbidden",
            ),
            (
                SendError::UnknownQueue { topic: topic(), queue, queues }.into(),
                "request queueId[7] is illegal",
            ),
            (OffsetError::UnknownQueue { topic: topic(), queue, queues }.into(), "queueId[7] is illegal"),
            (PopError::UnknownQueue { topic: topic(), queue, queues }.into(), "queueId[7] is illegal"),
            (PopError::BatchSize { value: 33, limit: 32 }.into(), "pop message's num is greater than 32"),
            (PopError::GroupDisabled { group: group() }.into(), "subscription group no permission, g"),
            (SendError::DiskFull { percent: 95, limit: 90 }.into(), "the broker's disk is full"),
            (SendBackError::UnknownGroup { group: group() }.into(), "subscription group not exist, g"),
            (
                SendBackError::UnknownPosition { position: redstart_log::Position(5) }.into(),
                "look message by offset failed, 5",
            ),
            (
                QueryError::UnknownPosition { position: redstart_log::Position(5) }.into(),
                "can not find message by the offset",
            ),
            (Refusal::unsupported(999), " request type 999 not supported"),
            (Refusal::busy("requests", 1), "[OVERLOAD]"),
        ];
        for (refusal, words) in cases {
            assert!(refusal.remark.contains(words), "{words:?} is not in {:?}", refusal.remark);
        }
    }
}
