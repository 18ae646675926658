//! Maps every error to a code of the protocol. Such errors travel in the body of an answer; clients take a gRPC error status for
//! a failure of the server.

use redstart_engine::{
    AckError, AdminError, ForwardError, GroupName, InvalidMessage, NameError, OffsetError, PopError,
    RecallError, SendError, TopicName, TransactionError,
};
use redstart_wire::v2::{Code, Status};

use crate::{
    access::{Denied, TooManyNames, Unauthenticated},
    byte_budget::Spent,
    scope::{HandleKind, ScopeError, ScopedError},
    shard::{ChangeError, ReceiveError, SendFailure, Unavailable},
    shards::CatalogueRefusal,
    user_properties::RefusedProperties,
};

/// A refusal: code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: Code,
    pub message: String,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    pub fn client_id() -> Refusal {
        Refusal::new(
            Code::ClientIdRequired,
            "client id cannot be empty: the request has no x-mq-client-id header",
        )
    }

    /// Another user has a client of this id.
    pub fn taken() -> Refusal {
        Refusal::new(Code::Forbidden, "this client id is used by another user")
    }

    pub fn status(&self) -> Status {
        Status { code: self.code.into(), message: self.message.clone() }
    }
}

impl From<Unauthenticated> for Refusal {
    fn from(error: Unauthenticated) -> Self {
        Refusal::new(Code::Unauthorized, error.to_string())
    }
}

impl From<Denied> for Refusal {
    fn from(error: Denied) -> Self {
        Refusal::new(Code::Forbidden, error.to_string())
    }
}

impl From<TooManyNames> for Refusal {
    fn from(error: TooManyNames) -> Self {
        Refusal::new(Code::BadRequest, error.to_string())
    }
}

pub(super) fn ok() -> Status {
    Status { code: Code::Ok.into(), message: "OK".to_owned() }
}

/// The status of several entries: their common one, or MULTIPLE_RESULTS.
pub(super) fn summary<'a>(mut entries: impl Iterator<Item = Option<&'a Status>>) -> Status {
    let Some(first) = entries.next().flatten() else { return ok() };
    if entries.all(|entry| entry.is_some_and(|entry| entry.code == first.code)) {
        return first.clone();
    }
    Status {
        code: Code::MultipleResults.into(),
        message: "entries have different results; see the status of each".to_owned(),
    }
}

// Programs search messages for words. Where Apache's proxy (5.4.0, `GrpcValidator`, `SendMessageActivity` and the processors)
// refuses for the same reason, its words come first and our explanation follows.

fn unknown_topic(topic: &TopicName) -> Refusal {
    let mut why = format!("No topic route info in name server for the topic: {topic}; it does not exist");
    // Operators cannot create reserved topics.
    if !topic.is_reserved() {
        why += &format!("; create it with: redstart topic create {topic}");
    }
    Refusal::new(Code::TopicNotFound, why)
}

fn unknown_group(group: &GroupName) -> Refusal {
    let why = format!("subscription group [{group}] does not exist");
    Refusal::new(Code::ConsumerGroupNotFound, why)
}

/// What is wrong with a text that must not be blank nor have control characters.
fn wrong_with(what: &str, text: &str) -> String {
    match text.trim().is_empty() {
        true => format!("{what} cannot be the char sequence of whitespace"),
        false => format!("{what} cannot contain control character"),
    }
}

fn why_invalid(error: &InvalidMessage) -> String {
    let words = match error {
        InvalidMessage::BodyTooLarge { limit, .. } | InvalidMessage::BatchTooLarge { limit, .. } => {
            format!("message body cannot exceed the max {limit}, it is too large")
        }
        InvalidMessage::PropertiesTooLarge { limit, .. } => {
            format!("the total size of user property is too large, max is {limit}")
        }
        InvalidMessage::PropertyName { .. } => "the key of property cannot contain control character".into(),
        InvalidMessage::PropertyValue { .. } => {
            "the value of property cannot contain control character".into()
        }
        InvalidMessage::Tag { tag } if tag.contains('|') => "tag cannot contain '|'".into(),
        InvalidMessage::Tag { tag } => wrong_with("tag", tag),
        InvalidMessage::Key { key } => wrong_with("key", key),
        InvalidMessage::Group { group } => wrong_with("message group", group),
        InvalidMessage::GroupLength { limit, .. } => format!("message group exceed the max size {limit}"),
        InvalidMessage::IdMissing => "message id cannot be empty".into(),
        InvalidMessage::DelayTooLong { limit_ms, .. } => {
            format!("the max delay time of message is too large, max is {limit_ms}")
        }
        InvalidMessage::IdTooLong { .. }
        | InvalidMessage::BatchCount { .. }
        | InvalidMessage::BatchMixed { .. }
        | InvalidMessage::BatchType { .. }
        | InvalidMessage::BatchLiteTopics { .. } => return error.to_string(),
    };
    format!("{words}: {error}")
}

