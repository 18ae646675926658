//! Receives that found nothing and wait for a message or for their deadline.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use redstart_engine::{GroupId, QueueKey, Timestamp, TopicId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Now,
    pause::Pause,
    request::{PopReply, PopRequest, PullReply, PullRequest},
};

pub(super) type WaiterId = u64;

/// A receive that is held. Its deadline is a time of the shard's run.
pub(super) enum Waiter {
    Pop {
        request: Box<PopRequest>,
        reply: PopReply,
        group: GroupId,
        topic: TopicId,
        deadline: Duration,
    },
    /// Found by its client: what the client has subscribed to is in [`super::lites`], and may change while it waits.
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
    /// Nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        match self {
            Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => reply.is_closed(),
            Waiter::Pull { reply, .. } => reply.is_closed(),
        }
    }
}

/// When to look at a held receive again, unless something wakes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Its deadline, or sooner.
    pub at: Duration,
    /// When something in flight becomes visible, by the engine's time.
    pub visible: Option<Timestamp>,
}

struct Held {
    waiter: Waiter,
    look: Look,
    /// After searches that got nowhere.
    pause: Pause,
}

/// All held receives, found by what wakes them. Those of one group and topic are served first come, first served.
#[derive(Default)]
pub(super) struct WaitList {
    waiters: FxHashMap<WaiterId, Held>,
    pops: FxHashMap<TopicId, BTreeMap<GroupId, VecDeque<WaiterId>>>,
    pulls: FxHashMap<QueueKey, FxHashSet<WaiterId>>,
    lites: FxHashMap<String, BTreeSet<WaiterId>>,
    looks: BTreeSet<(Duration, WaiterId)>,
    visible: BTreeSet<(Timestamp, WaiterId)>,
    next: WaiterId,
}

impl WaitList {
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Holds a receive.
    pub fn add(&mut self, waiter: Waiter, look: Look) -> WaiterId {
        let id = self.next;
        self.next += 1;
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
        self.looks.insert((look.at, id));
        self.visible.extend(look.visible.map(|at| (at, id)));
        self.waiters.insert(id, Held { waiter, look, pause: Pause::default() });
        id
    }

    /// Looks again at another time, in the same place of the line.
    pub fn look_at(&mut self, id: WaiterId, look: Look) {
        if let Some(held) = self.waiters.get_mut(&id) {
            held.pause = Pause::default();
            self.reschedule(id, look);
        }
    }

    /// Its search got nowhere: looks again after a pause, which grows each time.
    pub fn stall(&mut self, id: WaiterId, deadline: Duration, now: Now) {
        if let Some(held) = self.waiters.get_mut(&id) {
            held.pause = held.pause.longer();
            let at = held.pause.after(now.uptime).min(deadline);
            self.reschedule(id, Look { at, visible: None });
        }
    }

    fn reschedule(&mut self, id: WaiterId, look: Look) {
        let Some(held) = self.waiters.get_mut(&id) else { return };
        let old = std::mem::replace(&mut held.look, look);
        if old.at != look.at {
            self.looks.remove(&(old.at, id));
            self.looks.insert((look.at, id));
        }
        if old.visible != look.visible {
            old.visible.map(|at| self.visible.remove(&(at, id)));
            self.visible.extend(look.visible.map(|at| (at, id)));
        }
    }

    /// When it is looked at again.
    pub fn look_of(&self, id: WaiterId) -> Option<Look> {
        self.waiters.get(&id).map(|held| held.look)
    }

    pub fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.waiters.get(&id).map(|held| &held.waiter)
    }

    pub fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let held = self.waiters.remove(&id)?;
        self.looks.remove(&(held.look.at, id));
        held.look.visible.map(|at| self.visible.remove(&(at, id)));
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
        Some(held.waiter)
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

    /// When a waiter is to be looked at next: by the time of the run, and by the engine's time.
    pub fn next_times(&self) -> (Option<Duration>, Option<Timestamp>) {
        (self.looks.first().map(|(at, _)| *at), self.visible.first().map(|(at, _)| *at))
    }

    /// Waiters to be looked at by now. One may be named twice.
    pub fn due(&self, now: Now) -> Vec<WaiterId> {
        let looks = self.looks.range(..=(now.uptime, WaiterId::MAX)).map(|(_, id)| *id);
        let visible = self.visible.range(..=(now.time, WaiterId::MAX)).map(|(_, id)| *id);
        looks.chain(visible).collect()
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> {
        self.pops.clear();
        self.pulls.clear();
        self.lites.clear();
        self.looks.clear();
        self.visible.clear();
        std::mem::take(&mut self.waiters).into_values().map(|held| held.waiter)
    }
}
