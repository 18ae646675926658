//! Two engines beside that of a run, which get its committed frames and nothing else. They have other settings and no clock,
//! and must have the same state to the byte whenever nothing is on its way.

use std::{collections::BTreeSet, time::Duration};

use redstart_engine::{Config, ConsumeFrom, Engine, Limits, Retention, Transactions};
use redstart_log::{Frame, Index, Log, MemoryLog, Options, Position, SegmentId};

use crate::{
    oracle::{Checked, Violation, ensure},
    rng::Rng,
    shared_log::SharedLog,
};

pub const SAME_STATE: &str = "replicas that have applied the same frames have the same state";
pub const FOLLOWS: &str = "a replica can apply every committed frame";
pub const SAME_PLACES: &str = "a frame is at the same position on every replica";

/// Lines of two states that are shown when they differ.
const DIFFERENCES_SHOWN: usize = 40;

#[derive(Debug)]
pub struct Replicas {
    rng: Rng,
    /// One that lives through the whole run, and one that is killed and rebuilt again and again.
    all: [Replica; 2],
    /// The last frame that they were given.
    given: Index,
}

#[derive(Debug)]
struct Replica {
    name: &'static str,
    config: Config,
    log: SharedLog<MemoryLog>,
    engine: Engine,
}

impl Replicas {
    pub fn new(seed: u64, planted: Option<redstart_engine::Planted>) -> Replicas {
        let mut rng = Rng::new(seed ^ 0x5EC0_4D00);
        let all = ["the one that lives", "the one that is rebuilt"].map(|name| {
            let config = Config { planted, ..other_settings(&mut rng) };
            Replica::new(name, config)
        });
        Replicas { rng, all, given: Index(0) }
    }

    /// Gives the replicas what the leader has applied since the last call; compares all states if nothing is on its way.
    pub fn follow(&mut self, leader: &Engine) -> Checked {
        let applied = leader.applied();
        ensure(applied >= self.given, FOLLOWS, || {
            format!("the leader is at frame {applied}, and {} was committed", self.given)
        })?;
        let reader = leader.reader();
        for segment in leader.log().segments() {
            if segment.last <= self.given {
                continue;
            }
            let mut at = Position(segment.id.0);
            while let Some(frame) = reader.frame(at).map_err(|error| failed(FOLLOWS, error))? {
                at = frame.next;
                if frame.index > self.given && frame.index <= applied {
                    for replica in &mut self.all {
                        replica.append(&frame, segment.id)?;
                    }
                    self.given = frame.index;
                }
            }
        }
        let given = self.given;
        for replica in &mut self.all {
            if self.rng.one_in(2) {
                replica.engine.follow(given).map_err(|error| failed(FOLLOWS, error))?;
                let _ = replica.engine.take_wakes();
            }
        }
        self.chores()?;
        if leader.has_batch() || leader.pending_frames() > 0 {
            return Ok(());
        }
        for replica in &mut self.all {
            replica.engine.follow(given).map_err(|error| failed(FOLLOWS, error))?;
            replica.compare(leader)?;
        }
        Ok(())
    }

    /// What a replica does on its own, when it likes.
    fn chores(&mut self) -> Checked {
        for replica in &mut self.all {
            match self.rng.below(12) {
                0 => replica.seal()?,
                1 => replica.checkpoint()?,
                2 => {
                    while replica.engine.remove_retired().map_err(|error| failed(FOLLOWS, error))?.is_some() {
                    }
                }
                _ => {}
            }
        }
        if self.rng.one_in(12) { self.all[1].rebuild() } else { Ok(()) }
    }
}

impl Replica {
    fn new(name: &'static str, config: Config) -> Replica {
        // It begins a segment where the leader does, whatever its own settings say.
        let log = SharedLog::new(MemoryLog::with_options(Options::with_segment_bytes(1 << 40)));
        let (engine, _) =
            Engine::open(Box::new(log.clone()), config.clone()).expect("an empty log can be opened");
        Replica { name, config, log, engine }
    }

    fn append(&mut self, frame: &Frame, segment: SegmentId) -> Checked {
        let mut log = self.log.lock();
        if log.segments().last().is_some_and(|active| active.id != segment) {
            log.roll().map_err(|error| failed(FOLLOWS, error))?;
        }
        log.set_term(frame.term);
        let appended =
            log.append(frame.timestamp_ms, &frame.payload).map_err(|error| failed(FOLLOWS, error))?;
        let same =
            (appended.index, appended.payload, appended.segment) == (frame.index, frame.position, segment);
        ensure(same, SAME_PLACES, || format!("{appended:?} and {} at {}", frame.index, frame.position))
    }

    fn seal(&mut self) -> Checked {
        while let Some(job) = self.engine.seal() {
            self.engine.job_done(job.run()).map_err(|error| failed(FOLLOWS, error))?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Checked {
        let mut job = self.engine.checkpoint();
        while self.engine.is_encoding() {
            job = self.engine.encode_checkpoint();
        }
        match job {
            Some(job) => self.engine.job_done(job.run()).map_err(|error| failed(FOLLOWS, error)),
            None => Ok(()),
        }
    }

    /// Dies and comes back from its own checkpoint and frames, of which the last may not be known to be committed.
    fn rebuild(&mut self) -> Checked {
        let committed = self.engine.applied();
        let opened = Engine::open_until(Box::new(self.log.clone()), self.config.clone(), committed);
        let (engine, _) = opened.map_err(|error| failed(FOLLOWS, error))?;
        let before = std::mem::replace(&mut self.engine, engine);
        self.compare(&before)
    }

    fn compare(&self, other: &Engine) -> Checked {
        let same =
            self.engine.applied() == other.applied() && self.engine.encoded_state() == other.encoded_state();
        ensure(same, SAME_STATE, || {
            let (ours, theirs) = (self.engine.state_in_words(), other.state_in_words());
            let (ours, theirs): (BTreeSet<&str>, BTreeSet<&str>) =
                (ours.lines().collect(), theirs.lines().collect());
            let only = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| -> Vec<String> {
                a.difference(b).take(DIFFERENCES_SHOWN).map(|line| line.trim().to_owned()).collect()
            };
            let (here, there) = (only(&ours, &theirs), only(&theirs, &ours));
            let (name, frame) = (self.name, self.engine.applied());
            format!("{name}, at frame {frame} and {}: {here:?}, and not {there:?}", other.applied())
        })
    }
}

fn failed(promise: &'static str, error: impl std::fmt::Display) -> Violation {
    Violation::new(promise, error.to_string())
}

/// Settings that a run's engine never has.
fn other_settings(rng: &mut Rng) -> Config {
    let ms = Duration::from_millis;
    Config {
        limits: Limits {
            batch_bytes_max: 1,
            delay_max: ms(1),
            scan_reads_max: 1,
            flights_max: 1,
            blocked_max: 1,
            dedup_keys_max: 1,
            dedup_window_max: ms(1),
            transactions_open_max: 1,
            timers_max: 1,
            checkpoint_step_keys: rng.of([1, 3, 1000]),
            ..Limits::default()
        },
        transactions: Transactions {
            first_check_after: ms(77),
            check_interval: ms(99),
            checks_max: 1,
            open_max: ms(rng.of([1, 500, 90_000_000])),
        },
        retention: Retention { keep: ms(1), clean_percent: 1, forced_percent: 1, refuse_percent: 2 },
        new_groups_from: ConsumeFrom::Latest,
        check_message_type: false,
        ..Config::default()
    }
}
