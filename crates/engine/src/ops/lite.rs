//! Lite topics: made on first use, consumed many in one receive, removed when no message has come to them for long.

use std::time::Duration;

use super::{Engine, Pop, PopError, Popped, Start};
use crate::{
    GroupId, GroupName, LiteName, MessageType, QueueId, QueueKey, QueueOffset, Ticket, Timestamp,
    TopicConfig, TopicId, TopicName,
    index::IndexError,
    pop::{Budget, FlightKey, Rules},
    record::{Decision, Fact},
};

/// Attribute of a parent: minutes without a new message after which its lite topics go; none, or -1, for never.
pub const LITE_EXPIRATION: &str = "lite.topic.expiration";

/// Lite topics removed by one step.
const EXPIRIES_PER_STEP: usize = 256;
/// Names of removed lite topics that are kept until they are taken; past it the oldest are forgotten.
const EXPIRED_MAX: usize = 10_000;

/// A lite topic has one queue.
const QUEUE: QueueId = QueueId(0);

/// A lite topic that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiteError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("topic {topic} is of type {found}; lite topics need a parent of type LITE")]
    NotLite { topic: TopicName, found: MessageType },
    #[error("topic {topic} is being deleted")]
    Deleting { topic: TopicName },
    #[error("there are {value} lite topics, the limit is {limit}")]
    TooMany { value: usize, limit: usize },
}

/// Where a consumer that subscribes to a lite topic wants its group to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiteOffset {
    /// At its consumer offset; a new group begins at the earliest message.
    Last,
    Min,
    Max,
    At(QueueOffset),
    /// So many messages before its consumer offset, or before the end if it is new.
    Back(u64),
    Time(Timestamp),
}

impl Engine {
    /// The ids of lite topics, in the order of their names; none for those that do not exist, or are being deleted.
    pub fn lite_ids(&self, parent: &TopicName, lites: &[LiteName]) -> Vec<Option<TopicId>> {
        lites.iter().map(|lite| self.lite_id(parent, lite)).collect()
    }

    pub(super) fn lite_id(&self, parent: &TopicName, lite: &LiteName) -> Option<TopicId> {
        let id = self.topic_id(&TopicName::lite(parent, lite))?;
        (!self.speculation.deleting_topics.contains(&id)).then_some(id)
    }

    /// The parent and the name of a lite topic.
    pub fn lite_name_of(&self, id: TopicId) -> Option<(TopicName, LiteName)> {
        self.topic_name(id)?.lite_parts()
    }

    /// Makes those lite topics that do not exist. When the ticket has its outcome they are there, except such as were
    /// being deleted: those can be made then.
    pub fn ensure_lites(&mut self, parent: &TopicName, lites: &[LiteName]) -> Result<Ticket, LiteError> {
        let Some(topic) = self.state.topic_by_name(parent) else {
            return Err(LiteError::UnknownTopic { topic: parent.clone() });
        };
        let found = topic.config.message_type;
        if found != MessageType::Lite {
            return Err(LiteError::NotLite { topic: parent.clone(), found });
        }
        if self.speculation.deleting_topics.contains(&topic.id) {
            return Err(LiteError::Deleting { topic: parent.clone() });
        }
        let config = TopicConfig {
            message_type: MessageType::Lite,
            read_queues: 1,
            write_queues: 1,
            dedup_window: topic.config.dedup_window,
            ..TopicConfig::default()
        };
        let names: Vec<TopicName> = lites
            .iter()
            .map(|lite| TopicName::lite(parent, lite))
            .filter(|name| self.topic_id(name).is_none() && !self.speculation.creating_topics.contains(name))
            .collect();
        let limits = &self.config.limits;
        let creating = self.speculation.creating_topics.iter().filter(|name| name.is_lite()).count();
        let value = self.state.lite_topics.len() + creating;
        let limit = limits.lite_topics_max.min(limits.topics_max);
        if value + names.len() > limit {
            return Err(LiteError::TooMany { value, limit });
        }
        for name in names {
            self.propose_topic(None, name, config.clone());
        }
        // Lite topics that another caller has proposed come before the barrier in the log.
        Ok(self.barrier())
    }

