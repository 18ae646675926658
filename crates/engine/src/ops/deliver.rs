//! Hands out messages to consumers that receive. What becomes of a delivery is in `receipts.rs`.

use std::time::Duration;

use redstart_log::Position;

use super::Engine;
use crate::{
    Config, ConsumeFrom, Entry, Filter, GroupId, GroupName, QueueId, QueueKey, QueueOffset, Receipt,
    Timestamp, TopicId, TopicName,
    filter::Verdict,
    index::{Chunk, IndexError, Indexes, Unread},
    planted,
    pop::{Budget, FlightKey, Part, Passes, Progress, Rules, Source, in_delivery_order, select},
    queue::Queue,
    record::{Fact, Fetched, PopFact, Proof},
    speculation::Dying,
    state::FinalAttempt,
    topic::MessageType,
};

/// After how long a message is read again that the disk could not read: it is given back for this time.
pub const READ_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A request for messages.
#[derive(Debug, Clone)]
pub struct Pop<'a> {
    pub group: &'a GroupName,
    pub topic: &'a TopicName,
    /// One queue, or all of them.
    pub queue: Option<QueueId>,
    pub max: usize,
    pub invisible: Duration,
    pub filter: &'a Filter,
    /// Name of this receive; a client that lost the answer asks again under the same one.
    pub attempt: Option<&'a str>,
    /// Id of the client that asks, for the message trace.
    pub client: &'a str,
    /// Where a group starts that consumes the topic for the first time.
    pub start: Start,
    /// In order, and no message group twice in one answer: for clients that go on to the next message of a group when
    /// one has failed.
    pub one_per_group: bool,
    /// In order, even for a group whose setting does not ask for it.
    pub in_order: bool,
}

/// Where a group begins in a topic that it consumes for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As the group's attribute says; without one, as [`Config::new_groups_from`](crate::Config::new_groups_from) does.
    Configured,
    Earliest,
    Latest,
    At(Timestamp),
}

/// One delivery of a message. The front end reads the body by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    pub receipt: Receipt,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
    /// Counts from 1.
    pub attempt: u16,
}

/// The answer to a [`Pop`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Popped {
    pub deliveries: Vec<Delivery>,
    pub visible_at: Timestamp,
    /// The search was cut short by its bounds and has got further: ask again at once.
    pub more: bool,
    /// A message could not be read for the filter, and the search ended before it. When the disk reads again is not known:
    /// ask again at this time, not earlier.
    pub ask_again_at: Option<Timestamp>,
    /// When something in flight becomes visible next.
    pub next_visible: Option<Timestamp>,
}

impl Popped {
    pub(super) fn nothing_yet(visible_at: Timestamp) -> Popped {
        Popped { visible_at, ..Popped::default() }
    }

    /// Adds what one queue gave.
    pub(super) fn add(&mut self, step: &mut PopStep, now: Timestamp) {
        self.more |= step.more;
        if step.unreadable {
            self.ask_again_at = Some(now.after(READ_AGAIN_AFTER));
        }
        self.deliveries.append(&mut step.deliveries);
    }
}

/// A pop that was refused.
#[derive(Debug, thiserror::Error)]
pub enum PopError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("consumer group {group} does not exist")]
    UnknownGroup { group: GroupName },
    #[error("consumer group {group} is disabled")]
    GroupDisabled { group: GroupName },
    #[error("topic {topic} is not readable (permission {permission})")]
    NotReadable { topic: TopicName, permission: u8 },
    #[error("queue {queue} does not exist: topic {topic} has {queues} read queues")]
    UnknownQueue { topic: TopicName, queue: QueueId, queues: u32 },
    #[error("{value} messages asked for, it must be from 1 to {limit}")]
    BatchSize { value: usize, limit: usize },
    #[error("an invisible time of {value_ms} ms, the limit is {limit_ms} ms")]
    InvisibleTime { value_ms: u64, limit_ms: u64 },
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl PopError {
    /// Whether the pop needs a part that is not in memory.
    pub fn is_cold(&self) -> bool {
        matches!(self, PopError::Index(IndexError::Cold(_)))
    }
}

