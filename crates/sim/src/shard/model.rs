//! What clients know of their messages, and what may not be said to them after that.

use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{Filter, GroupName, MessageType, SendReceipt, TopicName, TransactionCheck};
use redstart_log::Position;

use super::clients::{Clients, Sent};
use crate::oracle::{Checked, ensure};

pub const KNOWN: &str = "only what was accepted is delivered";
pub const COUNTED: &str = "only a delivery that was received counts as an attempt";
pub const ACKED: &str = "what was acked does not come again";
pub const KEPT: &str = "a message stays for the time it is kept";
pub const ASKED: &str = "only a transaction check that was handed over counts";

/// The consumer groups of this world. Each consumes one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// With few attempts.
    Plain,
    /// Of the same topic, under an SQL filter.
    Sql,
    Ordered,
    Transactions,
}

pub const GROUPS: [Group; 4] = [Group::Plain, Group::Sql, Group::Ordered, Group::Transactions];

impl Group {
    pub fn name(self) -> GroupName {
        GroupName::new(&format!("{self:?}")).expect("a good name")
    }

    pub fn kind(self) -> MessageType {
        match self {
            Group::Plain | Group::Sql => MessageType::Normal,
            Group::Ordered => MessageType::Fifo,
            Group::Transactions => MessageType::Transaction,
        }
    }

    pub fn topic(self) -> TopicName {
        TopicName::new(&format!("of-{:?}", self.kind())).expect("a good name")
    }

    pub fn retries_max(self) -> u32 {
        if self == Group::Plain { 2 } else { 100 }
    }

    pub fn filter(self) -> Filter {
        if self == Group::Sql { Filter::sql("size > 5").expect("well formed") } else { Filter::All }
    }

    /// Whether its filter lets the message through, by a second reckoning.
    pub fn wants(self, message: &Known) -> bool {
        message.kind == self.kind() && (self != Group::Sql || message.size > 5)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Pending,
    Stored,
    Refused,
    /// The process died before it answered.
    Unknown,
}

/// The end of a half message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Open,
    Committed,
    RolledBack,
    /// Asked for, and not known to have happened or not.
    Unknown,
}

#[derive(Debug, Clone)]
pub struct Known {
    pub kind: MessageType,
    pub size: u64,
    pub sent_at: Duration,
    pub fate: Fate,
    pub receipt: Option<SendReceipt>,
    /// `None` for messages that are no half messages.
    pub end: Option<End>,
    /// Checks that were handed over, and how often the process has died since it was sent.
    pub checks: u32,
    pub deaths: u32,
}

impl Known {
    /// Its consumers get it.
    pub fn promised(&self) -> bool {
        self.fate == Fate::Stored && matches!(self.end, None | Some(End::Committed))
    }
}

/// One message for one group.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Deliveries that were received and not given back.
    pub received: u32,
    pub acked: bool,
    /// The ack may have gone with a process that died.
    pub ack_unsure: bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub messages: Vec<Known>,
    pub turns: BTreeMap<(Group, usize), Turn>,
    /// Deliveries that may have counted although their receiver did not get them: the process died.
    pub slack: BTreeMap<Group, u32>,
    /// Given back since the process started.
    pub given_back: BTreeMap<Group, u32>,
    pub by_position: BTreeMap<Position, usize>,
    pub deliveries: u64,
}

impl Model {
    pub fn turn(&mut self, group: Group, number: usize) -> &mut Turn {
        self.turns.entry((group, number)).or_default()
    }

    /// A group got a message.
    pub fn received(&mut self, group: Group, number: Option<usize>, attempt: u16) -> Checked {
        let known = number.and_then(|number| Some((number, self.messages.get(number)?)));
        let Some((number, known)) = known else {
            return ensure(false, KNOWN, || format!("{group:?} got {number:?}"));
        };
        let may_come = !matches!(known.fate, Fate::Refused)
            && !matches!(known.end, Some(End::Open | End::RolledBack))
            && known.kind == group.kind();
        ensure(may_come, KNOWN, || format!("{group:?} got {number:X}: {known:?}"))?;
        let slack = self.slack.get(&group).copied().unwrap_or(0);
        self.deliveries += 1;
        let turn = self.turn(group, number);
        ensure(!turn.acked || turn.ack_unsure, ACKED, || {
            format!("{group:?} got {number:X} again: {turn:?}")
        })?;
        ensure(u32::from(attempt) <= turn.received + 1 + slack, COUNTED, || {
            format!("{group:?} got {number:X} at attempt {attempt}: {turn:?}, slack {slack}")
        })?;
        turn.received += 1;
        Ok(())
    }

    /// Retention has removed what was stored at these positions.
    pub fn removed(
        &self,
        positions: std::ops::Range<u64>,
        now: Duration,
        old_enough: impl Fn(Duration) -> bool,
    ) -> Checked {
        let positions = Position(positions.start)..Position(positions.end);
        for (position, number) in self.by_position.range(positions) {
            let age = now - self.messages[*number].sent_at;
            ensure(old_enough(age), KEPT, || {
                format!("message {number:X} at {} was removed after {age:?}", position.0)
            })?;
        }
        Ok(())
    }

    /// A consumer could not read the message and gave it back.
    pub fn gave_back(&mut self, group: Group) {
        *self.given_back.entry(group).or_default() += 1;
    }

    pub fn check_handed_over(&mut self, check: &TransactionCheck) -> Checked {
        let Some(known) = self.by_position.get(&check.id).and_then(|number| self.messages.get_mut(*number))
        else {
            // Of a send whose answer the client never got.
            return Ok(());
        };
        known.checks += 1;
        ensure(check.checks <= known.checks || known.deaths > 0, ASKED, || format!("{check:?} of {known:?}"))
    }

    /// The broker says that a transaction which no client ended is not open.
    pub fn given_up(&mut self, number: usize, checks_max: u32, now: Duration) -> Checked {
        let known = &mut self.messages[number];
        let legal = known.checks >= checks_max || known.deaths > 0 || known.end != Some(End::Open);
        known.end = Some(End::RolledBack);
        ensure(legal, ASKED, || format!("{number:X} was given up at {now:?}: {known:?}"))
    }

    pub fn process_died(&mut self, clients: &Clients) {
        for known in &mut self.messages {
            known.deaths += 1;
            if known.fate == Fate::Pending {
                known.fate = Fate::Unknown;
            }
        }
        for Sent { first, count, .. } in &clients.sends {
            for known in &mut self.messages[*first..first + count] {
                known.fate = Fate::Unknown;
            }
        }
        for number in clients.ends.iter().map(|end| end.number) {
            self.messages[number].end = Some(End::Unknown);
        }
        for pop in &clients.pops {
            *self.slack.entry(pop.group).or_default() += 1;
        }
        for (group, count) in std::mem::take(&mut self.given_back) {
            *self.slack.entry(group).or_default() += count;
        }
        for turn in self.turns.values_mut() {
            turn.ack_unsure |= turn.acked;
        }
    }
}
