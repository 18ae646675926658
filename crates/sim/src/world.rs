//! The engine, its disk and its clock; opening, committing, crashing.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use redstart_engine::{Config, Engine, Job, Limits, Receipt, Retention, Ticket, Timestamp, Transactions};
use redstart_log::{DiskLog, Index, Log, Options, sim::SimStorage};

use crate::{
    Bug, Profile, Settings, Summary,
    cluster::Cluster,
    commit::PendingFrame,
    observe::Depth,
    oracle::{Checked, Model, Violation, restart},
    outcomes::{Note, Proposed},
    replicas::Replicas,
    rng::Rng,
    shared_log::SharedLog,
    trace::Trace,
};

pub const OPENS: &str = "a log opens after every crash";
pub const IN_STEP: &str = "the engine and its log stay in step";

const START: Timestamp = Timestamp(1_700_000_000_000);

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was flushed.
    Clean,
    /// The process is killed; the machine goes on.
    Kill,
    /// The power is cut.
    PowerCut,
}

#[derive(Debug)]
pub struct World {
    pub rng: Rng,
    pub now: Timestamp,
    pub storage: SimStorage,
    pub engine: Option<Engine>,
    /// The engine's log, as what replicates it sees it.
    pub log: Option<SharedLog<DiskLog>>,
    pub replicas: Option<Replicas>,
    /// The nodes, in runs of a cluster. Then the engine is that of the node that serves.
    pub cluster: Option<Box<Cluster>>,
    /// The term of leadership, once it has been lost; 0 before.
    pub term: u64,
    pub config: Config,
    pub options: Options,
    pub profile: Profile,
    pub steps: usize,
    pub model: Model,
    pub trace: Trace,
    pub jobs: Vec<Job>,
    /// Facts since the last frame.
    pub notes: Vec<Note>,
    pub frames: VecDeque<PendingFrame>,
    pub tickets: BTreeMap<Ticket, Proposed>,
    /// Receipts that consumers still have.
    pub receipts: Vec<Receipt>,
    /// The log is durable up to here, and a later durable frame says so.
    pub witnessed: u64,
    pub durable_end: u64,
    pub restarts: u64,
    pub segments_removed: u64,
    /// Checkpoints that went bad.
    pub damaged: BTreeSet<String>,
    /// Some index went bad.
    pub index_damaged: bool,
    /// A read may fail at this moment.
    pub read_fails: bool,
    /// A read has failed. One for the engine's own work is reported when that work goes on.
    pub reads_failed: bool,
}

impl World {
    pub fn new(seed: u64, settings: Settings) -> World {
        let mut rng = Rng::new(seed);
        let profile = settings.profile.unwrap_or_else(|| rng.of(Profile::ALL));
        let keep = match profile {
            Profile::Retention => rng.of([5, 20, 60]),
            _ => rng.of([20, 120, 72 * 60]),
        };
        let mut config = config(Duration::from_secs(keep * 60), settings.bug);
        config.limits.dedup_keys_max = rng.of([4, 1000]);
        let mut options = Options::with_segment_bytes(rng.of([16, 24, 32, 64]) << 10);
        if let Some(Bug::Log(bug)) = settings.bug {
            options.planted = Some(bug);
        }
        options.open_files_max = rng.of([1, 4, 64]);
        options.ahead_bytes = rng.of([0, 4, 64]) << 10;
        let storage = SimStorage::new(rng.draw());
        // Other bugs are to be found by the other promises.
        let compared = settings.bug.is_none_or(|bug| bug.is_of_replicas());
        let replicas = compared.then(|| Replicas::new(seed, config.planted));
        let model = Model { keep: config.retention.keep, ..Model::default() };
        World {
            now: START,
            storage,
            engine: None,
            log: None,
            replicas,
            cluster: None,
            term: 0,
            config,
            options,
            profile,
            steps: settings.steps,
            model,
            trace: Trace::new(settings.print),
            jobs: Vec::new(),
            notes: Vec::new(),
            frames: VecDeque::new(),
            tickets: BTreeMap::new(),
            receipts: Vec::new(),
            witnessed: 0,
            durable_end: 0,
            restarts: 0,
            segments_removed: 0,
            damaged: BTreeSet::new(),
            index_damaged: false,
            read_fails: false,
            reads_failed: false,
            rng,
        }
    }

