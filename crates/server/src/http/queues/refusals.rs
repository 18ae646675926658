//! Maps every error of the broker to a status and a code.

use http::StatusCode;
use redstart_engine::{
    AckError, AdminError, ForwardError, GroupName, InvalidMessage, NameError, PopError, RecallError,
    SendError, SettingError, TopicName,
};

use super::super::refusal::Refusal;
use crate::{
    byte_budget::Spent,
    scope::{ScopeError, ScopedError},
    shard::{ChangeError, ReceiveError, SendFailure, Unavailable},
    shards::CatalogueRefusal,
    user_properties::RefusedProperties,
};

fn not_found(code: &'static str, message: String) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, code, message)
}

fn conflict(code: &'static str, message: String) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, code, message)
}

fn failed(message: String) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
}

pub(super) fn unknown_topic(topic: &TopicName) -> Refusal {
    let refusal = not_found("topic_not_found", format!("topic {topic} does not exist"));
    // Operators cannot create reserved topics.
    match topic.is_reserved() {
        true => refusal,
        false => refusal.hint(format!("create it with: redstart topic create {topic}")),
    }
}

pub(super) fn unknown_group(group: &GroupName) -> Refusal {
    let refusal = not_found("group_not_found", format!("consumer group {group} does not exist"));
    refusal.hint(format!("create it with: redstart group create {group}"))
}

/// A handle that no broker with this key has made.
pub(super) fn unknown_handle() -> Refusal {
    Refusal::bad("bad_handle", "the handle was not made by this broker")
}

impl From<Spent> for Refusal {
    fn from(spent: Spent) -> Self {
        Refusal::busy(spent.to_string())
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        match &error {
            Unavailable::Overloaded { .. } => Refusal::busy(error.to_string()),
            Unavailable::Stopped => {
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", error.to_string())
            }
        }
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        match &error {
            NameError::Reserved { .. } => {
                Refusal::new(StatusCode::FORBIDDEN, "reserved_name", error.to_string())
            }
            NameError::Empty { .. }
            | NameError::TooLong { .. }
            | NameError::Character { .. }
            | NameError::LiteCharacter { .. } => Refusal::bad("bad_name", error.to_string()),
        }
    }
}

impl From<RefusedProperties> for Refusal {
    fn from(error: RefusedProperties) -> Self {
        Refusal::bad("bad_property", error.to_string())
    }
}

impl From<InvalidMessage> for Refusal {
    fn from(error: InvalidMessage) -> Self {
        let why = error.to_string();
        match error {
            InvalidMessage::BodyTooLarge { .. } | InvalidMessage::BatchTooLarge { .. } => {
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", why)
            }
            InvalidMessage::PropertiesTooLarge { .. }
            | InvalidMessage::PropertyName { .. }
            | InvalidMessage::PropertyValue { .. } => Refusal::bad("bad_property", why),
            InvalidMessage::DelayTooLong { .. } => Refusal::bad("delay_too_long", why),
            InvalidMessage::Tag { .. }
            | InvalidMessage::Key { .. }
            | InvalidMessage::Group { .. }
            | InvalidMessage::GroupLength { .. }
            | InvalidMessage::IdMissing
            | InvalidMessage::IdTooLong { .. } => Refusal::bad("bad_message", why),
            InvalidMessage::BatchCount { .. }
            | InvalidMessage::BatchMixed { .. }
            | InvalidMessage::BatchType { .. }
            | InvalidMessage::BatchLiteTopics { .. } => Refusal::bad("bad_batch", why),
        }
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        let why = error.to_string();
        match error {
            SendError::UnknownTopic { topic } => unknown_topic(&topic),
            SendError::Deleting { .. } | SendError::UnknownLiteTopic { .. } => {
                not_found("topic_not_found", why)
            }
            SendError::Name(error) => error.into(),
            SendError::Invalid(error) => error.into(),
            SendError::NotWritable { .. } | SendError::UnknownQueue { .. } => {
                Refusal::new(StatusCode::FORBIDDEN, "topic_not_writable", why)
            }
            SendError::TypeMismatch { .. } => conflict("type_mismatch", why),
            SendError::BatchDedup => Refusal::bad("bad_batch", why),
            SendError::FirstUnread { .. } => failed(why),
            SendError::TooMany { .. } | SendError::DiskFull { .. } | SendError::NoRoom { .. } => {
                Refusal::busy(why)
            }
        }
    }
}

