//! The shard's runtime under simulation: requests through the same handle as in production, steps taken one by one, flushes
//! and jobs that take their time, clocks that stop or jump, disks that are full, unreadable or without descriptors.
//!
//! | part | what it does |
//! |---|---|
//! | `mod` | the shard, its disk and its clock; steps, flushes, jobs, crashes |
//! | `clients` | what clients ask, and what becomes of the answers |
//! | `clock` | the machine's clocks, and the broker's time |
//! | `model` | what clients know, and the promises about single answers |
//! | `faults` | makes up what disks and clocks do |
//! | `drain` | the end of a run: everything acknowledged comes out, every waiter is answered |

mod clients;
mod clock;
mod drain;
mod faults;
mod model;

use std::{sync::Arc, time::Duration};

use redstart_engine::{
    Config as EngineConfig, GroupConfig, Job, Limits, MessageType, Retention, RetryPolicy, Start, Timestamp,
    TopicConfig, TransactionCheck, Transactions,
};
use redstart_log::{DiskLog, Error as LogError, Index, Options, sim::SimStorage};
use redstart_server::shard::{Config, Failure, Now, Planted, ShardHandle, SteppedShard};
use tokio::sync::mpsc;

use crate::{
    Bug, ClusterSummary, Settings, Summary,
    oracle::{Checked, Violation, ensure},
    rng::Rng,
    trace::Trace,
};

use clients::Clients;
use clock::Clocks;
use faults::Faults;
use model::{GROUPS, Group, Model};

pub const READS: &str = "the owner thread does not wait for reads";
pub const SLEEPS: &str = "a shard that can do nothing sleeps";
pub const ANSWERED: &str = "what is asked is answered, and a receive ends at its deadline";
pub const WRITTEN: &str = "what has happened is written soon, also on a full disk";
pub const OPENS: &str = "a shard opens after every crash";

const START: Timestamp = Timestamp(1_700_000_000_000);
/// Steps in a row without sleep, after which a shard counts as spinning.
const STEPS_MAX: usize = 100;
/// A receive may be answered so much after its deadline: a search that makes progress may be finished first.
const LATE_MAX: Duration = Duration::from_millis(300);
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);
/// Transaction checks that the front ends take at a time.
const CHECKS_MAX: usize = 2;
const ROUNDS: usize = 120;

/// What the disk is doing about the frames that were appended.
#[derive(Debug)]
enum Flushing {
    Idle,
    /// Ends at this time. `result` is set if it took effect when it began.
    Running {
        began: Duration,
        until: Duration,
        result: Option<Result<Index, LogError>>,
        again: bool,
    },
}

pub struct ShardWorld {
    rng: Rng,
    trace: Trace,
    now: Now,
    clocks: Clocks,
    storage: SimStorage,
    options: Options,
    engine_config: EngineConfig,
    /// Bytes of facts that are kept while the log refuses frames.
    refused_bytes_max: usize,
    bug: Option<Bug>,
    shard: Option<SteppedShard>,
    checks: Option<mpsc::Receiver<TransactionCheck>>,
    flushing: Flushing,
    /// When each began, and when it ends.
    jobs: Vec<(Duration, Duration, Job)>,
    clients: Clients,
    model: Model,
    faults: Faults,
    /// The consumers of ordered messages keep what they have until the end, and always wait for more.
    ordered_hang: bool,
    /// Since when the batch has not been written.
    unwritten_since: Option<Duration>,
    /// Where the log began when the owner thread last slept.
    log_start: u64,
    restarts: u64,
    steps: u64,
}

