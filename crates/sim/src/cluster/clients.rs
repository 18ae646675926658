//! How the engine's world uses a cluster: through the engine of the node that serves.

use std::time::Duration;

use redstart_log::Log;

use super::{Cluster, Held, node::FOLLOWS};
use crate::{
    ops::Op,
    oracle::{Checked, Violation, ensure},
    world::{Ending, World},
};

pub const SERVES: &str = "a cluster without faults serves";
pub const CONVERGES: &str = "without faults all replicas become the same";

/// After so long without a node that serves, all faults end.
const PATIENCE_MS: u64 = 4_000;
/// After so long without faults, a node must serve.
const RECOVERY_MS: u64 = 20_000;

impl World {
    /// What clients do to a cluster; disks and nodes are not theirs.
    fn is_for_clients(op: Op) -> bool {
        !matches!(
            op,
            Op::FlushWithAppend
                | Op::Restart
                | Op::Kill
                | Op::PowerCut
                | Op::Depose
                | Op::Overwrite
                | Op::FailWrite
                | Op::FailSync
                | Op::FailRead
                | Op::NoSpace
                | Op::FillDisk
                | Op::DamageCheckpoint
                | Op::DamageIndex
                | Op::FlipBit
        )
    }

    fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("only called in runs of a cluster")
    }

    pub fn step_cluster(&mut self) -> Checked {
        if self.rng.one_in(4) {
            let ms = self.rng.of([1, 3, 10, 40, 150, 600]);
            self.pass_in_cluster(ms)?;
        }
        if self.rng.one_in(12) {
            let profile = self.profile;
            let happened = self.cluster().fault(profile);
            self.tell();
            happened?;
            self.return_engine()?;
            if self.rng.one_in(3) {
                // Nobody asks for anything meanwhile.
                let ms = self.rng.of([300, 1500, 4000]);
                self.pass_in_cluster(ms)?;
            }
        }
        if self.rng.one_in(6) {
            self.cluster().operate()?;
            self.tell();
        }
        let op = loop {
            let op = self.choose();
            if Self::is_for_clients(op) {
                break op;
            }
        };
        self.be_served()?;
        self.perform(op)?;
        self.after_op()
    }

    /// Puts into the trace what happened in the cluster.
    fn tell(&mut self) {
        for line in std::mem::take(&mut self.cluster().lines) {
            self.say(line);
        }
    }

    /// Time passes in the cluster, and for clients.
    fn pass_in_cluster(&mut self, ms: u64) -> Checked {
        let passed = self.cluster().advance(ms);
        self.tell();
        passed?;
        self.now = self.now.after(Duration::from_millis(ms));
        self.return_engine()
    }

    /// If the node whose engine clients have leads no longer, it gets its engine back.
    fn return_engine(&mut self) -> Checked {
        let cluster = self.cluster();
        let Some(Held { at, term, start }) = cluster.held else { return Ok(()) };
        let leads = cluster.nodes[at].replica().and_then(|replica| replica.leads());
        // It may have been started again meanwhile; then its engine is another.
        let is_up = cluster.nodes[at].is_up() && cluster.nodes[at].starts == start;
        if leads == Some(term) && is_up {
            return Ok(());
        }
        cluster.held = None;
        let mut engine = self.engine.take();
        for job in std::mem::take(&mut self.jobs) {
            if let Some(engine) = engine.as_mut().filter(|_| is_up) {
                let _ = engine.job_done(job.run());
            }
        }
        if let Some(mut engine) = engine.filter(|_| is_up) {
            let dropped = engine.drop_speculation();
            dropped.map_err(|error| Violation::new(FOLLOWS, error.to_string()))?;
            self.cluster().nodes[at].engine = Some(engine);
        }
        self.say(format!("node {} serves no longer", at + 1));
        self.restarts += 1;
        self.tickets.clear();
        self.notes.clear();
        self.frames.clear();
        self.model.process_died();
        Ok(())
    }

    /// Waits until a node serves, and takes its engine.
    pub fn be_served(&mut self) -> Checked {
        let mut waited = 0;
        loop {
            let now = self.cluster().now;
            let cluster = self.cluster();
            match cluster.held {
                Some(Held { at, term, .. }) if cluster.nodes[at].serves(now) == Some(term) => return Ok(()),
                Some(_) => {}
                None => {
                    let serving = (0..cluster.nodes.len())
                        .find_map(|at| cluster.nodes[at].serves(now).map(|term| (at, term)));
                    if let Some((at, term)) = serving {
                        self.take_over(at, term)?;
                        continue;
                    }
                }
            }
            ensure(waited < PATIENCE_MS + RECOVERY_MS, SERVES, || format!("nobody served for {waited} ms"))?;
            if waited == PATIENCE_MS {
                self.cluster().calm();
            }
            waited += 20;
            self.pass_in_cluster(20)?;
        }
    }

    /// Clients use the engine of this node from here on.
    fn take_over(&mut self, at: usize, term: u64) -> Checked {
        let cluster = self.cluster();
        cluster.open_engine(at)?;
        let node = &mut cluster.nodes[at];
        let committed = node.log.as_ref().map(|log| log.committed()).unwrap_or_default();
        let Some(mut engine) = node.engine.take() else {
            return Err(Violation::new(FOLLOWS, format!("{:?} leads and has no state", node.member)));
        };
        cluster.held = Some(Held { at, term, start: node.starts });
        let followed = engine.follow(committed);
        followed.map_err(|error| Violation::new(FOLLOWS, error.to_string()))?;
        let member = cluster.nodes[at].member;
        cluster.invariants.compare(member, &engine)?;
        engine.lead(term);
        self.engine = Some(engine);
        self.say(format!("node {} serves in term {term} from frame {committed}", at + 1));
        self.look_around()
    }

    /// Waits until everything that was proposed is committed, or lost with the node that took it.
    pub fn settle_in_cluster(&mut self) -> Checked {
        self.submit()?;
        let mut waited = 0;
        while self.engine.as_ref().is_some_and(|engine| engine.pending_frames() > 0 || engine.has_batch()) {
            self.commit()?;
            if self.engine.as_ref().is_some_and(|engine| engine.has_batch()) {
                self.submit()?;
            }
            ensure(waited < PATIENCE_MS + RECOVERY_MS, SERVES, || {
                format!("nothing was committed for {waited} ms")
            })?;
            if waited == PATIENCE_MS {
                self.cluster().calm();
            }
            waited += 5;
            self.pass_in_cluster(5)?;
        }
        self.be_served()?;
        self.commit()
    }

    /// The log of the node that serves has refused to go on.
    pub fn fail_in_cluster(&mut self) -> Checked {
        self.return_engine()?;
        if let Some(Held { at, .. }) = self.cluster().held {
            self.cluster().disk_failed(at, "the log failed under the engine")?;
        }
        self.tell();
        self.return_engine()?;
        self.be_served()
    }

    /// All nodes end and come back.
    pub fn restart_cluster(&mut self, ending: Ending) -> Checked {
        for at in 0..self.cluster().nodes.len() {
            self.cluster().crash(at, ending == Ending::PowerCut);
        }
        self.tell();
        self.return_engine()?;
        self.be_served()
    }

    /// Faults have ended: every node becomes a voter, and all have the same frames and the same state.
    pub fn converge(&mut self) -> Checked {
        self.cluster().calm();
        let mut waited = 0;
        loop {
            self.settle()?;
            self.cluster().operate()?;
            self.pass_in_cluster(100)?;
            waited += 100;
            self.be_served()?;
            let cluster = self.cluster();
            let committed = cluster.invariants.committed();
            let same = |node: &super::Node| node.log.as_ref().is_some_and(|log| log.committed() == committed);
            if cluster.is_settled() && cluster.nodes.iter().all(same) {
                break;
            }
            ensure(waited < RECOVERY_MS, CONVERGES, || format!("{:?}", cluster.nodes))?;
        }
        let cluster = self.cluster();
        for at in 0..cluster.nodes.len() {
            cluster.open_engine(at)?;
            cluster.nodes[at].follow()?;
            cluster.compare(at)?;
        }
        let held = cluster.held.map(|held| cluster.nodes[held.at].member);
        if let (Some(member), Some(engine)) = (held, self.engine.take()) {
            let compared = self.cluster().invariants.compare(member, &engine);
            self.engine = Some(engine);
            compared?;
        }
        Ok(())
    }
}
