//! Which lite topics each client has subscribed to.
//!
//! In memory only: the subscriptions of a client end with its connection, and a client that reconnects subscribes again. The
//! progress of its group in each lite topic is in the engine, and durable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use redstart_engine::{GroupName, LiteName, LiteOffset, TopicId, TopicName};
use rustc_hash::FxHashMap;

/// A change of the subscriptions of a client.
#[derive(Debug, Clone)]
pub struct LiteChange {
    pub client: String,
    pub group: GroupName,
    pub parent: TopicName,
    pub action: LiteAction,
    /// At most one client of the group may be subscribed to a lite topic.
    pub exclusive: bool,
    /// Lite topics that one client may subscribe to.
    pub quota: usize,
}

#[derive(Debug, Clone)]
pub enum LiteAction {
    /// Subscribes to further lite topics. In those that are new to the client, the group starts at the given offset.
    Add(Vec<(LiteName, TopicId)>, LiteOffset),
    Remove(Vec<LiteName>),
    /// The client repeats its subscriptions: these and no others.
    Replace(Vec<(LiteName, TopicId)>),
}

/// A client that has lost a subscription, which it is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteNotice {
    pub client: String,
    pub lite: LiteName,
}

/// A change that would exceed a limit of subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} would be {value}, the limit is {limit}")]
pub struct TooManyLiteSubscriptions {
    pub what: &'static str,
    pub value: usize,
    pub limit: usize,
}

/// The result of a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Lite topics that the client was not subscribed to before.
    pub added: Vec<TopicId>,
    pub notices: Vec<LiteNotice>,
}

/// The subscriptions of one client.
#[derive(Debug)]
struct ClientSubscriptions {
    group: GroupName,
    parent: TopicName,
    lites: BTreeMap<LiteName, TopicId>,
    /// The ids of `lites`, ascending.
    topics: Vec<TopicId>,
    /// The lite topic of the last delivery; the next pop starts behind it.
    last_served: Option<TopicId>,
}

/// The subscriptions of all clients, by client and by lite topic.
#[derive(Debug, Default)]
pub(super) struct LiteSubscriptions {
    by_client: FxHashMap<Arc<str>, ClientSubscriptions>,
    by_topic: FxHashMap<TopicId, BTreeSet<Arc<str>>>,
    count: usize,
}

impl LiteSubscriptions {
    /// The lite topics of a client, and the one that was served last.
    pub fn topics(
        &self,
        client: &str,
        group: &GroupName,
        parent: &TopicName,
    ) -> (&[TopicId], Option<TopicId>) {
        match self.by_client.get(client) {
            Some(set) if set.group == *group && set.parent == *parent => (&set.topics, set.last_served),
            _ => (&[], None),
        }
    }

    pub fn set_last_served(&mut self, client: &str, topic: TopicId) {
        if let Some(set) = self.by_client.get_mut(client) {
            set.last_served = Some(topic);
        }
    }

    /// Clients that have subscribed to a lite topic.
    pub fn clients_of(&self, topic: TopicId) -> impl Iterator<Item = &Arc<str>> {
        self.by_topic.get(&topic).into_iter().flatten()
    }

