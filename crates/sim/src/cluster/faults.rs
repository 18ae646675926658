//! Makes up what happens to nodes, disks and the network; and what an operator does about it.

use redstart_raft::{Change, Member};

use super::{Cluster, network::Quality, node::Node};
use crate::{Profile, oracle::Checked};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Crash,
    CrashLeader,
    CrashAll,
    Network,
    Isolate,
    IsolateLeader,
    CutOneWay,
    /// One direction becomes slow.
    SlowOneWay,
    /// A leader is heard by nobody, and hears what was said to it before for a while.
    MuteLeader,
    /// A node is killed again and again, while another does not hear the leader.
    Flap,
    Split,
    Heal,
    StallDisk,
    FailWrite,
    FailSync,
    Wipe,
    Transfer,
    LinkDown,
}

/// How common each fault is: (mixed, crashes, retention, order, uniform). Runs with clients that need order see leaders come and
/// go most, runs with crashes see nodes that are away for moments.
const WEIGHTS: &[(Fault, [u64; 5])] = &[
    (Fault::Crash, [12, 20, 12, 8, 12]),
    (Fault::CrashLeader, [8, 12, 8, 8, 8]),
    (Fault::CrashAll, [2, 6, 2, 1, 2]),
    (Fault::Network, [10, 10, 10, 10, 10]),
    (Fault::Isolate, [5, 5, 10, 5, 5]),
    (Fault::IsolateLeader, [8, 8, 8, 12, 8]),
    (Fault::CutOneWay, [10, 10, 10, 10, 10]),
    (Fault::SlowOneWay, [6, 6, 6, 6, 6]),
    (Fault::MuteLeader, [6, 6, 6, 10, 6]),
    (Fault::Flap, [6, 50, 6, 6, 6]),
    (Fault::Split, [5, 5, 5, 5, 5]),
    (Fault::Heal, [25, 25, 25, 25, 25]),
    (Fault::StallDisk, [6, 6, 6, 6, 6]),
    (Fault::FailWrite, [3, 6, 3, 3, 3]),
    (Fault::FailSync, [3, 6, 3, 3, 3]),
    (Fault::Wipe, [3, 3, 6, 3, 3]),
    (Fault::Transfer, [8, 8, 8, 60, 8]),
    (Fault::LinkDown, [4, 4, 4, 4, 4]),
];

impl Cluster {
    /// Something happens.
    pub fn fault(&mut self, profile: Profile) -> Checked {
        let column = Profile::ALL.iter().position(|known| *known == profile).unwrap_or(0);
        let mut at = self.rng.below(WEIGHTS.iter().map(|(_, weights)| weights[column]).sum());
        for (fault, weights) in WEIGHTS {
            if at < weights[column] {
                return self.inject(*fault);
            }
            at -= weights[column];
        }
        Ok(())
    }

    fn inject(&mut self, fault: Fault) -> Checked {
        let count = self.nodes.len();
        let some = self.rng.index(count);
        let leader = self.leader().unwrap_or(some);
        let power_cut = self.rng.one_in(2);
        match fault {
            Fault::Crash => self.crash(some, power_cut),
            Fault::CrashLeader => self.crash(leader, power_cut),
            Fault::CrashAll => (0..count).for_each(|node| self.crash(node, power_cut)),
            Fault::Network => {
                self.network.quality = Quality::some(&mut self.rng);
                self.say(format!("the network: {:?}", self.network.quality));
            }
            Fault::Isolate | Fault::IsolateLeader => {
                let node = if fault == Fault::Isolate { some } else { leader };
                let (inbound, outbound) =
                    self.rng.of([(true, true), (true, true), (true, false), (false, true)]);
                self.network.isolate(node, count, inbound, outbound);
                self.say(format!("node {} is cut off (in {inbound}, out {outbound})", node + 1));
            }
            Fault::CutOneWay => {
                let cut = (some, self.rng.index(count));
                self.network.cuts.insert(cut);
                self.say(format!("nothing goes from node {} to node {}", cut.0 + 1, cut.1 + 1));
            }
            Fault::SlowOneWay => {
                let (pair, ms) = ((some, self.rng.index(count)), self.rng.between(100, 900));
                self.network.slow.insert(pair, ms);
                self.say(format!("{ms} ms more from node {} to node {}", pair.0 + 1, pair.1 + 1));
            }
            Fault::MuteLeader => self.mute(leader),
            Fault::Flap => self.flap(leader),
            Fault::Split => self.split(),
            Fault::Heal => {
                self.network.heal();
                self.say("the network is well".to_owned());
            }
            Fault::StallDisk => {
                let node = if self.rng.one_in(2) { leader } else { some };
                let ms = self.rng.of([50, 400, 3000]);
                self.nodes[node].disk_stalls_until = self.now + ms;
                self.say(format!("the disk of node {} stalls for {ms} ms", node + 1));
            }
            Fault::FailWrite | Fault::FailSync => {
                self.say(format!("{fault:?} on node {}", some + 1));
                let n = self.rng.between(1, 4);
                let node = &mut self.nodes[some];
                node.disk_fails = node.is_up();
                if node.is_up() && fault == Fault::FailWrite {
                    node.storage.fail_write(n);
                } else if node.is_up() {
                    node.storage.fail_sync(n);
                }
            }
            Fault::Wipe => self.wipe(some)?,
            Fault::Transfer => self.transfer(leader)?,
            Fault::LinkDown => {
                let other = self.nodes[self.rng.index(count)].member;
                self.give(some, |replica, _| replica.link_down(other))?;
            }
        }
        Ok(())
    }