impl ShardWorld {
    pub fn new(seed: u64, settings: Settings) -> ShardWorld {
        let mut rng = Rng::new(seed ^ 0x5AAD_0000);
        let secs = Duration::from_secs;
        let keep = secs(rng.of([60, 120, 300, 72 * 3600]));
        let engine_config = EngineConfig {
            limits: Limits {
                batch_bytes_max: 6 << 10,
                flights_max: rng.of([6, 40, 1000]) as usize,
                scan_entries_max: rng.of([3, 64, 1000]) as usize,
                scan_reads_max: rng.of([2, 64]) as usize,
                checkpoint_step_keys: 2,
                ..Limits::default()
            },
            transactions: Transactions {
                first_check_after: secs(5),
                check_interval: secs(5),
                checks_max: 3,
                open_max: secs(24 * 3600),
            },
            retention: Retention { keep, ..Retention::default() },
            planted: match settings.bug {
                Some(Bug::Engine(bug)) => Some(bug),
                _ => None,
            },
            ..EngineConfig::default()
        };
        let mut options = Options::with_segment_bytes(rng.of([16, 32]) << 10);
        options.open_files_max = rng.of([1, 4, 64]);
        options.ahead_bytes = 0;
        ShardWorld {
            now: Now { time: START, uptime: Duration::ZERO },
            clocks: Clocks::new(START, settings.bug == Some(Bug::Shard(Planted::BelieveClock))),
            storage: SimStorage::new(rng.draw()),
            options,
            engine_config,
            refused_bytes_max: rng.of([400, 2_000, 64 << 20]) as usize,
            bug: settings.bug,
            shard: None,
            checks: None,
            flushing: Flushing::Idle,
            jobs: Vec::new(),
            clients: Clients::default(),
            model: Model::default(),
            faults: Faults::default(),
            ordered_hang: rng.one_in(3),
            unwritten_since: None,
            trace: Trace::new(settings.print),
            log_start: 0,
            restarts: 0,
            steps: 0,
            rng,
        }
    }

    pub fn tail(&self) -> Vec<String> {
        self.trace.tail()
    }

    pub fn run(&mut self) -> Result<Summary, Violation> {
        self.open()?;
        self.set_up()?;
        for _ in 0..ROUNDS {
            self.round()?;
        }
        self.drain()?;
        Ok(Summary {
            trace: self.trace.hash(),
            messages: self.model.messages.len(),
            deliveries: self.model.deliveries,
            restarts: self.restarts,
            segments_removed: 0,
            cluster: ClusterSummary::default(),
        })
    }

    fn round(&mut self) -> Checked {
        for _ in 0..self.rng.between(1, 4) {
            self.client_does_something()?;
            if self.rng.one_in(3) {
                self.settle()?;
            }
        }
        if self.ordered_hang && self.waiting(Group::Ordered) == 0 {
            self.pop(Group::Ordered, Duration::from_secs(300), Duration::from_secs(1_200));
        }
        self.settle()?;
        self.make_up_faults()?;
        let gap = match self.rng.below(8) {
            0 => 0,
            1 | 2 => self.rng.between(1, 50),
            3..=5 => self.rng.between(50, 3_000),
            _ => self.rng.between(3_000, 60_000),
        };
        self.advance(Duration::from_millis(gap))?;
        if gap > 1_000 { self.probe_waiters() } else { Ok(()) }
    }

    fn say(&mut self, line: impl Into<String>) {
        let line = format!("{:>9} {}", self.now.uptime.as_millis(), line.into());
        self.trace.line(line);
    }

    fn shard(&mut self) -> &mut SteppedShard {
        self.shard.as_mut().expect("the shard is open between operations")
    }

    fn handle(&self) -> ShardHandle {
        self.shard.as_ref().expect("the shard is open between operations").handle()
    }

    fn open(&mut self) -> Checked {
        let opened = DiskLog::open(Arc::new(self.storage.clone()), self.options.clone());
        let (log, _) = opened.map_err(|error| Violation::new(OPENS, format!("the log: {error}")))?;
        let (checks, asked) = mpsc::channel(CHECKS_MAX);
        let config = Config {
            frame_bytes_max: 4 << 10,
            refused_bytes_max: self.refused_bytes_max,
            checkpoint_frames: 12,
            checkpoint_interval: Duration::from_secs(20),
            checks: Some(checks),
            planted: match self.bug {
                Some(Bug::Shard(bug)) => Some(bug),
                _ => None,
            },
            ..Config::default()
        };
        let started = SteppedShard::start(Box::new(log), self.engine_config.clone(), config);
        let (shard, _) = started.map_err(|error| Violation::new(OPENS, error.to_string()))?;
        (self.shard, self.checks) = (Some(shard), Some(asked));
        Ok(())
    }

