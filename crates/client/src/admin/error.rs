use redstart_wire::remoting::{FieldError, code};

use crate::connection;

/// Why an operator's request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no name server at {address} ({why})")]
    NoNameServer { address: String, why: String },
    #[error("no broker at {address} ({why})")]
    NoBroker { address: String, why: String },
    /// It was there, and then no answer came: whether the request took effect is unknown.
    #[error(transparent)]
    Connection(connection::Error),
    #[error("{address} refused: {remark} (code {code})")]
    Refused { address: String, request: i32, code: i32, remark: String },
    #[error("there is no topic {topic}")]
    UnknownTopic { topic: String },
    #[error("there is no consumer group {group}")]
    UnknownGroup { group: String },
    #[error("there is no cluster {name}; there {}", listed(.known))]
    UnknownCluster { name: String, known: Vec<String> },
    #[error("there is no broker {name}; there {}", listed(.known))]
    UnknownBroker { name: String, known: Vec<String> },
    #[error("the name server at {address} knows no broker")]
    NoBrokers { address: String },
    #[error("consumer group {group} has no consumer online")]
    NotOnline { group: String },
    #[error("topic {topic} has no queue that can be written to")]
    NotWritable { topic: String },
    #[error("{id:?} is no id of a message: it needs 32 hexadecimal digits (56 for an IPv6 host)")]
    MessageId { id: String },
    #[error("there is no message {what}")]
    NoMessage { what: String },
    #[error("{address} answered request {request} with something else: {why}")]
    Malformed { address: String, request: i32, why: String },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "is none".to_owned(),
        [one] => format!("is only {one}"),
        many => format!("are {}", many.join(", ")),
    }
}

impl Error {
    /// The code of a server that answered and said no.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            Error::UnknownTopic { .. } => Some(code::TOPIC_NOT_EXIST),
            Error::UnknownGroup { .. } => Some(code::SUBSCRIPTION_GROUP_NOT_EXIST),
            Error::NotOnline { .. } => Some(code::CONSUMER_NOT_ONLINE),
            _ => None,
        }
    }

    /// Gives a refusal the name of the topic that it is about.
    pub(super) fn about_topic(self, topic: &str) -> Error {
        match self.code() {
            Some(code::TOPIC_NOT_EXIST) => Error::UnknownTopic { topic: topic.to_owned() },
            _ => self,
        }
    }

    /// The same for a consumer group.
    pub(super) fn about_group(self, group: &str) -> Error {
        let group = group.to_owned();
        match self.code() {
            Some(code::SUBSCRIPTION_GROUP_NOT_EXIST) => Error::UnknownGroup { group },
            Some(code::CONSUMER_NOT_ONLINE) => Error::NotOnline { group },
            _ => self,
        }
    }

    pub(super) fn field(address: &str, request: i32, error: &FieldError) -> Error {
        Error::Malformed { address: address.to_owned(), request, why: error.to_string() }
    }
}
