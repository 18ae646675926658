//! Transactions, recall, and messages that 4.x consumers hand back.

use std::time::Duration;

use redstart_log::Position;

use super::{
    Engine, record_size_max,
    tick::{Burial, DeadLetter},
};
use crate::{
    Entry, GroupName, QueueId, QueueKey, Ticket, Timestamp, TopicId, TopicName,
    record::{Decision, Fact, Placement, TransactionEnd, fetch_at},
    timer::{Timer, TimerKey, TimerState},
    transaction::Half,
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

/// A recall that did not cancel anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecallError {
    #[error("the message was due at {due} and has been delivered")]
    Delivered { due: Timestamp },
    #[error("no delayed message is known by this handle")]
    Unknown,
}

/// A message that a 4.x consumer could not process, named as the client names it: by where it is stored.
#[derive(Debug, Clone)]
pub struct SendBack<'a> {
    pub group: &'a GroupName,
    pub position: Position,
    /// Deliveries before the one that failed.
    pub attempt: u16,
    pub delay: Option<Duration>,
    pub retries_max: Option<u32>,
    /// No further retries, however many are left.
    pub give_up: bool,
    /// Properties that its dead letter gets, unless the message has them.
    pub properties: Vec<(String, String)>,
}

/// A hand-back that was refused.
#[derive(Debug, thiserror::Error)]
pub enum SendBackError {
    #[error("consumer group {group} does not exist")]
    UnknownGroup { group: GroupName },
    #[error("the retry topic {topic} does not exist; create it first")]
    NoRetryTopic { topic: TopicName },
    #[error("the dead-letter topic {topic} is being created, try again")]
    NoDeadLetterTopic { topic: TopicName },
    #[error("there is no message at log position {position}")]
    UnknownPosition { position: Position },
    #[error("the message at log position {position} could not be read, try again")]
    Unread { position: Position },
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
            Some(half) if !half.ending => *half,
            Some(_) => return Err(TransactionError::NotOpen { id }),
            None => {
                let ended = self.state.transactions.ended(id);
                return Err(ended.map_or(TransactionError::NotOpen { id }, |committed| {
                    TransactionError::Ended { id, committed }
                }));
            }
        };
        let topic = half.message.queue.topic;
        let deleting = self.deleting_topics.contains(&topic);
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
            Some(due) => TransactionEnd::Delayed { due, timer: half.message },
            None => {
                let queue = half.message.queue;
                match self.state.topics.get_mut(&queue.topic) {
                    // The topic is gone: there is nothing left to commit to.
                    None => TransactionEnd::Rollback,
                    Some(topic) => TransactionEnd::Visible {
                        queue,
                        offset: topic.queue_mut(queue.queue).propose(),
                        entry: half.message.entry(self.time.stamp()),
                    },
                }
            }
        };
        self.state.transactions.set_ending(id, true);
        self.propose(ticket, Decision::TransactionEnd { id, end });
    }

    /// Looks at transactions that are due, at most `max`. Returns at most `room` of them to be asked about, and whether
    /// that was enough for all; a check that is not returned has not happened.
    pub(super) fn check_transactions(
        &mut self,
        now: Timestamp,
        max: usize,
        room: usize,
    ) -> (Vec<TransactionCheck>, bool) {
        let rules = self.config.transactions.clone();
        let (mut checks, mut all) = (Vec::new(), true);
        for (id, half) in self.state.transactions.due(now, max) {
            let given_up = half.checks >= rules.checks_max || now >= half.opened_at.after(rules.open_max);
            if given_up {
                self.propose_end(None, id, half, false, now);
                continue;
            }
            if checks.len() >= room {
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

    /// Where a delayed message is stored that is not yet due.
    pub fn delayed(&self, key: TimerKey) -> Option<(Position, u32)> {
        self.state.timers.get(key).map(|timer| (timer.position, timer.size))
    }

    /// Cancels a delayed message by the key of its receipt.
    pub fn recall(&mut self, key: TimerKey, now: Timestamp) -> Result<Ticket, RecallError> {
        let now = self.advance(now);
        match self.state.timers.get(key).map(|timer| timer.state) {
            Some(TimerState::Waiting) => {
                self.state.timers.mark(key, TimerState::Recalling);
                let ticket = self.ticket();
                self.propose(Some(ticket), Decision::Recall { key });
                Ok(ticket)
            }
            Some(TimerState::Recalling) => Err(RecallError::Unknown),
            Some(TimerState::Firing) => Err(RecallError::Delivered { due: key.due }),
            None if key.due <= now => Err(RecallError::Delivered { due: key.due }),
            None => Err(RecallError::Unknown),
        }
    }

    /// Schedules a message for the group's retry topic, or buries it when its retries are used up. Its body is not
    /// written again for a retry.
    pub fn send_back(&mut self, back: &SendBack<'_>, now: Timestamp) -> Result<Ticket, SendBackError> {
        let now = self.advance(now);
        let unknown = || SendBackError::UnknownPosition { position: back.position };
        let unread = || SendBackError::Unread { position: back.position };
        let Some(group) = self.lasting_group(back.group) else {
            return Err(SendBackError::UnknownGroup { group: back.group.clone() });
        };
        let retries_max = back.retries_max.unwrap_or(group.config.retries_max);
        let (group_id, policy) = (group.id, group.config.retry.clone());
        self.indexes.segment_of(back.position).ok_or_else(unknown)?;
        let fetched = fetch_at(&*self.reader, back.position, record_size_max(&self.config));
        let fetched = fetched.map_err(|error| if error.proof().is_some() { unknown() } else { unread() })?;
        let stored = fetched.stored().map_err(|_| unknown())?;
        let offset = match stored.placement {
            // Its queue may have forgotten it meanwhile; the message is there for its retries.
            Placement::Visible(offset) => offset,
            // Only what consumers have seen can come back: nothing that is held.
            _ => self.place_of(&fetched, &stored).map_err(|_| unread())?.ok_or_else(unknown)?.offset,
        };
        let home = stored.queue;
        if back.give_up || u32::from(back.attempt) >= retries_max {
            let dead = DeadLetter {
                group: group_id,
                queue: home,
                offset,
                attempts: back.attempt.saturating_add(1),
                reason: if back.give_up { "given up by the consumer" } else { "retries exhausted" },
            };
            let mut message = stored.message.to_message();
            let new = back.properties.iter().filter(|(name, _)| stored.message.property(name).is_none());
            message.properties.extend(new.cloned());
            let ticket = self.ticket();
            return match self.bury_message(Some(ticket), dead, home.topic, message) {
                Burial::Proposed => Ok(ticket),
                Burial::NeedsTopic(topic) => Err(SendBackError::NoDeadLetterTopic { topic }),
                Burial::Unreadable | Burial::Later => Err(unknown()),
            };
        }
        let entry = Entry {
            position: back.position,
            size: fetched.size(),
            stored_at: stored.stored_at,
            tag_hash: stored.message.tag.map_or(0, crate::filter::tag_hash),
            group_hash: stored.message.group.map_or(0, crate::group_hash),
            attempt: back.attempt,
            priority: stored.message.priority.unwrap_or(0),
        };
        let delay = back.delay.unwrap_or_else(|| policy.delay(u32::from(back.attempt) + 1));
        self.retry_later(back.group, entry, now.after(delay))
    }

    fn retry_later(
        &mut self,
        group: &GroupName,
        entry: Entry,
        due: Timestamp,
    ) -> Result<Ticket, SendBackError> {
        let retry_topic = group.retry_topic();
        let Some(to) = self.lasting_topic(&retry_topic) else {
            return Err(SendBackError::NoRetryTopic { topic: retry_topic });
        };
        let timer = Timer {
            queue: QueueKey { topic: to, queue: QueueId(0) },
            position: entry.position,
            size: entry.size,
            tag_hash: entry.tag_hash,
            group_hash: entry.group_hash,
            attempt: entry.attempt.saturating_add(1),
            priority: entry.priority,
            state: TimerState::Waiting,
        };
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::SendBack { due, timer, id: Position(0), left: None });
        Ok(ticket)
    }

    /// Where the half message of an open transaction is stored.
    pub fn half(&self, id: Position) -> Option<(Position, u32)> {
        self.state.transactions.get(id).map(|half| (half.message.position, half.message.size))
    }
}
