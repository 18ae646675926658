//! Messages of a group's retry topic, for consumers that receive by topic.
//!
//! Consumers that pull by offset have one retry topic for all topics of their group, and send their failed messages back
//! to it. When such a group goes on with receives, its messages there are delivered as messages of the topics they were
//! sent to. One cursor goes over the retry topic: a message of another topic than the one that is asked for is
//! skipped, which makes it a flight that is visible until a receive asks for its topic. The flight's lock names that topic, see
//! [`lock_of`].
//!
//! A consumer may also have received from the retry topic itself, and left messages in flight whose locks are those of their
//! message groups. The next receive by topic reads to which topic each of them belongs, and names it.
//!
//! The other way round, consumers that pull do not ask for what receives have left in flight: each such message goes to
//! the retry topic when its invisible time is over, with its attempts.

use std::collections::BTreeSet;

use redstart_log::Position;

use super::{Delivery, Engine, Pop, PopError, Popped, Start, dead_letters::Move};
use crate::{
    Entry, GroupId, QueueId, QueueKey, QueueOffset, Receipt, Timestamp, TopicId, TopicName,
    index::{IndexError, Unread},
    message_ref::MessageRef,
    planted,
    pop::{FlightKey, Progress},
    record::{AckReason, Decision, Delivered, Fact, PopFact, Proof},
    state::FinalAttempt,
};

/// Names the topic that a message in a retry topic was sent to, if its sender made a copy of it for the retry topic.
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// How often such a copy was delivered before.
pub const RECONSUME_TIME: &str = "RECONSUME_TIME";

/// Messages of one retry topic that may be in flight for receives by topic: each of them is looked at by each receive.
const FLIGHTS_MAX: usize = 4096;
/// Messages of a retry topic that one receive may read to learn their topics.
const READS_MAX: usize = 128;

/// The lock of a flight in a retry topic, which names the topic that its message was sent to. The complement of the topic's number:
/// the hash of a message group, of which 0 is the most common, is hardly ever one.
fn lock_of(home: TopicId) -> u32 {
    !home.0
}

/// The group whose receives read a retry topic, with the topics that these ask for.
pub(super) type Readers = (GroupId, BTreeSet<TopicId>);

/// What one queue of a retry topic has for a receive.
#[derive(Default)]
struct Step {
    given: Vec<(Delivered, Entry)>,
    /// Messages of other topics: flights that are visible from now on.
    skipped: Vec<Delivered>,
    exhausted: Vec<FinalAttempt>,
    lost: Vec<(QueueOffset, Proof)>,
    /// Flights whose topic is deleted: they are done.
    orphans: Vec<QueueOffset>,
    cursor: Option<QueueOffset>,
    /// The search ended at the limit of flights.
    flights_full: bool,
    /// The search has got further and ended at a bound, or at a part that is not in memory.
    more: bool,
    unreadable: bool,
}

impl Step {
    /// A message could not be read. Returns the proof if it is lost; without one the search ends before it.
    fn unread(&mut self, unread: Unread) -> Result<Option<Proof>, IndexError> {
        match unread {
            Unread::Cold(part) if self.given.is_empty() && self.skipped.is_empty() => {
                Err(IndexError::Cold(part))
            }
            // What was found before it is an answer.
            Unread::Cold(_) => {
                self.more = true;
                Ok(None)
            }
            Unread::Fetch(error) => {
                let proof = error.proof();
                self.unreadable |= proof.is_none();
                Ok(proof)
            }
        }
    }
}