impl Engine {
    /// Delivers messages: they are invisible to the rest of the group until their invisible time is over.
    pub fn pop(&mut self, pop: &Pop<'_>, now: Timestamp) -> Result<Popped, PopError> {
        let now = self.advance(now);
        let (group, topic) = self.check_pop(pop)?;
        self.subscribe(group, topic, pop.start)?;
        let mut rules = self.rules(pop, group, topic, now);
        let visible_at = now.after(pop.invisible);
        let limits = &self.config.limits;
        let mut budget =
            Budget { messages: pop.max, entries: limits.scan_entries_max, reads: limits.scan_reads_max };
        let mut popped = Popped::nothing_yet(visible_at);
        let queues = self.queues_in_turn(group, topic, pop.queue, rules);
        let mut failed = None;
        let parts: &[Part] = if rules.by_priority { &[Part::New, Part::Retries] } else { &[Part::All] };
        for (part, queue) in parts.iter().flat_map(|part| queues.iter().map(move |queue| (*part, *queue))) {
            let key = QueueKey { topic, queue };
            rules.part = part;
            let of_this = popped.deliveries.iter().find(|delivery| delivery.receipt.queue == key);
            rules.retries_before = of_this.map_or(u64::MAX, |first| first.receipt.seq);
            if self.prepare(group, key, rules.ordered) {
                match self.pop_queue(pop, group, key, rules, visible_at, &mut budget) {
                    Ok(mut step) => {
                        popped.add(&mut step, now);
                        self.take_step(group, key, step);
                    }
                    // The part that is missing may hold messages of higher priority than the rest.
                    Err(error @ PopError::Index(IndexError::Cold(_)))
                        if rules.by_priority && popped.deliveries.is_empty() =>
                    {
                        return Err(error);
                    }
                    // The caller has the part read and asks again, unless another queue has a message.
                    Err(error @ PopError::Index(IndexError::Cold(_))) => failed = failed.or(Some(error)),
                    // A queue that cannot be read does not stop the others.
                    Err(error) => {
                        failed = Some(error);
                        budget.reads = budget.reads.saturating_sub(1);
                    }
                }
            }
            let unread = failed.as_ref().is_some_and(|error| !error.is_cold());
            if budget.messages == 0 || (unread && budget.reads == 0) {
                break;
            }
        }
        if let Some(error) = failed.filter(|_| popped.deliveries.is_empty()) {
            return Err(error);
        }
        self.end_final_attempts(now);
        popped.next_visible = self.next_visible(group, topic, now);
        Ok(popped)
    }

    /// Puts into effect what came out of one queue.
    pub(super) fn take_step(&mut self, group: GroupId, key: QueueKey, step: PopStep) {
        self.state.final_attempts.extend(step.exhausted);
        for (offset, proof) in step.lost {
            self.note_passed_over(FlightKey { group, queue: key, offset }, proof);
        }
        if let Some(fact) = step.fact {
            self.record(&Fact::Pop(fact));
        }
        if step.flights_full
            && let Some(progress) = self.state.known_progress_mut(group, key)
        {
            progress.flights_full = true;
        }
    }

    pub(super) fn rules(&self, pop: &Pop<'_>, group: GroupId, topic: TopicId, now: Timestamp) -> Rules {
        let config = self.state.groups.get(&group).map(|group| &group.config);
        let topic = self.state.topics.get(&topic);
        let topic_type = topic.map(|topic| topic.config.message_type);
        let ordered = pop.in_order
            || config.is_some_and(|config| config.ordered)
            || topic.is_some_and(|topic| topic.name.is_lite());
        let attempts_max = config.map_or(1, |config| config.attempts_max());
        let attempt_tag = |attempt: &str| xxhash_rust::xxh3::xxh3_64(attempt.as_bytes()).max(1);
        Rules {
            ordered,
            by_priority: topic_type == Some(MessageType::Priority) && !ordered,
            one_per_group: pop.one_per_group,
            part: Part::All,
            retries_before: u64::MAX,
            attempts_max: planted::attempts_max(&self.config, attempts_max),
            attempt_tag: pop.attempt.map_or(0, attempt_tag),
            flights_max: self.config.limits.flights_max,
            blocked_max: self.config.limits.blocked_max,
            now,
        }
    }

