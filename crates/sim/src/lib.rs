//! A whole shard, simulated from one seed: the engine over the disk log on a simulated disk, and in runs of their
//! own the shard's runtime over both, with its waiting receives, flushes, jobs and clocks.
//!
//! A run makes up topics, groups, producers, consumers, time, restarts, power cuts and broken disks from its seed, and
//! an oracle that knows only the answers clients got checks each of them. The same seed gives the same run, to the byte.
//!
//! - Many seeds: `cargo run -p redstart-sim -- --seeds 1000` (`--from` sets the first).
//! - One seed, with everything that happens printed: `cargo run -p redstart-sim -- --seed 42`. A failed run prints this
//!   command for itself, with its profile if one was chosen.
//! - One world only: `--world engine`, `--world shard` or `--world cluster`; without it many seeds are run in all.
//! - A known bug switched on, to see it caught: `cargo run -p redstart-sim -- --planted ForgetAcks --seeds 50`.
//!
//! | part | what it does |
//! |---|---|
//! | [`rng`], [`trace`], [`settings`] | chance, the record of a run, what kind of run |
//! | `world`, `commit` | the engine, its disk and its clock; opening, crashing, making things durable |
//! | `ops` | makes up what clients and operators do |
//! | `faults` | makes up what disks do |
//! | `oracle` | what clients know, and one file for each promise that is checked against it |
//! | `observe`, `outcomes` | reading everything as a consumer would; the answers that clients get |
//! | [`scenario`] | one fixed run, crashed at every step it takes towards the disk |
//! | `shard` | the world of the shard's runtime, with an oracle of its own |
//! | `cluster` | the world of several nodes over replicated logs: the clients and the oracle of the engine's world, and what Raft promises |
//! | `replicas`, `shared_log` | engines beside that of a run, which must have the same state from its frames alone |
//! | `drain` | the end of a run: everything that was promised must come out |

mod cluster;
mod commit;
mod drain;
mod faults;
mod observe;
mod ops;
mod oracle;
mod outcomes;
mod replicas;
pub mod rng;
pub mod scenario;
pub mod settings;
mod shard;
mod shared_log;
pub mod trace;
mod world;

use std::{
    fmt, panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

pub use cluster::PlantedBug as ClusterBug;
pub use oracle::Violation;
pub use settings::{Bug, Layer, Profile, Settings};
use shard::ShardWorld;
use world::World;

/// What a run that passed has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Hash of everything that happened.
    pub trace: u64,
    pub messages: usize,
    pub deliveries: u64,
    pub restarts: u64,
    pub segments_removed: u64,
    pub cluster: ClusterSummary,
}

/// What happened to the nodes of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    pub elections: u64,
    pub crashes: u64,
    /// Nodes that were so far behind that they got a checkpoint.
    pub catch_ups: u64,
    /// States that were compared.
    pub compared: u64,
}

/// A run in which a promise was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub settings: Settings,
    pub violation: Violation,
    /// The last things that happened.
    pub tail: Vec<String>,
}

impl Failure {
    /// The command that runs it again.
    pub fn replay(&self) -> String {
        let mut command = format!("cargo run -p redstart-sim -- --seed {}", self.seed);
        match self.settings.layer {
            Layer::Engine => {}
            Layer::Shard => command += " --world shard",
            Layer::Cluster => command += " --world cluster",
        }
        if let Some(bug) = self.settings.bug {
            command += &format!(" --planted {}", bug.name());
        }
        if let Some(profile) = self.settings.profile {
            command += &format!(" --profile {profile:?}");
        }
        if self.settings.steps != Settings::default().steps {
            command += &format!(" --steps {}", self.settings.steps);
        }
        command
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.violation)?;
        write!(f, "replay with: {}", self.replay())
    }
}

/// Runs one seed.
pub fn run(seed: u64, settings: Settings) -> Result<Summary, Box<Failure>> {
    let tail = Mutex::new(Vec::new());
    let guarded = panic::AssertUnwindSafe(|| {
        let (result, lines) = match settings.layer {
            Layer::Engine => {
                let mut world = World::new(seed, settings);
                (world.run(), world.trace.tail())
            }
            Layer::Cluster => match World::of_cluster(seed, settings) {
                Ok(mut world) => (world.run(), world.trace.tail()),
                Err(violation) => (Err(violation), Vec::new()),
            },
            Layer::Shard => {
                let mut world = ShardWorld::new(seed, settings);
                (world.run(), world.tail())
            }
        };
        *tail.lock().unwrap_or_else(PoisonError::into_inner) = lines;
        result
    });
    let result = panic::catch_unwind(guarded).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new("nothing panics", text.unwrap_or_default()))
    });
    result.map_err(|violation| {
        let tail = tail.into_inner().unwrap_or_else(PoisonError::into_inner);
        Box::new(Failure { seed, settings, violation, tail })
    })
}

/// Runs many seeds on some threads; returns the failures, by seed.
pub fn run_many(seeds: std::ops::Range<u64>, settings: Settings, threads: usize) -> Vec<Box<Failure>> {
    let next = AtomicU64::new(seeds.start);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if let Err(failure) = run(seed, settings) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    failures
}