    /// A consumer of the group has subscribed to a lite topic. Unknown names change nothing.
    pub fn join_lite(
        &mut self,
        group: &GroupName,
        lite: TopicId,
        offset: LiteOffset,
    ) -> Result<(), IndexError> {
        let Some(group) = self.group_id(group) else { return Ok(()) };
        let key = QueueKey { topic: lite, queue: QUEUE };
        let progress = self.state.progress(group, key).filter(|progress| progress.started);
        let consumer = progress.map(|progress| progress.low_watermark());
        self.subscribe(group, lite, Start::Earliest)?;
        let queue = self.state.topics.get(&lite).and_then(|topic| topic.queue(QUEUE));
        let (min, end) = queue.map_or_else(Default::default, |queue| (queue.min(), queue.end()));
        let to = match (offset, queue) {
            (LiteOffset::Last, _) => return Ok(()),
            (LiteOffset::Min, _) => min,
            (LiteOffset::Max, _) => end,
            (LiteOffset::At(offset), _) => offset,
            (LiteOffset::Back(count), _) => QueueOffset(consumer.unwrap_or(end).0.saturating_sub(count)),
            (LiteOffset::Time(at), Some(queue)) => self.indexes.offset_at(key, queue, at)?,
            (LiteOffset::Time(_), None) => min,
        };
        self.record(&Fact::Reset { group, queue: key, offset: to.max(min).min(end) });
        Ok(())
    }

    /// Delivers messages of several lite topics of `pop.topic`: in order and one at a time of each, also if the group is not
    /// ordered. The search begins behind `after`, so that each has its turn. `lites` is ascending.
    pub fn pop_lite(
        &mut self,
        pop: &Pop<'_>,
        lites: &[TopicId],
        after: Option<TopicId>,
        now: Timestamp,
    ) -> Result<Popped, PopError> {
        let now = self.advance(now);
        let (group, _) = self.check_pop(pop)?;
        self.end_final_attempts(now);
        let visible_at = now.after(pop.invisible);
        let limits = &self.config.limits;
        let mut budget =
            Budget { messages: pop.max, entries: limits.scan_entries_max, reads: limits.scan_reads_max };
        let mut popped = Popped::nothing_yet(visible_at);
        let mut failed = None;
        let first = after.map_or(0, |after| lites.partition_point(|lite| *lite <= after));
        let (before, behind) = lites.split_at(first);
        for &lite in behind.iter().chain(before) {
            if budget.messages == 0 {
                break;
            }
            if budget.entries == 0 {
                popped.more = true;
                break;
            }
            if self.state.lite_topics.parent(lite) != Some(pop.topic) {
                continue;
            }
            // A lite topic that cannot be read does not stop the others.
            match self.pop_from_lite(pop, group, lite, &mut popped, &mut budget) {
                Ok(()) => {}
                // The caller has the part read and asks again, unless another lite topic has a message.
                Err(error) if error.is_cold() => failed = failed.or(Some(error)),
                Err(error) => {
                    failed = Some(error);
                    budget.reads = budget.reads.saturating_sub(1);
                }
            }
            if failed.as_ref().is_some_and(|error: &PopError| !error.is_cold()) && budget.reads == 0 {
                break;
            }
        }
        if let Some(error) = failed.filter(|_| popped.deliveries.is_empty()) {
            return Err(error);
        }
        self.end_final_attempts(now);
        Ok(popped)
    }

