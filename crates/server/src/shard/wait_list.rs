//! The long polls: receives and pulls that found nothing and wait for a message or for their deadline.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use redstart_engine::{GroupId, QueueKey, Timestamp, TopicId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Now,
    backoff::Backoff,
    request::{PopReply, PopRequest, PullReply, PullRequest},
};

pub(super) type WaiterId = u64;

/// A waiting receive. Its deadline is an uptime of the shard.
pub(super) enum Waiter {
    Pop {
        request: Box<PopRequest>,
        reply: PopReply,
        group: GroupId,
        topic: TopicId,
        deadline: Duration,
    },
    /// Found by its client: the subscriptions of the client are in [`super::lite_subscriptions`], and may change while it waits.
    Lite {
        request: Box<PopRequest>,
        reply: PopReply,
        deadline: Duration,
    },
    Pull {
        request: Box<PullRequest>,
        reply: PullReply,
        queue: QueueKey,
        deadline: Duration,
    },
}

impl Waiter {
    /// The caller has given up: the answer would be dropped.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => reply.is_closed(),
            Waiter::Pull { reply, .. } => reply.is_closed(),
        }
    }
}

/// When a waiting receive is run again if no event wakes it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recheck {
    /// The deadline of the receive, or sooner. An uptime.
    pub at: Duration,
    /// When the next message in flight becomes visible, in engine time.
    pub visible_at: Option<Timestamp>,
}

impl Recheck {
    pub fn at(at: Duration) -> Recheck {
        Recheck { at, visible_at: None }
    }
}

struct Entry {
    waiter: Waiter,
    recheck: Recheck,
    /// Grows with every search that made no progress.
    backoff: Backoff,
}

/// All waiting receives, indexed by what wakes them. The pops of one group and topic form a line and are served in the order in
/// which they came.
#[derive(Default)]
pub(super) struct WaitList {
    entries: FxHashMap<WaiterId, Entry>,
    pops: FxHashMap<TopicId, BTreeMap<GroupId, VecDeque<WaiterId>>>,
    pulls: FxHashMap<QueueKey, FxHashSet<WaiterId>>,
    lites: FxHashMap<String, BTreeSet<WaiterId>>,
    by_uptime: BTreeSet<(Duration, WaiterId)>,
    by_visibility: BTreeSet<(Timestamp, WaiterId)>,
    next_id: WaiterId,
}

impl WaitList {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn add(&mut self, waiter: Waiter, recheck: Recheck) -> WaiterId {
        let id = self.next_id;
        self.next_id += 1;
        match &waiter {
            Waiter::Pop { group, topic, .. } => {
                self.pops.entry(*topic).or_default().entry(*group).or_default().push_back(id);
            }
            Waiter::Pull { queue, .. } => {
                self.pulls.entry(*queue).or_default().insert(id);
            }
            Waiter::Lite { request, .. } => {
                self.lites.entry(request.client.clone()).or_default().insert(id);
            }
        }
        self.by_uptime.insert((recheck.at, id));
        self.by_visibility.extend(recheck.visible_at.map(|at| (at, id)));
        self.entries.insert(id, Entry { waiter, recheck, backoff: Backoff::default() });
        id
    }

    /// Schedules the next run of a receive. Its place in the line stays.
    pub fn schedule(&mut self, id: WaiterId, recheck: Recheck) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.backoff = Backoff::default();
            self.reschedule(id, recheck);
        }
    }

    /// Schedules the next run of a receive whose search made no progress; the time until then grows with every call.
    pub fn back_off(&mut self, id: WaiterId, deadline: Duration, now: Now) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.backoff = entry.backoff.next();
            let at = entry.backoff.until(now.uptime).min(deadline);
            self.reschedule(id, Recheck::at(at));
        }
    }

    fn reschedule(&mut self, id: WaiterId, recheck: Recheck) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let old = std::mem::replace(&mut entry.recheck, recheck);
        if old.at != recheck.at {
            self.by_uptime.remove(&(old.at, id));
            self.by_uptime.insert((recheck.at, id));
        }
        if old.visible_at != recheck.visible_at {
            old.visible_at.map(|at| self.by_visibility.remove(&(at, id)));
            self.by_visibility.extend(recheck.visible_at.map(|at| (at, id)));
        }
    }

    pub fn recheck_of(&self, id: WaiterId) -> Option<Recheck> {
        self.entries.get(&id).map(|entry| entry.recheck)
    }

    pub fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.entries.get(&id).map(|entry| &entry.waiter)
    }

    pub fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let entry = self.entries.remove(&id)?;
        self.by_uptime.remove(&(entry.recheck.at, id));
        entry.recheck.visible_at.map(|at| self.by_visibility.remove(&(at, id)));
        match &entry.waiter {
            Waiter::Pop { group, topic, .. } => {
                if let Some(groups) = self.pops.get_mut(topic) {
                    if let Some(line) = groups.get_mut(group) {
                        line.retain(|waiting| *waiting != id);
                        if line.is_empty() {
                            groups.remove(group);
                        }
                    }
                    if groups.is_empty() {
                        self.pops.remove(topic);
                    }
                }
            }
            Waiter::Pull { queue, .. } => {
                if let Some(waiting) = self.pulls.get_mut(queue) {
                    waiting.remove(&id);
                    if waiting.is_empty() {
                        self.pulls.remove(queue);
                    }
                }
            }
            Waiter::Lite { request, .. } => {
                if let Some(waiting) = self.lites.get_mut(&request.client) {
                    waiting.remove(&id);
                    if waiting.is_empty() {
                        self.lites.remove(&request.client);
                    }
                }
            }
        }
        Some(entry.waiter)
    }

    /// Groups with pops that wait for messages of a topic.
    pub fn groups_of(&self, topic: TopicId) -> Vec<GroupId> {
        self.pops.get(&topic).map(|groups| groups.keys().copied().collect()).unwrap_or_default()
    }

    /// The waiting pops of a group and topic, the one that came first at the front.
    pub fn line(&self, group: GroupId, topic: TopicId) -> Vec<WaiterId> {
        self.pops
            .get(&topic)
            .and_then(|groups| groups.get(&group))
            .map(|line| line.iter().copied().collect())
            .unwrap_or_default()
    }

    pub fn pulls_of(&self, queue: QueueKey) -> Vec<WaiterId> {
        self.pulls.get(&queue).map(|waiting| waiting.iter().copied().collect()).unwrap_or_default()
    }

    /// The waiting receives of a lite consumer.
    pub fn lites_of(&self, client: &str) -> Vec<WaiterId> {
        self.lites.get(client).map(|waiting| waiting.iter().copied().collect()).unwrap_or_default()
    }

    /// When the next waiter is to be run again: in uptime, and in engine time.
    pub fn next_times(&self) -> (Option<Duration>, Option<Timestamp>) {
        (self.by_uptime.first().map(|(at, _)| *at), self.by_visibility.first().map(|(at, _)| *at))
    }

    /// Waiters that are to be run again by now. One may be listed twice.
    pub fn due(&self, now: Now) -> Vec<WaiterId> {
        let by_uptime = self.by_uptime.range(..=(now.uptime, WaiterId::MAX)).map(|(_, id)| *id);
        let by_visibility = self.by_visibility.range(..=(now.time, WaiterId::MAX)).map(|(_, id)| *id);
        by_uptime.chain(by_visibility).collect()
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> {
        self.pops.clear();
        self.pulls.clear();
        self.lites.clear();
        self.by_uptime.clear();
        self.by_visibility.clear();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.waiter)
    }
}