    /// Topics and groups, and where the groups begin.
    fn set_up(&mut self) -> Checked {
        let mut replies = Vec::new();
        for group in GROUPS {
            let (topic, name) = (group.topic(), group.name());
            let config = TopicConfig {
                message_type: group.kind(),
                read_queues: 2,
                write_queues: 2,
                ..TopicConfig::default()
            };
            let of_group = GroupConfig {
                ordered: group.kind() == MessageType::Fifo,
                retries_max: group.retries_max(),
                retry: RetryPolicy::Ladder(vec![Duration::from_secs(1)]),
                ..GroupConfig::default()
            };
            let handle = self.handle();
            // Two groups share a topic: the second put changes nothing.
            let put = handle.change(move |engine, _| match engine.put_topic(&topic, config) {
                Err(redstart_engine::AdminError::Creating { .. }) => Ok(engine.barrier()),
                other => other,
            });
            replies.extend(put.ok());
            replies.extend(handle.change(move |engine, _| engine.put_group(&name, of_group)).ok());
        }
        self.settle()?;
        for group in GROUPS {
            let (topic, name) = (group.topic(), group.name());
            let joined =
                self.handle().ask(move |engine, _| engine.join(&name, &topic, Start::Earliest).is_ok());
            drop(joined);
        }
        self.advance(Duration::from_secs(1))
    }

    /// Takes the steps that the owner thread would take without sleeping.
    fn settle(&mut self) -> Checked {
        for step in 0.. {
            self.steps += 1;
            let now = self.now;
            let waits = self.storage.counters().waiting_reads;
            let effects = match self.shard().step(now) {
                Ok(effects) => effects,
                Err(failure) => return self.process_failed(&failure),
            };
            let waited = self.storage.counters().waiting_reads - waits;
            ensure(waited == 0, READS, || format!("{waited} reads waited for the disk"))?;
            for job in effects.jobs {
                let late = self.rng.of([0, 0, 20, 5_000]);
                // A read that takes longer is answered without what it was to find.
                let late = if let Job::Read { .. } = job { late.min(200) } else { late };
                self.jobs.push((now.uptime, now.uptime + Duration::from_millis(late), job));
            }
            if effects.flush {
                self.order_flush();
            }
            if let Err(failure) = self.finish_due() {
                return self.process_failed(&failure);
            }
            self.take_answers(false)?;
            let asleep = !self.shard().sleep(now).is_zero();
            let queued = self.handle().queued().0 > 0 && self.shard().takes_requests();
            if asleep && !queued {
                break;
            }
            let count = step + 1;
            ensure(count < STEPS_MAX, SLEEPS, || format!("{count} steps at {:?}", now.uptime))?;
        }
        self.check_idle()
    }

    fn order_flush(&mut self) {
        match &mut self.flushing {
            Flushing::Running { again, .. } => *again = true,
            Flushing::Idle => {
                let took = if self.faults.slow_flushes { self.rng.between(1, 4_000) } else { 0 };
                let early = took > 0 && self.rng.one_in(2);
                let result = early.then(|| self.shard().flusher().flush());
                let until = self.now.uptime + Duration::from_millis(took);
                let began = self.now.uptime;
                self.flushing = Flushing::Running { began, until, result, again: false };
            }
        }
    }

    /// Flushes and jobs whose time has come.
    fn finish_due(&mut self) -> Result<(), Failure> {
        let now = self.now;
        while let Flushing::Running { until, .. } = &self.flushing
            && *until <= now.uptime
        {
            let Flushing::Running { began, result, again, .. } =
                std::mem::replace(&mut self.flushing, Flushing::Idle)
            else {
                break;
            };
            let flusher = self.shard().flusher();
            let committed = result.unwrap_or_else(|| flusher.flush());
            self.shard().flushed(committed, now)?;
            // A receive begins to wait when it is taken, and that may be after a flush which a checkpoint waited for.
            self.clients.put_off(now.uptime - began);
            if again {
                self.order_flush();
            }
        }
        let jobs = std::mem::take(&mut self.jobs).into_iter();
        let (due, later) = jobs.partition(|(_, at, _)| *at <= now.uptime);
        self.jobs = later;
        let due: Vec<(Duration, Duration, Job)> = due;
        for (began, _, job) in due {
            if let Job::Read { .. } = job {
                self.clients.put_off(now.uptime - began);
            }
            let done = job.run();
            self.shard().job_done(done, now);
        }
        Ok(())
    }

