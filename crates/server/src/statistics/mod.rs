//! Counts messages in and out (by topic, by topic and group, in total) and the time that calls take. Counting is a look-up and
//! a few atomic additions. Rates come from samples, which the Remoting front end takes every few seconds.

mod client_counts;
mod day_starts;
mod histogram;
mod live_count;
mod meter;
mod rpc;
mod table;
mod traffic;

use std::{sync::atomic::Ordering, time::Duration};

use redstart_engine::{GroupName, Timestamp, TopicName};

pub use client_counts::{ClientCounts, ClientLabels, OTHERS};
pub use day_starts::{DayStartCounts, DayStarts};
pub use histogram::{Distribution, Histogram};
pub use live_count::{LiveCount, LiveGuard};
pub use meter::{Meter, Span, Sum};
pub use rpc::{Call, Rpcs};
pub use traffic::{DeferredTraffic, GroupTraffic, IncomingTraffic, Stored, TopicTraffic};

use table::Table;
use traffic::{OfGroup, OfTopic};

/// Topics, and pairs of a topic and a group, that a metric lists one by one.
pub const SHOWN_MAX: usize = table::SHOWN_MAX;

/// The counts of each name that is listed, and the sum of the others.
pub type Shown<K, R> = (Vec<(K, R)>, R);

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Messages stored.
    pub put: Meter,
    /// Messages delivered or pulled.
    pub got: Meter,
    /// Receives that found nothing.
    pub empty_receives: Meter,
    pub day_starts: DayStarts,
    pub rpcs: Rpcs,
    topics: Table<TopicName, OfTopic>,
    groups: Table<(TopicName, GroupName), OfGroup>,
}

impl Statistics {
    pub fn put(&self, topic: &TopicName, stored: Stored) {
        self.put.add(stored.messages, stored.body_bytes);
        self.topics.count(topic, |topic| topic.put(stored));
    }

    pub fn got(&self, topic: &TopicName, group: &GroupName, messages: usize, bytes: usize) {
        self.got.add(messages, bytes);
        self.groups.count(&(topic.clone(), group.clone()), |group| group.got.add(messages, bytes));
    }

    /// A message was stored that becomes visible after `delay`.
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

    /// A message was moved to the group's dead-letter topic.
    pub fn dead_lettered(&self, topic: &TopicName, group: &GroupName) {
        let names = (topic.clone(), group.clone());
        self.groups.count(&names, |group| {
            group.dead_lettered.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Records the current counts; rates are taken over the time between two samples.
    pub fn sample(&self, now: Timestamp) {
        for meter in [&self.put, &self.got, &self.empty_receives] {
            meter.sample(now);
        }
        self.topics.sample(now);
        self.groups.sample(now);
        self.day_starts.sample(now, self.put.count(), self.got.count());
    }

    /// What was stored in a topic; `None` when nothing was stored for a day.
    pub fn of_topic(&self, topic: &TopicName, span: Span, now: Timestamp) -> Option<Sum> {
        use table::Counted as _;
        self.topics.get(topic, |topic| topic.meter().over(span, now))
    }

    pub fn of_group(&self, topic: &TopicName, group: &GroupName, span: Span, now: Timestamp) -> Option<Sum> {
        self.groups.get(&(topic.clone(), group.clone()), |group| group.got.over(span, now))
    }

    /// What was stored in each topic that is listed, and in all others together.
    pub fn topics(&self) -> Shown<TopicName, TopicTraffic> {
        self.topics.read(OfTopic::traffic)
    }

    /// What each group was given of each topic that is listed, and the sum of the others.
    pub fn groups(&self) -> Shown<(TopicName, GroupName), GroupTraffic> {
        self.groups.read(OfGroup::traffic)
    }
}
