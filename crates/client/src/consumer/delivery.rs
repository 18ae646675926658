//! A message that a consumer has, and the ways to settle it.

use std::{ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    SettleError,
    core::Core,
    lease::{Held, Lease},
};
use crate::{Received, ReplyError};

/// A message that this consumer has for a while, and must settle: acknowledge it, have it come again, or give it up.
///
/// It is owned: it can be moved into other tasks and settled there. A delivery that is dropped without being settled, by a panic, a
/// `?` or a cancelled `select!`, comes again as if [`retry`](Delivery::retry) had been called.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes again"]
pub struct Delivery {
    received: Received,
    settle: Settle,
}

/// What settles a delivery whose message is elsewhere.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes again"]
pub struct Settle {
    core: Arc<Core>,
    held: Arc<Held>,
    number: u64,
    settled: bool,
}

impl Deref for Delivery {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

impl Delivery {
    pub(super) fn new(core: &Arc<Core>, received: Received, held: Arc<Held>) -> Delivery {
        let number = core.leases.add(&held);
        Delivery { received, settle: Settle { core: core.clone(), held, number, settled: false } }
    }

    /// The message is done. Returns when the server has answered.
    pub async fn ack(self) -> Result<(), SettleError> {
        self.settle.ack().await
    }

    /// The message is done. The server is told together with others, soon; whether it has heard it is not known.
    pub fn ack_later(self) {
        self.settle.ack_later();
    }

    /// The message comes again, when the consumer's retry policy says.
    pub async fn retry(self) -> Result<(), SettleError> {
        self.settle.retry().await
    }

    /// The message comes again after this time.
    pub async fn retry_after(self, wait: Duration) -> Result<(), SettleError> {
        self.settle.retry_after(wait).await
    }

    /// The message is given up: it goes to the group's dead letters, with the reason where the server keeps one.
    pub async fn dead_letter(self, reason: &str) -> Result<(), SettleError> {
        self.settle.dead_letter(reason).await
    }

    /// Answers a request: the producer that [waits](crate::Requester) gets the body. The message is to be settled all the same.
    pub async fn reply(&self, body: impl Into<Bytes>) -> Result<(), ReplyError> {
        self.settle.core.reply(&self.received, body.into()).await
    }

    /// Keeps the message for this long from now.
    pub async fn extend(&mut self, time: Duration) -> Result<(), SettleError> {
        self.settle.extend(time).await
    }

    /// Whether and when the delivery's time is over.
    pub fn lease(&self) -> Lease {
        self.settle.lease()
    }

    /// The message, and what settles it.
    pub fn into_parts(self) -> (Received, Settle) {
        (self.received, self.settle)
    }

    pub(super) fn held(&self) -> &Arc<Held> {
        &self.settle.held
    }
}

impl Settle {
    /// See [`Delivery::ack`].
    pub async fn ack(mut self) -> Result<(), SettleError> {
        let result = self.core.ack(&self.held).await;
        self.finish(result)
    }

    /// See [`Delivery::ack_later`].
    pub fn ack_later(mut self) {
        self.settled = true;
        self.core.ack_later(self.held.clone(), self.number);
    }

    /// See [`Delivery::retry`].
    pub async fn retry(self) -> Result<(), SettleError> {
        let wait = self.core.retry_wait(self.held.attempt);
        self.retry_after(wait).await
    }

    /// See [`Delivery::retry_after`].
    pub async fn retry_after(mut self, wait: Duration) -> Result<(), SettleError> {
        let result = self.core.retry(&self.held, wait).await;
        self.finish(result)
    }

    /// See [`Delivery::dead_letter`].
    pub async fn dead_letter(mut self, reason: &str) -> Result<(), SettleError> {
        let result = self.core.dead_letter(&self.held, reason).await;
        self.finish(result)
    }

    /// See [`Delivery::extend`].
    pub async fn extend(&mut self, time: Duration) -> Result<(), SettleError> {
        self.core.renew(&self.held, time).await
    }

    /// See [`Delivery::lease`].
    pub fn lease(&self) -> Lease {
        self.held.lease()
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// The message was not begun: others may have it at once.
    pub(super) fn give_back(mut self) {
        self.settled = true;
        self.core.give_back_one(self.held.clone(), self.number);
    }

    /// A settlement that failed is over as well: the message comes again when its time is over.
    pub(super) fn finish(&mut self, result: Result<(), SettleError>) -> Result<(), SettleError> {
        self.settled = true;
        self.core.settled(self.number, &self.held, &result);
        result
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        if !self.settled {
            self.core.dropped(self.held.clone(), self.number);
        }
    }
}