    /// Brings a group's progress up to date with the group's setting. `false` when there is no queue.
    pub(super) fn prepare(&mut self, group: GroupId, key: QueueKey, ordered: bool) -> bool {
        if self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)).is_none() {
            return false;
        }
        let progress = self.state.progress(group, key);
        // A start must find the queue consumed in the same way, also if this receive finds nothing.
        if let Some(progress) = progress
            && (progress.pulled || progress.locks.is_some() != ordered)
        {
            let seq = progress.seq;
            self.record(&Fact::Pop(PopFact { group, queue: key, ordered, seq, ..PopFact::default() }));
        }
        true
    }

    pub(super) fn check_pop(&self, pop: &Pop<'_>) -> Result<(GroupId, TopicId), PopError> {
        let Some(topic) = self.state.topic_by_name(pop.topic) else {
            return Err(PopError::UnknownTopic { topic: pop.topic.clone() });
        };
        let Some(group) = self.lasting_group(pop.group) else {
            return Err(PopError::UnknownGroup { group: pop.group.clone() });
        };
        if !group.config.enabled {
            return Err(PopError::GroupDisabled { group: pop.group.clone() });
        }
        if !topic.config.permission.read {
            let permission = topic.config.permission.bits();
            return Err(PopError::NotReadable { topic: pop.topic.clone(), permission });
        }
        if let Some(queue) = pop.queue.filter(|queue| queue.0 >= topic.readable()) {
            return Err(PopError::UnknownQueue { topic: pop.topic.clone(), queue, queues: topic.readable() });
        }
        let limit = self.config.limits.receive_batch_max;
        if pop.max == 0 || pop.max > limit {
            return Err(PopError::BatchSize { value: pop.max, limit });
        }
        let limit = self.config.limits.invisible_max;
        if pop.invisible > limit {
            return Err(PopError::InvisibleTime {
                value_ms: pop.invisible.as_millis() as u64,
                limit_ms: limit.as_millis() as u64,
            });
        }
        Ok((group.id, topic.id))
    }

    /// A consumer has connected and not received yet: its group begins here, so that messages from now on are for it. Unknown
    /// names change nothing.
    pub fn join(&mut self, group: &GroupName, topic: &TopicName, start: Start) -> Result<(), IndexError> {
        match (self.group_id(group), self.topic_id(topic)) {
            (Some(group), Some(topic)) => self.subscribe(group, topic, start),
            _ => Ok(()),
        }
    }

    /// Whether a group has begun in a topic; `None` if one of the two is unknown.
    pub fn has_begun(&self, group: &GroupName, topic: &TopicName) -> Option<bool> {
        let key = (self.group_id(group)?, self.topic_id(topic)?);
        Some(self.state.subscriptions.contains_key(&key))
    }

    /// A group that consumes a topic for the first time starts in all its queues at once; a queue added later is
    /// consumed from its beginning.
    pub(super) fn subscribe(
        &mut self,
        group: GroupId,
        topic: TopicId,
        start: Start,
    ) -> Result<(), IndexError> {
        if self.state.subscriptions.contains_key(&(group, topic)) {
            return Ok(());
        }
        let configured = self.consume_from(group);
        let Some(found) = self.state.topics.get(&topic) else { return Ok(()) };
        let mut offsets = Vec::new();
        for n in 0..found.readable() {
            let key = QueueKey { topic, queue: QueueId(n) };
            let Some(queue) = found.queue(key.queue) else {
                offsets.push(QueueOffset(0));
                continue;
            };
            offsets.push(match (start, configured) {
                (Start::Earliest, _) | (Start::Configured, ConsumeFrom::Earliest) => queue.min(),
                (Start::Latest, _) | (Start::Configured, ConsumeFrom::Latest) => queue.end(),
                (Start::At(at), _) => self.indexes.offset_at(key, queue, at)?,
            });
        }
        self.record(&Fact::Subscribed { group, topic, offsets });
        Ok(())
    }

    fn consume_from(&self, group: GroupId) -> ConsumeFrom {
        let of_group = self.state.groups.get(&group).and_then(|group| group.config.consume_from());
        of_group.unwrap_or(self.config.new_groups_from)
    }

    /// Every readable queue, beginning with another one each time; by priority, the highest first.
    fn queues_in_turn(
        &mut self,
        group: GroupId,
        topic: TopicId,
        only: Option<QueueId>,
        rules: Rules,
    ) -> Vec<QueueId> {
        if let Some(queue) = only {
            return vec![queue];
        }
        let count = self.state.topics.get(&topic).map_or(0, |topic| topic.readable()).max(1);
        if rules.by_priority {
            return (0..count).rev().map(QueueId).collect();
        }
        let first = self.state.subscriptions.get_mut(&(group, topic)).map_or(0, |subscription| {
            subscription.round_robin = (subscription.round_robin + 1) % count;
            subscription.round_robin
        });
        (0..count).map(|n| QueueId((first + n) % count)).collect()
    }

    /// Picks what comes out of one queue, as deliveries and the fact to record; changes nothing.
    pub(super) fn pop_queue(
        &self,
        pop: &Pop<'_>,
        group: GroupId,
        key: QueueKey,
        rules: Rules,
        visible_at: Timestamp,
        budget: &mut Budget,
    ) -> Result<PopStep, PopError> {
        let mut step = PopStep::default();
        let queue = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        let Some(queue) = queue else { return Ok(step) };
        let mut fresh = None;
        let progress = match self.state.progress(group, key) {
            Some(progress) => progress,
            // Made by the fact, if there is one.
            None => fresh.insert(Progress::fresh(queue.min(), rules.ordered)),
        };
        let source = QueueSource {
            indexes: &self.indexes,
            key,
            queue,
            filter: pop.filter,
            config: &self.config,
            dying: &self.speculation.dying,
            group,
        };
        let selected = select(progress, queue.end(), &source, rules, budget)?;
        let mut selected = planted::selected(&self.config, selected);
        in_delivery_order(rules.by_priority, &mut selected.delivered);
        (step.more, step.unreadable, step.flights_full) =
            (selected.more, selected.unreadable, selected.flights_full);
        step.lost = selected.lost;
        for offset in selected.exhausted {
            let flight = progress.flight(offset);
            step.exhausted
                .extend(flight.map(|flight| FinalAttempt::of(group, key, (flight.visible_at, offset))));
        }
        if selected.delivered.is_empty() && selected.cursors.is_empty() {
            return match selected.cold {
                Some(part) if step.exhausted.is_empty() => Err(IndexError::Cold(part).into()),
                _ => Ok(step),
            };
        }
        // What was found is delivered; the next pop goes on at the part that is not in memory.
        step.more |= selected.cold.is_some();
        let seq = progress.seq.max(self.receipts_from);
        let mut delivered = Vec::with_capacity(selected.delivered.len());
        for (mut delivery, entry) in selected.delivered {
            // A flight keeps only the offset of its message; one that has left the log meanwhile is not delivered.
            let entry = match entry {
                Some(entry) => entry,
                None => match self.indexes.entry(key, queue, delivery.offset)? {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            delivery.priority = entry.priority;
            // So does a blocked message, which counts as new; in a retry topic its entry has the attempts before.
            delivery.attempt = delivery.attempt.max(entry.attempt.saturating_add(1));
            let receipt = Receipt {
                group,
                queue: key,
                offset: delivery.offset,
                seq: seq.wrapping_add(delivered.len() as u64),
            };
            step.deliveries.push(Delivery {
                receipt,
                position: entry.position,
                size: entry.size,
                stored_at: entry.stored_at,
                attempt: delivery.attempt,
            });
            delivered.push(delivery);
        }
        step.fact = Some(PopFact {
            group,
            queue: key,
            visible_at,
            attempt_tag: rules.attempt_tag,
            client: pop.client.to_owned(),
            ordered: rules.ordered,
            seq,
            cursors: selected.cursors,
            delivered,
            blocked: selected.blocked,
        });
        Ok(step)
    }

    pub(super) fn next_visible(&self, group: GroupId, topic: TopicId, now: Timestamp) -> Option<Timestamp> {
        let subscription = self.state.subscriptions.get(&(group, topic))?;
        let after = |progress: &Progress| progress.next_visible_after(now);
        subscription.queues.iter().filter_map(after).min()
    }
}

/// What a pop takes out of one queue.
#[derive(Default)]
pub(super) struct PopStep {
    pub fact: Option<PopFact>,
    pub deliveries: Vec<Delivery>,
    pub exhausted: Vec<FinalAttempt>,
    pub lost: Vec<(QueueOffset, Proof)>,
    pub more: bool,
    pub unreadable: bool,
    pub flights_full: bool,
}

/// The entries of one queue, seen through a subscription's filter.
struct QueueSource<'a> {
    indexes: &'a Indexes,
    key: QueueKey,
    queue: &'a Queue,
    filter: &'a Filter,
    config: &'a Config,
    dying: &'a Dying,
    group: GroupId,
}

