//! What happened to a message, read back from the log.

use std::sync::Arc;

use redstart_log::{Position, ReadError, Reader, SegmentInfo};
use rustc_hash::FxHashMap;

use super::Engine;
use crate::{
    GroupId, GroupName, QueueKey, QueueOffset, Timestamp,
    codec::Malformed,
    record::{AckReason, Cause, Decision, Fact, Placement, Record, TransactionEnd, decode_payload},
};

/// A search through the log for one message. Needs nothing of the engine: run it on any thread.
pub struct Trace {
    reader: Arc<dyn Reader>,
    segments: Vec<SegmentInfo>,
    position: Position,
    groups: FxHashMap<GroupId, GroupName>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("position", &self.position).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    pub at: Timestamp,
    pub event: TraceEvent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEvent {
    Stored,
    /// In a queue, for consumers to get.
    Visible {
        queue: QueueKey,
        offset: QueueOffset,
    },
    Recalled,
    RolledBack,
    Delivered {
        group: String,
        client: String,
        attempt: u16,
        until: Timestamp,
    },
    Acked {
        group: String,
    },
    Dropped {
        group: String,
    },
    /// The invisible time was changed: the message was given back, or kept for longer.
    Rescheduled {
        group: String,
        visible_at: Timestamp,
        given_back: bool,
    },
    SentBack {
        due: Timestamp,
    },
    DeadLettered {
        group: String,
    },
}

/// A trace that could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("a frame of the log: {0}")]
    Malformed(#[from] Malformed),
}

impl Engine {
    /// The history of the message stored at `position`.
    pub fn trace(&self, position: Position) -> Trace {
        Trace {
            reader: self.reader.clone(),
            segments: self.log.segments(),
            position,
            groups: self.state.groups.iter().map(|(id, group)| (*id, group.name.clone())).collect(),
        }
    }
}

impl Trace {
    /// Reads the log from the message's segment to its end.
    pub fn run(&self) -> Result<Vec<TraceStep>, TraceError> {
        let mut history = History { trace: self, places: Vec::new(), steps: Vec::new() };
        for segment in self.segments.iter().filter(|segment| segment.end > self.position) {
            let mut at = Position(segment.id.0);
            while let Some(frame) = self.reader.frame(at)? {
                at = frame.next;
                if frame.next <= self.position {
                    continue;
                }
                for located in decode_payload(&frame.payload, frame.position) {
                    let located = located?;
                    let position = Position(frame.position.0 + located.at as u64);
                    history.add(Timestamp(frame.timestamp_ms), position, located.record);
                }
            }
        }
        Ok(history.steps)
    }

    fn group(&self, id: GroupId) -> String {
        self.groups.get(&id).map_or_else(|| format!("deleted group {id}"), |name| name.to_string())
    }
}

struct History<'a> {
    trace: &'a Trace,
    /// Queue places that hold the message: its own, and those in retry topics.
    places: Vec<(QueueKey, QueueOffset)>,
    steps: Vec<TraceStep>,
}

impl History<'_> {
    fn step(&mut self, at: Timestamp, event: TraceEvent) {
        self.steps.push(TraceStep { at, event });
    }

    fn place(&mut self, at: Timestamp, queue: QueueKey, offset: QueueOffset) {
        self.places.push((queue, offset));
        self.step(at, TraceEvent::Visible { queue, offset });
    }

    fn add(&mut self, at: Timestamp, position: Position, record: Record) {
        match record {
            Record::Decision(decision) => self.add_decision(at, position, decision),
            Record::Fact(fact) => self.add_fact(at, fact),
        }
    }

    fn add_decision(&mut self, at: Timestamp, position: Position, decision: Decision) {
        let wanted = self.trace.position;
        match decision {
            Decision::Stored(stored) if position == wanted => {
                self.step(at, TraceEvent::Stored);
                if let Placement::Visible(offset) = stored.placement {
                    self.place(at, stored.queue, offset);
                }
            }
            Decision::Stored(stored) => {
                if let Cause::DeadLetter { flight, .. } = stored.cause
                    && self.places.contains(&(flight.queue, flight.offset))
                {
                    let group = self.trace.group(flight.group);
                    self.step(at, TraceEvent::DeadLettered { group });
                }
            }
            Decision::Link(links) => {
                for link in links.into_iter().filter(|link| link.entry.position == wanted) {
                    self.place(at, link.queue, link.offset);
                }
            }
            Decision::TransactionEnd { id, end } if id == wanted => match end {
                TransactionEnd::Rollback => self.step(at, TraceEvent::RolledBack),
                TransactionEnd::Visible { queue, offset, .. } => self.place(at, queue, offset),
                TransactionEnd::Delayed { .. } => {}
            },
            Decision::Recall { key } if key.id == wanted => self.step(at, TraceEvent::Recalled),
            Decision::SendBack { due, message, .. } if message.position == wanted => {
                self.step(at, TraceEvent::SentBack { due });
            }
            _ => {}
        }
    }

    fn add_fact(&mut self, at: Timestamp, fact: Fact) {
        match fact {
            Fact::Pop(pop) => {
                for delivered in &pop.delivered {
                    if self.places.contains(&(pop.queue, delivered.offset)) {
                        let event = TraceEvent::Delivered {
                            group: self.trace.group(pop.group),
                            client: pop.client.clone(),
                            attempt: delivered.attempt,
                            until: pop.visible_at,
                        };
                        self.step(at, event);
                    }
                }
            }
            Fact::Ack { group, queue, reason, offsets } => {
                for _ in offsets
                    .iter()
                    .filter(|offset| self.places.contains(&(queue, **offset)))
                    .collect::<Vec<_>>()
                {
                    let group = self.trace.group(group);
                    self.step(
                        at,
                        match reason {
                            AckReason::Consumed => TraceEvent::Acked { group },
                            AckReason::Unreadable => TraceEvent::Dropped { group },
                        },
                    );
                }
            }
            Fact::Invisible { group, queue, offset, visible_at, given_back, .. } => {
                if self.places.contains(&(queue, offset)) {
                    let group = self.trace.group(group);
                    self.step(at, TraceEvent::Rescheduled { group, visible_at, given_back });
                }
            }
            Fact::Offset { .. }
            | Fact::Reset { .. }
            | Fact::Checked { .. }
            | Fact::Subscribed { .. }
            | Fact::KeysExpired { .. }
            | Fact::TimesMoved { .. } => {}
        }
    }
}
