//! The topics that have queues on some shards only.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use redstart_engine::TopicName;

use super::ShardNumber;

/// Where the first shard stores them: by topic, the numbers of its shards.
pub(super) const NAMESPACE: &str = "topic-shards";

/// The topics that an operator has made for some shards. Every other topic is on all of them.
#[derive(Debug, Default)]
pub(super) struct Placement {
    restricted: RwLock<HashMap<TopicName, Vec<ShardNumber>>>,
    /// Almost always false: then no send takes the lock.
    any: AtomicBool,
}

impl Placement {
    /// The shards of a topic; `None` for all.
    pub fn of(&self, topic: &TopicName) -> Option<Vec<ShardNumber>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.restricted.read().get(topic).cloned()
    }

    /// `None` if it is on all shards, or on none.
    pub fn set(&self, topic: &TopicName, shards: Option<Vec<ShardNumber>>) {
        let mut restricted = self.restricted.write();
        match shards {
            Some(shards) => restricted.insert(topic.clone(), shards),
            None => restricted.remove(topic),
        };
        self.any.store(!restricted.is_empty(), Ordering::Release);
    }

    pub fn topics(&self) -> Vec<TopicName> {
        self.restricted.read().keys().cloned().collect()
    }
}

/// The numbers as they are stored: decimal, with commas.
pub(super) fn text(shards: &[ShardNumber]) -> String {
    shards.iter().map(|shard| shard.0.to_string()).collect::<Vec<_>>().join(",")
}

/// What is stored. An entry that cannot be read is left out: the topic is then found where it is.
pub(super) fn read(stored: &BTreeMap<String, String>) -> Vec<(TopicName, Vec<ShardNumber>)> {
    let entry = |(topic, shards): (&String, &String)| {
        let numbers = shards.split(',').map(|number| number.parse().map(ShardNumber));
        Some((TopicName::new(topic).ok()?, numbers.collect::<Result<Vec<_>, _>>().ok()?))
    };
    stored.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        let shards = vec![ShardNumber(0), ShardNumber(12)];
        let stored = BTreeMap::from([("t".to_owned(), text(&shards)), ("u".to_owned(), "x".to_owned())]);
        assert_eq!(read(&stored), [(TopicName::new("t").unwrap(), shards)]);
    }

    #[test]
    fn a_topic_without_an_entry_is_everywhere() {
        let (placement, topic) = (Placement::default(), TopicName::new("t").unwrap());
        assert_eq!(placement.of(&topic), None);
        placement.set(&topic, Some(vec![ShardNumber(1)]));
        assert_eq!(placement.of(&topic), Some(vec![ShardNumber(1)]));
        assert_eq!(placement.of(&TopicName::new("u").unwrap()), None);
        placement.set(&topic, None);
        assert_eq!(placement.of(&topic), None);
    }
}
