use super::{AckError, Engine, TransactionCheck, send::choose_queue};
use crate::{
    GroupId, Message, MessageType, QueueKey, QueueOffset, Receipt, Ticket, Timestamp, TopicConfig, TopicId,
    TopicName,
    dedup::EXPIRED_PER_STEP,
    pop::FlightState,
    record::{AckReason, Cause, Decision, Fetched, Left, Link, Placement, Proof, fetch, put_message},
    timer::{Timer, TimerKey},
};

/// Delayed messages linked by one step, of which one is under way at a time: a flood of due ones shares each frame
/// and each flush with other work.
const LINKS_PER_TICK: usize = 1024;
const CHECKS_PER_TICK: usize = 1024;
const BURIALS_PER_TICK: usize = 256;
/// A message that the disk could not read is tried again after this time.
const BURIAL_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
/// A transaction check for which there was no room is tried again after this time.
const CHECK_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
#[cfg(feature = "planted")]
const EARLY: std::time::Duration = std::time::Duration::from_millis(500);

/// Properties that tell where a dead letter comes from.
pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
pub const DLQ_ATTEMPTS: &str = "DLQ_ATTEMPTS";
pub const DLQ_REASON: &str = "DLQ_REASON";

/// A message that no consumer of the group can process.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeadLetter<'a> {
    pub group: GroupId,
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub attempts: u16,
    pub reason: &'a str,
}

/// What became of a dead letter, or of a message that goes to the retry topic.
#[derive(Debug)]
pub(super) enum Burial {
    Proposed,
    /// Its topic is being created, or deleted before that; try again when that is durable.
    NeedsTopic(TopicName),
    /// There is no message left to move.
    Unreadable,
    /// The disk could not read it this time.
    Later,
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
    /// Does what is due: links delayed messages, buries dead letters, asks about or ends old transactions, forgets dedup
    /// keys. Returns the transactions whose producers must be asked.
    pub fn tick(&mut self, now: Timestamp) -> Vec<TransactionCheck> {
        self.tick_with_room(now, CHECKS_PER_TICK)
    }

    /// The same for a caller that can hand over only `room` checks now. The others stay due, do not count as asked, and
    /// are tried again a little later.
    pub fn tick_with_room(&mut self, now: Timestamp, room: usize) -> Vec<TransactionCheck> {
        let now = self.advance(now);
        self.move_timers();
        if self.burials_again.is_some_and(|at| at <= now) {
            self.burials_again = None;
            self.unpark();
        }
        self.forget_expired_keys(now);
        self.fire(now);
        self.bury(now);
        if self.checks_again.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let (checks, all) = self.check_transactions(now, CHECKS_PER_TICK, room);
        self.checks_again = if all { None } else { Some(now.after(CHECK_RETRY)) };
        checks
    }

    /// Forgets dedup keys whose window is over: the part of [`Engine::tick`] that is not logged. A start may remember keys
    /// that were forgotten before it, which no lookup finds.
    pub fn forget_expired_keys(&mut self, now: Timestamp) {
        let now = self.advance(now);
        #[cfg(feature = "planted")]
        if self.planted(crate::Planted::JamDedup) {
            return;
        }
        self.state.dedup.expire(now, EXPIRED_PER_STEP);
    }

