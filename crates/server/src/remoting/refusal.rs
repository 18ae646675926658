//! The protocol's codes for everything that can be refused.

use redstart_engine::{
    AckError, AdminError, FetchError, InvalidMessage, NameError, OffsetError, PopError, QueryError,
    RecallError, SendBackError, SendError, SettingError, TopicName, TransactionError, UnknownMessageType,
};
use redstart_wire::remoting::{BatchError, FieldError, TooLong, body::RegistrationError, code};

use crate::{
    byte_budget::Spent,
    shard::{ChangeError, ReceiveError, SendFailure, Unavailable},
};

/// A refusal in the protocol's terms.
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

    /// Past a limit: official clients back off and try again.
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
        let mut why = format!("topic {topic} does not exist");
        // Those of the broker cannot be created by hand.
        if !TopicName::new(topic).is_ok_and(|topic| topic.is_reserved()) {
            why += &format!("; create it with: mqadmin updateTopic -c DefaultCluster -t {topic}");
        }
        Refusal::new(code::TOPIC_NOT_EXIST, why)
    }

    pub fn unknown_group(group: &str) -> Refusal {
        let why = format!("consumer group {group} does not exist");
        Refusal::new(code::SUBSCRIPTION_GROUP_NOT_EXIST, why)
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
    NameError => INVALID_PARAMETER,
    serde_json::Error => INVALID_PARAMETER,
    UnknownMessageType => INVALID_PARAMETER,
    AdminError => INVALID_PARAMETER,
    SettingError => INVALID_PARAMETER,
    InvalidMessage => MESSAGE_ILLEGAL,
    BatchError => MESSAGE_ILLEGAL,
    RegistrationError => INVALID_PARAMETER,
    TooLong => SYSTEM_ERROR,
    RecallError => ILLEGAL_OPERATION,
    TransactionError => SYSTEM_ERROR,
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
        let remark = error.to_string();
        let code = match error {
            SendError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            SendError::Deleting { .. } => code::TOPIC_NOT_EXIST,
            SendError::Name(error) => return error.into(),
            SendError::Invalid(error) => return error.into(),
            SendError::UnknownLiteTopic { .. } => code::TOPIC_NOT_EXIST,
            SendError::NotWritable { .. } => code::NO_PERMISSION,
            SendError::UnknownQueue { .. } => code::INVALID_PARAMETER,
            SendError::TypeMismatch { .. } | SendError::BatchDedup => code::MESSAGE_ILLEGAL,
            SendError::TooMany { .. } => code::SYSTEM_BUSY,
            SendError::FirstUnread { .. } => code::SYSTEM_ERROR,
            SendError::DiskFull { .. } | SendError::NoRoom { .. } => code::SERVICE_NOT_AVAILABLE,
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
        let remark = error.to_string();
        let code = match error {
            OffsetError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            OffsetError::UnknownGroup { group } => return Refusal::unknown_group(group.as_str()),
            OffsetError::NotReadable { .. } => code::NO_PERMISSION,
            OffsetError::UnknownQueue { .. } => code::INVALID_PARAMETER,
            OffsetError::Index(_) => code::SYSTEM_ERROR,
        };
        Refusal::new(code, remark)
    }
}

impl From<PopError> for Refusal {
    fn from(error: PopError) -> Self {
        let remark = error.to_string();
        let code = match error {
            PopError::UnknownTopic { topic } => return Refusal::unknown_topic(topic.as_str()),
            PopError::UnknownGroup { group } => return Refusal::unknown_group(group.as_str()),
            PopError::GroupDisabled { .. } | PopError::NotReadable { .. } => code::NO_PERMISSION,
            PopError::UnknownQueue { .. } | PopError::BatchSize { .. } | PopError::InvisibleTime { .. } => {
                code::INVALID_PARAMETER
            }
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
        Refusal::new(code, error.to_string())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::UnknownTopic { topic } => Refusal::unknown_topic(topic.as_str()),
            QueryError::Send(error) => error.into(),
            QueryError::UnknownOffset { .. }
            | QueryError::UnknownPosition { .. }
            | QueryError::NoOrigin
            | QueryError::Index(_)
            | QueryError::Fetch(_) => Refusal::new(code::SYSTEM_ERROR, error.to_string()),
        }
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Pop(error) => error.into(),
            ReceiveError::Other { .. } => Refusal::new(code::NO_PERMISSION, error.to_string()),
            ReceiveError::Pull(error) => error.into(),
            ReceiveError::Unavailable(error) => error.into(),
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
