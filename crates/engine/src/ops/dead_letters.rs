//! The end of a message's last attempt: it moves to the group's dead-letter topic, or to the retry topic when the group's
//! consumers pull.

use std::time::Duration;

use super::{AckError, Engine, send::choose_queue};
use crate::{
    GroupId, Message, MessageType, QueueKey, QueueOffset, Receipt, Ticket, Timestamp, TopicConfig, TopicId,
    TopicName,
    index::{ColdPart, IndexError, Unread},
    planted,
    pop::FlightKey,
    record::{AckReason, Cause, Fact, Fetched, Placement, Proof, put_message},
    state::{Effects, FinalAttempt},
};

/// Final attempts ended by one step, so that many which expire together do not delay other requests.
const ENDS_PER_STEP: usize = 256;
/// A message that the disk could not read is tried again after this time.
const MOVE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Properties that tell where a dead letter comes from.
pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
pub const DLQ_ATTEMPTS: &str = "DLQ_ATTEMPTS";
pub const DLQ_REASON: &str = "DLQ_REASON";
/// The reason of a message whose consumer gave none.
pub(super) const GIVEN_UP: &str = "given up by the consumer";

/// A message that no consumer of the group can process.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeadLetter<'a> {
    pub flight: FlightKey,
    pub attempts: u16,
    pub reason: &'a str,
}

/// What became of a message that was to move to the dead-letter topic or to the retry topic.
#[derive(Debug)]
pub(super) enum Move {
    Proposed,
    /// Its topic is being created or deleted; try again when that decision is durable.
    NeedsTopic(TopicName),
    /// There is no message left to move: it is done.
    Gone,
    /// The disk could not read the message this time.
    Unread,
    /// The message, or its place in the index, is not in memory.
    Cold(ColdPart),
}

/// A message that could not be moved to the dead-letter topic.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error(transparent)]
    Receipt(#[from] AckError),
    #[error("the dead-letter topic {topic} is being created, try again")]
    NoTopic { topic: TopicName },
    #[error("the message is no longer stored or is damaged")]
    Unreadable,
    #[error("the message could not be read, try again")]
    Later,
}

impl Engine {
    /// Moves messages whose final attempt is over: to the dead-letter topic when their attempts are used up, to the retry
    /// topic when the group's consumers pull.
    pub(super) fn end_final_attempts(&mut self, now: Timestamp) {
        let is_due = |last: &FinalAttempt| last.visible_at <= now;
        if !self.state.final_attempts.first().is_some_and(is_due) {
            return;
        }
        let inside = self.begin_own_work();
        self.end_some_final_attempts(now);
        self.end_own_work(inside);
        let more = self.state.final_attempts.first().is_some_and(is_due);
        if !more && self.cold_moves.is_empty() && !self.copies_wait {
            self.own_reads.forget();
        }
    }

    fn end_some_final_attempts(&mut self, now: Timestamp) {
        for _ in 0..ENDS_PER_STEP {
            let Some(last) = self.state.final_attempts.first().copied().filter(|last| last.visible_at <= now)
            else {
                return;
            };
            if self.batch_is_full(0) || self.own_reads.is_full() {
                return;
            }
            self.state.final_attempts.pop_first();
            let FlightKey { group, queue, offset } = last.flight;
            let Some(progress) = self.state.progress(group, queue) else { continue };
            let (left, flight) = (progress.is_left_behind(offset), progress.flight(offset).copied());
            if progress.pulled {
                let next = progress.next_due(Some((last.visible_at, offset)));
                self.state.final_attempts.extend(next.map(|next| FinalAttempt::of(group, queue, next)));
            }
            let attempts = match flight {
                // One that was given up meanwhile has its dead letter on the way.
                Some(flight)
                    if flight.visible_at == last.visible_at
                        && !self.speculation.dying.contains(last.flight) =>
                {
                    flight.attempt
                }
                _ => continue,
            };
            let max = self.state.groups.get(&group).map(|group| group.config.attempts_max());
            let exhausted =
                max.is_some_and(|max| u32::from(attempts) >= planted::attempts_max(&self.config, max));
            let dead = DeadLetter { flight: last.flight, attempts, reason: "retries exhausted" };
            let moved = match (exhausted, left) {
                (true, _) => Some(self.move_to_dead_letters(None, dead)),
                (false, true) => Some(self.move_to_retry_topic(last.flight, attempts, now)),
                (false, false) => None,
            };
            match moved {
                Some(Move::NeedsTopic(_)) => self.postponed_moves.push(last),
                Some(Move::Unread) => {
                    self.postponed_moves.push(last);
                    self.moves_again_at = Some(now.after(MOVE_AGAIN_AFTER));
                }
                Some(Move::Cold(part)) => {
                    self.own_reads.want(part);
                    self.cold_moves.push(last);
                }
                Some(Move::Proposed | Move::Gone) | None => {}
            }
        }
    }

