//! Messages that are proven to be lost: passed over, counted and reported.

use super::{AckError, Engine, Event};
use crate::{
    Receipt,
    pop::FlightKey,
    record::{AckReason, Loss, Proof},
};

/// Messages passed over since the start, once for each group that did not get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassedOver {
    pub damaged: u64,
    pub removed: u64,
}

impl PassedOver {
    fn add(&mut self, loss: Loss) {
        match loss {
            Loss::Damaged => self.damaged += 1,
            Loss::Removed => self.removed += 1,
        }
    }
}

impl Engine {
    /// A delivered message is proven to be lost: it counts as done for the group, or it would be delivered for ever. The
    /// receipt must be of the latest delivery, and the proof of its message.
    pub fn pass_over(&mut self, receipt: Receipt, proof: Proof) -> Result<(), AckError> {
        self.check_current(receipt)?;
        let flight = receipt.flight();
        let FlightKey { queue: key, offset, .. } = flight;
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        // An index that cannot be read now does not make the proof void.
        let entry = queue.and_then(|queue| self.indexes.entry(key, queue, offset).ok().flatten());
        if entry.is_some_and(|entry| entry.position != proof.position()) {
            return Err(AckError::Unknown);
        }
        self.lose(flight, proof);
        Ok(())
    }

    /// Ends a message in flight that is proven to be lost.
    pub(super) fn lose(&mut self, flight: FlightKey, proof: Proof) {
        self.finish(flight.group, flight.queue, vec![flight.offset], AckReason::Unreadable);
        self.note_passed_over(flight, proof);
    }

    pub(super) fn note_passed_over(&mut self, flight: FlightKey, proof: Proof) {
        let FlightKey { group, queue, offset } = flight;
        self.passed_over.add(proof.loss());
        let (position, loss) = (proof.position(), proof.loss());
        self.note_event(Event::PassedOver { group, queue, offset, position, loss });
    }

    /// How many messages were passed over, and why.
    pub fn passed_over(&self) -> PassedOver {
        self.passed_over
    }
}