impl Source for QueueSource<'_> {
    fn chunk(&self, offset: QueueOffset) -> Result<Chunk<'_>, IndexError> {
        self.indexes.chunk(self.key, self.queue, offset)
    }

    fn is_dying(&self, offset: QueueOffset) -> bool {
        self.dying.contains(FlightKey { group: self.group, queue: self.key, offset })
    }

    fn passes(&self, entry: &Entry, budget: &mut Budget) -> Passes {
        match self.filter.by_tag_hash(entry.tag_hash) {
            Verdict::Match => Passes::Yes,
            Verdict::No => Passes::No,
            Verdict::NeedsProperties if budget.reads == 0 => Passes::Later,
            Verdict::NeedsProperties => {
                budget.reads -= 1;
                let fetched = self.indexes.record(entry.position, entry.size);
                let matches = |fetched: Fetched| Ok(self.filter.matches(&fetched.message()?));
                match fetched.and_then(matches) {
                    Ok(true) => Passes::Yes,
                    Ok(false) => Passes::No,
                    Err(Unread::Cold(part)) => Passes::Cold(part),
                    Err(Unread::Fetch(error)) => match error.proof() {
                        Some(proof) => Passes::Lost(proof),
                        None => planted::unreadable(self.config),
                    },
                }
            }
        }
    }
}