    /// Messages whose move was postponed are tried again by the next step.
    pub(super) fn resume_moves(&mut self) {
        self.state.final_attempts.extend(std::mem::take(&mut self.postponed_moves));
    }

    /// Reads a message and proposes its dead letter.
    fn move_to_dead_letters(&mut self, ticket: Option<Ticket>, dead: DeadLetter<'_>) -> Move {
        let FlightKey { group, queue: from, offset } = dead.flight;
        if let Err(postponed) = self.dead_letter_topic(group) {
            return postponed;
        }
        let read = self.read_entry(from, offset).and_then(|fetched| {
            let stored = fetched.stored().map_err(|error| Unmoved::of(error.proof()))?;
            Ok((stored.queue.topic, stored.message.to_message()))
        });
        match read {
            Ok((home, message)) => self.propose_dead_letter(ticket, dead, home, message),
            Err(Unmoved::Later) => Move::Unread,
            Err(Unmoved::Cold(part)) => Move::Cold(part),
            Err(Unmoved::Lost(proof)) => {
                self.lose(dead.flight, proof);
                Move::Gone
            }
            Err(Unmoved::Gone) => {
                self.finish(group, from, vec![offset], AckReason::Unreadable);
                Move::Gone
            }
        }
    }

    /// The topic for a group's dead letters; made when there is none.
    fn dead_letter_topic(&mut self, group: GroupId) -> Result<TopicId, Move> {
        let group = self.state.groups.get(&group).ok_or(Move::Gone)?;
        let name = group.name.dead_letter_topic();
        self.made_topic(name)
    }

    /// A topic of the group's own; made when there is none.
    pub(super) fn made_topic(&mut self, name: TopicName) -> Result<TopicId, Move> {
        match self.topic_id(&name) {
            // It can be made anew when its deletion is durable.
            Some(id) if self.speculation.deleting_topics.contains(&id) => Err(Move::NeedsTopic(name)),
            Some(id) => Ok(id),
            None => {
                self.create_own_topic(name.clone());
                Err(Move::NeedsTopic(name))
            }
        }
    }

    /// Proposes the dead letter of a message whose copy was stored for the topic `home`.
    pub(super) fn propose_dead_letter(
        &mut self,
        ticket: Option<Ticket>,
        dead: DeadLetter<'_>,
        home: TopicId,
        message: Message,
    ) -> Move {
        let FlightKey { group, queue: from, offset } = dead.flight;
        let to = match self.dead_letter_topic(group) {
            Ok(to) => to,
            Err(postponed) => return postponed,
        };
        // A message in a retry topic came from the topic its only copy was stored for.
        let origin = self.topic_name(home).or_else(|| self.topic_name(from.topic)).cloned();
        // Of a topic that is deleted: consumers that pull have it from the retry topic.
        let origin = origin.or_else(|| self.state.groups.get(&group).map(|group| group.name.retry_topic()));
        // Users know a lite topic by its parent; a property of the message names the lite topic.
        let origin = origin.map(|name| name.lite_parts().map(|(parent, _)| parent).unwrap_or(name));
        let origin = origin.map(|name| name.to_string()).unwrap_or_default();
        let message = dead_letter(message, origin, dead.attempts.into(), dead.reason);
        let Some(topic) = self.state.topics.get_mut(&to) else { return Move::Gone };
        let key = QueueKey { topic: to, queue: choose_queue(topic, &message, None) };
        let Some(offset_there) = self.propose_offset(key) else { return Move::Gone };
        let placement = Placement::Visible(offset_there);
        // Only what is in flight now ends with its dead letter: a pop that comes before that is durable logs its fact
        // behind it, and must mean the same when it is read back.
        let in_flight = !self.speculation.dying.contains(dead.flight)
            && self.state.progress(group, from).is_some_and(|progress| progress.flight(offset).is_some());
        let cause = Cause::DeadLetter { flight: dead.flight, in_flight };
        let stored = put_message(&mut self.batch.payload, &message, cause, key, placement, self.time.stamp());
        self.propose_stored(ticket, stored);
        if in_flight {
            self.speculation.dying.insert(dead.flight);
        }
        Move::Proposed
    }

