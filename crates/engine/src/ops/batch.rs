//! Proposals on their way to the log: the current batch, its frame, and what becomes of them.

use std::collections::VecDeque;

use redstart_log::{Appended, Error as LogError, Index, Position, SegmentId};

use super::{Engine, SendReceipt, Visibility};
use crate::{
    QueueKey, QueueOffset, Ticket, Timestamp,
    apply::{Apply, FrameContext, OffsetGap, Scope},
    planted,
    pop::FlightKey,
    record::{Cause, Decision, Fact, Placement, Record, Stored, TransactionEnd, decode_payload},
    state::Effects,
    timer::TimerKey,
};

/// Decisions and facts since the last frame.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Encoded records, in the order in which they came.
    pub payload: Vec<u8>,
    pub records: usize,
    pub proposals: Vec<Proposal>,
    /// Facts that the log has refused so far, oldest first. They are in effect, and are written before anything newer.
    pub refused: VecDeque<RefusedFacts>,
}

/// Facts for one frame.
#[derive(Debug, Default)]
pub(super) struct RefusedFacts {
    payload: Vec<u8>,
    records: usize,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.refused.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.payload.len() + self.refused.iter().map(|facts| facts.payload.len()).sum::<usize>()
    }

    pub fn records(&self) -> usize {
        self.records + self.refused.iter().map(|facts| facts.records).sum::<usize>()
    }

    /// Keeps a fact for a later frame. However long the log refuses, each frame stays within `limit`, unless one fact
    /// alone is larger.
    fn keep_refused(&mut self, fact: &Fact, limit: usize) {
        let mut bytes = Vec::new();
        fact.put(&mut bytes);
        match self.refused.back_mut() {
            Some(last) if last.payload.len() + bytes.len() <= limit => {
                last.payload.extend_from_slice(&bytes);
                last.records += 1;
            }
            _ => self.refused.push_back(RefusedFacts { payload: bytes, records: 1 }),
        }
    }
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub ticket: Option<Ticket>,
    pub decision: Decision,
    /// Where its record begins in the payload.
    pub at: usize,
}

#[derive(Debug)]
pub(super) struct PendingFrame {
    pub index: Index,
    pub context: FrameContext,
    pub proposals: Vec<Proposal>,
}

/// What became of a proposal. A batch of messages has one outcome for each, under one ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Stored(SendReceipt),
    /// The change is durable and in force.
    Done,
    /// The log refused the frame: nothing of it took effect.
    Refused(String),
}

/// What became of several proposals, in their order.
type Outcomes = Vec<(Ticket, Outcome)>;

impl Engine {
    pub(super) fn propose(&mut self, ticket: Option<Ticket>, decision: Decision) {
        let (at, _) = decision.put(&mut self.batch.payload);
        self.batch.records += 1;
        self.batch.proposals.push(Proposal { ticket, decision, at });
    }

    pub(super) fn propose_stored(&mut self, ticket: Option<Ticket>, stored: Stored) {
        let at = stored.position.0 as usize;
        self.batch.records += 1;
        self.batch.proposals.push(Proposal { ticket, decision: Decision::Stored(stored), at });
    }

    /// Appends the batch as one frame, behind frames of the facts that were refused before; returns the last of them.
    /// `Ok(None)` when there is nothing to append. When the log refuses, every decision of the batch is withdrawn and
    /// reported, and the facts that are not written yet wait for the next call.
    pub fn submit(&mut self, now: Timestamp) -> Result<Option<Index>, (LogError, Outcomes)> {
        let now = self.advance(now);
        let mut last = None;
        while let Some(facts) = self.batch.refused.front() {
            let appended = match self.log.append(now.0, &facts.payload) {
                Ok(appended) => appended,
                Err(error) => return Err(self.withdraw(error)),
            };
            self.batch.refused.pop_front();
            last = Some(self.await_commit(&appended, now, Vec::new()));
        }
        if self.batch.payload.is_empty() {
            return Ok(last);
        }
        let appended = match self.log.append(now.0, &self.batch.payload) {
            Ok(appended) => appended,
            Err(error) => return Err(self.withdraw(error)),
        };
        self.batch.payload.clear();
        self.batch.records = 0;
        let mut proposals = std::mem::take(&mut self.batch.proposals);
        for proposal in &mut proposals {
            let position = Position(appended.payload.0 + proposal.at as u64);
            match &mut proposal.decision {
                Decision::Stored(stored) => stored.position = position,
                Decision::SendBack { id, .. } => *id = position,
                _ => {}
            }
        }
        Ok(Some(self.await_commit(&appended, now, proposals)))
    }

