//! What becomes of a delivery: acked, given back, or kept for longer.

use std::time::Duration;

use redstart_log::Position;

use super::Engine;
use crate::{
    GroupId, GroupName, QueueId, QueueKey, QueueOffset, Receipt, Timestamp, TopicName,
    index::IndexError,
    planted,
    pop::FlightState,
    record::{AckReason, Fact},
};

/// An ack or a change of invisible time that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    #[error("the receipt names no message of this broker")]
    Unknown,
    #[error("the receipt is no longer valid: its time ran out, or the message was delivered again")]
    Expired,
    #[error("an invisible time of {value_ms} ms, the limit is {limit_ms} ms")]
    InvisibleTime { value_ms: u64, limit_ms: u64 },
}

/// What a change of a delivery's invisible time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvisibleChange {
    /// The consumer keeps the message, under the same receipt.
    Renewed,
    /// The consumer gave the message back: it is a failed attempt.
    GivenBack,
    /// The message was given back, and the delivery does not count as an attempt.
    GivenBackUncounted,
}

impl Engine {
    /// The message is consumed. An ack that comes twice is as good as once.
    pub fn ack(&mut self, receipt: Receipt, now: Timestamp) -> Result<(), AckError> {
        let now = self.advance(now);
        if self.check_receipt(receipt, now)? {
            self.finish(receipt.group, receipt.queue, vec![receipt.offset], AckReason::Consumed);
        }
        Ok(())
    }

    /// Acks each receipt for itself, and logs those of one queue together.
    pub fn ack_batch(&mut self, receipts: &[Receipt], now: Timestamp) -> Vec<Result<(), AckError>> {
        let now = self.advance(now);
        let mut results = Vec::with_capacity(receipts.len());
        let mut run: Vec<QueueOffset> = Vec::new();
        let mut run_of: Option<(GroupId, QueueKey)> = None;
        for receipt in receipts {
            let of = (receipt.group, receipt.queue);
            if run_of != Some(of) {
                self.finish_run(run_of.replace(of), &mut run);
            }
            let result = self.check_receipt(*receipt, now);
            if result == Ok(true) && !run.contains(&receipt.offset) {
                run.push(receipt.offset);
            }
            results.push(result.map(|_| ()));
        }
        self.finish_run(run_of, &mut run);
        results
    }

    fn finish_run(&mut self, of: Option<(GroupId, QueueKey)>, run: &mut Vec<QueueOffset>) {
        if let (Some((group, queue)), false) = (of, run.is_empty()) {
            self.finish(group, queue, std::mem::take(run), AckReason::Consumed);
        }
    }

    pub(super) fn finish(
        &mut self,
        group: GroupId,
        queue: QueueKey,
        offsets: Vec<QueueOffset>,
        reason: AckReason,
    ) {
        self.record(&Fact::Ack { group, queue, reason, offsets });
    }