    /// A consumer gives a message up: it goes to the dead-letter topic without further retries, with the consumer's reason if it gave
    /// one.
    pub fn forward_to_dead_letters(
        &mut self,
        receipt: Receipt,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Ticket, ForwardError> {
        let now = self.advance(now);
        if !self.check_receipt(receipt, now)? {
            return Err(AckError::Expired.into());
        }
        let flight = receipt.flight();
        let attempts = self
            .state
            .progress(flight.group, flight.queue)
            .and_then(|progress| progress.flight(flight.offset))
            .map_or(0, |flight| flight.attempt);
        let dead = DeadLetter { flight, attempts, reason: reason.unwrap_or(GIVEN_UP) };
        let ticket = self.ticket();
        match self.move_to_dead_letters(Some(ticket), dead) {
            Move::Proposed => Ok(ticket),
            Move::NeedsTopic(topic) => Err(ForwardError::NoTopic { topic }),
            Move::Gone => Err(ForwardError::Unreadable),
            Move::Unread | Move::Cold(_) => Err(ForwardError::Later),
        }
    }

    /// The decision that would have ended a flight was refused: the flight goes on, at its final attempt. `goes_on` is the
    /// fact that says so in the log.
    pub(super) fn withdraw_flight_end(&mut self, flight: FlightKey, goes_on: Option<&Fact>) {
        let passed = self.speculation.dying.remove(flight);
        let Some(goes_on) = goes_on else { return };
        self.apply_fact(goes_on);
        // A fact that comes behind this one in the log has ended the flight.
        if passed {
            let mut effects = Effects::default();
            self.state.done(flight, &mut effects);
            self.note(effects);
        }
        let flight_now =
            self.state.progress(flight.group, flight.queue).and_then(|p| p.flight(flight.offset));
        if let Some(visible_at) = flight_now.map(|flight| flight.visible_at) {
            self.state.final_attempts.insert(FinalAttempt { visible_at, flight });
        }
    }

    fn create_own_topic(&mut self, name: TopicName) {
        let config = TopicConfig {
            message_type: MessageType::Mixed,
            read_queues: 1,
            write_queues: 1,
            ..TopicConfig::default()
        };
        self.propose_topic(None, name, config);
    }

    /// The message at a place of a queue.
    fn read_entry(&self, key: QueueKey, offset: QueueOffset) -> Result<Fetched, Unmoved> {
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        let queue = queue.ok_or(Unmoved::Gone)?;
        let entry = match self.indexes.entry(key, queue, offset) {
            Err(IndexError::Cold(part)) => return Err(Unmoved::Cold(part)),
            Err(_) => return Err(Unmoved::Later),
            Ok(entry) => entry.ok_or(Unmoved::Gone)?,
        };
        self.indexes.record(entry.position, entry.size).map_err(|unread| match unread {
            Unread::Cold(part) => Unmoved::Cold(part),
            Unread::Fetch(error) => Unmoved::of(error.proof()),
        })
    }
}

/// Why a message was not read for its dead letter.
enum Unmoved {
    /// The read failed; another may succeed.
    Later,
    Cold(ColdPart),
    Lost(Proof),
    /// Its queue no longer lists it: its segment was removed, or its topic deleted.
    Gone,
}

impl Unmoved {
    fn of(proof: Option<Proof>) -> Unmoved {
        proof.map_or(Unmoved::Later, Unmoved::Lost)
    }
}

/// The message with what its dead letter says of it: the topic it was sent to, its id, its deliveries, and why it is here. What it
/// says of an earlier stay in a dead-letter topic goes.
pub fn dead_letter(mut message: Message, origin: String, attempts: u32, reason: &str) -> Message {
    message.deliver_at = None;
    let id = message.id.clone();
    let about = [
        (DLQ_ORIGIN_TOPIC, origin),
        (DLQ_ORIGIN_MESSAGE_ID, id),
        (DLQ_ATTEMPTS, attempts.to_string()),
        (DLQ_REASON, reason.to_owned()),
    ];
    message.properties.retain(|(name, _)| !about.iter().any(|(ours, _)| ours == name));
    message.properties.extend(about.map(|(name, value)| (name.to_owned(), value)));
    message
}