    fn leader(&self) -> Option<usize> {
        (0..self.nodes.len())
            .find(|at| self.nodes[*at].replica().is_some_and(|replica| replica.leads().is_some()))
    }

    fn mute(&mut self, leader: usize) {
        let ms = self.rng.between(100, 500);
        for other in (0..self.nodes.len()).filter(|other| *other != leader) {
            self.network.slow.insert((other, leader), ms);
        }
        self.say(format!("{ms} ms more to node {}, which is heard by nobody soon", leader + 1));
        self.mute_at = Some((self.now + ms + self.rng.below(300), leader));
    }

    fn flap(&mut self, leader: usize) {
        let count = self.nodes.len();
        if count < 3 {
            return;
        }
        let deaf = (leader + 1 + self.rng.index(count - 1)) % count;
        let others: Vec<usize> = (0..count).filter(|other| *other != leader && *other != deaf).collect();
        let flapping = others[self.rng.index(others.len())];
        self.network.cuts.insert((leader, deaf));
        self.nodes[flapping].kills = (self.rng.between(3, 15) as u32, self.now + 500);
        self.say(format!("node {} does not hear node {}, node {} flaps", deaf + 1, leader + 1, flapping + 1));
    }

    /// Faults whose time has come.
    pub fn later_faults(&mut self) {
        if let Some((at, leader)) = self.mute_at.filter(|(at, _)| *at <= self.now) {
            self.network.isolate(leader, self.nodes.len(), false, true);
            self.say(format!("[{at}] node {} is heard by nobody", leader + 1));
            self.mute_at = None;
        }
        for at in 0..self.nodes.len() {
            let (left, when) = self.nodes[at].kills;
            if left > 0 && when <= self.now && self.nodes[at].is_up() {
                self.crash(at, false);
                self.nodes[at].back_at = self.now + self.rng.between(1, 5);
                self.nodes[at].kills = (left - 1, self.now + self.rng.between(30, 400));
            }
        }
    }

    /// Two parts that do not hear each other.
    fn split(&mut self) {
        let count = self.nodes.len();
        let side: Vec<bool> = (0..count).map(|_| self.rng.one_in(2)).collect();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            if side[from] != side[to] {
                self.network.cuts.insert((from, to));
            }
        }
        self.say(format!("split: {side:?}"));
    }

    fn transfer(&mut self, leader: usize) -> Checked {
        let target = self.nodes[self.rng.index(self.nodes.len())].member;
        self.say(format!("node {} hands over to {target:?}", leader + 1));
        self.give(leader, |replica, _| replica.transfer_to(target).map(drop))
    }

    /// Whether every node is up and a voter that has nearly everything, so that one may be lost for good.
    pub fn is_settled(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let Some(replica) = self.nodes[leader].replica() else { return false };
        let membership = replica.membership();
        let committed = self.invariants.committed();
        let holds = |node: &Node| replica.acknowledged(node.member).is_some_and(|index| index >= committed);
        !membership.is_joint()
            && membership.learners.is_empty()
            && membership.voters.len() == self.nodes.len()
            && self
                .nodes
                .iter()
                .all(|node| membership.voters.contains(&node.member) && node.is_up() && holds(node))
    }

    /// A node loses its data, and comes back as another member.
    fn wipe(&mut self, at: usize) -> Checked {
        if self.nodes.len() < 3 || !self.is_settled() {
            return Ok(());
        }
        let Member { node, incarnation } = self.nodes[at].member;
        let incarnation = if self.same_incarnation { incarnation } else { incarnation + 1 };
        let Node { clock, starts, .. } = self.nodes[at];
        self.nodes[at] = Node { clock, starts, ..Node::new(Member { node, incarnation }, &mut self.rng) };
        self.say(format!("node {} has lost its data", at + 1));
        self.start(at)
    }

    /// What an operator does: every node becomes a voter once it has caught up, and members that are gone are removed.
    pub fn operate(&mut self) -> Checked {
        let Some(leader) = self.leader() else { return Ok(()) };
        let Some(replica) = self.nodes[leader].replica() else { return Ok(()) };
        let membership = replica.membership();
        if membership.is_joint() {
            return Ok(());
        }
        let members: Vec<Member> = self.nodes.iter().map(|node| node.member).collect();
        let known = || membership.voters.iter().chain(&membership.learners);
        let caught_up = |member: &&Member| {
            replica.acknowledged(**member).is_some_and(|index| index >= replica.committed())
        };
        let mut changes: Vec<Change> = known()
            .filter(|member| !members.contains(member))
            .map(|member| Change::Remove(*member))
            .collect();
        let new = members.iter().filter(|member| !known().any(|known| known == *member));
        changes.extend(new.map(|member| Change::AddLearner(*member)));
        if changes.is_empty() {
            changes
                .extend(membership.learners.iter().filter(caught_up).map(|member| Change::AddVoter(*member)));
        }
        drop(replica);
        if changes.is_empty() {
            return Ok(());
        }
        self.say(format!("operator: {changes:?}"));
        self.give(leader, |replica, _| replica.change_members(&changes).map(drop))
    }

    /// All faults end.
    pub fn calm(&mut self) {
        self.network.heal();
        self.mute_at = None;
        for node in &mut self.nodes {
            node.disk_stalls_until = 0;
            node.kills = (0, 0);
            node.storage.fail_write(0);
            node.storage.fail_sync(0);
        }
        self.say("all faults end".to_owned());
    }
}