impl Engine {
    /// A [`Pop`] that also delivers messages of the topic from the group's retry topic, and those first.
    pub fn pop_with_retries(&mut self, pop: &Pop<'_>, now: Timestamp) -> Result<Popped, PopError> {
        let now = self.advance(now);
        let (group, topic) = self.check_pop(pop)?;
        let Some(retry) = self.retry_topic_of(group).filter(|retry| *retry != topic) else {
            return self.pop(pop, now);
        };
        self.retry_readers.entry(retry).or_insert_with(|| (group, BTreeSet::new())).1.insert(topic);
        let mut retries = self.pop_retries(pop, group, topic, retry, now)?;
        let rest = pop.max - retries.deliveries.len();
        if rest == 0 {
            return Ok(retries);
        }
        match self.pop(&Pop { max: rest, ..pop.clone() }, now) {
            Ok(mut popped) => {
                retries.deliveries.append(&mut popped.deliveries);
                popped.deliveries = retries.deliveries;
                popped.more |= retries.more;
                popped.ask_again_at = popped.ask_again_at.or(retries.ask_again_at);
                popped.next_visible = [popped.next_visible, retries.next_visible].into_iter().flatten().min();
                Ok(popped)
            }
            // What the retry topic gave is in flight: the consumer must get it.
            Err(_) if !retries.deliveries.is_empty() => Ok(retries),
            Err(error) => Err(error),
        }
    }

    /// The retry topic of a group, if it has one.
    pub fn retry_topic_of(&self, group: GroupId) -> Option<TopicId> {
        self.state.retry_topics.get(&group).copied()
    }

    fn pop_retries(
        &mut self,
        pop: &Pop<'_>,
        group: GroupId,
        topic: TopicId,
        retry: TopicId,
        now: Timestamp,
    ) -> Result<Popped, PopError> {
        self.subscribe(group, retry, Start::Earliest)?;
        let visible_at = now.after(pop.invisible);
        let mut popped = Popped::nothing_yet(visible_at);
        let queues = self.state.topics.get(&retry).map_or(0, |topic| topic.readable());
        for queue in (0..queues).map(QueueId) {
            let key = QueueKey { topic: retry, queue };
            let left = pop.max - popped.deliveries.len();
            if left == 0 || !self.prepare(group, key, false) {
                continue;
            }
            let step = match self.retries_in(key, group, topic, left, now) {
                Ok(step) => step,
                Err(_) if !popped.deliveries.is_empty() => break,
                Err(error) => return Err(error),
            };
            popped.more |= step.more;
            if step.unreadable {
                popped.ask_again_at = Some(now.after(super::READ_AGAIN_AFTER));
            }
            popped.deliveries.extend(self.take_retries(pop, key, group, step, visible_at, now));
            let progress = self.state.progress(group, key);
            let next = progress.and_then(|progress| {
                let may_be_its = |lock| self.named_home(lock).is_none_or(|home| home == topic);
                let of_topic = progress.flights().filter(|(_, flight)| may_be_its(flight.lock));
                of_topic.map(|(_, flight)| flight.visible_at).filter(|at| *at > now).min()
            });
            popped.next_visible = [popped.next_visible, next].into_iter().flatten().min();
        }
        Ok(popped)
    }

