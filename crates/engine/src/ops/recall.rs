use redstart_log::Position;

use super::Engine;
use crate::{Ticket, Timestamp, record::Decision, speculation::TimerEnd, timer::TimerKey};

/// A recall that did not cancel anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecallError {
    #[error("the message was due at {due} and has been delivered")]
    Delivered { due: Timestamp },
    #[error("no delayed message is known by this handle")]
    Unknown,
}

impl Engine {
    /// Where a delayed message is stored that is not yet due.
    pub fn delayed(&self, key: TimerKey) -> Option<(Position, u32)> {
        self.state.timers.get(key).map(|message| (message.position, message.size))
    }

    /// Cancels a delayed message by the key of its receipt.
    pub fn recall(&mut self, key: TimerKey, now: Timestamp) -> Result<Ticket, RecallError> {
        let now = self.advance(now);
        match self.state.timers.get(key).map(|_| self.speculation.timers.get(key)) {
            Some(None) => {
                self.speculation.timers.propose_recall(key);
                let ticket = self.ticket();
                self.propose(Some(ticket), Decision::Recall { key });
                Ok(ticket)
            }
            Some(Some(TimerEnd::Recall)) => Err(RecallError::Unknown),
            Some(Some(TimerEnd::Fire)) => Err(RecallError::Delivered { due: key.due }),
            None if key.due <= now => Err(RecallError::Delivered { due: key.due }),
            None => Err(RecallError::Unknown),
        }
    }
}