    /// When [`Engine::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let chance = self.state.last_chances.first().map(|(at, ..)| *at);
        // The next step is taken when the last one is durable; until then nothing can be done about timers.
        let timer = if self.linking { None } else { self.state.timers.next_due() };
        if self.time.has_moves() {
            return Some(self.time.now());
        }
        let check = self.state.transactions.next_due();
        let check = check.map(|at| self.checks_again.map_or(at, |again| at.max(again)));
        let key = self.state.dedup.next_expiry();
        [timer, chance, self.burials_again, check, key].into_iter().flatten().min()
    }

    fn fire(&mut self, now: Timestamp) {
        if self.linking {
            return;
        }
        #[cfg(feature = "planted")]
        let now = if self.planted(crate::Planted::FireEarly) { now.after(EARLY) } else { now };
        let due = self.state.timers.take_due(now, LINKS_PER_TICK);
        if due.is_empty() {
            return;
        }
        let mut links = Vec::with_capacity(due.len());
        for (key, timer) in due {
            match self.link(key, &timer) {
                Some(link) => links.push(link),
                // The topic is gone, and its delayed messages with it.
                None => self.propose(None, Decision::Recall { key }),
            }
        }
        if !links.is_empty() {
            self.linking = true;
            self.propose(None, Decision::Link(links));
        }
    }

    fn link(&mut self, key: TimerKey, timer: &Timer) -> Option<Link> {
        let topic = self.state.topics.get_mut(&timer.queue.topic)?;
        let offset = topic.queue_mut(timer.queue.queue).propose();
        Some(Link { key, queue: timer.queue, offset, entry: timer.entry(self.time.stamp()) })
    }

    /// Moves messages whose time is out and that no receive will ask for: to the dead-letter topic after their last
    /// attempt, to the retry topic when the group's consumers pull.
    pub(super) fn bury(&mut self, now: Timestamp) {
        for _ in 0..BURIALS_PER_TICK {
            let Some(chance) = self.state.last_chances.first().copied().filter(|(at, ..)| *at <= now) else {
                return;
            };
            if self.batch_is_full(0) {
                return;
            }
            self.state.last_chances.pop_first();
            let (visible_at, group, queue, offset) = chance;
            let Some(progress) = self.state.progress(group, queue) else { continue };
            let (left, flight) = (progress.is_left_behind(offset), progress.flight(offset).copied());
            if progress.pulled {
                let next = progress.next_due(Some((visible_at, offset)));
                self.state.last_chances.extend(next.map(|(at, offset)| (at, group, queue, offset)));
            }
            let attempts = match flight {
                // One that was given up meanwhile has its dead letter on the way.
                Some(flight) if flight.visible_at == visible_at && flight.state != FlightState::Dying => {
                    u32::from(flight.attempt)
                }
                _ => continue,
            };
            #[cfg(feature = "planted")]
            let early = u32::from(self.planted(crate::Planted::BuryEarly));
            #[cfg(not(feature = "planted"))]
            let early = 0;
            let max = self.state.groups.get(&group).map(|group| group.config.attempts_max());
            let exhausted = max.is_some_and(|max| attempts + early >= max);
            let attempts = attempts as u16;
            let dead = DeadLetter { group, queue, offset, attempts, reason: "retries exhausted" };
            let moved = match (exhausted, left) {
                (true, _) => Some(self.dead_letter(None, dead)),
                (false, true) => Some(self.leave_to_pulls(Left { group, queue, offset }, attempts, now)),
                (false, false) => None,
            };
            match moved {
                Some(Burial::NeedsTopic(_)) => self.parked.push(chance),
                Some(Burial::Later) => {
                    self.parked.push(chance);
                    self.burials_again = Some(now.after(BURIAL_RETRY));
                }
                Some(Burial::Proposed | Burial::Unreadable) | None => {}
            }
        }
    }

    /// Proposes the dead letter of a message.
    pub(super) fn dead_letter(&mut self, ticket: Option<Ticket>, dead: DeadLetter<'_>) -> Burial {
        let DeadLetter { group, queue: from, offset, .. } = dead;
        if let Err(burial) = self.dead_letter_topic(group) {
            return burial;
        }
        let read = self.read_entry(from, offset).and_then(|fetched| {
            let stored = fetched.stored().map_err(|error| Unread::of(error.proof()))?;
            Ok((stored.queue.topic, stored.message.to_message()))
        });
        match read {
            Ok((home, message)) => self.bury_message(ticket, dead, home, message),
            Err(Unread::Later) => Burial::Later,
            Err(Unread::Lost(proof)) => {
                self.lose(group, from, offset, proof);
                Burial::Unreadable
            }
            Err(Unread::Gone) => {
                self.finish(group, from, vec![offset], AckReason::Unreadable);
                Burial::Unreadable
            }
        }
    }

    /// The topic for a group's dead letters; made when there is none.
    fn dead_letter_topic(&mut self, group: GroupId) -> Result<TopicId, Burial> {
        let group = self.state.groups.get(&group).ok_or(Burial::Unreadable)?;
        let name = group.name.dead_letter_topic();
        self.made_topic(name)
    }

    /// A topic of the group's own; made when there is none.
    pub(super) fn made_topic(&mut self, name: TopicName) -> Result<TopicId, Burial> {
        match self.topic_id(&name) {
            // It can be made anew when its deletion is durable.
            Some(id) if self.deleting_topics.contains(&id) => Err(Burial::NeedsTopic(name)),
            Some(id) => Ok(id),
            None => {
                self.create_own_topic(name.clone());
                Err(Burial::NeedsTopic(name))
            }
        }
    }

    /// Proposes the dead letter of a message whose copy was stored for the topic `home`.
    pub(super) fn bury_message(
        &mut self,
        ticket: Option<Ticket>,
        dead: DeadLetter<'_>,
        home: TopicId,
        message: Message,
    ) -> Burial {
        let DeadLetter { group, queue: from, offset, .. } = dead;
        let to = match self.dead_letter_topic(group) {
            Ok(to) => to,
            Err(burial) => return burial,
        };
        // A message in a retry topic came from the topic its only copy was stored for.
        let origin = self.topic_name(home).or_else(|| self.topic_name(from.topic));
        // Users know a lite topic by its parent; the message itself tells which one it was.
        let origin = origin.map(|name| name.lite_parts().map_or_else(|| name.clone(), |(parent, _)| parent));
        let origin = origin.map(|name| name.to_string()).unwrap_or_default();
        let message = as_dead_letter(message, origin, dead.attempts, dead.reason);
        let Some(topic) = self.state.topics.get_mut(&to) else { return Burial::Unreadable };
        let queue = choose_queue(topic, &message, None);
        let placement = Placement::Visible(topic.queue_mut(queue).propose());
        let key = QueueKey { topic: to, queue };
        // Only what is in flight now ends with its dead letter: a pop that comes before that is durable logs its fact
        // behind it, and must mean the same when it is read back.
        let held = self.state.progress(group, from).is_some_and(|progress| progress.flight(offset).is_some());
        let cause = Cause::DeadLetter { group, queue: from, offset, held };
        let stored = put_message(&mut self.batch.payload, &message, cause, key, placement, self.time.stamp());
        self.propose_stored(ticket, stored);
        if let Some(progress) = self.state.known_progress_mut(group, from) {
            progress.set_dying(offset, true);
        }
        Burial::Proposed
    }

    /// A consumer gives a message up: it goes to the dead-letter topic without further retries.
    pub fn forward_to_dead_letters(
        &mut self,
        receipt: Receipt,
        now: Timestamp,
    ) -> Result<Ticket, ForwardError> {
        let now = self.advance(now);
        if !self.check_receipt(receipt, now)? {
            return Err(AckError::Expired.into());
        }
        let attempts = self
            .state
            .progress(receipt.group, receipt.queue)
            .and_then(|progress| progress.flight(receipt.offset))
            .map_or(0, |flight| flight.attempt);
        let dead = DeadLetter {
            group: receipt.group,
            queue: receipt.queue,
            offset: receipt.offset,
            attempts,
            reason: "given up by the consumer",
        };
        let ticket = self.ticket();
        match self.dead_letter(Some(ticket), dead) {
            Burial::Proposed => Ok(ticket),
            Burial::NeedsTopic(topic) => Err(ForwardError::NoTopic { topic }),
            Burial::Unreadable => Err(ForwardError::Unreadable),
            Burial::Later => Err(ForwardError::Later),
        }
    }

    /// The dead letter was refused: the message is in flight again, at its last chance.
    pub(super) fn revive(&mut self, group: GroupId, queue: QueueKey, offset: QueueOffset) {
        let Some(progress) = self.state.known_progress_mut(group, queue) else { return };
        progress.set_dying(offset, false);
        if let Some(visible_at) = progress.flight(offset).map(|flight| flight.visible_at) {
            self.state.last_chances.insert((visible_at, group, queue, offset));
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
    fn read_entry(&self, key: QueueKey, offset: QueueOffset) -> Result<Fetched, Unread> {
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        let queue = queue.ok_or(Unread::Gone)?;
        let entry = self.indexes.entry(key, queue, offset).map_err(|_| Unread::Later)?;
        let entry = entry.ok_or(Unread::Gone)?;
        fetch(&*self.reader, entry.position, entry.size).map_err(|error| Unread::of(error.proof()))
    }
}

/// Why there is no message to bury.
enum Unread {
    /// The read failed; another may succeed.
    Later,
    Lost(Proof),
    /// Its queue no longer lists it: its segment was removed, or its topic deleted.
    Gone,
}

impl Unread {
    fn of(proof: Option<Proof>) -> Unread {
        proof.map_or(Unread::Later, Unread::Lost)
    }
}

fn as_dead_letter(mut message: Message, origin: String, attempts: u16, reason: &str) -> Message {
    message.deliver_at = None;
    let id = message.id.clone();
    let origin = [
        (DLQ_ORIGIN_TOPIC, origin),
        (DLQ_ORIGIN_MESSAGE_ID, id),
        (DLQ_ATTEMPTS, attempts.to_string()),
        (DLQ_REASON, reason.to_owned()),
    ];
    message.properties.retain(|(name, _)| !origin.iter().any(|(ours, _)| ours == name));
    message.properties.extend(origin.map(|(name, value)| (name.to_owned(), value)));
    message
}