    fn await_commit(&mut self, appended: &Appended, now: Timestamp, proposals: Vec<Proposal>) -> Index {
        let context = FrameContext { segment: appended.segment, timestamp: now };
        self.pending.push_back(PendingFrame { index: appended.index, context, proposals });
        appended.index
    }

    /// Withdraws every proposal of the batch. Facts stay: they are in effect.
    fn withdraw(&mut self, error: LogError) -> (LogError, Outcomes) {
        let payload = std::mem::take(&mut self.batch.payload);
        self.batch.records = 0;
        let limit = self.config.limits.batch_bytes_max;
        for located in decode_payload(&payload, Position(0)).flatten() {
            let fact = match located.record {
                Record::Fact(fact) => Some(fact),
                Record::Decision(decision) => {
                    ends_flight(&decision).and_then(|flight| self.flight_goes_on(flight))
                }
            };
            if let Some(fact) = fact {
                self.batch.keep_refused(&fact, limit);
            }
        }
        let proposals = std::mem::take(&mut self.batch.proposals);
        let mut refused = Vec::new();
        for proposal in proposals.into_iter().rev() {
            self.withdraw_proposal(&proposal.decision);
            if let Some(ticket) = proposal.ticket {
                refused.push((ticket, Outcome::Refused(error.to_string())));
            }
        }
        refused.reverse();
        (error, refused)
    }

    /// The fact that keeps a flight whose end was refused. Facts that were logged after the refused decision did not touch the
    /// flight, and must not when they are replayed.
    fn flight_goes_on(&self, flight: FlightKey) -> Option<Fact> {
        let FlightKey { group, queue, offset } = flight;
        let flight = self.state.progress(group, queue)?.flight(offset)?;
        let (seq, visible_at) = (flight.seq, flight.visible_at);
        Some(Fact::Invisible { group, queue, offset, seq, visible_at, given_back: true, uncounted: false })
    }

    fn withdraw_proposal(&mut self, decision: &Decision) {
        self.end_proposal(decision);
        if let Some(flight) = ends_flight(decision) {
            self.withdraw_flight_end(flight);
        }
        match decision {
            Decision::Stored(stored) => {
                if let Placement::Visible(offset) = stored.placement {
                    self.withdraw_offset(stored.queue, offset);
                }
            }
            Decision::Link(links) => {
                for link in links.iter().rev() {
                    self.withdraw_offset(link.queue, link.offset);
                    self.state.timers.withdraw_end(link.key);
                }
            }
            Decision::TransactionEnd { id, end } => {
                self.state.transactions.set_ending(*id, false);
                if let TransactionEnd::Visible { queue, offset, .. } = end {
                    self.withdraw_offset(*queue, *offset);
                }
            }
            Decision::Recall { key } => self.state.timers.withdraw_end(*key),
            Decision::Barrier
            | Decision::TopicPut { .. }
            | Decision::GroupPut { .. }
            | Decision::TopicDelete { .. }
            | Decision::GroupDelete { .. }
            | Decision::Setting { .. }
            | Decision::SendBack { .. } => {}
        }
    }

    fn withdraw_offset(&mut self, key: QueueKey, offset: QueueOffset) {
        if let Some(topic) = self.state.topics.get_mut(&key.topic) {
            topic.queue_mut(key.queue).withdraw(offset);
        }
    }

