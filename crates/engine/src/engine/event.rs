//! What took effect without anybody waiting for it, for those who count.

use std::time::Duration;

use redstart_log::Position;

use super::Engine;
use crate::{
    GroupId, Loss, QueueKey, QueueOffset, Timestamp, TopicId,
    record::{Cause, Decision, Placement, Stored, TransactionEnd},
};

/// Events held for whoever takes them; past it further ones are not noted.
const EVENTS_MAX: usize = 1 << 20;

/// Something that has taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message is held until it is due.
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
    /// A message of this topic went to the group's dead letters.
    Buried {
        group: GroupId,
        topic: TopicId,
    },
    /// A message is proven to be lost, and the group goes on without it.
    PassedOver {
        group: GroupId,
        queue: QueueKey,
        offset: QueueOffset,
        position: Position,
        loss: Loss,
    },
}

impl Engine {
    /// What has happened since the last time; empties the list.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Notes what a decision is about to change. An open transaction is known until then.
    pub(super) fn note_events(&mut self, decision: &Decision, at: Timestamp) {
        match decision {
            Decision::Stored(stored) => self.note_stored(stored),
            Decision::Link(links) => {
                for link in links {
                    self.note_event(Event::Due { topic: link.queue.topic });
                }
            }
            Decision::SendBack { due, timer, .. } => {
                self.note_event(Event::Delayed { topic: timer.queue.topic, delay: due.since(at) });
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
            (Cause::DeadLetter { group, queue, .. }, _) => {
                self.note_event(Event::Buried { group, topic: queue.topic });
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
