//! Lite topics by their parents, and since when each has been without a new message.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::{
    Timestamp, TopicId, TopicName,
    codec::{Malformed, Put, Take},
};

/// The lite topics of the shard. A lite topic is a topic of one queue whose name tells its parent's; this knows which
/// belong together and how old their last messages are.
#[derive(Debug, Default)]
pub(crate) struct Lites {
    /// By the name of the parent; the longest idle first.
    families: BTreeMap<TopicName, BTreeSet<(Timestamp, TopicId)>>,
    members: FxHashMap<TopicId, Member>,
}

#[derive(Debug)]
struct Member {
    parent: TopicName,
    idle_since: Timestamp,
}

impl Lites {
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

    /// `name` finds the topic that a number stands for.
    pub fn decode<'n>(
        take: &mut Take<'_>,
        name: impl Fn(TopicId) -> Option<&'n TopicName>,
    ) -> Result<Lites, Malformed> {
        let mut lites = Lites::default();
        for _ in 0..take.count(12)? {
            let (id, idle_since) = (TopicId(take.u32()?), Timestamp(take.u64()?));
            lites.add(id, name(id).ok_or(take.malformed())?, idle_since);
        }
        Ok(lites)
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

    fn idle(lites: &Lites, at: u64) -> Vec<u32> {
        lites.idle_since(&parent(), Timestamp(at)).map(|id| id.0).collect()
    }

    #[test]
    fn the_longest_idle_come_first_and_a_message_makes_a_topic_young_again() {
        let mut lites = Lites::default();
        lites.add(TopicId(9), &TopicName::new("other").unwrap(), Timestamp(1));
        for n in 0..3 {
            lites.add(TopicId(n), &lite(n), Timestamp(10 + u64::from(n)));
        }
        assert_eq!((lites.len(), idle(&lites, 11)), (3, vec![0, 1]));
        lites.touch(TopicId(0), Timestamp(50));
        assert_eq!((idle(&lites, 11), idle(&lites, 50)), (vec![1], vec![1, 2, 0]));
        lites.remove(TopicId(1));
        lites.remove(TopicId(1));
        assert_eq!((lites.len(), idle(&lites, 50)), (2, vec![2, 0]));
        assert_eq!(lites.parent(TopicId(2)), Some(&parent()));
        assert_eq!(lites.children(&parent()), [TopicId(2), TopicId(0)]);
    }
}