    /// Picks what one queue of a retry topic has for a topic; changes nothing.
    fn retries_in(
        &self,
        key: QueueKey,
        group: GroupId,
        topic: TopicId,
        max: usize,
        now: Timestamp,
    ) -> Result<Step, PopError> {
        let mut step = Step::default();
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        let Some(queue) = queue else { return Ok(step) };
        let mut fresh = None;
        let progress = match self.state.progress(group, key) {
            Some(progress) => progress,
            // Made by the fact, if there is one.
            None => fresh.insert(Progress::fresh(queue.min(), false)),
        };
        let attempts_max = self.state.groups.get(&group).map_or(1, |group| group.config.attempts_max());
        let mut reads = READS_MAX;
        for offset in progress.expired(now).take(FLIGHTS_MAX) {
            let Some(flight) = progress.flight(offset) else { continue };
            let named = self.named_home(flight.lock);
            if named.is_some_and(|home| home != topic) {
                continue;
            }
            if self.speculation.dying.contains(FlightKey { group, queue: key, offset }) {
                continue;
            }
            if step.given.len() >= max {
                return Ok(step);
            }
            if u32::from(flight.attempt) >= attempts_max {
                step.exhausted.push(FinalAttempt::of(group, key, (flight.visible_at, offset)));
                continue;
            }
            let Some(entry) = self.indexes.entry(key, queue, offset)? else { continue };
            // The lock tells the topic of a message that was delivered from here. Of one that was skipped, the deliveries that
            // count are those before it came here.
            let (home, before) = match named.filter(|_| !flight.is_new()) {
                Some(home) => (home, flight.attempt),
                None if reads == 0 => {
                    step.more = true;
                    return Ok(step);
                }
                None => {
                    reads -= 1;
                    match self.origin_of(&entry) {
                        Ok(Some((home, attempts))) => (home, flight.attempt.max(attempts)),
                        Ok(None) => {
                            step.orphans.push(offset);
                            continue;
                        }
                        Err(unread) => match step.unread(unread)? {
                            // The consumer that is given it finds the loss.
                            Some(_) => (topic, flight.attempt.max(entry.attempt)),
                            None => return Ok(step),
                        },
                    }
                }
            };
            if home == topic {
                let attempt = before.saturating_add(1);
                step.given.push((Delivered { offset, attempt, lock: lock_of(home), priority: 0 }, entry));
            } else {
                let attempt = flight.attempt;
                step.skipped.push(Delivered { offset, attempt, lock: lock_of(home), priority: 0 });
            }
        }
        let first = progress.cursor.low();
        let mut next = first;
        while next < queue.end() && step.given.len() < max && reads > 0 {
            if progress.in_flight() + step.given.len() + step.skipped.len() >= FLIGHTS_MAX {
                step.flights_full = true;
                break;
            }
            let entry = self.indexes.entry(key, queue, next)?;
            if let Some(entry) = entry.filter(|_| progress.flight(next).is_none()) {
                reads -= 1;
                match self.origin_of(&entry) {
                    Ok(Some((home, attempts))) if home == topic => {
                        let attempt = attempts.saturating_add(1);
                        let delivered = Delivered { offset: next, attempt, lock: lock_of(home), priority: 0 };
                        step.given.push((delivered, entry));
                    }
                    // No consumer has been given it from here: its attempts are not used up, whatever the group's limit
                    // becomes before a receive asks for its topic.
                    Ok(Some((home, _))) => {
                        step.skipped.push(Delivered {
                            offset: next,
                            attempt: 0,
                            lock: lock_of(home),
                            priority: 0,
                        });
                    }
                    // Its topic is gone, and its messages with it.
                    Ok(None) => {}
                    Err(unread) => match step.unread(unread)? {
                        Some(proof) => step.lost.push((next, proof)),
                        None => break,
                    },
                }
            }
            next = next.next();
        }
        step.more |= reads == 0;
        step.cursor = Some(next).filter(|next| *next != first);
        Ok(step)
    }

    /// The topic that the lock of a flight in a retry topic names, if that topic is there.
    fn named_home(&self, lock: u32) -> Option<TopicId> {
        let home = TopicId(!lock);
        self.state.topics.contains_key(&home).then_some(home)
    }

