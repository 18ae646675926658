//! Counts the events that the engine reports when frames are applied: delays, transactions, dead letters, lost messages.

use redstart_engine::{Event, GroupName, TopicName};

use super::runtime::Runtime;
use crate::throttle::Throttle;

static PASSED_OVER: Throttle = Throttle::new();

impl Runtime {
    /// An event of a topic or group that was deleted in the meantime has no name, and is not counted.
    pub(super) fn count_events(&mut self) {
        for event in self.engine.take_events() {
            let statistics = self.counters.statistics();
            let topic = |id| self.engine.shown_topic(id);
            match event {
                Event::Delayed { topic: id, delay } => {
                    topic(id).inspect(|topic| statistics.delayed(topic, delay));
                }
                Event::Due { topic: id } => {
                    topic(id).inspect(|topic| statistics.due(topic));
                }
                Event::Committed { topic: id, open_for } => {
                    topic(id).inspect(|topic| statistics.committed(topic, open_for));
                }
                Event::RolledBack { topic: id } => {
                    topic(id).inspect(|topic| statistics.rolled_back(topic));
                }
                Event::DeadLettered { group, topic: id } => {
                    let names = topic(id).zip(self.engine.group_name_of(group));
                    names.inspect(|(topic, group)| statistics.dead_lettered(topic, group));
                }
                Event::PassedOver { group, queue, offset, position, loss } => {
                    let (topic, group) = (topic(queue.topic), self.engine.group_name_of(group));
                    let (topic, group) = (topic.as_ref().map(TopicName::as_str), group.as_ref());
                    let (group, queue) = (group.map(GroupName::as_str), queue.queue);
                    if let Some(repeated) = PASSED_OVER.permit() {
                        tracing::error!(
                            topic, %queue, %offset, %position, group, ?loss, repeated,
                            "a message is lost and was passed over"
                        );
                    }
                }
            }
        }
    }
}
