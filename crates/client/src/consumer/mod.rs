//! Receiving messages and settling them.

mod batch;
mod core;
mod delivery;
mod lease;
mod receiver;
mod retry;
mod schedule;
mod source;
mod worker;

use std::ops::AddAssign;

pub use self::{
    batch::{Batch, BatchPolicy},
    delivery::{Delivery, Settle},
    lease::Lease,
    receiver::{Receiver, ReceiverBuilder},
    retry::RetryPolicy,
    worker::{Job, Outcome, Worker, WorkerBuilder},
};
pub(crate) use self::{schedule::Schedule, source::check_topics, worker::guarded};
use crate::CallError;

/// What a shutdown left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Messages that were sent, or settled by the application, since the start.
    pub finished: u64,
    /// Messages that were fetched and not begun: they are visible to other consumers again.
    pub returned: u64,
    /// Messages whose sends or handlers were not done in time. Consumed ones come again when their invisible time is over.
    pub abandoned: u64,
}

impl AddAssign for ShutdownReport {
    fn add_assign(&mut self, other: ShutdownReport) {
        self.finished += other.finished;
        self.returned += other.returned;
        self.abandoned += other.abandoned;
    }
}

/// What a consumer has done since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConsumerCounters {
    /// Messages that came.
    pub received: u64,
    /// Messages that are done.
    pub acked: u64,
    /// Messages that will come again because a handler failed or the application said so.
    pub retried: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
    /// Deliveries that were dropped without being settled. They count as retried as well.
    pub dropped: u64,
    /// Invisible times that were extended.
    pub renewed: u64,
    /// Deliveries whose invisible time ended, or that another delivery replaced, before they were settled.
    pub lost: u64,
    /// Requests that were not processed because their producers had stopped waiting. They count as acked as well.
    pub expired: u64,
}

/// Why a consumer gets no messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A server says no, and another try would not help: the group, the topic, the expression or the user is not what it takes.
    #[error(transparent)]
    Refused(CallError),
    /// The consumer has been shut down.
    #[error("the consumer has been shut down")]
    ShutDown,
}

/// Why a delivery was not settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The delivery's time is over: the message has come again, or will.
    #[error("the delivery is no longer this consumer's: {0}")]
    Lost(CallError),
    /// The server could not be told.
    #[error(transparent)]
    Call(CallError),
}

impl SettleError {
    pub(crate) fn of(error: CallError) -> SettleError {
        if error.code().is_some_and(crate::ServerCode::is_lost_receipt) {
            SettleError::Lost(error)
        } else {
            SettleError::Call(error)
        }
    }

    /// Whether the server may have done it all the same.
    pub fn may_have_happened(&self) -> bool {
        match self {
            SettleError::Lost(_) => false,
            SettleError::Call(error) => error.may_have_happened(),
        }
    }
}
