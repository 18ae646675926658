//! Which lite topics each client has subscribed to. Held in memory: subscriptions go with their client, and a client
//! that comes back says anew what it wants. Where its group stands in each is the engine's, and durable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use redstart_engine::{GroupName, LiteName, LiteOffset, TopicId, TopicName};
use rustc_hash::FxHashMap;

/// A change of what a client has subscribed to.
#[derive(Debug, Clone)]
pub struct LiteChange {
    pub client: String,
    pub group: GroupName,
    pub parent: TopicName,
    pub action: LiteAction,
    /// Only one client of the group may have a lite topic.
    pub exclusive: bool,
    /// Lite topics that one client may subscribe to.
    pub quota: usize,
}

#[derive(Debug, Clone)]
pub enum LiteAction {
    /// Subscribes to further lite topics, and moves the group in those that are new to the client.
    Add(Vec<(LiteName, TopicId)>, LiteOffset),
    Remove(Vec<LiteName>),
    /// Says again what the client has: these and no others.
    Replace(Vec<(LiteName, TopicId)>),
}

/// A client must be told that it has lost a lite topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteNotice {
    pub client: String,
    pub lite: LiteName,
}

/// More subscriptions than are allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} would be {value}, the limit is {limit}")]
pub struct TooManyLites {
    pub what: &'static str,
    pub value: usize,
    pub limit: usize,
}

/// What came of a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// New to the client.
    pub added: Vec<TopicId>,
    pub notices: Vec<LiteNotice>,
}

#[derive(Debug)]
struct LiteSet {
    group: GroupName,
    parent: TopicName,
    lites: BTreeMap<LiteName, TopicId>,
    /// The same, ascending.
    topics: Vec<TopicId>,
    /// The lite topic that was served last.
    turn: Option<TopicId>,
}

/// The subscriptions of all clients, by client and by lite topic.
#[derive(Debug, Default)]
pub(super) struct LiteSets {
    by_client: FxHashMap<Arc<str>, LiteSet>,
    by_topic: FxHashMap<TopicId, BTreeSet<Arc<str>>>,
    count: usize,
}

impl LiteSets {
    /// What a client of the group may receive, and which lite topic it had last.
    pub fn topics(
        &self,
        client: &str,
        group: &GroupName,
        parent: &TopicName,
    ) -> (&[TopicId], Option<TopicId>) {
        match self.by_client.get(client) {
            Some(set) if set.group == *group && set.parent == *parent => (&set.topics, set.turn),
            _ => (&[], None),
        }
    }

    pub fn served(&mut self, client: &str, topic: TopicId) {
        if let Some(set) = self.by_client.get_mut(client) {
            set.turn = Some(topic);
        }
    }

    /// Clients that have subscribed to a lite topic.
    pub fn clients_of(&self, topic: TopicId) -> impl Iterator<Item = &Arc<str>> {
        self.by_topic.get(&topic).into_iter().flatten()
    }

