//! One node of a simulated cluster: a disk, a replica over it, an engine over that, and a clock of its own.

use std::sync::{Arc, MutexGuard};

use redstart_engine::{Config as EngineConfig, Engine};
use redstart_log::{Index, Log, Options, Storage, sim::SimStorage};
use redstart_raft::{Config, Failure, Member, Moment, Replica, ReplicatedLog, open_log};

use crate::{
    oracle::{Checked, Violation},
    rng::Rng,
};

pub const FOLLOWS: &str = "a replica can apply every committed frame";

/// What is the same for all nodes.
#[derive(Debug, Clone)]
pub struct Setup {
    pub founders: Vec<Member>,
    pub options: Options,
    pub engine: EngineConfig,
    pub planted: Option<redstart_raft::Planted>,
}

/// A clock that runs a little too fast or too slow.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    offset: u64,
    /// Thousandths of a true millisecond.
    rate: u64,
}

impl Clock {
    pub fn some(rng: &mut Rng) -> Clock {
        Clock { offset: rng.below(1_000_000), rate: rng.between(950, 1050) }
    }

    pub fn read(&self, now: u64) -> Moment {
        Moment(self.offset + now * self.rate / 1000)
    }
}

#[derive(Debug)]
pub struct Node {
    pub member: Member,
    pub storage: SimStorage,
    pub clock: Clock,
    /// `None` while the node is down.
    pub log: Option<ReplicatedLog>,
    /// `None` while the node is down, or clients use its engine.
    pub engine: Option<Engine>,
    /// When a node that is down comes back.
    pub back_at: u64,
    /// When the flush that is under way ends.
    pub flush_ends: Option<u64>,
    /// Its disk answers no flush until then.
    pub disk_stalls_until: u64,
    /// Its disk has been made to fail: then its replica may fail too.
    pub disk_fails: bool,
    pub starts: u64,
    /// How often it is still to be killed soon after it has started, and when next.
    pub kills: (u32, u64),
}

impl Node {
    pub fn new(member: Member, rng: &mut Rng) -> Node {
        Node {
            member,
            storage: SimStorage::new(rng.draw()),
            clock: Clock::some(rng),
            log: None,
            engine: None,
            back_at: 0,
            flush_ends: None,
            disk_stalls_until: 0,
            disk_fails: false,
            starts: 0,
            kills: (0, 0),
        }
    }

    /// Starts the node on what its disk holds.
    pub fn start(&mut self, setup: &Setup, seed: u64, now: u64) -> Result<(), String> {
        self.starts += 1;
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        let mut config = Config::new(self.member, seed);
        config.planted = setup.planted;
        // Small, so that frames are read from the disk, and the floor of the commit index moves.
        (config.memory_bytes_max, config.message_bytes_max, config.floor_bytes) =
            (8 << 10, 4 << 10, 16 << 10);
        config.messages_in_flight_max = 4;
        config.timing.checkpoint_ticks = 80;
        let opened = open_log(&storage, setup.options.clone(), &config);
        let (log, _) = opened.map_err(|error| format!("the log: {error}"))?;
        let replica = Replica::open(storage, Box::new(log), &setup.founders, config, self.clock.read(now));
        let replica = replica.map_err(|error| format!("the replica: {error}"))?;
        self.log = Some(ReplicatedLog::new(replica));
        self.open_engine(setup)
    }

    /// Opens the engine, as soon as the replica has what it needs.
    pub fn open_engine(&mut self, setup: &Setup) -> Result<(), String> {
        let Some(log) = self.log.clone().filter(|log| !log.replica().is_catching_up()) else { return Ok(()) };
        let stored = log.checkpoints().load().map_err(|error| error.to_string())?.0;
        let checkpoint = stored.first().map_or(Index(0), |(at, _)| *at);
        // A checkpoint is taken of committed frames only.
        let committed = log.committed().max(checkpoint);
        let opened = Engine::open_until(Box::new(log), setup.engine.clone(), committed);
        let (engine, _) = opened.map_err(|error| format!("the engine: {error}"))?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Ends the process, and with it what was not synced if the power fails.
    pub fn stop(&mut self, power_cut: bool, seed: u64) {
        (self.log, self.engine) = (None, None);
        self.storage = if power_cut { self.storage.crash(seed) } else { self.storage.snapshot() };
        (self.flush_ends, self.disk_fails) = (None, false);
    }

    pub fn is_up(&self) -> bool {
        self.log.is_some()
    }

    pub fn replica(&self) -> Option<MutexGuard<'_, Replica>> {
        self.log.as_ref().map(ReplicatedLog::replica)
    }

    /// The term in which this node leads and no other can.
    pub fn serves(&self, now: u64) -> Option<u64> {
        let replica = self.replica()?;
        replica.leads().filter(|_| replica.may_serve(self.clock.read(now)))
    }

    pub fn flush(&mut self) -> Result<(), redstart_log::Error> {
        self.flush_ends = None;
        match &self.log {
            Some(log) => log.flusher().flush().map(drop),
            None => Ok(()),
        }
    }

    /// Gives the replica what happened to it.
    pub fn input(
        &mut self,
        give: impl FnOnce(&mut Replica, Moment) -> Result<(), Failure>,
        now: u64,
    ) -> Result<(), Failure> {
        let moment = self.clock.read(now);
        match self.replica() {
            Some(mut replica) => give(&mut replica, moment),
            None => Ok(()),
        }
    }

    /// Applies what is committed, unless this node leads: then clients do that.
    pub fn follow(&mut self) -> Checked {
        let committed = match self.replica() {
            Some(replica) if replica.leads().is_none() => replica.committed(),
            _ => return Ok(()),
        };
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let followed = engine.follow(committed);
        let _ = engine.take_wakes();
        followed.map_err(|error| Violation::new(FOLLOWS, format!("{:?}: {error}", self.member)))
    }

    /// What a follower does on its own: indexes, checkpoints, and the removal of what was retired.
    pub fn chores(&mut self, rng: &mut Rng) -> Result<(), redstart_engine::RetireError> {
        let Some(engine) = self.engine.as_mut() else { return Ok(()) };
        if rng.one_in(3) {
            while engine.remove_retired()?.is_some() {}
            return Ok(());
        }
        if rng.one_in(2) {
            while let Some(job) = engine.seal() {
                engine.job_done(job.run())?;
            }
            return Ok(());
        }
        let mut job = engine.checkpoint();
        while engine.is_encoding() {
            job = engine.encode_checkpoint();
        }
        match job {
            Some(job) => engine.job_done(job.run()),
            None => Ok(()),
        }
    }
}
