//! The protocol's codes for everything that can be refused. Business errors travel in the body: a gRPC error would
//! make clients believe that the server is broken.

use redstart_engine::{
    AckError, AdminError, ForwardError, InvalidMessage, NameError, OffsetError, PopError, RecallError,
    SendError, TransactionError,
};
use redstart_wire::v2::{Code, Status};

use crate::{
    byte_budget::Spent,
    shard::{ChangeError, ReceiveError, SendFailure, Unavailable},
};

/// A refusal in the protocol's terms.
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
        Refusal::new(Code::ClientIdRequired, "the request has no x-mq-client-id header")
    }

    pub fn status(&self) -> Status {
        Status { code: self.code.into(), message: self.message.clone() }
    }
}

pub(super) fn ok() -> Status {
    Status { code: Code::Ok.into(), message: "OK".to_owned() }
}

/// The status of several entries together: theirs if it is one, else "look at each".
pub(super) fn summary<'a>(mut entries: impl Iterator<Item = Option<&'a Status>>) -> Status {
    let Some(first) = entries.next().flatten() else { return ok() };
    if entries.all(|entry| entry.is_some_and(|entry| entry.code == first.code)) {
        return first.clone();
    }
    Status { code: Code::MultipleResults.into(), message: "entries differ, look at each".to_owned() }
}

fn how_to_create_topic(topic: &str) -> String {
    format!(
        "topic {topic} does not exist; create it with: mqadmin updateTopic -c DefaultCluster -t {topic} -a +message.type=NORMAL"
    )
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
        Refusal::new(code, error.to_string())
    }
}

impl From<InvalidMessage> for Refusal {
    fn from(error: InvalidMessage) -> Self {
        let code = match &error {
            InvalidMessage::BodyTooLarge { .. } | InvalidMessage::BatchTooLarge { .. } => {
                Code::MessageBodyTooLarge
            }
            InvalidMessage::PropertiesTooLarge { .. } | InvalidMessage::TooManyProperties { .. } => {
                Code::MessagePropertiesTooLarge
            }
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
        Refusal::new(code, error.to_string())
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        let message = error.to_string();
        let code = match error {
            SendError::UnknownTopic { topic } => {
                return Refusal::new(Code::TopicNotFound, how_to_create_topic(topic.as_str()));
            }
            SendError::Deleting { .. } => Code::TopicNotFound,
            SendError::Name(error) => return error.into(),
            // Made and gone again while the message was on its way.
            SendError::UnknownLiteTopic { .. } => Code::TooManyRequests,
            SendError::Invalid(error) => return error.into(),
            SendError::NotWritable { .. } | SendError::UnknownQueue { .. } => Code::Forbidden,
            SendError::TypeMismatch { .. } | SendError::BatchDedup => Code::MessagePropertyConflictWithType,
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

impl From<PopError> for Refusal {
    fn from(error: PopError) -> Self {
        let message = error.to_string();
        let code = match error {
            PopError::UnknownTopic { topic } => {
                return Refusal::new(Code::TopicNotFound, how_to_create_topic(topic.as_str()));
            }
            PopError::UnknownGroup { .. } => Code::ConsumerGroupNotFound,
            PopError::GroupDisabled { .. } | PopError::NotReadable { .. } | PopError::UnknownQueue { .. } => {
                Code::Forbidden
            }
            PopError::BatchSize { .. } => Code::BadRequest,
            PopError::InvisibleTime { .. } => Code::IllegalInvisibleTime,
            PopError::Index(_) => Code::InternalServerError,
        };
        Refusal::new(code, message)
    }
}

impl From<OffsetError> for Refusal {
    fn from(error: OffsetError) -> Self {
        let message = error.to_string();
        let code = match error {
            OffsetError::UnknownTopic { topic } => {
                return Refusal::new(Code::TopicNotFound, how_to_create_topic(topic.as_str()));
            }
            OffsetError::UnknownGroup { .. } => Code::ConsumerGroupNotFound,
            OffsetError::NotReadable { .. } | OffsetError::UnknownQueue { .. } => Code::Forbidden,
            OffsetError::Index(_) => Code::InternalServerError,
        };
        Refusal::new(code, message)
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Pop(error) => error.into(),
            ReceiveError::Other { .. } => Refusal::new(Code::IllegalConsumerGroup, error.to_string()),
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
        Refusal::new(code, error.to_string())
    }
}

impl From<ForwardError> for Refusal {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Receipt(error) => error.into(),
            // Clients try again, and by then the topic exists.
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
        Refusal::new(code, error.to_string())
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

impl<E: Into<Refusal>> From<ChangeError<E>> for Refusal {
    fn from(error: ChangeError<E>) -> Self {
        match error {
            ChangeError::Refused(error) => error.into(),
            ChangeError::Log(why) => Refusal::new(Code::TooManyRequests, why),
            ChangeError::Unavailable(error) => error.into(),
        }
    }
}
