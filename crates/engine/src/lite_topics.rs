//! Lite topics by their parents, and since when each has been without a new message.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::{
    Timestamp, TopicId, TopicName,
    codec::{Malformed, Put, Take},
};

/// The lite topics of the shard, by parent, and when the last message came to each. A lite topic is a topic of one queue
/// whose name holds its parent's.
#[derive(Debug, Default)]
pub(crate) struct LiteTopics {
    /// By the name of the parent; the longest idle first.
    families: BTreeMap<TopicName, BTreeSet<(Timestamp, TopicId)>>,
    members: FxHashMap<TopicId, Member>,
}

#[derive(Debug)]
struct Member {
    parent: TopicName,
    idle_since: Timestamp,
}

impl LiteTopics {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// A topic was created at `at`. Nothing happens for what is no lite topic, or is known.
    pub fn add(&mut self, id: TopicId, name: &TopicName, at: Timestamp) {
        let Some((parent, _)) = name.lite_parts() else { return };
        if self.members.contains_key(&id) {
            return;
        }
        self.families.entry(parent.clone()).or_default().insert((at, id));
        self.members.insert(id, Member { parent, idle_since: at });
    }

    /// A topic got a message.
    pub fn touch(&mut self, id: TopicId, at: Timestamp) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(family) = self.families.get_mut(&member.parent) {
            family.remove(&(member.idle_since, id));
            family.insert((at, id));
        }
        member.idle_since = at;
    }

    pub fn remove(&mut self, id: TopicId) {
        let Some(member) = self.members.remove(&id) else { return };
        if let Some(family) = self.families.get_mut(&member.parent) {
            family.remove(&(member.idle_since, id));
            if family.is_empty() {
                self.families.remove(&member.parent);
            }
        }
    }

    /// The lite topics of a parent.
    pub fn children(&self, parent: &TopicName) -> Vec<TopicId> {
        self.families.get(parent).into_iter().flatten().map(|(_, id)| *id).collect()
    }

    pub fn parent(&self, id: TopicId) -> Option<&TopicName> {
        self.members.get(&id).map(|member| &member.parent)
    }

    pub fn parents(&self) -> impl Iterator<Item = &TopicName> {
        self.families.keys()
    }

    /// Lite topics of a parent that have had no message since `at` or earlier, the longest idle first.
    pub fn idle_since(&self, parent: &TopicName, at: Timestamp) -> impl Iterator<Item = TopicId> {
        let family = self.families.get(parent).into_iter().flatten();
        family.take_while(move |(idle, _)| *idle <= at).map(|(_, id)| *id)
    }

    /// Layout: u32 count, then for each u32 topic, u64 idle since; by topic.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut members: Vec<(TopicId, Timestamp)> =
            self.members.iter().map(|(id, member)| (*id, member.idle_since)).collect();
        members.sort_unstable();
        out.put_u32(members.len() as u32);
        for (id, idle_since) in members {
            out.put_u32(id.0);
            out.put_u64(idle_since.0);
        }
    }

    /// `name` finds the name of a topic.
    pub fn decode<'n>(
        take: &mut Take<'_>,
        name: impl Fn(TopicId) -> Option<&'n TopicName>,
    ) -> Result<LiteTopics, Malformed> {
        let mut topics = LiteTopics::default();
        for _ in 0..take.count(12)? {
            let (id, idle_since) = (TopicId(take.u32()?), Timestamp(take.u64()?));
            topics.add(id, name(id).ok_or(take.malformed())?, idle_since);
        }
        Ok(topics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiteName;

    fn parent() -> TopicName {
        TopicName::new("p").unwrap()
    }

    fn lite(n: u32) -> TopicName {
        TopicName::lite(&parent(), &LiteName::new(&format!("l{n}")).unwrap())
    }

    fn idle(topics: &LiteTopics, at: u64) -> Vec<u32> {
        topics.idle_since(&parent(), Timestamp(at)).map(|id| id.0).collect()
    }

    #[test]
    fn the_longest_idle_come_first_and_a_message_makes_a_topic_young_again() {
        let mut topics = LiteTopics::default();
        topics.add(TopicId(9), &TopicName::new("other").unwrap(), Timestamp(1));
        for n in 0..3 {
            topics.add(TopicId(n), &lite(n), Timestamp(10 + u64::from(n)));
        }
        assert_eq!((topics.len(), idle(&topics, 11)), (3, vec![0, 1]));
        topics.touch(TopicId(0), Timestamp(50));
        assert_eq!((idle(&topics, 11), idle(&topics, 50)), (vec![1], vec![1, 2, 0]));
        topics.remove(TopicId(1));
        topics.remove(TopicId(1));
        assert_eq!((topics.len(), idle(&topics, 50)), (2, vec![2, 0]));
        assert_eq!(topics.parent(TopicId(2)), Some(&parent()));
        assert_eq!(topics.children(&parent()), [TopicId(2), TopicId(0)]);
    }
}