    /// Takes the next message of one lite topic, unless one is in flight.
    fn pop_from_lite(
        &mut self,
        pop: &Pop<'_>,
        group: GroupId,
        lite: TopicId,
        popped: &mut Popped,
        budget: &mut Budget,
    ) -> Result<(), PopError> {
        self.subscribe(group, lite, Start::Earliest)?;
        let key = QueueKey { topic: lite, queue: QUEUE };
        let rules = self.rules(pop, group, lite, self.time.now());
        if !self.prepare(group, key, rules.ordered) || !self.is_open(group, key, rules) {
            popped.next_visible = earliest(popped.next_visible, self.next_visible(group, lite, rules.now));
            return Ok(());
        }
        let mut one = Budget { messages: 1, ..*budget };
        let mut step = self.pop_queue(pop, group, key, rules, popped.visible_at, &mut one)?;
        *budget = Budget { messages: budget.messages - step.deliveries.len(), ..one };
        // Another message behind the one delivered has to wait for it; a search without a message goes on.
        step.more &= step.deliveries.is_empty();
        popped.add(&mut step, self.time.now());
        self.take_step(group, key, step);
        Ok(())
    }

    /// Whether a lite topic may give out a message now: none is in flight, or the one that is may come again.
    fn is_open(&self, group: GroupId, key: QueueKey, rules: Rules) -> bool {
        let Some(progress) = self.state.progress(group, key) else { return false };
        let end = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue));
        match progress.flights().next() {
            None => end.is_some_and(|queue| progress.low_watermark() < queue.end()),
            Some((offset, _)) if self.speculation.dying.contains(FlightKey { group, queue: key, offset }) => {
                false
            }
            // At its last attempt it goes to the dead letters, which have been looked at before.
            Some((_, flight)) if flight.visible_at <= rules.now => {
                u32::from(flight.attempt) < rules.attempts_max
            }
            // A client that lost the answer may have the same again.
            Some((_, flight)) => rules.attempt_tag != 0 && flight.attempt_tag == rules.attempt_tag,
        }
    }

    /// Proposes the end of lite topics that have had no new message for the time their parent says. To be called now and
    /// then: a time of minutes need not be kept to the millisecond.
    pub fn expire_lites(&mut self, now: Timestamp) {
        let now = self.advance(now);
        let mut idle: Vec<TopicId> = Vec::new();
        for parent in self.state.lite_topics.parents() {
            let Some(time) =
                self.state.topic_by_name(parent).and_then(|topic| lite_expiration(&topic.config))
            else {
                continue;
            };
            let left = EXPIRIES_PER_STEP - idle.len();
            let candidates = self.state.lite_topics.idle_since(parent, now.before(time));
            idle.extend(candidates.filter(|id| self.may_expire(*id)).take(left));
        }
        for id in idle {
            if let Some((parent, lite)) = self.lite_name_of(id) {
                self.expired_lites.push_back((id, parent, lite));
            }
            self.speculation.deleting_topics.insert(id);
            self.propose(None, Decision::TopicDelete { id });
        }
        let over = self.expired_lites.len().saturating_sub(EXPIRED_MAX);
        self.expired_lites.drain(..over);
    }

    /// A topic with a message that is proposed or deferred is kept: the sender gets the answer that it is stored.
    fn may_expire(&self, id: TopicId) -> bool {
        let queue = self.state.topics.get(&id).and_then(|topic| topic.queue(QUEUE));
        let end = queue.map_or(QueueOffset(0), |queue| queue.end());
        let proposed = self.speculation.has_proposals(QueueKey { topic: id, queue: QUEUE }, end);
        let deferred = self.state.timers.by_topic().contains_key(&id)
            || self.state.transactions.by_topic().contains_key(&id);
        !self.speculation.deleting_topics.contains(&id) && !deferred && !proposed
    }

    /// Lite topics that were removed because no message came to them; each is returned once.
    pub fn take_expired_lites(&mut self) -> Vec<(TopicId, TopicName, LiteName)> {
        self.expired_lites.drain(..).collect()
    }
}

/// How long the lite topics of a parent live without a new message; `None` for ever.
fn lite_expiration(parent: &TopicConfig) -> Option<Duration> {
    let minutes: u64 = parent.attributes.get(LITE_EXPIRATION)?.parse().ok()?;
    Some(Duration::from_secs(minutes.saturating_mul(60)))
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    [a, b].into_iter().flatten().min()
}