    /// A message in flight goes to the retry topic: its invisible time is over, and the group's consumers pull now.
    pub(super) fn move_to_retry_topic(&mut self, left: FlightKey, attempts: u16, now: Timestamp) -> Move {
        let FlightKey { group, queue: from, offset } = left;
        let Some(name) = self.state.groups.get(&group).map(|group| group.name.retry_topic()) else {
            return Move::Gone;
        };
        let to = match self.made_topic(name) {
            Ok(to) => to,
            Err(postponed) => return postponed,
        };
        let log_start = self.log_start();
        let queue = self.state.topics.get(&from.topic).and_then(|topic| topic.queue(from.queue));
        let entry = match queue.map(|queue| self.indexes.entry(from, queue, offset)) {
            // An entry in a later segment may outlive the message's own.
            Some(Ok(Some(entry))) if entry.position >= log_start => entry,
            Some(Err(IndexError::Cold(part))) => return Move::Cold(part),
            Some(Err(_)) => return Move::Unread,
            // Its segment was removed, or its topic deleted.
            Some(Ok(_)) | None => {
                self.finish(group, from, vec![offset], AckReason::Unreadable);
                return Move::Gone;
            }
        };
        let queue = QueueKey { topic: to, queue: QueueId(0) };
        let message = MessageRef::moved(entry, queue, attempts.max(entry.attempt));
        self.propose(None, Decision::SendBack { due: now, message, id: Position(0), left: Some(left) });
        self.speculation.dying.insert(left);
        Move::Proposed
    }

    /// The topic that a message was sent to, and how often it was delivered.
    fn origin_of(&self, entry: &Entry) -> Result<Option<(TopicId, u16)>, Unread> {
        let fetched = self.indexes.record(entry.position, entry.size)?;
        let stored = fetched.stored()?;
        let home = self.topic_name(stored.queue.topic);
        if home.is_some_and(|home| !home.is_retry()) {
            return Ok(Some((stored.queue.topic, entry.attempt)));
        }
        // A copy: what it was a copy of, it says itself.
        let origin = stored.message.property(RETRY_TOPIC).and_then(|name| TopicName::new(name).ok());
        let counted = stored.message.property(RECONSUME_TIME).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(origin.and_then(|name| self.topic_id(&name)).map(|id| (id, entry.attempt.max(counted))))
    }

    /// Puts into effect what came out of one queue of a retry topic.
    fn take_retries(
        &mut self,
        pop: &Pop<'_>,
        key: QueueKey,
        group: GroupId,
        step: Step,
        visible_at: Timestamp,
        now: Timestamp,
    ) -> Vec<Delivery> {
        let skipped = planted::skipped_retries(&self.config, step.skipped);
        self.state.final_attempts.extend(step.exhausted);
        for (offset, proof) in step.lost {
            self.note_passed_over(FlightKey { group, queue: key, offset }, proof);
        }
        let seq = self.state.progress(group, key).map_or(0, |progress| progress.seq).max(self.receipts_from);
        let first = seq.wrapping_add(skipped.len() as u64);
        let receipt =
            |n: usize, offset| Receipt { group, queue: key, offset, seq: first.wrapping_add(n as u64) };
        let deliveries = step.given.iter().enumerate().map(|(n, (delivered, entry))| Delivery {
            receipt: receipt(n, delivered.offset),
            position: entry.position,
            size: entry.size,
            stored_at: entry.stored_at,
            attempt: delivered.attempt,
        });
        let deliveries: Vec<Delivery> = deliveries.collect();
        let fact = |seq, visible_at, delivered, cursors| PopFact {
            group,
            queue: key,
            visible_at,
            attempt_tag: 0,
            client: pop.client.to_owned(),
            ordered: false,
            seq,
            cursors,
            delivered,
            blocked: Vec::new(),
        };
        if !skipped.is_empty() {
            self.record(&Fact::Pop(fact(seq, now, skipped, Vec::new())));
        }
        let given: Vec<Delivered> = step.given.into_iter().map(|(delivered, _)| delivered).collect();
        let cursors: Vec<_> = step.cursor.map(|next| (0, next)).into_iter().collect();
        if !given.is_empty() || !cursors.is_empty() {
            self.record(&Fact::Pop(fact(first, visible_at, given, cursors)));
        }
        if !step.orphans.is_empty() {
            self.finish(group, key, step.orphans, AckReason::Unreadable);
        }
        if step.flights_full
            && let Some(progress) = self.state.known_progress_mut(group, key)
        {
            progress.flights_full = true;
        }
        deliveries
    }
}