    /// A world whose clients use a cluster.
    pub fn of_cluster(seed: u64, settings: Settings) -> Result<World, Violation> {
        let mut world = World::new(seed, settings);
        world.replicas = None;
        let bug = match settings.bug {
            Some(Bug::Cluster(bug)) => Some(bug),
            _ => None,
        };
        let cluster = Cluster::new(seed, world.options.clone(), world.config.clone(), bug)?;
        world.cluster = Some(Box::new(cluster));
        Ok(world)
    }

    /// The whole run: work, then the end where everything must come out.
    pub fn run(&mut self) -> Result<Summary, Violation> {
        self.say(format!("profile {:?}, segments of {} bytes", self.profile, self.options.segment_bytes));
        self.open()?;
        self.begin()?;
        for _ in 0..self.steps {
            self.step()?;
        }
        if self.cluster.is_some() {
            self.converge()?;
        }
        self.drain()?;
        if self.cluster.is_some() {
            self.converge()?;
        }
        let cluster = self.cluster.as_ref().map(|cluster| cluster.summary()).unwrap_or_default();
        Ok(Summary {
            trace: self.trace.hash(),
            cluster,
            messages: self.model.messages.len(),
            deliveries: self.model.deliveries,
            restarts: self.restarts,
            segments_removed: self.segments_removed,
        })
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.trace.line(line.into());
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("the engine is open between operations")
    }

    /// Opens the log and the engine, on whatever the disk holds.
    pub fn open(&mut self) -> Checked {
        if self.cluster.is_some() {
            return self.be_served();
        }
        let opened = self.try_open(&self.storage.clone());
        let (engine, log) = opened.map_err(|cause| Violation::new(OPENS, cause))?;
        self.log = Some(log);
        self.durable_end = engine.log().segments().last().map_or(0, |segment| segment.end.0);
        self.engine = Some(engine);
        self.lead();
        self.follow()
    }

    /// A log that has been replicated once is written in a new term after each start.
    fn lead(&mut self) {
        if self.term > 0 {
            self.term += 1;
            let term = self.term;
            self.engine().lead(term);
        }
    }

    /// Lets the replicas follow.
    pub fn follow(&mut self) -> Checked {
        match (&mut self.replicas, &self.engine) {
            (Some(replicas), Some(engine)) => replicas.follow(engine),
            _ => Ok(()),
        }
    }

    /// Leadership is lost, and comes back in a later term. What was on its way is gone, but for frames that others have: those are
    /// committed first.
    pub fn depose(&mut self) -> Checked {
        let failed = |error: &dyn std::fmt::Display| Violation::new(IN_STEP, error.to_string());
        let dropped = self.engine().drop_speculation().map_err(|error| failed(&error))?;
        let (applied, appended) = (self.engine().applied(), self.engine().log().appended());
        let kept = Index(self.rng.between(applied.0, appended.0.max(applied.0)));
        let tickets = dropped.len();
        self.say(format!("deposed: {tickets} tickets, frames {applied} to {appended}, kept up to {kept}"));
        self.follow()?;
        self.tickets.clear();
        self.notes.clear();
        self.frames.clear();
        self.model.process_died();
        let log = self.log.clone().expect("the log is there while the engine is open");
        let cut = log.lock().truncate(kept);
        if let Err(error) = cut {
            self.say(format!("truncate: {error}"));
            return self.fail();
        }
        let flusher = log.lock().flusher();
        drop(log);
        if let Err(error) = flusher.flush() {
            self.say(format!("flush: {error}"));
            return self.fail();
        }
        self.engine().follow(kept).map_err(|error| failed(&error))?;
        self.durable_end = self.engine().log().segments().last().map_or(0, |segment| segment.end.0);
        self.term += 1;
        let term = self.term;
        self.engine().lead(term);
        self.follow()?;
        self.look_around()
    }

