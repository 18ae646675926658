//! Why a request to the shard failed.

use redstart_engine::{OffsetError, PopError, SendError};

/// The shard did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The request was not taken and has had no effect.
    #[error("too many requests: {what} is at {used}, the limit is {limit}")]
    Overloaded { what: &'static str, used: usize, limit: usize },
    /// The shard ended before it answered. The request may have taken effect.
    #[error("the shard has stopped; whether the request took effect is not known")]
    Stopped,
}

impl Unavailable {
    /// The log refuses frames, and the facts that wait for it fill their memory.
    pub(super) fn log_refuses(used: usize, limit: usize) -> Unavailable {
        let what = "bytes of deliveries and acks that wait for room on the disk";
        Unavailable::Overloaded { what, used, limit }
    }
}

/// A send that did not store its messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    #[error(transparent)]
    Refused(#[from] SendError),
    #[error("the log refused the messages: {0}")]
    Log(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A receive that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Pop(#[from] PopError),
    #[error("the consumer group is for other consumers: its {attribute} is {value}")]
    WrongGroupKind { attribute: &'static str, value: String },
    #[error("the consumer group has not begun in this topic")]
    NotBegun,
    #[error(transparent)]
    Pull(#[from] OffsetError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A change that was refused, or could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<E> {
    #[error(transparent)]
    Refused(E),
    #[error("the log refused the change: {0}")]
    Log(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
