//! The end of transactions, and the questions to silent producers.

use redstart_log::Position;

use super::Engine;
use crate::{
    Ticket, Timestamp, TopicId,
    open_transactions::{Ended, Half},
    record::{Decision, Fact, TransactionEnd},
};

/// A transaction whose producer must be asked what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionCheck {
    pub id: Position,
    pub topic: TopicId,
    /// Where the half message is.
    pub position: Position,
    pub size: u32,
    /// How often it has been asked about, this time included.
    pub checks: u32,
}

/// The end of a transaction that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    #[error(
        "transaction {id} is not open: it was ended before, rolled back after its last check, or never begun"
    )]
    NotOpen { id: Position },
    #[error("transaction {id} has ended before: committed is {committed}")]
    Ended { id: Position, committed: bool },
    #[error("the topic of transaction {id} has been deleted")]
    TopicGone { id: Position },
}

impl Engine {
    /// Commits or rolls back. The half message becomes visible when the ticket's outcome says so.
    pub fn end_transaction(
        &mut self,
        id: Position,
        commit: bool,
        now: Timestamp,
    ) -> Result<Ticket, TransactionError> {
        let now = self.advance(now);
        let half = match self.state.transactions.get(id) {
            Some(half) if !self.speculation.ending_transactions.contains(&id) => *half,
            Some(_) => return Err(TransactionError::NotOpen { id }),
            None => {
                let ended = self.state.transactions.ended(id);
                return Err(ended.map_or(TransactionError::NotOpen { id }, |Ended { committed, .. }| {
                    TransactionError::Ended { id, committed }
                }));
            }
        };
        let topic = half.message.queue.topic;
        let deleting = self.speculation.deleting_topics.contains(&topic);
        if commit && (deleting || !self.state.topics.contains_key(&topic)) {
            if !deleting {
                self.propose_end(None, id, half, false, now);
            }
            return Err(TransactionError::TopicGone { id });
        }
        let ticket = self.ticket();
        self.propose_end(Some(ticket), id, half, commit, now);
        Ok(ticket)
    }

    fn propose_end(
        &mut self,
        ticket: Option<Ticket>,
        id: Position,
        half: Half,
        commit: bool,
        now: Timestamp,
    ) {
        let end = match half.deliver_at.filter(|due| *due > now) {
            _ if !commit => TransactionEnd::Rollback,
            Some(due) => TransactionEnd::Delayed { due, message: half.message },
            None => {
                let (queue, entry) = (half.message.queue, half.message.entry(self.time.stamp()));
                match self.propose_offset(queue) {
                    // The topic is gone: there is nothing left to commit to.
                    None => TransactionEnd::Rollback,
                    Some(offset) => TransactionEnd::Visible { queue, offset, entry },
                }
            }
        };
        self.speculation.ending_transactions.insert(id);
        self.propose(ticket, Decision::TransactionEnd { id, end });
    }

    /// Looks at transactions that are due, at most `max`. Returns at most `checks_max` of them to be asked about, and
    /// whether these were all; a check that is not returned has not happened.
    pub(super) fn check_transactions(
        &mut self,
        now: Timestamp,
        max: usize,
        checks_max: usize,
    ) -> (Vec<TransactionCheck>, bool) {
        let rules = self.config.transactions.clone();
        let (mut checks, mut all) = (Vec::new(), true);
        for (id, half) in self.state.transactions.due(&self.speculation.ending_transactions, now, max) {
            let given_up = half.checks >= rules.checks_max || now >= half.opened_at.after(rules.open_max);
            if given_up {
                self.propose_end(None, id, half, false, now);
                continue;
            }
            if checks.len() >= checks_max {
                all = false;
                continue;
            }
            let check = TransactionCheck {
                id,
                topic: half.message.queue.topic,
                position: half.message.position,
                size: half.message.size,
                checks: half.checks + 1,
            };
            let next = now.after(rules.check_interval).min(half.opened_at.after(rules.open_max));
            self.record(&Fact::Checked { id, checks: check.checks, next });
            checks.push(check);
        }
        (checks, all)
    }

    /// Transactions that would be asked about only after the time at which they are given up are asked about then: a setting
    /// may have changed since they were begun.
    pub(super) fn limit_checks(&mut self) {
        let open_max = self.config.transactions.open_max;
        let late: Vec<Fact> = self
            .state
            .transactions
            .iter()
            .filter_map(|(id, half)| {
                let last = half.opened_at.after(open_max);
                (half.next_check > last).then_some(Fact::Checked { id, checks: half.checks, next: last })
            })
            .collect();
        late.iter().for_each(|fact| self.record(fact));
    }

    /// Where the half message of an open transaction is stored.
    pub fn half(&self, id: Position) -> Option<(Position, u32)> {
        self.state.transactions.get(id).map(|half| (half.message.position, half.message.size))
    }

    /// The topic of a transaction that has ended, as far as it is remembered.
    pub fn topic_of_ended_transaction(&self, id: Position) -> Option<TopicId> {
        self.state.transactions.ended(id).map(|ended| ended.topic)
    }
}