    /// Where the message of a delivery is stored; `None` when it is not listed any more.
    pub fn place_of_delivery(&self, receipt: Receipt) -> Result<Option<(Position, u32)>, IndexError> {
        let key = receipt.queue;
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Ok(None);
        };
        let entry = self.indexes.entry(key, queue, receipt.offset)?;
        Ok(entry.map(|entry| (entry.position, entry.size)))
    }

    /// Whether the receipt's message is still in flight under it; `false` when it is done already.
    pub(super) fn check_receipt(&self, receipt: Receipt, now: Timestamp) -> Result<bool, AckError> {
        let Some(progress) = self.state.progress(receipt.group, receipt.queue) else {
            return Err(AckError::Unknown);
        };
        match progress.flight(receipt.offset) {
            Some(flight) => {
                let current = flight.seq == receipt.seq
                    && flight.visible_at > now
                    && !self.speculation.dying.contains(receipt.flight());
                if current { Ok(true) } else { Err(AckError::Expired) }
            }
            None if progress.is_done(receipt.offset) => Ok(false),
            None => Err(AckError::Unknown),
        }
    }

    /// Whether the receipt is of the message's latest delivery, be its time over or not.
    pub(super) fn check_current(&self, receipt: Receipt) -> Result<(), AckError> {
        let Some(progress) = self.state.progress(receipt.group, receipt.queue) else {
            return Err(AckError::Unknown);
        };
        match progress.flight(receipt.offset) {
            Some(flight)
                if flight.seq == receipt.seq
                    && flight.state == FlightState::WithConsumer
                    && !self.speculation.dying.contains(receipt.flight()) =>
            {
                Ok(())
            }
            Some(_) => Err(AckError::Expired),
            None if progress.is_done(receipt.offset) => Err(AckError::Expired),
            None => Err(AckError::Unknown),
        }
    }

    /// The receipt of a delivery that is known by its place and by when its time is out: all that a 4.x client says of
    /// it. A later delivery of the same message ends later.
    pub fn receipt_of(
        &self,
        group: &GroupName,
        topic: &TopicName,
        queue: QueueId,
        offset: QueueOffset,
        visible_at: Timestamp,
    ) -> Option<Receipt> {
        let (group, queue) = (self.group_id(group)?, self.queue_key(topic, queue)?);
        let flight = self.state.progress(group, queue)?.flight(offset)?;
        let receipt = Receipt { group, queue, offset, seq: flight.seq };
        (flight.visible_at == visible_at).then_some(receipt)
    }

    /// When a message in flight becomes visible again.
    pub fn visible_at(&self, receipt: Receipt) -> Option<Timestamp> {
        let flight = self.state.progress(receipt.group, receipt.queue)?.flight(receipt.offset)?;
        Some(flight.visible_at)
    }

    /// How often a message in flight has been delivered, the current delivery included.
    pub fn attempts(&self, receipt: Receipt) -> Option<u16> {
        Some(self.state.progress(receipt.group, receipt.queue)?.flight(receipt.offset)?.attempt)
    }

    /// Makes the message visible again after `delay` from now. The new receipt replaces the old one.
    pub fn change_invisible(
        &mut self,
        receipt: Receipt,
        delay: Duration,
        now: Timestamp,
    ) -> Result<Receipt, AckError> {
        let now = self.advance(now);
        self.check_invisible(delay)?;
        self.reschedule(receipt, delay, InvisibleChange::GivenBack, now)
    }

    /// Pauses the queue's delivery for `delay`: the message comes again then, and this delivery does not count as an
    /// attempt. The new receipt replaces the old one.
    pub fn suspend(
        &mut self,
        receipt: Receipt,
        delay: Duration,
        now: Timestamp,
    ) -> Result<Receipt, AckError> {
        let now = self.advance(now);
        self.check_invisible(delay)?;
        self.reschedule(receipt, delay, InvisibleChange::GivenBackUncounted, now)
    }

    /// Takes deliveries back that did not reach their consumer: none counts as an attempt, and each message is visible to
    /// the group after `delay`, at once when that is zero. A delivery whose time ran out without another one is taken back
    /// as well. Each receipt is answered for itself, with the one that replaces it.
    pub fn give_back(
        &mut self,
        receipts: &[Receipt],
        delay: Duration,
        now: Timestamp,
    ) -> Vec<Result<Receipt, AckError>> {
        let now = self.advance(now);
        let delay = delay.min(self.config.limits.invisible_max);
        if planted::acks_given_back(&self.config) {
            return receipts.iter().map(|receipt| self.ack(*receipt, now).map(|()| *receipt)).collect();
        }
        let mut given_back = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            let current = self.check_current(*receipt);
            given_back.push(
                current
                    .map(|()| self.set_invisible(*receipt, delay, InvisibleChange::GivenBackUncounted, now)),
            );
        }
        given_back
    }

    fn check_invisible(&self, time: Duration) -> Result<(), AckError> {
        let limit = self.config.limits.invisible_max;
        if time > limit {
            return Err(AckError::InvisibleTime {
                value_ms: time.as_millis() as u64,
                limit_ms: limit.as_millis() as u64,
            });
        }
        Ok(())
    }

    /// The consumer is still at work: the message stays its own for `time` more, under the same receipt.
    pub fn renew(&mut self, receipt: Receipt, time: Duration, now: Timestamp) -> Result<(), AckError> {
        let now = self.advance(now);
        self.check_invisible(time)?;
        self.reschedule(receipt, time, InvisibleChange::Renewed, now).map(|_| ())
    }

    fn reschedule(
        &mut self,
        receipt: Receipt,
        delay: Duration,
        change: InvisibleChange,
        now: Timestamp,
    ) -> Result<Receipt, AckError> {
        if !self.check_receipt(receipt, now)? {
            return Err(AckError::Expired);
        }
        Ok(self.set_invisible(receipt, delay, change, now))
    }

    /// Changes the time of a delivery that was checked.
    fn set_invisible(
        &mut self,
        receipt: Receipt,
        delay: Duration,
        change: InvisibleChange,
        now: Timestamp,
    ) -> Receipt {
        let given_back = change != InvisibleChange::Renewed;
        let next = self.state.progress(receipt.group, receipt.queue).map_or(0, |progress| progress.seq);
        let seq = if given_back { next.max(self.receipts_from) } else { receipt.seq };
        self.record(&Fact::Invisible {
            group: receipt.group,
            queue: receipt.queue,
            offset: receipt.offset,
            seq,
            visible_at: now.after(delay),
            given_back,
            uncounted: change == InvisibleChange::GivenBackUncounted,
        });
        Receipt { seq, ..receipt }
    }
}
