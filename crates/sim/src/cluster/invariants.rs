//! What must hold for a cluster after every step, seen from outside: all logs and all disks.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use redstart_engine::Engine;
use redstart_log::{Frame, Index, Log, Position};
use redstart_raft::{Member, Membership, Role};

use super::node::Node;
use crate::oracle::{Checked, Violation, ensure};

pub const ONE_LEADER: &str = "a term has one leader at most";
pub const NEVER_BACK: &str = "terms and commits never go back";
pub const IMMUTABLE: &str = "a committed frame is the same on every replica, at the same position, for ever";
pub const COMPLETE: &str = "a new leader has every committed frame";
pub const BY_MAJORITY: &str = "what is committed is durable on a majority";
pub const ALONE: &str = "while a node serves, no other can";
pub const SAME_STATE: &str = "replicas that have applied the same frames have the same state";

/// A frame, as far as replicas must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Agreed {
    term: u64,
    position: u64,
    timestamp_ms: u64,
    payload: u64,
}

impl Agreed {
    fn of(frame: &Frame) -> Agreed {
        let mut hasher = DefaultHasher::new();
        frame.payload.hash(&mut hasher);
        Agreed {
            term: frame.term,
            position: frame.position.0,
            timestamp_ms: frame.timestamp_ms,
            payload: hasher.finish(),
        }
    }
}

/// What is known about a member.
#[derive(Debug, Clone, Default)]
struct Seen {
    start: u64,
    term: u64,
    committed: u64,
    /// The last frame that was found durable, and its term; 0 for none.
    durable: (u64, u64),
    /// The term in which it was last seen to lead.
    led: u64,
    membership: Membership,
}

#[derive(Debug, Default)]
pub struct Invariants {
    leaders: BTreeMap<u64, Member>,
    members: BTreeMap<Member, Seen>,
    committed: BTreeMap<u64, Agreed>,
    /// The term of the member that first knew of each commit.
    known_in: BTreeMap<u64, u64>,
    /// Hashes of states, by the last frame that was applied.
    states: BTreeMap<u64, u64>,
    pub elections: u64,
    pub compared: u64,
}

impl Invariants {
    /// How far the cluster has committed.
    pub fn committed(&self) -> Index {
        Index(self.committed.last_key_value().map_or(0, |(index, _)| *index))
    }

    /// Checks a node after something happened to it, and learns from it.
    pub fn check(&mut self, nodes: &[Node], at: usize) -> Checked {
        let node = &nodes[at];
        let Some(replica) = node.replica() else { return Ok(()) };
        let (member, term, role, committed) =
            (replica.member(), replica.term(), replica.role(), replica.committed().0);
        let (membership, durable) = (replica.membership(), replica.durable().0);
        drop(replica);
        let Some(log) = &node.log else { return Ok(()) };

        let seen = self.members.entry(member).or_default();
        let back = seen.start == node.starts && committed < seen.committed;
        ensure(term >= seen.term && !back, NEVER_BACK, || {
            format!("{member:?}: term {term}, committed {committed}, and before {seen:?}")
        })?;
        let known = if seen.start == node.starts { seen.committed } else { 0 };
        let elected = role == Role::Leader && seen.led != term;
        (seen.start, seen.term, seen.committed) = (node.starts, term, committed);
        // A change of the members counts once it is applied: frames that are committed with it needed those of before.
        let memberships = [std::mem::replace(&mut seen.membership, membership.clone()), membership];
        if seen.durable.0 != durable {
            let last = frames(log, durable, durable)?.pop();
            seen.durable = (durable, last.map_or(0, |frame| frame.term));
        }
        if role == Role::Leader {
            seen.led = term;
            let leader = *self.leaders.entry(term).or_insert(member);
            ensure(leader == member, ONE_LEADER, || format!("{leader:?} and {member:?} in term {term}"))?;
        }
        self.learn_commits(member, term, known, committed, log)?;
        if elected {
            self.elections += 1;
            self.check_complete(member, term, log)?;
        }
        if role == Role::Leader && committed > known {
            self.check_majority(&memberships, committed)?;
        }
        Ok(())
    }