    /// Takes a change over; adds nothing when that would be over a limit. `limit` is for all clients together.
    pub fn change(&mut self, change: LiteChange, limit: usize) -> Result<Changed, TooManyLites> {
        let LiteChange { client, group, parent, action, exclusive, quota } = change;
        let client: Arc<str> = client.into();
        let same = |set: &LiteSet| set.group == group && set.parent == parent;
        if self.by_client.get(&client).is_some_and(|set| !same(set)) {
            self.leave(&client);
        }
        let (mut wanted, steals) = match action {
            LiteAction::Add(lites, _) => (lites, true),
            LiteAction::Replace(lites) => {
                let names: BTreeSet<LiteName> = lites.iter().map(|(name, _)| name.clone()).collect();
                let dropped: Vec<LiteName> =
                    self.names(&client).filter(|name| !names.contains(*name)).cloned().collect();
                self.remove(&client, &dropped);
                (lites, false)
            }
            LiteAction::Remove(names) => {
                self.remove(&client, &names);
                (Vec::new(), false)
            }
        };
        let mut changed = Changed::default();
        if exclusive && !steals {
            // A client that says again what it has may have missed that it lost one.
            let lost = |lite: &(LiteName, TopicId)| self.rivals(lite.1, &client, &group).next().is_some();
            let (gone, kept): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|lite| lost(lite));
            let lites: Vec<LiteName> = gone.into_iter().map(|(lite, _)| lite).collect();
            self.remove(&client, &lites);
            let notice = |lite| LiteNotice { client: client.to_string(), lite };
            changed.notices.extend(lites.into_iter().map(notice));
            wanted = kept;
        }
        let set = self.by_client.get(&client);
        let has = set.map_or(0, |set| set.lites.len());
        let new =
            wanted.iter().filter(|(name, _)| set.is_none_or(|set| !set.lites.contains_key(name))).count();
        for (what, value, limit) in [
            ("lite topics of one client", has + new, quota),
            ("lite subscriptions of all clients", self.count + new, limit),
        ] {
            if new > 0 && value > limit {
                return Err(TooManyLites { what, value, limit });
            }
        }
        for (lite, topic) in wanted {
            if exclusive {
                let rivals: Vec<Arc<str>> = self.rivals(topic, &client, &group).cloned().collect();
                for rival in rivals {
                    self.remove(&rival, std::slice::from_ref(&lite));
                    changed.notices.push(LiteNotice { client: rival.to_string(), lite: lite.clone() });
                }
            }
            if self.add(&client, &group, &parent, lite, topic) {
                changed.added.push(topic);
            }
        }
        Ok(changed)
    }

    fn names(&self, client: &str) -> impl Iterator<Item = &LiteName> {
        self.by_client.get(client).into_iter().flat_map(|set| set.lites.keys())
    }

    /// Other clients of the group that have the lite topic.
    fn rivals<'a>(
        &'a self,
        topic: TopicId,
        client: &'a str,
        group: &'a GroupName,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        self.clients_of(topic).filter(move |other| {
            ***other != *client && self.by_client.get(*other).is_some_and(|set| set.group == *group)
        })
    }

    fn add(
        &mut self,
        client: &Arc<str>,
        group: &GroupName,
        parent: &TopicName,
        lite: LiteName,
        topic: TopicId,
    ) -> bool {
        let set = self.by_client.entry(client.clone()).or_insert_with(|| LiteSet {
            group: group.clone(),
            parent: parent.clone(),
            lites: BTreeMap::new(),
            topics: Vec::new(),
            turn: None,
        });
        match set.lites.insert(lite, topic) {
            Some(old) if old == topic => return false,
            // Removed and made anew: another topic under the same name.
            Some(old) => {
                set.topics.retain(|topic| *topic != old);
                self.unlink(old, client);
            }
            None => self.count += 1,
        }
        if let Some(set) = self.by_client.get_mut(client)
            && let Err(at) = set.topics.binary_search(&topic)
        {
            set.topics.insert(at, topic);
        }
        self.by_topic.entry(topic).or_default().insert(client.clone());
        true
    }

    fn remove(&mut self, client: &str, lites: &[LiteName]) {
        let Some(set) = self.by_client.get_mut(client) else { return };
        let removed: Vec<TopicId> = lites.iter().filter_map(|lite| set.lites.remove(lite)).collect();
        set.topics = set.lites.values().copied().collect();
        set.topics.sort_unstable();
        self.count -= removed.len();
        if set.lites.is_empty() {
            self.by_client.remove(client);
        }
        for topic in removed {
            self.unlink(topic, client);
        }
    }

    fn unlink(&mut self, topic: TopicId, client: &str) {
        if let Some(clients) = self.by_topic.get_mut(&topic) {
            clients.remove(client);
            if clients.is_empty() {
                self.by_topic.remove(&topic);
            }
        }
    }

    /// The client is gone.
    pub fn leave(&mut self, client: &str) {
        let names: Vec<LiteName> = self.names(client).cloned().collect();
        self.remove(client, &names);
    }

    /// The lite topic is gone: whoever had subscribed must be told.
    pub fn forget(&mut self, topic: TopicId, lite: &LiteName) -> Vec<LiteNotice> {
        let clients: Vec<Arc<str>> = self.clients_of(topic).cloned().collect();
        let notice = |client: Arc<str>| {
            self.remove(&client, std::slice::from_ref(lite));
            LiteNotice { client: client.to_string(), lite: lite.clone() }
        };
        clients.into_iter().map(notice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lite(n: u32) -> (LiteName, TopicId) {
        (LiteName::new(&format!("l{n}")).unwrap(), TopicId(n))
    }

    fn lites(numbers: &[u32]) -> Vec<(LiteName, TopicId)> {
        numbers.iter().map(|n| lite(*n)).collect()
    }

    fn change(client: &str, action: LiteAction) -> LiteChange {
        LiteChange {
            client: client.to_owned(),
            group: GroupName::new("g").unwrap(),
            parent: TopicName::new("p").unwrap(),
            action,
            exclusive: false,
            quota: 3,
        }
    }

    fn add(sets: &mut LiteSets, client: &str, numbers: &[u32]) -> Vec<u32> {
        let action = LiteAction::Add(lites(numbers), LiteOffset::Last);
        let changed = sets.change(change(client, action), 5).unwrap();
        changed.added.into_iter().map(|id| id.0).collect()
    }

    fn topics(sets: &LiteSets, client: &str) -> Vec<u32> {
        let (group, parent) = (GroupName::new("g").unwrap(), TopicName::new("p").unwrap());
        sets.topics(client, &group, &parent).0.iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_set_follows_its_changes_and_only_what_is_new_counts_as_added() {
        let mut sets = LiteSets::default();
        assert_eq!(add(&mut sets, "a", &[3, 1]), [3, 1]);
        assert_eq!(add(&mut sets, "a", &[1, 2]), [2]);
        assert_eq!(topics(&sets, "a"), [1, 2, 3]);
        sets.change(change("a", LiteAction::Remove(vec![lite(2).0, lite(9).0])), 5).unwrap();
        let replaced = sets.change(change("a", LiteAction::Replace(lites(&[3, 4]))), 5).unwrap();
        assert_eq!((topics(&sets, "a"), replaced.added), (vec![3, 4], vec![TopicId(4)]));
        assert_eq!((sets.clients_of(TopicId(1)).count(), sets.clients_of(TopicId(3)).count()), (0, 1));
        let anew = vec![(lite(3).0, TopicId(30))];
        sets.change(change("a", LiteAction::Add(anew, LiteOffset::Last)), 5).unwrap();
        assert_eq!((topics(&sets, "a"), sets.count), (vec![4, 30], 2), "made anew under its old name");
        sets.leave("a");
        assert!(sets.by_client.is_empty() && sets.by_topic.is_empty() && sets.count == 0);
    }

    #[test]
    fn both_limits_are_kept_and_what_is_over_them_changes_nothing() {
        let mut sets = LiteSets::default();
        add(&mut sets, "a", &[1, 2]);
        let over = |sets: &mut LiteSets, client: &str, numbers: &[u32]| {
            let action = LiteAction::Add(lites(numbers), LiteOffset::Last);
            sets.change(change(client, action), 5).unwrap_err()
        };
        let error = over(&mut sets, "a", &[2, 3, 4]);
        assert_eq!((error.value, error.limit, topics(&sets, "a")), (4, 3, vec![1, 2]));
        add(&mut sets, "b", &[1, 2, 3]);
        let error = over(&mut sets, "c", &[1]);
        assert_eq!((error.value, error.limit), (6, 5));
        assert_eq!(add(&mut sets, "a", &[1, 2]), [0; 0], "saying it again is always allowed");
    }

    #[test]
    fn an_exclusive_lite_topic_goes_to_who_asks_for_it_and_not_to_who_says_it_again() {
        let mut sets = LiteSets::default();
        let exclusive = |client: &str, action| LiteChange { exclusive: true, ..change(client, action) };
        let notice = |client: &str| LiteNotice { client: client.to_owned(), lite: lite(1).0 };
        add(&mut sets, "old", &[1, 2]);
        let taken = LiteAction::Add(lites(&[1]), LiteOffset::Last);
        assert_eq!(sets.change(exclusive("new", taken), 9).unwrap().notices, [notice("old")]);
        assert_eq!((topics(&sets, "old"), topics(&sets, "new")), (vec![2], vec![1]));
        let again = sets.change(exclusive("old", LiteAction::Replace(lites(&[1, 2]))), 9).unwrap();
        assert_eq!(again, Changed { added: vec![], notices: vec![notice("old")] });
        assert_eq!((topics(&sets, "old"), topics(&sets, "new")), (vec![2], vec![1]));
    }

    #[test]
    fn everyone_is_told_of_a_lite_topic_that_is_gone() {
        let mut sets = LiteSets::default();
        add(&mut sets, "a", &[1, 2]);
        add(&mut sets, "b", &[1]);
        let told: Vec<String> =
            sets.forget(TopicId(1), &lite(1).0).into_iter().map(|one| one.client).collect();
        assert_eq!(told, ["a", "b"]);
        assert_eq!((topics(&sets, "a"), topics(&sets, "b"), sets.count), (vec![2], vec![], 1));
    }
}