    pub fn try_open(&mut self, storage: &SimStorage) -> Result<(Engine, SharedLog<DiskLog>), String> {
        let opened = DiskLog::open(Arc::new(storage.clone()), self.options.clone());
        let (log, recovery) = opened.map_err(|error| format!("the log: {error}"))?;
        let log = SharedLog::new(log);
        let opened = Engine::open(Box::new(log.clone()), self.config.clone());
        let (engine, recovered) = opened.map_err(|error| format!("the engine: {error}"))?;
        self.say(format!(
            "opened: {} segments, last frame {}, cut {:?}, checkpoint {}, {} frames replayed, rebuilt {:?}",
            recovery.segments,
            recovery.last,
            recovery.cut.map(|cut| cut.position),
            recovered.checkpoint,
            recovered.frames_replayed,
            recovered.indexes_rebuilt,
        ));
        Ok((engine, log))
    }

    /// The log refuses to go on: the process ends, with or without the machine.
    pub fn fail(&mut self) -> Checked {
        if self.cluster.is_some() {
            return self.fail_in_cluster();
        }
        let ending = if self.rng.one_in(2) { Ending::Kill } else { Ending::PowerCut };
        self.restart(ending)
    }

    pub fn restart(&mut self, ending: Ending) -> Checked {
        if self.cluster.is_some() {
            return self.restart_cluster(ending);
        }
        self.stop(ending)?;
        self.come_back()
    }

    /// Ends the process. Afterwards the disk is as the next process will find it.
    pub fn stop(&mut self, ending: Ending) -> Checked {
        self.say(format!("{ending:?}"));
        self.restarts += 1;
        self.storage.no_space_after(None);
        self.jobs.clear();
        (self.engine, self.log) = (None, None);
        match ending {
            Ending::Clean => {}
            Ending::Kill => self.storage = self.storage.snapshot(),
            Ending::PowerCut => self.storage = self.storage.crash(self.rng.draw()),
        }
        self.tickets.clear();
        self.notes.clear();
        self.frames.clear();
        self.model.process_died();
        Ok(())
    }

    /// Starts again and looks at everything.
    pub fn come_back(&mut self) -> Checked {
        self.open()?;
        self.look_around()?;
        if self.rng.one_in(3) { self.open_twice() } else { Ok(()) }
    }

    /// Looks at everything: what is unknown so far either is there or will never be.
    pub fn look_around(&mut self) -> Checked {
        self.observe(Depth::Everything)?;
        self.model.settle_unknown();
        self.check_configs()
    }

    /// Opens once more without having written anything.
    pub fn open_twice(&mut self) -> Checked {
        if self.cluster.is_some() {
            return Ok(());
        }
        let first = self.describe()?;
        (self.engine, self.log) = (None, None);
        self.open()?;
        restart::check(&first, &self.describe()?)
    }
}

fn config(keep: Duration, bug: Option<Bug>) -> Config {
    let secs = Duration::from_secs;
    Config {
        limits: Limits {
            batch_bytes_max: 6 << 10,
            delay_max: secs(4 * 3600),
            scan_reads_max: 7,
            checkpoint_step_keys: 2,
            ..Limits::default()
        },
        transactions: Transactions {
            first_check_after: secs(5),
            check_interval: secs(5),
            checks_max: 3,
            open_max: secs(600),
        },
        retention: Retention { keep, ..Retention::default() },
        planted: match bug {
            Some(Bug::Engine(bug)) => Some(bug),
            _ => None,
        },
        ..Config::default()
    }
}
