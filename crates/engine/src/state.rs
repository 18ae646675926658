//! Everything that is derived from the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redstart_log::SegmentId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    GroupId, GroupName, QueueKey, QueueOffset, Timestamp, TopicId, TopicName,
    dedup::DedupKeys,
    group::Group,
    lite_topics::LiteTopics,
    open_transactions::OpenTransactions,
    ops::Settings,
    pop::{FlightKey, Progress},
    timer::{TimerKey, Timers},
    topic::Topic,
};

/// A group's progress in every queue of a topic.
#[derive(Debug, Default)]
pub(crate) struct Subscription {
    pub queues: Vec<Progress>,
    /// Where the next pop begins to look.
    pub round_robin: u32,
}

/// A flight that its queue delivers no more. When its invisible time is over, the message goes to the dead-letter topic if
/// its attempts are used up, or to the retry topic if the group's consumers pull now; also when no consumer asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FinalAttempt {
    pub visible_at: Timestamp,
    pub flight: FlightKey,
}

impl FinalAttempt {
    pub fn of(
        group: GroupId,
        queue: QueueKey,
        (visible_at, offset): (Timestamp, QueueOffset),
    ) -> FinalAttempt {
        FinalAttempt { visible_at, flight: FlightKey { group, queue, offset } }
    }
}

/// The derived state. Everything here comes back by replaying the log.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub topics: FxHashMap<TopicId, Topic>,
    pub topic_names: HashMap<TopicName, TopicId>,
    pub topic_next: u32,
    pub groups: FxHashMap<GroupId, Group>,
    pub group_names: HashMap<GroupName, GroupId>,
    pub group_next: u32,
    /// The retry topics of groups that have one.
    pub retry_topics: FxHashMap<GroupId, TopicId>,
    pub subscriptions: FxHashMap<(GroupId, TopicId), Subscription>,
    pub timers: Timers,
    pub transactions: OpenTransactions,
    pub dedup: DedupKeys,
    /// Flights on their final attempt. Of those that a consumer which pulls has left behind, the next one of each queue is
    /// here.
    pub final_attempts: BTreeSet<FinalAttempt>,
    pub settings: Settings,
    /// When a message last became visible whose body is in an older segment than its entry, by that older segment.
    pub last_use: BTreeMap<SegmentId, Timestamp>,
    pub lite_topics: LiteTopics,
    /// The newest segment that was retired: nothing in it or before it counts any more. Its file may still be there.
    pub retired: Option<SegmentId>,
    /// See [`Planted::SettingInApply`](crate::Planted).
    #[cfg(feature = "planted")]
    pub check_after_max: Option<std::time::Duration>,
}

/// What applying a decision made known.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Queues that gained a message.
    pub grown: Vec<QueueKey>,
    /// Groups for which a message became deliverable: a lock was released, or a flight ended.
    pub released: Vec<(GroupId, TopicId)>,
    /// The first of the timers that were added.
    pub timer: Option<TimerKey>,
    /// Groups for which a message became deliverable because others have left the log.
    pub retired: Vec<(GroupId, TopicId)>,
}

impl Effects {
    pub fn timer_added(&mut self, key: TimerKey) {
        self.timer = Some(self.timer.map_or(key, |first| first.min(key)));
    }
}

impl State {
    pub fn topic_by_name(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(self.topic_names.get(name)?)
    }

    pub fn group_by_name(&self, name: &GroupName) -> Option<&Group> {
        self.groups.get(self.group_names.get(name)?)
    }

    pub fn progress(&self, group: GroupId, queue: QueueKey) -> Option<&Progress> {
        self.subscriptions.get(&(group, queue.topic))?.queues.get(queue.queue.0 as usize)
    }

    /// The progress of a group in a queue, made at the queue's minimum when there is none yet, and that minimum. Only for
    /// facts: what they make, they make wherever they are applied.
    pub fn progress_mut(&mut self, group: GroupId, queue: QueueKey) -> Option<(&mut Progress, QueueOffset)> {
        let topic = self.topics.get(&queue.topic)?;
        self.groups.get(&group)?;
        let min_of = |n: usize| topic.queues.get(n).map_or(QueueOffset(0), |queue| queue.min());
        let queues = &mut self.subscriptions.entry((group, queue.topic)).or_default().queues;
        let at = queue.queue.0 as usize;
        for n in queues.len()..=at {
            queues.push(Progress::not_started(min_of(n)));
        }
        Some((queues.get_mut(at)?, min_of(at)))
    }

    /// The progress of a group in a queue, if there is one.
    pub fn known_progress_mut(&mut self, group: GroupId, queue: QueueKey) -> Option<&mut Progress> {
        self.subscriptions.get_mut(&(group, queue.topic))?.queues.get_mut(queue.queue.0 as usize)
    }

    pub fn put_setting(&mut self, namespace: &str, key: &str, value: Option<&str>) {
        let settings = self.settings.entry(namespace.to_owned()).or_default();
        match value {
            Some(value) => drop(settings.insert(key.to_owned(), value.to_owned())),
            None => drop(settings.remove(key)),
        }
        self.settings.retain(|_, settings| !settings.is_empty());
    }

    /// A segment and everything before it leaves the log. Returns the groups for which a message became deliverable.
    pub fn retire(&mut self, segment: SegmentId) -> Vec<(GroupId, TopicId)> {
        self.retired = self.retired.max(Some(segment));
        self.last_use = self.last_use.split_off(&SegmentId(segment.0 + 1));
        self.timers.forget_segment(segment);
        for topic in self.topics.values_mut() {
            topic.queues.iter_mut().for_each(|queue| queue.forget(segment));
        }
        self.raise_progress()
    }

