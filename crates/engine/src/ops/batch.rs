//! Proposals on their way to the log: the current batch, its frame, and what becomes of them.

use std::collections::VecDeque;

use redstart_log::{Appended, Error as LogError, Index, Position};

use super::{Engine, SendReceipt, Visibility};
use crate::{
    Ticket, Timestamp,
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
    /// How many of the records are facts.
    pub facts: usize,
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
    /// Where its payload begins.
    pub position: Position,
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
            self.facts_applied = appended.index;
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
        if std::mem::take(&mut self.batch.facts) > 0 {
            self.facts_applied = appended.index;
        }
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
        let (index, position) = (appended.index, appended.payload);
        self.pending.push_back(PendingFrame { index, position, context, proposals });
        appended.index
    }

    /// Withdraws every proposal of the batch. Facts stay: they are in effect.
    fn withdraw(&mut self, error: LogError) -> (LogError, Outcomes) {
        let payload = std::mem::take(&mut self.batch.payload);
        (self.batch.records, self.batch.facts) = (0, 0);
        let limit = self.config.limits.batch_bytes_max;
        for located in decode_payload(&payload, Position(0)).flatten() {
            let fact = match located.record {
                Record::Fact(fact) => Some(fact),
                Record::Decision(decision) => ends_flight(&decision).and_then(|flight| {
                    let goes_on = self.flight_goes_on(flight);
                    self.withdraw_flight_end(flight, goes_on.as_ref());
                    goes_on
                }),
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
        match decision {
            Decision::Stored(stored) => {
                if let Placement::Visible(offset) = stored.placement {
                    self.speculation.withdraw_offset(stored.queue, offset);
                }
            }
            Decision::Link(links) => {
                for link in links.iter().rev() {
                    self.speculation.withdraw_offset(link.queue, link.offset);
                    self.speculation.timers.withdraw(link.key);
                }
            }
            Decision::TransactionEnd { end, .. } => {
                if let TransactionEnd::Visible { queue, offset, .. } = end {
                    self.speculation.withdraw_offset(*queue, *offset);
                }
            }
            Decision::Recall { key } => self.speculation.timers.withdraw(*key),
            Decision::Retire { .. } => self.retirement.withdraw(),
            Decision::Barrier
            | Decision::TopicPut { .. }
            | Decision::GroupPut { .. }
            | Decision::TopicDelete { .. }
            | Decision::GroupDelete { .. }
            | Decision::Setting { .. }
            | Decision::SendBack { .. } => {}
        }
    }

    /// Every frame up to `index` is committed: the decisions of those that were submitted here take effect, in order. Their
    /// facts have done so before.
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
            if planted::applies_facts_again(&self.config) {
                self.apply_facts_again(&frame);
            }
            self.applied = frame.index;
        }
        self.note(effects);
        Ok(outcomes)
    }

    /// What [`Planted::FactAppliedTwice`](crate::planted::Planted) does.
    #[cold]
    fn apply_facts_again(&mut self, frame: &PendingFrame) {
        let found = self.reader.frame(Position(frame.position.0.saturating_sub(1)));
        let Ok(Some(found)) = found else { return };
        for located in decode_payload(&found.payload, found.position).flatten() {
            if let Record::Fact(fact) = located.record {
                self.apply_fact(&fact);
            }
        }
    }

    /// The decision has been applied or withdrawn: nothing of it is speculation any more.
    fn end_proposal(&mut self, decision: &Decision) {
        let speculation = &mut self.speculation;
        match decision {
            Decision::TopicPut { name, .. } => {
                speculation.creating_topics.remove(name);
                self.resume_moves();
            }
            Decision::GroupPut { name, .. } => {
                speculation.creating_groups.remove(name);
            }
            Decision::TopicDelete { id } => {
                speculation.deleting_topics.remove(id);
                self.resume_moves();
            }
            Decision::GroupDelete { id } => {
                speculation.deleting_groups.remove(id);
            }
            Decision::Link(links) => {
                speculation.linking = false;
                links.iter().for_each(|link| speculation.timers.ended(link.key));
            }
            Decision::Recall { key } => {
                speculation.timers.ended(*key);
                self.time.moves_ended();
            }
            Decision::TransactionEnd { id, .. } => {
                speculation.ending_transactions.remove(id);
            }
            Decision::Retire { segment } => {
                if speculation.retiring == Some(*segment) {
                    speculation.retiring = None;
                }
                self.retirement.look();
            }
            Decision::Stored(stored) => {
                if let (Some(key), Cause::Send) = (stored.dedup, stored.cause) {
                    speculation.dedup_keys.remove(&key);
                }
                if let Some(flight) = ends_flight(decision) {
                    speculation.dying.remove(flight);
                }
            }
            Decision::SendBack { left: Some(left), .. } => {
                speculation.dying.remove(*left);
            }
            Decision::SendBack { left: None, .. } | Decision::Barrier | Decision::Setting { .. } => {}
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