    /// The log holds every frame up to `index` durably: their decisions take effect, in order.
    pub fn committed(&mut self, index: Index) -> Result<Vec<(Ticket, Outcome)>, OffsetGap> {
        let index = planted::committed(&self.config, index, || self.log.appended());
        let mut outcomes = Vec::new();
        let mut effects = Effects::default();
        while self.pending.front().is_some_and(|frame| frame.index <= index) {
            let Some(frame) = self.pending.pop_front() else { break };
            for proposal in &frame.proposals {
                self.note_change(&proposal.decision);
                self.note_events(&proposal.decision, frame.context.timestamp);
                let mut apply = Apply {
                    state: &mut self.state,
                    indexes: &mut self.indexes,
                    transactions: &self.config.transactions,
                    frame: frame.context,
                    scope: Scope::StateAndIndex,
                    effects: &mut effects,
                };
                apply.decision(&proposal.decision)?;
                self.end_proposal(&proposal.decision);
                if let Some(ticket) = proposal.ticket {
                    outcomes.push((ticket, outcome_of(&proposal.decision)));
                }
            }
            self.applied = frame.index;
        }
        self.note(effects);
        Ok(outcomes)
    }

    /// The decision has been applied or withdrawn: ends what the owner alone keeps of it, which replay does not need.
    fn end_proposal(&mut self, decision: &Decision) {
        match decision {
            Decision::TopicPut { name, .. } => {
                self.creating_topics.remove(name);
                self.resume_moves();
            }
            Decision::GroupPut { name, .. } => {
                self.creating_groups.remove(name);
            }
            Decision::TopicDelete { id } => {
                self.deleting_topics.remove(id);
                self.resume_moves();
            }
            Decision::GroupDelete { id } => {
                self.deleting_groups.remove(id);
            }
            Decision::Link(_) => self.linking = false,
            Decision::Recall { .. } => self.time.moves_ended(),
            // The topic was deleted, or has no dedup window any more: the state does not keep the key.
            Decision::Stored(Stored { dedup: Some(key), cause: Cause::Send, .. }) => {
                self.state.dedup.withdraw(*key);
            }
            _ => {}
        }
    }

    /// Whether a decision that is not yet applied refers to a message whose position is `within`.
    pub(super) fn points_into(&self, within: impl Fn(Position) -> bool) -> bool {
        let under_way = self.pending.iter().flat_map(|frame| &frame.proposals).chain(&self.batch.proposals);
        under_way.map(|proposal| &proposal.decision).any(|decision| match decision {
            Decision::Link(links) => links.iter().any(|link| within(link.entry.position)),
            Decision::SendBack { message, .. } => within(message.position),
            Decision::TransactionEnd { end, .. } => match end {
                TransactionEnd::Rollback => false,
                TransactionEnd::Visible { entry, .. } => within(entry.position),
                TransactionEnd::Delayed { message, .. } => within(message.position),
            },
            _ => false,
        })
    }

    pub(super) fn segment_has_pending(&self, segment: SegmentId) -> bool {
        self.pending.iter().any(|frame| frame.context.segment == segment)
    }
}

/// The message in flight that a decision ends.
fn ends_flight(decision: &Decision) -> Option<FlightKey> {
    match decision {
        Decision::Stored(Stored { cause: Cause::DeadLetter { flight, in_flight: true }, .. }) => {
            Some(*flight)
        }
        Decision::SendBack { left, .. } => *left,
        _ => None,
    }
}

fn outcome_of(decision: &Decision) -> Outcome {
    match decision {
        Decision::Stored(stored) => Outcome::Stored(receipt_of(stored)),
        _ => Outcome::Done,
    }
}

fn receipt_of(stored: &Stored) -> SendReceipt {
    let visibility = match stored.placement {
        Placement::Visible(offset) => Visibility::Visible(offset),
        Placement::Delayed => {
            Visibility::Delayed(TimerKey { due: stored.deliver_at.unwrap_or_default(), id: stored.position })
        }
        Placement::Half { .. } => Visibility::Half,
    };
    SendReceipt {
        queue: stored.queue,
        visibility,
        position: stored.position,
        size: stored.size,
        stored_at: stored.stored_at,
    }
}