    /// Messages that have left the log are no longer in flight, and block no others. Returns the groups for which a message
    /// became deliverable.
    pub fn raise_progress(&mut self) -> Vec<(GroupId, TopicId)> {
        let mut freed = Vec::new();
        for ((group, id), subscription) in &mut self.subscriptions {
            let Some(topic) = self.topics.get(id) else { continue };
            let mut raised = false;
            for (progress, queue) in subscription.queues.iter_mut().zip(&topic.queues) {
                if progress.low_watermark() < queue.min() {
                    raised |= progress.raise_to(queue.min());
                }
            }
            if raised {
                freed.push((*group, *id));
            }
        }
        freed
    }

    pub fn put_topic(&mut self, id: TopicId, name: &TopicName, config: crate::TopicConfig, at: Timestamp) {
        self.lite_topics.add(id, name, at);
        self.topic_next = self.topic_next.max(id.0 + 1);
        self.topic_names.insert(name.clone(), id);
        self.note_retry_topic(name);
        match self.topics.get_mut(&id) {
            Some(topic) => topic.config = config,
            None => {
                self.topics.insert(id, Topic::new(id, name.clone(), config));
            }
        }
    }

    /// Finds the group of a retry topic, when both are there.
    pub fn note_retry_topic(&mut self, name: &TopicName) {
        let group = name.retried_group().and_then(|group| self.group_names.get(group));
        if let (Some(group), Some(topic)) = (group, self.topic_names.get(name)) {
            self.retry_topics.insert(*group, *topic);
        }
    }

    /// Its lite topics go with it.
    pub fn delete_topic(&mut self, id: TopicId) {
        let Some(name) = self.topics.get(&id).map(|topic| &topic.name) else { return };
        let mut gone: FxHashSet<TopicId> = self.lite_topics.children(name).into_iter().collect();
        gone.insert(id);
        self.retry_topics.retain(|_, topic| *topic != id);
        for id in &gone {
            self.lite_topics.remove(*id);
            if let Some(topic) = self.topics.remove(id) {
                self.topic_names.remove(&topic.name);
            }
        }
        // Lite topics are deleted one by one, and there may be many: a pass over every subscription each time would take long.
        if gone.len().saturating_mul(self.groups.len()) < self.subscriptions.len() {
            for group in self.groups.keys() {
                for id in &gone {
                    self.subscriptions.remove(&(*group, *id));
                }
            }
        } else {
            self.subscriptions.retain(|(_, topic), _| !gone.contains(topic));
        }
    }

    /// Makes or changes a group. Returns the topics in which messages of the group became deliverable: what waited for a lock,
    /// when the group is ordered no longer.
    pub fn put_group(&mut self, group: Group) -> Vec<(GroupId, TopicId)> {
        let id = group.id;
        let was_ordered = self.groups.get(&id).is_some_and(|before| before.config.ordered);
        let unlocked = was_ordered && !group.config.ordered;
        self.group_next = self.group_next.max(id.0 + 1);
        self.group_names.insert(group.name.clone(), id);
        let retry_topic = group.name.retry_topic();
        self.groups.insert(id, group);
        self.note_retry_topic(&retry_topic);
        // With fewer retries allowed, a message may be at its last attempt already.
        self.restore_final_attempts(Some(id));
        if !unlocked {
            return Vec::new();
        }
        self.subscriptions.keys().filter(|(group, _)| *group == id).copied().collect()
    }

    pub fn delete_group(&mut self, id: GroupId) {
        if let Some(group) = self.groups.remove(&id) {
            self.group_names.remove(&group.name);
        }
        self.retry_topics.remove(&id);
        self.subscriptions.retain(|(group, _), _| *group != id);
    }

    pub fn done(&mut self, flight: FlightKey, effects: &mut Effects) {
        let FlightKey { group, queue, offset } = flight;
        let Some(subscription) = self.subscriptions.get_mut(&(group, queue.topic)) else { return };
        let Some(progress) = subscription.queues.get_mut(queue.queue.0 as usize) else { return };
        if progress.done(offset) && (std::mem::take(&mut progress.flights_full) || progress.locks.is_some()) {
            effects.released.push((group, queue.topic));
        }
    }

    pub fn note_final_attempts(&mut self, group: GroupId, queue: QueueKey, offsets: &[QueueOffset]) {
        let Some(max) = self.groups.get(&group).map(|group| group.config.attempts_max()) else { return };
        let Some(progress) = self
            .subscriptions
            .get(&(group, queue.topic))
            .and_then(|subscription| subscription.queues.get(queue.queue.0 as usize))
        else {
            return;
        };
        for offset in offsets {
            if let Some(flight) = progress.flight(*offset)
                && (u32::from(flight.attempt) >= max || progress.is_left_behind(*offset))
            {
                self.final_attempts.insert(FinalAttempt::of(group, queue, (flight.visible_at, *offset)));
            }
        }
    }

    /// Rebuilds what follows from the flights and the configuration, for one group or all.
    pub fn restore_final_attempts(&mut self, only: Option<GroupId>) {
        let flights: Vec<(GroupId, QueueKey, Vec<QueueOffset>)> = self
            .subscriptions
            .iter()
            .filter(|((group, _), _)| only.is_none_or(|only| only == *group))
            .flat_map(|((group, topic), subscription)| {
                subscription.queues.iter().enumerate().map(|(n, progress)| {
                    let queue = QueueKey { topic: *topic, queue: crate::QueueId(n as u32) };
                    (*group, queue, progress.flights().map(|(offset, _)| offset).collect())
                })
            })
            .collect();
        for (group, queue, offsets) in flights {
            self.note_final_attempts(group, queue, &offsets);
        }
    }
}
