//! Several nodes in one thread, each with an engine over a replicated log over a simulated disk, and a network between them.
//!
//! Clients are those of the engine's world ([`crate::world`]): they use the engine of the node that serves, under the
//! same oracle. When another node takes over, it is to them as if the process had died and come back.
//!
//! | part | what it does |
//! |---|---|
//! | `node` | a disk, a replica, an engine, a clock |
//! | `network` | carries messages badly |
//! | `faults` | makes up what happens to nodes, disks and the network; the operator who replaces lost nodes |
//! | `invariants` | what must hold after every step |
//! | `clients` | how the engine's world uses a cluster |

mod clients;
mod faults;
mod invariants;
mod network;
mod node;

use redstart_engine::Config as EngineConfig;
use redstart_log::Options;
use redstart_raft::{Failure, Member, Replica, message};

use crate::{
    ClusterSummary,
    oracle::{Checked, Violation},
    rng::Rng,
};
use invariants::Invariants;
use network::Network;
use node::{Node, Setup};

pub const OPENS: &str = "a node starts after every crash";
pub const ONLY_BY_DISK: &str = "a replica fails only when its disk does";

/// Which engine clients have: of this node, since this start, leading in this term.
#[derive(Debug, Clone, Copy)]
struct Held {
    at: usize,
    start: u64,
    term: u64,
}

#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    /// True time, in milliseconds.
    now: u64,
    nodes: Vec<Node>,
    setup: Setup,
    network: Network,
    invariants: Invariants,
    /// The node whose engine clients have.
    held: Option<Held>,
    /// What happened, for the trace.
    lines: Vec<String>,
    crashes: u64,
    /// How often a node was so far behind that it got a checkpoint.
    catch_ups: u64,
    /// When a leader stops being heard, see [`Fault::MuteLeader`](faults).
    mute_at: Option<(u64, usize)>,
    /// A wiped node comes back under its old number: a planted bug of the operator.
    same_incarnation: bool,
}

impl Cluster {
    pub fn new(
        seed: u64,
        options: Options,
        engine: EngineConfig,
        bug: Option<PlantedBug>,
    ) -> Result<Cluster, Violation> {
        let mut rng = Rng::new(seed ^ 0xC105_7E12);
        let count = rng.of([3, 3, 3, 3, 5, 4, 2, 1]);
        let founding = if rng.one_in(4) { rng.between(1, count) } else { count };
        let members: Vec<Member> = (1..=count as u32).map(|node| Member { node, incarnation: 0 }).collect();
        let planted = match bug {
            Some(PlantedBug::Replica(bug)) => Some(bug),
            _ => None,
        };
        let mut engine = engine;
        if let Some(PlantedBug::Engine(bug)) = bug {
            engine.planted = Some(bug);
        }
        let setup = Setup { founders: members[..founding as usize].to_vec(), options, engine, planted };
        let nodes = members.iter().map(|member| Node::new(*member, &mut rng)).collect();
        let mut cluster = Cluster {
            rng,
            now: 0,
            nodes,
            setup,
            network: Network::new(),
            invariants: Invariants::default(),
            held: None,
            lines: Vec::new(),
            crashes: 0,
            catch_ups: 0,
            mute_at: None,
            same_incarnation: bug == Some(PlantedBug::SameIncarnation),
        };
        cluster.say(format!("{count} nodes, {founding} founders"));
        (0..cluster.nodes.len()).try_for_each(|node| cluster.start(node))?;
        Ok(cluster)
    }

    pub fn summary(&self) -> ClusterSummary {
        let Invariants { elections, compared, .. } = self.invariants;
        ClusterSummary { elections, crashes: self.crashes, catch_ups: self.catch_ups, compared }
    }

    fn say(&mut self, line: String) {
        self.lines.push(format!("[{}] {line}", self.now));
    }

    fn start(&mut self, at: usize) -> Checked {
        let seed = self.rng.draw();
        let started = self.nodes[at].start(&self.setup, seed, self.now);
        let member = self.nodes[at].member;
        started.map_err(|cause| Violation::new(OPENS, format!("{member:?}: {cause}")))?;
        self.say(format!("node {} starts", at + 1));
        self.look_at(at)
    }

    /// Lets time pass.
    fn advance(&mut self, ms: u64) -> Checked {
        let end = self.now + ms;
        while self.now < end {
            let step = self.rng.between(1, 4);
            self.now = (self.now + step).min(end);
            self.later_faults();
            for at in 0..self.nodes.len() {
                if !self.nodes[at].is_up() && self.nodes[at].back_at <= self.now {
                    self.start(at)?;
                }
                self.give(at, |replica, moment| replica.tick(moment))?;
                self.flush(at)?;
            }
            while let Some((to, message)) = self.network.arrived(self.now)? {
                self.give(to, |replica, moment| replica.receive(moment, message).map(drop))?;
            }
            self.invariants.check_alone(&self.nodes, self.now)?;
            self.live(step)?;
        }
        Ok(())
    }