    /// Lets time pass, and the shard work when it wants to.
    fn advance(&mut self, time: Duration) -> Checked {
        let end = self.now.uptime + time;
        self.settle()?;
        while self.now.uptime < end {
            let now = self.now;
            let wakes = now.uptime + self.shard().sleep(now).max(Duration::from_millis(1));
            let flush = if let Flushing::Running { until, .. } = &self.flushing { *until } else { end };
            let job = self.jobs.iter().map(|(_, at, _)| *at).min().unwrap_or(end);
            let next = wakes.min(flush).min(job).min(end).max(now.uptime + Duration::from_millis(1));
            self.pass(next - now.uptime);
            self.settle()?;
        }
        Ok(())
    }

    fn pass(&mut self, time: Duration) {
        self.now.uptime += time;
        let before = self.clocks.now();
        self.clocks.pass(time);
        let passed = self.clocks.now().since(before);
        if !self.faults.clock_stands {
            self.now.time = self.now.time.after(passed);
        }
        let suspicious = self.clocks.is_suspicious();
        self.shard().set_time_suspicious(suspicious);
    }

    /// What must hold whenever the owner thread sleeps.
    fn check_idle(&mut self) -> Checked {
        let now = self.now;
        let batch = self.shard().with_engine(|engine| engine.has_batch());
        self.unwritten_since = batch.then(|| self.unwritten_since.unwrap_or(now.uptime));
        let reads = self.jobs.iter().any(|(.., job)| matches!(job, Job::Read { .. }));
        if reads || matches!(self.flushing, Flushing::Running { .. }) {
            // Requests may wait for the disk, or for a checkpoint that does.
            return Ok(());
        }
        self.clients.check_answered(now)?;
        self.check_removed()?;
        let written = self.unwritten_since.is_none_or(|since| now.uptime < since + WRITTEN_WITHIN);
        let must = self.faults.are_over(now) || self.faults.spare_left;
        ensure(written || !must, WRITTEN, || {
            format!("unwritten since {:?}, it is {:?}", self.unwritten_since, now.uptime)
        })
    }

    /// What retention has removed since the last look was old enough, unless the disk was filling.
    fn check_removed(&mut self) -> Checked {
        let log_start = self.log_start();
        let forced = self.handle().counters().segments_removed().1;
        let from = std::mem::replace(&mut self.log_start, log_start);
        if log_start > from && forced == 0 {
            let (now, keep) = (self.now.uptime, self.engine_config.retention.keep);
            let hastened = self.faults.hastened;
            return self.model.removed(from..log_start, now, |age| {
                // The broker's time gains at most one part in twenty.
                age + age / 20 + hastened + Duration::from_secs(1) >= keep
            });
        }
        Ok(())
    }

    fn log_start(&mut self) -> u64 {
        self.shard().with_engine(|engine| engine.log().segments().first().map_or(0, |first| first.id.0))
    }

    /// The log failed: the process ends and is started again.
    fn process_failed(&mut self, failure: &Failure) -> Checked {
        self.say(format!("the shard failed: {failure}"));
        self.take_answers(true)?;
        self.crash()
    }

    /// The process dies, with or without the machine, and is started again.
    fn crash(&mut self) -> Checked {
        self.restarts += 1;
        self.end_faults();
        self.clocks.restart();
        self.flushing = Flushing::Idle;
        self.jobs.clear();
        (self.shard, self.checks, self.unwritten_since) = (None, None, None);
        let power = self.rng.one_in(2);
        self.storage = if power { self.storage.crash(self.rng.draw()) } else { self.storage.snapshot() };
        self.say(if power { "power cut" } else { "kill" });
        self.model.process_died(&self.clients);
        self.clients = Clients::default();
        self.open()?;
        self.settle()
    }
}