    /// Applies a change; adds nothing when that would exceed a limit. `limit` is for all clients together.
    pub fn change(&mut self, change: LiteChange, limit: usize) -> Result<Changed, TooManyLiteSubscriptions> {
        let LiteChange { client, group, parent, action, exclusive, quota } = change;
        let client: Arc<str> = client.into();
        let same = |set: &ClientSubscriptions| set.group == group && set.parent == parent;
        if self.by_client.get(&client).is_some_and(|set| !same(set)) {
            self.remove_client(&client);
        }
        let (mut wanted, takes_over) = match action {
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
        if exclusive && !takes_over {
            // The client may have missed the notice that another client took the lite topic over.
            let is_taken =
                |lite: &(LiteName, TopicId)| self.other_clients(lite.1, &client, &group).next().is_some();
            let (lost, kept): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|lite| is_taken(lite));
            let lites: Vec<LiteName> = lost.into_iter().map(|(lite, _)| lite).collect();
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
                return Err(TooManyLiteSubscriptions { what, value, limit });
            }
        }
        for (lite, topic) in wanted {
            if exclusive {
                let others: Vec<Arc<str>> = self.other_clients(topic, &client, &group).cloned().collect();
                for other in others {
                    self.remove(&other, std::slice::from_ref(&lite));
                    changed.notices.push(LiteNotice { client: other.to_string(), lite: lite.clone() });
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

    /// Other clients of the group that are subscribed to the lite topic.
    fn other_clients<'a>(
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
        let set = self.by_client.entry(client.clone()).or_insert_with(|| ClientSubscriptions {
            group: group.clone(),
            parent: parent.clone(),
            lites: BTreeMap::new(),
            topics: Vec::new(),
            last_served: None,
        });
        match set.lites.insert(lite, topic) {
            Some(old) if old == topic => return false,
            // The lite topic was removed and created again: another topic with the same name.
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

    /// The client has disconnected.
    pub fn remove_client(&mut self, client: &str) {
        let names: Vec<LiteName> = self.names(client).cloned().collect();
        self.remove(client, &names);
    }

    /// The lite topic was removed. Returns a notice for every client that was subscribed to it.
    pub fn remove_topic(&mut self, topic: TopicId, lite: &LiteName) -> Vec<LiteNotice> {
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

    fn add(sets: &mut LiteSubscriptions, client: &str, numbers: &[u32]) -> Vec<u32> {
        let action = LiteAction::Add(lites(numbers), LiteOffset::Last);
        let changed = sets.change(change(client, action), 5).unwrap();
        changed.added.into_iter().map(|id| id.0).collect()
    }

    fn topics(sets: &LiteSubscriptions, client: &str) -> Vec<u32> {
        let (group, parent) = (GroupName::new("g").unwrap(), TopicName::new("p").unwrap());
        sets.topics(client, &group, &parent).0.iter().map(|id| id.0).collect()
    }

    #[test]
    fn changes_apply_in_order_and_only_new_subscriptions_count_as_added() {
        let mut sets = LiteSubscriptions::default();
        assert_eq!(add(&mut sets, "a", &[3, 1]), [3, 1]);
        assert_eq!(add(&mut sets, "a", &[1, 2]), [2]);
        assert_eq!(topics(&sets, "a"), [1, 2, 3]);
        sets.change(change("a", LiteAction::Remove(vec![lite(2).0, lite(9).0])), 5).unwrap();
        let replaced = sets.change(change("a", LiteAction::Replace(lites(&[3, 4]))), 5).unwrap();
        assert_eq!((topics(&sets, "a"), replaced.added), (vec![3, 4], vec![TopicId(4)]));
        assert_eq!((sets.clients_of(TopicId(1)).count(), sets.clients_of(TopicId(3)).count()), (0, 1));
        let anew = vec![(lite(3).0, TopicId(30))];
        sets.change(change("a", LiteAction::Add(anew, LiteOffset::Last)), 5).unwrap();
        assert_eq!((topics(&sets, "a"), sets.count), (vec![4, 30], 2), "created again with the same name");
        sets.remove_client("a");
        assert!(sets.by_client.is_empty() && sets.by_topic.is_empty() && sets.count == 0);
    }

    #[test]
    fn both_limits_are_kept_and_a_change_over_them_changes_nothing() {
        let mut sets = LiteSubscriptions::default();
        add(&mut sets, "a", &[1, 2]);
        let over = |sets: &mut LiteSubscriptions, client: &str, numbers: &[u32]| {
            let action = LiteAction::Add(lites(numbers), LiteOffset::Last);
            sets.change(change(client, action), 5).unwrap_err()
        };
        let error = over(&mut sets, "a", &[2, 3, 4]);
        assert_eq!((error.value, error.limit, topics(&sets, "a")), (4, 3, vec![1, 2]));
        add(&mut sets, "b", &[1, 2, 3]);
        let error = over(&mut sets, "c", &[1]);
        assert_eq!((error.value, error.limit), (6, 5));
        assert_eq!(add(&mut sets, "a", &[1, 2]), [0; 0], "repeating a subscription is always allowed");
    }

    #[test]
    fn an_exclusive_lite_topic_goes_to_the_client_that_adds_it_and_not_to_one_that_repeats_it() {
        let mut sets = LiteSubscriptions::default();
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
    fn every_subscriber_of_a_removed_lite_topic_gets_a_notice() {
        let mut sets = LiteSubscriptions::default();
        add(&mut sets, "a", &[1, 2]);
        add(&mut sets, "b", &[1]);
        let notified: Vec<String> =
            sets.remove_topic(TopicId(1), &lite(1).0).into_iter().map(|one| one.client).collect();
        assert_eq!(notified, ["a", "b"]);
        assert_eq!((topics(&sets, "a"), topics(&sets, "b"), sets.count), (vec![2], vec![], 1));
    }
}
