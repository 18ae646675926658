//! Counts for metrics: the backlog of each group, how many topics and groups there are, messages in no queue.

use super::Engine;
use crate::{GroupId, QueueKey, Timestamp, TopicId, TopicName};

/// What a group has still to do, in one queue or in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Messages that are not done: ready, in flight, or behind a locked message group. In a topic with priorities it
    /// is what is not done at most: a level that is ahead may have left nothing behind.
    pub lag: u64,
    /// Messages that the group has not been given.
    pub ready: u64,
    /// Messages that were delivered and are not done.
    pub in_flight: u64,
    /// When the oldest message became visible of those that are not done, and of those that are ready.
    pub oldest_not_done: Option<Timestamp>,
    pub oldest_ready: Option<Timestamp>,
}

impl Backlog {
    /// Both together.
    pub fn and(self, other: Backlog) -> Backlog {
        let older = |a: Option<Timestamp>, b: Option<Timestamp>| a.into_iter().chain(b).min();
        Backlog {
            lag: self.lag + other.lag,
            ready: self.ready + other.ready,
            in_flight: self.in_flight + other.in_flight,
            oldest_not_done: older(self.oldest_not_done, other.oldest_not_done),
            oldest_ready: older(self.oldest_ready, other.oldest_ready),
        }
    }
}

/// How many topics and groups there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// Without lite topics.
    pub topics: usize,
    pub lite_topics: usize,
    pub groups: usize,
}

/// Messages of a topic that are stored and in no queue yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredOfTopic {
    pub topic: TopicName,
    pub delayed: usize,
    pub transactions: usize,
}

/// Delayed messages that should be visible by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overdue {
    /// Counted up to the caller's bound.
    pub messages: usize,
    pub oldest: Option<Timestamp>,
}

impl Engine {
    /// Every group with every topic that it has consumed, in no order.
    pub fn subscriptions(&self) -> impl ExactSizeIterator<Item = (GroupId, TopicId)> {
        self.state.subscriptions.keys().copied()
    }

    /// How many queues of a topic can be read.
    pub fn readable_queues(&self, topic: TopicId) -> u32 {
        self.state.topics.get(&topic).map_or(0, |topic| topic.readable())
    }

    /// The backlog of a group in a queue. Reads at most two entries, and none where nothing is left to do.
    pub fn backlog(&self, group: GroupId, key: QueueKey) -> Backlog {
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Backlog::default();
        };
        let (min, end) = (queue.min(), queue.end());
        let progress = self.state.progress(group, key);
        let next = progress.map_or(min, |progress| progress.cursor.low()).max(min).min(end);
        let low = progress.map_or(min, |progress| progress.low_watermark()).max(min).min(end);
        let in_flight = progress.map_or(0, |progress| progress.in_flight()) as u64;
        let blocked =
            progress.and_then(|progress| progress.locks.as_ref()).map_or(0, |locks| locks.blocked_count());
        let ready = end.0 - next.0;
        // A damaged index is built again; until then the time is not known.
        let time =
            |offset| self.indexes.entry(key, queue, offset).ok().flatten().map(|entry| entry.stored_at);
        let oldest_ready = if next < end { time(next) } else { None };
        let oldest_not_done = match low {
            _ if low == next => oldest_ready,
            _ => time(low),
        };
        let lag = ready + in_flight + blocked as u64;
        Backlog { lag, ready, in_flight, oldest_not_done, oldest_ready }
    }

    pub fn census(&self) -> Census {
        let lite_topics = self.state.lite_topics.len();
        let topics = self.state.topics.len() - lite_topics;
        Census { topics, lite_topics, groups: self.state.groups.len() }
    }

    /// Topics with delayed or half messages, at most `max`; a lite topic under its parent's name.
    pub fn deferred_by_topic(&self, max: usize) -> Vec<DeferredOfTopic> {
        let (timers, halves) = (self.state.timers.by_topic(), self.state.transactions.by_topic());
        let only_halves = halves.keys().filter(|id| !timers.contains_key(id));
        let of = |id: &TopicId| {
            Some(DeferredOfTopic {
                topic: self.shown_topic(*id)?,
                delayed: timers.get(id).copied().unwrap_or(0),
                transactions: halves.get(id).copied().unwrap_or(0),
            })
        };
        timers.keys().chain(only_halves).take(max).filter_map(of).collect()
    }

    /// Delayed messages that are due and not yet visible, counted up to `max`.
    pub fn overdue(&self, now: Timestamp, max: usize) -> Overdue {
        let (messages, oldest) = self.state.timers.overdue(now, max);
        Overdue { messages, oldest }
    }

    /// The name under which users know a topic: a lite topic is known by its parent's.
    pub fn shown_topic(&self, id: TopicId) -> Option<TopicName> {
        self.state.lite_topics.parent(id).or_else(|| self.topic_name(id)).cloned()
    }
}