fn why_bad_name(error: &NameError) -> String {
    let words = match error {
        NameError::Empty { what } => format!("The specified {what} is blank"),
        NameError::TooLong { what, limit, .. } => {
            format!("The specified {what} is longer than {what} max length {limit}")
        }
        NameError::Character { what, .. } => format!("The specified {what} contains illegal characters"),
        NameError::Reserved { what: "group", .. } => "cannot use system consumer group".into(),
        NameError::Reserved { .. } => "cannot access system topic".into(),
        NameError::LiteCharacter { .. } => return error.to_string(),
    };
    format!("{words}: {error}")
}

impl From<Spent> for Refusal {
    fn from(spent: Spent) -> Self {
        Refusal::new(Code::TooManyRequests, spent.to_string())
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        let code = match &error {
            Unavailable::Overloaded { .. } => Code::TooManyRequests,
            Unavailable::Stopped => Code::InternalServerError,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        let what = match &error {
            NameError::Empty { what }
            | NameError::TooLong { what, .. }
            | NameError::Character { what, .. }
            | NameError::Reserved { what, .. } => *what,
            NameError::LiteCharacter { .. } => "lite topic",
        };
        let code = match what {
            "group" => Code::IllegalConsumerGroup,
            "lite topic" => Code::IllegalLiteTopic,
            _ => Code::IllegalTopic,
        };
        Refusal::new(code, why_bad_name(&error))
    }
}

impl From<InvalidMessage> for Refusal {
    fn from(error: InvalidMessage) -> Self {
        let code = match &error {
            InvalidMessage::BodyTooLarge { .. } | InvalidMessage::BatchTooLarge { .. } => {
                Code::MessageBodyTooLarge
            }
            InvalidMessage::PropertiesTooLarge { .. } => Code::MessagePropertiesTooLarge,
            InvalidMessage::PropertyName { .. } | InvalidMessage::PropertyValue { .. } => {
                Code::IllegalMessagePropertyKey
            }
            InvalidMessage::Tag { .. } => Code::IllegalMessageTag,
            InvalidMessage::Key { .. } => Code::IllegalMessageKey,
            InvalidMessage::GroupLength { .. } | InvalidMessage::Group { .. } => Code::IllegalMessageGroup,
            InvalidMessage::IdMissing | InvalidMessage::IdTooLong { .. } => Code::IllegalMessageId,
            InvalidMessage::DelayTooLong { .. } => Code::IllegalDeliveryTime,
            InvalidMessage::BatchCount { .. } => Code::MessageCorrupted,
            InvalidMessage::BatchMixed { .. } | InvalidMessage::BatchType { .. } => {
                Code::MessagePropertyConflictWithType
            }
            InvalidMessage::BatchLiteTopics { .. } => Code::IllegalLiteTopic,
        };
        Refusal::new(code, why_invalid(&error))
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        let mut message = error.to_string();
        let code = match error {
            SendError::UnknownTopic { topic } => return unknown_topic(&topic),
            SendError::Deleting { .. } => Code::TopicNotFound,
            SendError::Name(error) => return error.into(),
            // It was removed while the message was being sent.
            SendError::UnknownLiteTopic { .. } => Code::TooManyRequests,
            SendError::Invalid(error) => return error.into(),
            SendError::NotWritable { .. } => {
                message = format!("no writable queue: {message}");
                Code::Forbidden
            }
            SendError::UnknownQueue { .. } => Code::Forbidden,
            SendError::TypeMismatch { expected, found, .. } => {
                message = format!(
                    "TopicMessageType validate failed, the expected type is {expected}, but actual type is {found}: {message}"
                );
                Code::MessagePropertyConflictWithType
            }
            SendError::BatchDedup => Code::MessagePropertyConflictWithType,
            SendError::FirstUnread { .. } => Code::InternalServerError,
            SendError::TooMany { .. } | SendError::DiskFull { .. } | SendError::NoRoom { .. } => {
                Code::TooManyRequests
            }
        };
        Refusal::new(code, message)
    }
}

impl From<SendFailure> for Refusal {
    fn from(error: SendFailure) -> Self {
        match error {
            SendFailure::Refused(error) => error.into(),
            SendFailure::Log(why) => Refusal::new(Code::TooManyRequests, why),
            SendFailure::Unavailable(error) => error.into(),
        }
    }
}

impl From<RefusedProperties> for Refusal {
    fn from(error: RefusedProperties) -> Self {
        let code = match &error {
            RefusedProperties::Reserved(_) => Code::IllegalMessagePropertyKey,
            RefusedProperties::TooMany(_) | RefusedProperties::TooLarge(_) => Code::MessagePropertiesTooLarge,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<ScopeError> for Refusal {
    fn from(error: ScopeError) -> Self {
        match error {
            ScopeError::UnknownTopic { topic } => unknown_topic(&topic),
            ScopeError::OtherDelivery { .. } => Refusal::new(Code::InvalidReceiptHandle, error.to_string()),
            ScopeError::OtherTopic { handle: HandleKind::Transaction, .. } => {
                Refusal::new(Code::InvalidTransactionId, error.to_string())
            }
            ScopeError::OtherTopic { handle: HandleKind::Recall, .. } => {
                Refusal::new(Code::MessageNotFound, error.to_string())
            }
        }
    }
}

impl<E: Into<Refusal>> From<ScopedError<E>> for Refusal {
    fn from(error: ScopedError<E>) -> Self {
        match error {
            ScopedError::OutOfScope(error) => error.into(),
            ScopedError::Engine(error) => error.into(),
        }
    }
}

impl From<PopError> for Refusal {
    fn from(error: PopError) -> Self {
        let mut message = error.to_string();
        let code = match error {
            PopError::UnknownTopic { topic } => return unknown_topic(&topic),
            PopError::UnknownGroup { group } => return unknown_group(&group),
            PopError::GroupDisabled { group } => {
                message = format!("subscription group no permission, {group}: {message}");
                Code::Forbidden
            }
            PopError::NotReadable { .. } => {
                message = format!("no readable queue: {message}");
                Code::Forbidden
            }
            PopError::UnknownQueue { .. } => Code::Forbidden,
            PopError::BatchSize { .. } => Code::BadRequest,
            PopError::InvisibleTime { .. } => Code::IllegalInvisibleTime,
            PopError::Index(_) => Code::InternalServerError,
        };
        Refusal::new(code, message)
    }
}

impl From<OffsetError> for Refusal {
    fn from(error: OffsetError) -> Self {
        let mut message = error.to_string();
        let code = match error {
            OffsetError::UnknownTopic { topic } => return unknown_topic(&topic),
            OffsetError::UnknownGroup { group } => return unknown_group(&group),
            OffsetError::NotReadable { .. } => {
                message = format!("no readable queue: {message}");
                Code::Forbidden
            }
            OffsetError::UnknownQueue { .. } => Code::Forbidden,
            OffsetError::Index(_) => Code::InternalServerError,
        };
        Refusal::new(code, message)
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Pop(error) => error.into(),
            ReceiveError::WrongGroupKind { .. } => {
                Refusal::new(Code::IllegalConsumerGroup, error.to_string())
            }
            // A receive whose group has not begun begins it, and is not answered before.
            ReceiveError::NotBegun => Refusal::new(Code::InternalServerError, error.to_string()),
            ReceiveError::Pull(error) => error.into(),
            ReceiveError::Unavailable(error) => error.into(),
        }
    }
}

impl From<AckError> for Refusal {
    fn from(error: AckError) -> Self {
        let code = match error {
            AckError::Unknown | AckError::Expired => Code::InvalidReceiptHandle,
            AckError::InvisibleTime { .. } => Code::IllegalInvisibleTime,
        };
        let words = match error {
            AckError::Unknown => "receipt handle is invalid",
            AckError::Expired => "receipt handle is expired",
            AckError::InvisibleTime { .. } => "the invisibleTime is too large",
        };
        Refusal::new(code, format!("{words}: {error}"))
    }
}

impl From<ForwardError> for Refusal {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Receipt(error) => error.into(),
            // Clients try again; the topic exists by then.
            ForwardError::NoTopic { .. } | ForwardError::Later => {
                Refusal::new(Code::TooManyRequests, error.to_string())
            }
            ForwardError::Unreadable => Refusal::new(Code::InvalidReceiptHandle, error.to_string()),
        }
    }
}

impl From<TransactionError> for Refusal {
    fn from(error: TransactionError) -> Self {
        let code = match error {
            TransactionError::TopicGone { .. } => Code::TopicNotFound,
            TransactionError::NotOpen { .. } | TransactionError::Ended { .. } => Code::InvalidTransactionId,
        };
        let words = match code {
            Code::InvalidTransactionId => "cannot found transaction data: ",
            _ => "",
        };
        Refusal::new(code, format!("{words}{error}"))
    }
}

impl From<RecallError> for Refusal {
    fn from(error: RecallError) -> Self {
        let code = match error {
            RecallError::Delivered { .. } => Code::IllegalDeliveryTime,
            RecallError::Unknown => Code::MessageNotFound,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        let code = match &error {
            AdminError::Name(_) | AdminError::Topic(_) | AdminError::Group(_) => Code::BadRequest,
            AdminError::UnknownTopic { .. } => Code::TopicNotFound,
            AdminError::UnknownGroup { .. } => Code::ConsumerGroupNotFound,
            AdminError::Creating { .. } | AdminError::Deleting { .. } | AdminError::TooMany { .. } => {
                Code::TooManyRequests
            }
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<CatalogueRefusal> for Refusal {
    fn from(error: CatalogueRefusal) -> Self {
        match error {
            CatalogueRefusal::Admin(error) => error.into(),
            CatalogueRefusal::Setting(error) => Refusal::new(Code::BadRequest, error.to_string()),
        }
    }
}

impl<E: Into<Refusal>> From<ChangeError<E>> for Refusal {
    fn from(error: ChangeError<E>) -> Self {
        match error {
            ChangeError::Refused(error) => error.into(),
            ChangeError::Log(why) => Refusal::new(Code::TooManyRequests, why),
            ChangeError::Unavailable(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use redstart_engine::{MessageType, QueueId, Timestamp};

    use super::*;

    fn topic() -> TopicName {
        TopicName::new("t").unwrap_or_else(|error| panic!("{error}"))
    }

    fn group() -> GroupName {
        GroupName::new("g").unwrap_or_else(|error| panic!("{error}"))
    }

    /// What programs find in the texts of RocketMQ 5.4.0's proxy for the same cause.
    #[test]
    fn texts_keep_the_words_of_the_reference() {
        use InvalidMessage as I;
        let permission = 0;
        let mismatch = SendError::TypeMismatch {
            topic: topic(),
            expected: MessageType::Normal,
            found: MessageType::Fifo,
        };
        let no_topic = "No topic route info in name server for the topic: t";
        let cases: Vec<(Refusal, Code, &str)> = vec![
            (
                I::BodyTooLarge { size: 2, limit: 1 }.into(),
                Code::MessageBodyTooLarge,
                "message body cannot exceed the max 1",
            ),
            (I::BodyTooLarge { size: 2, limit: 1 }.into(), Code::MessageBodyTooLarge, "too large"),
            (
                I::PropertiesTooLarge { size: 2, limit: 1 }.into(),
                Code::MessagePropertiesTooLarge,
                "the total size of user property is too large, max is 1",
            ),
            (
                I::PropertyName { name: "\u{1}".into() }.into(),
                Code::IllegalMessagePropertyKey,
                "the key of property cannot contain control character",
            ),
            (
                I::PropertyValue { name: "n".into() }.into(),
                Code::IllegalMessagePropertyKey,
                "the value of property cannot contain control character",
            ),
            (
                I::Tag { tag: " ".into() }.into(),
                Code::IllegalMessageTag,
                "tag cannot be the char sequence of whitespace",
            ),
            (I::Tag { tag: "a|b".into() }.into(), Code::IllegalMessageTag, "tag cannot contain '|'"),
            (
                I::Tag { tag: "a\u{1}".into() }.into(),
                Code::IllegalMessageTag,
                "tag cannot contain control character",
            ),
            (
                I::Key { key: " ".into() }.into(),
                Code::IllegalMessageKey,
                "key cannot be the char sequence of whitespace",
            ),
            (
                I::Group { group: " ".into() }.into(),
                Code::IllegalMessageGroup,
                "message group cannot be the char sequence of whitespace",
            ),
            (
                I::GroupLength { len: 65, limit: 64 }.into(),
                Code::IllegalMessageGroup,
                "message group exceed the max size 64",
            ),
            (I::IdMissing.into(), Code::IllegalMessageId, "message id cannot be empty"),
            (
                I::DelayTooLong { deliver_at: Timestamp(9), delay_ms: 9, limit_ms: 1 }.into(),
                Code::IllegalDeliveryTime,
                "the max delay time of message is too large, max is 1",
            ),
            (NameError::Empty { what: "topic" }.into(), Code::IllegalTopic, "The specified topic is blank"),
            (
                NameError::Reserved { what: "topic", name: "TBW102".into() }.into(),
                Code::IllegalTopic,
                "cannot access system topic",
            ),
            (
                NameError::Reserved { what: "group", name: "TOOLS_CONSUMER".into() }.into(),
                Code::IllegalConsumerGroup,
                "cannot use system consumer group",
            ),
            (SendError::UnknownTopic { topic: topic() }.into(), Code::TopicNotFound, no_topic),
            (PopError::UnknownTopic { topic: topic() }.into(), Code::TopicNotFound, no_topic),
            (OffsetError::UnknownTopic { topic: topic() }.into(), Code::TopicNotFound, no_topic),
            (
                PopError::UnknownGroup { group: group() }.into(),
                Code::ConsumerGroupNotFound,
                "subscription group [g] does not exist",
            ),
            (
                PopError::GroupDisabled { group: group() }.into(),
                Code::Forbidden,
                "subscription group no permission, g",
            ),
            (
                SendError::NotWritable { topic: topic(), permission }.into(),
                Code::Forbidden,
                "no writable queue",
            ),
            (
                PopError::NotReadable { topic: topic(), permission }.into(),
                Code::Forbidden,
                "no readable queue",
            ),
            (
                mismatch.into(),
                Code::MessagePropertyConflictWithType,
                "TopicMessageType validate failed, the expected type is NORMAL, but actual type is FIFO",
            ),
            (AckError::Expired.into(), Code::InvalidReceiptHandle, "receipt handle is expired"),
            (
                AckError::InvisibleTime { value_ms: 2, limit_ms: 1 }.into(),
                Code::IllegalInvisibleTime,
                "the invisibleTime is too large",
            ),
            (Refusal::client_id(), Code::ClientIdRequired, "client id cannot be empty"),
        ];
        for (refusal, code, words) in cases {
            assert_eq!(refusal.code, code, "{words}");
            assert!(refusal.message.contains(words), "{words:?} is not in {:?}", refusal.message);
        }
        let queue = PopError::UnknownQueue { topic: topic(), queue: QueueId(7), queues: 1 };
        assert_eq!(Refusal::from(queue).code, Code::Forbidden);
    }

    #[test]
    fn only_topics_that_users_can_create_are_advised() {
        let advised = |name: &str| {
            let topic = TopicName::new(name).unwrap_or_else(|error| panic!("{error}"));
            Refusal::from(SendError::UnknownTopic { topic }).message.contains("topic create")
        };
        assert!(advised("t") && !advised("%RETRY%g") && !advised("%DLQ%g"));
    }
}
