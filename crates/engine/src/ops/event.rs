//! Events that no caller waits for, noted for counters and the log.

use std::time::Duration;

use redstart_log::Position;

use super::Engine;
use crate::{
    GroupId, Loss, QueueKey, QueueOffset, Timestamp, TopicId,
    record::{Cause, Decision, Placement, Stored, TransactionEnd},
};

/// Events kept until the owner takes them; further ones are not noted.
const EVENTS_MAX: usize = 1 << 20;

/// Something that has taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message is stored and becomes visible when it is due.
    Delayed {
        topic: TopicId,
        delay: Duration,
    },
    /// A delayed message became visible.
    Due {
        topic: TopicId,
    },
    /// The half message of a transaction is committed.
    Committed {
        topic: TopicId,
        open_for: Duration,
    },
    RolledBack {
        topic: TopicId,
    },
    /// A message of this topic went to the group's dead-letter topic.
    DeadLettered {
        group: GroupId,
        topic: TopicId,
    },
    /// A message is proven to be lost, and is done for the group.
    PassedOver {
        group: GroupId,
        queue: QueueKey,
        offset: QueueOffset,
        position: Position,
        loss: Loss,
    },
}

impl Engine {
    /// The events since the last call; empties the list.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Notes the events of a decision that is about to be applied: the state still has the transaction that it ends.
    pub(super) fn note_events(&mut self, decision: &Decision, at: Timestamp) {
        match decision {
            Decision::Stored(stored) => self.note_stored(stored),
            Decision::Link(links) => {
                for link in links {
                    self.note_event(Event::Due { topic: link.queue.topic });
                }
            }
            Decision::SendBack { due, message, .. } => {
                self.note_event(Event::Delayed { topic: message.queue.topic, delay: due.since(at) });
            }
            Decision::TransactionEnd { id, end } => {
                let Some(half) = self.state.transactions.get(*id) else { return };
                let (topic, open_for) = (half.message.queue.topic, at.since(half.opened_at));
                self.note_event(match end {
                    TransactionEnd::Rollback => Event::RolledBack { topic },
                    _ => Event::Committed { topic, open_for },
                });
                if let TransactionEnd::Delayed { due, .. } = end {
                    self.note_event(Event::Delayed { topic, delay: due.since(at) });
                }
            }
            _ => {}
        }
    }

    fn note_stored(&mut self, stored: &Stored) {
        match (stored.cause, stored.placement) {
            // The message is the same, only its body has moved.
            (Cause::Relocated { .. }, _) => {}
            (Cause::DeadLetter { flight, .. }, _) => {
                self.note_event(Event::DeadLettered { group: flight.group, topic: flight.queue.topic });
            }
            (_, Placement::Delayed) => {
                let delay = stored.deliver_at.unwrap_or_default().since(stored.stored_at);
                self.note_event(Event::Delayed { topic: stored.queue.topic, delay });
            }
            _ => {}
        }
    }

    pub(super) fn note_event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }
}
