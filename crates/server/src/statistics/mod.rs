//! How much goes in and out: by topic, by group and topic, and in all; and how long calls took. Counting is a look-up and
//! a few atomic additions; rates come from samples that somebody else takes every few seconds.

mod crowd;
mod days;
mod histogram;
mod live;
mod meter;
mod rpc;
mod table;
mod traffic;

use std::{sync::atomic::Ordering, time::Duration};

use redstart_engine::{GroupName, Timestamp, TopicName};

pub use crowd::{Alike, Crowd, OTHERS};
pub use days::{Days, Mornings};
pub use histogram::{Distribution, Histogram};
pub use live::{Here, Live};
pub use meter::{Meter, Span, Sum};
pub use rpc::{Call, Rpcs};
pub use traffic::{DeferredTraffic, GroupTraffic, IncomingTraffic, Stored, TopicTraffic};

use table::Table;
use traffic::{OfGroup, OfTopic};

/// Topics, and pairs of a topic and a group, that are shown one by one.
pub const SHOWN_MAX: usize = table::SHOWN_MAX;

/// What is counted under each name that is shown, and under the others together.
pub type Shown<K, R> = (Vec<(K, R)>, R);

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
    pub rpcs: Rpcs,
    topics: Table<TopicName, OfTopic>,
    groups: Table<(TopicName, GroupName), OfGroup>,
}

impl Statistics {
    /// Messages were stored.
    pub fn put(&self, topic: &TopicName, stored: Stored) {
        self.put.add(stored.messages, stored.body_bytes);
        self.topics.count(topic, |topic| topic.put(stored));
    }

    pub fn got(&self, topic: &TopicName, group: &GroupName, messages: usize, bytes: usize) {
        self.got.add(messages, bytes);
        self.groups.count(&(topic.clone(), group.clone()), |group| group.got.add(messages, bytes));
    }

    /// A message is held for this time.
    pub fn delayed(&self, topic: &TopicName, delay: Duration) {
        self.topics.count(topic, |topic| topic.deferred().delays.observe(delay.as_secs()));
    }

    /// A delayed message became visible.
    pub fn due(&self, topic: &TopicName) {
        self.topics.count(topic, |topic| {
            topic.deferred().due.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub fn committed(&self, topic: &TopicName, open_for: Duration) {
        self.topics.count(topic, |topic| topic.deferred().finished.observe(open_for.as_secs()));
    }

    pub fn rolled_back(&self, topic: &TopicName) {
        self.topics.count(topic, |topic| {
            topic.deferred().rolled_back.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// A message went to the group's dead letters.
    pub fn buried(&self, topic: &TopicName, group: &GroupName) {
        let names = (topic.clone(), group.clone());
        self.groups.count(&names, |group| {
            group.buried.fetch_add(1, Ordering::Relaxed);
        });
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
        use table::Counted as _;
        self.topics.get(topic, |topic| topic.meter().over(span, now))
    }

    pub fn of_group(&self, topic: &TopicName, group: &GroupName, span: Span, now: Timestamp) -> Option<Sum> {
        self.groups.get(&(topic.clone(), group.clone()), |group| group.got.over(span, now))
    }

    /// What has come to each topic, and to those together for which there is no place.
    pub fn topics(&self) -> Shown<TopicName, TopicTraffic> {
        self.topics.read(OfTopic::traffic)
    }

    /// The same for groups in topics.
    pub fn groups(&self) -> Shown<(TopicName, GroupName), GroupTraffic> {
        self.groups.read(OfGroup::traffic)
    }
}
