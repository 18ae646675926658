//! How much goes in and out: by topic, by group and topic, and in all. Counting is a look-up and an atomic addition; rates
//! come from samples that somebody else takes every few seconds.

mod days;
mod meter;
mod table;

use redstart_engine::{GroupName, Timestamp, TopicName};

pub use days::{Days, Mornings};
pub use meter::{Meter, Span, Sum};
use table::Table;

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Stored.
    pub put: Meter,
    /// Handed out.
    pub got: Meter,
    /// Receives that found nothing.
    pub missed: Meter,
    pub days: Days,
    topics: Table<TopicName>,
    groups: Table<(TopicName, GroupName)>,
}

impl Statistics {
    pub fn put(&self, topic: &TopicName, messages: usize, bytes: usize) {
        self.put.add(messages, bytes);
        self.topics.add(topic, messages, bytes);
    }

    pub fn got(&self, topic: &TopicName, group: &GroupName, messages: usize, bytes: usize) {
        self.got.add(messages, bytes);
        self.groups.add(&(topic.clone(), group.clone()), messages, bytes);
    }

    /// Remembers where the counts stand; rates are taken over the time between.
    pub fn sample(&self, now: Timestamp) {
        for meter in [&self.put, &self.got, &self.missed] {
            meter.sample(now);
        }
        self.topics.sample(now);
        self.groups.sample(now);
        self.days.sample(now, self.put.count(), self.got.count());
    }

    /// What was stored in a topic; `None` when nothing was, for a day.
    pub fn of_topic(&self, topic: &TopicName, span: Span, now: Timestamp) -> Option<Sum> {
        Some(self.topics.get(topic)?.over(span, now))
    }

    pub fn of_group(&self, topic: &TopicName, group: &GroupName, span: Span, now: Timestamp) -> Option<Sum> {
        Some(self.groups.get(&(topic.clone(), group.clone()))?.over(span, now))
    }
}