impl From<SendFailure> for Refusal {
    fn from(error: SendFailure) -> Self {
        match error {
            SendFailure::Refused(error) => error.into(),
            SendFailure::Log(why) => Refusal::busy(why),
            SendFailure::Unavailable(error) => error.into(),
        }
    }
}

impl From<PopError> for Refusal {
    fn from(error: PopError) -> Self {
        let why = error.to_string();
        match error {
            PopError::UnknownTopic { topic } => unknown_topic(&topic),
            PopError::UnknownGroup { group } => unknown_group(&group),
            PopError::GroupDisabled { .. } => Refusal::new(StatusCode::FORBIDDEN, "group_disabled", why),
            PopError::NotReadable { .. } | PopError::UnknownQueue { .. } => {
                Refusal::new(StatusCode::FORBIDDEN, "topic_not_readable", why)
            }
            PopError::BatchSize { .. } | PopError::InvisibleTime { .. } => Refusal::bad("out_of_range", why),
            PopError::Index(_) => failed(why),
        }
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Pop(error) => error.into(),
            ReceiveError::WrongGroupKind { .. } => conflict("lite_group", error.to_string()),
            // A receive whose group has not begun begins it, and is not answered before.
            ReceiveError::NotBegun => failed(error.to_string()),
            // Nothing here pulls.
            ReceiveError::Pull(error) => failed(error.to_string()),
            ReceiveError::Unavailable(error) => error.into(),
        }
    }
}

impl From<AckError> for Refusal {
    fn from(error: AckError) -> Self {
        let why = error.to_string();
        match error {
            AckError::Unknown => Refusal::bad("bad_handle", why),
            AckError::Expired => Refusal::new(StatusCode::GONE, "handle_expired", why),
            AckError::InvisibleTime { .. } => Refusal::bad("out_of_range", why),
        }
    }
}

impl From<ForwardError> for Refusal {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Receipt(error) => error.into(),
            ForwardError::NoTopic { .. } | ForwardError::Later => Refusal::busy(error.to_string()),
            ForwardError::Unreadable => Refusal::new(StatusCode::GONE, "handle_expired", error.to_string()),
        }
    }
}

impl From<RecallError> for Refusal {
    fn from(error: RecallError) -> Self {
        let why = error.to_string();
        match error {
            RecallError::Delivered { .. } => Refusal::new(StatusCode::GONE, "already_delivered", why),
            RecallError::Unknown => not_found("message_not_found", why),
        }
    }
}

impl From<ScopeError> for Refusal {
    fn from(error: ScopeError) -> Self {
        match error {
            ScopeError::UnknownTopic { topic } => unknown_topic(&topic),
            ScopeError::OtherDelivery { .. } | ScopeError::OtherTopic { .. } => {
                Refusal::bad("bad_handle", error.to_string())
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

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        let why = error.to_string();
        match error {
            AdminError::Name(error) => error.into(),
            AdminError::Topic(_) | AdminError::Group(_) => Refusal::bad("bad_setting", why),
            AdminError::UnknownTopic { .. } => not_found("topic_not_found", why),
            AdminError::UnknownGroup { .. } => not_found("group_not_found", why),
            AdminError::Creating { .. } | AdminError::Deleting { .. } | AdminError::TooMany { .. } => {
                Refusal::busy(why)
            }
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

impl From<SettingError> for Refusal {
    fn from(error: SettingError) -> Self {
        failed(error.to_string())
    }
}

impl<E: Into<Refusal>> From<ChangeError<E>> for Refusal {
    fn from(error: ChangeError<E>) -> Self {
        match error {
            ChangeError::Refused(error) => error.into(),
            ChangeError::Log(why) => Refusal::busy(why),
            ChangeError::Unavailable(error) => error.into(),
        }
    }
}