    /// What nodes do beside replication.
    fn live(&mut self, ms: u64) -> Checked {
        for at in 0..self.nodes.len() {
            if self.rng.one_in(3) {
                self.open_engine(at)?;
                self.nodes[at].follow()?;
            }
            if self.rng.below(400) < ms && self.held.is_none_or(|held| held.at != at) {
                let done = self.nodes[at].chores(&mut self.rng);
                if let Err(error) = done {
                    self.disk_failed(at, &error.to_string())?;
                }
                self.look_at(at)?;
                self.compare(at)?;
            }
        }
        Ok(())
    }

    /// Opens the engine of a node that had to catch up, once it has.
    fn open_engine(&mut self, at: usize) -> Checked {
        let is_lent = self.held.is_some_and(|held| held.at == at && held.start == self.nodes[at].starts);
        if self.nodes[at].engine.is_some() || is_lent {
            return Ok(());
        }
        let opened = self.nodes[at].open_engine(&self.setup);
        opened.map_err(|cause| Violation::new(OPENS, format!("{:?}: {cause}", self.nodes[at].member)))
    }

    fn flush(&mut self, at: usize) -> Checked {
        let delay = self.rng.below(5);
        let node = &mut self.nodes[at];
        let wants = node.replica().is_some_and(|replica| replica.wants_flush());
        if wants && node.flush_ends.is_none() {
            node.flush_ends = Some(self.now + delay);
        }
        let stalls = node.disk_stalls_until > self.now;
        if !stalls && node.flush_ends.is_some_and(|ends| ends <= self.now) {
            if let Err(error) = node.flush() {
                return self.disk_failed(at, &error.to_string());
            }
            self.look_at(at)?;
        }
        Ok(())
    }

    /// Gives something to a replica, then sends what it has to say and checks everything.
    fn give(
        &mut self,
        at: usize,
        what: impl FnOnce(&mut Replica, redstart_raft::Moment) -> Result<(), Failure>,
    ) -> Checked {
        match self.nodes[at].input(what, self.now) {
            Ok(()) => self.look_at(at),
            Err(Failure::StartAgain) => {
                self.say(format!("node {} was too far behind", at + 1));
                self.catch_ups += 1;
                let power_cut = self.rng.one_in(3);
                self.crash(at, power_cut);
                Ok(())
            }
            Err(failure) => self.disk_failed(at, &failure.to_string()),
        }
    }

    /// Sends what a node has to say, and checks it.
    fn look_at(&mut self, at: usize) -> Checked {
        let messages = match self.nodes[at].replica() {
            Some(mut replica) => replica.take_messages(),
            None => return Ok(()),
        };
        for message in messages {
            let to = message::recipient(&message).node as usize - 1;
            self.network.send(&mut self.rng, self.now, at, to, &message);
        }
        self.invariants.check(&self.nodes, at)
    }

    /// Compares the state of an engine that follows.
    fn compare(&mut self, at: usize) -> Checked {
        match &self.nodes[at].engine {
            Some(engine) => self.invariants.compare(self.nodes[at].member, engine),
            None => Ok(()),
        }
    }

    /// A node ends because its log or its replica did.
    fn disk_failed(&mut self, at: usize, cause: &str) -> Checked {
        let member = self.nodes[at].member;
        if !self.nodes[at].disk_fails {
            return Err(Violation::new(ONLY_BY_DISK, format!("{member:?}: {cause}")));
        }
        self.say(format!("node {}: {cause}", at + 1));
        let power_cut = self.rng.one_in(2);
        self.crash(at, power_cut);
        Ok(())
    }

    fn crash(&mut self, at: usize, power_cut: bool) {
        let (seed, away) = (self.rng.draw(), self.rng.of([1, 5, 20, 200, 1500, 6000]));
        self.crashes += 1;
        self.say(format!(
            "node {} {} for {away} ms",
            at + 1,
            if power_cut { "loses power" } else { "is killed" }
        ));
        let node = &mut self.nodes[at];
        node.stop(power_cut, seed);
        node.back_at = self.now + self.rng.between(0, away);
    }
}

/// A known bug of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    Replica(redstart_raft::Planted),
    /// Of the engine, when leadership is lost.
    Engine(redstart_engine::Planted),
    /// A node that lost its data comes back as the member that it was.
    SameIncarnation,
}

impl PlantedBug {
    pub fn all() -> Vec<PlantedBug> {
        let replica = redstart_raft::Planted::ALL.into_iter().map(PlantedBug::Replica);
        let engine = [PlantedBug::Engine(redstart_engine::Planted::KeepUncommittedFacts)];
        replica.chain(engine).chain([PlantedBug::SameIncarnation]).collect()
    }

    pub fn name(self) -> String {
        match self {
            PlantedBug::Replica(bug) => format!("{bug:?}"),
            PlantedBug::Engine(bug) => format!("Cluster{bug:?}"),
            PlantedBug::SameIncarnation => "SameIncarnation".to_owned(),
        }
    }
}