    fn learn_commits(&mut self, member: Member, term: u64, from: u64, to: u64, log: &dyn Log) -> Checked {
        for frame in frames(log, from + 1, to)? {
            let index = frame.index.0;
            let agreed = Agreed::of(&frame);
            let before = *self.committed.entry(index).or_insert(agreed);
            self.known_in.entry(index).or_insert(term);
            ensure(before == agreed, IMMUTABLE, || {
                format!("frame {index} of {member:?} is {agreed:?}, and was {before:?}")
            })?;
        }
        Ok(())
    }

    /// Whether a new leader holds all that was committed in earlier terms.
    fn check_complete(&self, member: Member, term: u64, log: &dyn Log) -> Checked {
        let earlier = self.committed.iter().rev().find(|(index, _)| self.known_in.get(index) < Some(&term));
        let Some((index, agreed)) = earlier else { return Ok(()) };
        let held = frames(log, *index, *index)?.pop().map(|frame| Agreed::of(&frame));
        ensure(held == Some(*agreed), COMPLETE, || {
            format!("{member:?} leads in term {term}; frame {index} is {agreed:?}, and there {held:?}")
        })
    }

    /// Whether a majority would have the frame after a power cut of all nodes.
    fn check_majority(&self, memberships: &[Membership; 2], index: u64) -> Checked {
        let Some(agreed) = self.committed.get(&index) else { return Ok(()) };
        // Frames of one term have one order, so what is durable behind it covers it. A member that has lost its data since has
        // held it when it said so.
        let holds = |member: &&Member| {
            let durable = self.members.get(member).map_or((0, 0), |seen| seen.durable);
            durable.0 >= index && durable.1 >= agreed.term
        };
        let majority = |voters: &Vec<Member>| {
            voters.is_empty() || voters.iter().filter(holds).count() * 2 > voters.len()
        };
        let enough = |members: &Membership| {
            !members.voters.is_empty() && majority(&members.voters) && majority(&members.outgoing)
        };
        ensure(memberships.iter().any(enough), BY_MAJORITY, || {
            let holding: Vec<&Member> = self.members.keys().filter(holds).collect();
            format!("frame {index} is durable on {holding:?} of {:?}", memberships[1])
        })
    }

    /// Checks who may serve.
    pub fn check_alone(&self, nodes: &[Node], now: u64) -> Checked {
        for node in nodes {
            let Some(term) = node.serves(now) else { continue };
            for other in nodes.iter().filter(|other| other.member != node.member) {
                let leads = other.replica().filter(|replica| replica.role() == Role::Leader);
                let rival = leads.map(|replica| replica.term()).filter(|rival| *rival > term);
                ensure(rival.is_none(), ALONE, || {
                    format!(
                        "{:?} serves in term {term}, and {:?} leads in {rival:?}",
                        node.member, other.member
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Compares an engine that has nothing under way with all others that were at the same frame.
    pub fn compare(&mut self, member: Member, engine: &Engine) -> Checked {
        let mut hasher = DefaultHasher::new();
        engine.encoded_state().hash(&mut hasher);
        let (applied, state) = (engine.applied(), hasher.finish());
        let before = *self.states.entry(applied.0).or_insert(state);
        self.compared += 1;
        ensure(before == state, SAME_STATE, || format!("{member:?} at frame {applied}"))
    }
}

/// The frames from one index to another, of those that the log has.
fn frames(log: &dyn Log, from: u64, to: u64) -> Result<Vec<Frame>, Violation> {
    let reader = log.reader();
    let mut found = Vec::new();
    for segment in log.segments().iter().filter(|segment| segment.last.0 >= from && segment.first.0 <= to) {
        let mut at = Position(segment.id.0);
        while let Some(frame) =
            reader.frame(at).map_err(|error| Violation::new(IMMUTABLE, error.to_string()))?
        {
            at = frame.next;
            if frame.index.0 > to {
                return Ok(found);
            }
            if frame.index.0 >= from {
                found.push(frame);
            }
        }
    }
    Ok(found)
}
