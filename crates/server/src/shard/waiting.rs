//! Receives that found nothing and wait for a message or for their deadline.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redstart_engine::{GroupId, QueueKey, Timestamp, TopicId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::request::{PopReply, PopRequest, PullReply, PullRequest};

pub(super) type WaiterId = u64;

/// A receive that is held.
pub(super) enum Waiter {
    Pop {
        request: Box<PopRequest>,
        reply: PopReply,
        group: GroupId,
        topic: TopicId,
        deadline: Timestamp,
    },
    /// Found by its client: what that has subscribed to is known elsewhere, and may change meanwhile.
    Lite {
        request: Box<PopRequest>,
        reply: PopReply,
        deadline: Timestamp,
    },
    Pull {
        request: Box<PullRequest>,
        reply: PullReply,
        queue: QueueKey,
        deadline: Timestamp,
    },
}

impl Waiter {
    /// Nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => reply.is_closed(),
            Waiter::Pull { reply, .. } => reply.is_closed(),
        }
    }
}

/// A held receive, and when to look at it again: its deadline, or the time at which something in flight becomes visible.
pub(super) struct Held {
    pub waiter: Waiter,
    pub look_at: Timestamp,
}

/// All held receives, found by what wakes them. Those of one group and topic are served first come, first served.
#[derive(Default)]
pub(super) struct WaitList {
    waiters: FxHashMap<WaiterId, Held>,
    pops: FxHashMap<TopicId, BTreeMap<GroupId, VecDeque<WaiterId>>>,
    pulls: FxHashMap<QueueKey, FxHashSet<WaiterId>>,
    lites: FxHashMap<String, BTreeSet<WaiterId>>,
    times: BTreeSet<(Timestamp, WaiterId)>,
    next: WaiterId,
}

impl WaitList {
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Holds a receive until `look_at`.
    pub fn add(&mut self, waiter: Waiter, look_at: Timestamp) {
        let id = self.next;
        self.next += 1;
        self.put_back(id, waiter, look_at);
    }

    /// Holds a receive under the number it had before.
    pub fn put_back(&mut self, id: WaiterId, waiter: Waiter, look_at: Timestamp) {
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
        self.times.insert((look_at, id));
        self.waiters.insert(id, Held { waiter, look_at });
    }

    /// Looks again at another time, in the same place of the line.
    pub fn look_at(&mut self, id: WaiterId, at: Timestamp) {
        if let Some(held) = self.waiters.get_mut(&id) {
            self.times.remove(&(held.look_at, id));
            held.look_at = at;
            self.times.insert((at, id));
        }
    }

    pub fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.waiters.get(&id).map(|held| &held.waiter)
    }

    pub fn remove(&mut self, id: WaiterId) -> Option<Held> {
        let held = self.waiters.remove(&id)?;
        self.times.remove(&(held.look_at, id));
        match &held.waiter {
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
        Some(held)
    }

    /// Groups that wait for messages of a topic.
    pub fn groups_of(&self, topic: TopicId) -> Vec<GroupId> {
        self.pops.get(&topic).map(|groups| groups.keys().copied().collect()).unwrap_or_default()
    }

    /// Pops of a group and topic, the longest waiting first.
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

    /// Receives of a lite consumer.
    pub fn lites_of(&self, client: &str) -> Vec<WaiterId> {
        self.lites.get(client).map(|waiting| waiting.iter().copied().collect()).unwrap_or_default()
    }

    pub fn next_time(&self) -> Option<Timestamp> {
        self.times.first().map(|(at, _)| *at)
    }

    /// Waiters to be looked at by now.
    pub fn due(&self, now: Timestamp) -> Vec<WaiterId> {
        self.times.range(..=(now, WaiterId::MAX)).map(|(_, id)| *id).collect()
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> {
        self.pops.clear();
        self.pulls.clear();
        self.lites.clear();
        self.times.clear();
        std::mem::take(&mut self.waiters).into_values().map(|held| held.waiter)
    }
}
