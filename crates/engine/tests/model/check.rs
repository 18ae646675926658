//! Does each operation on the engine and on the reference, and compares.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redstart_engine::*;
use redstart_log::{DiskLog, Flusher, Index, Log, MemoryLog, Options, Position, sim::SimStorage};

use super::{
    delivering::Change,
    gate::Gate,
    ops::{GROUPS, Op, TOPICS, type_of},
    reference::{Reference, What},
};

pub const SEGMENT_BYTES: u64 = 4 << 10;
const START: u64 = 1_000_000_000;

pub type Check = Result<(), String>;

/// Whether a case goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    Go,
    /// Two states are possible from here: there is nothing more to compare.
    Stop,
}

pub struct Harness {
    pub engine: Engine,
    pub reference: Reference,
    disk: Option<SimStorage>,
    refuse: Arc<AtomicBool>,
    flusher: Arc<dyn Flusher>,
    /// Frames appended and not yet reported as durable.
    appended: VecDeque<Index>,
    jobs: Vec<JobDone>,
    pub messages_sent: usize,
    /// Every receipt that was ever given to a consumer, for later use and misuse.
    pub receipts: Vec<Receipt>,
}

pub fn config() -> Config {
    let transactions = Transactions {
        first_check_after: Duration::from_secs(60),
        check_interval: Duration::from_secs(90),
        checks_max: 4,
        open_max: Duration::from_secs(300),
    };
    let limits = Limits { checkpoint_step_keys: 2, ..Limits::default() };
    Config { transactions, limits, ..Config::default() }
}

pub fn topic_name(n: usize) -> TopicName {
    TopicName::new(TOPICS[n]).unwrap()
}

pub fn group_name(n: usize) -> GroupName {
    GroupName::new(GROUPS[n]).unwrap()
}

/// Element `pick`, counted from the end.
pub fn picked<T: Copy>(all: &[T], pick: usize) -> Option<T> {
    if all.is_empty() { None } else { Some(all[all.len() - 1 - pick % all.len()]) }
}

/// The engine must refuse for one of the expected reasons, or for none when there is none.
pub fn same_refusal(what: &str, expected: &[&str], found: Option<&str>) -> Check {
    let same = match found {
        None => expected.is_empty(),
        Some(found) => expected.contains(&found),
    };
    if same { Ok(()) } else { Err(format!("{what}: refused as {found:?}, expected {expected:?}")) }
}

impl Harness {
    /// A broker in memory, or on a disk that survives a restart.
    pub fn new(on_disk: bool) -> Harness {
        let disk = on_disk.then(|| SimStorage::new(1));
        let refuse = Arc::<AtomicBool>::default();
        let (engine, flusher) = open(disk.as_ref(), &refuse);
        Harness {
            engine,
            reference: Reference::new(config(), START),
            disk,
            refuse,
            flusher,
            appended: VecDeque::new(),
            jobs: Vec::new(),
            messages_sent: 0,
            receipts: Vec::new(),
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.reference.now)
    }

    /// Topics, and groups of each kind, to begin with.
    pub fn set_up(&mut self) -> Check {
        for topic in 0..5 {
            let dedup_ms = (topic == 2).then_some(60_000);
            let (read, write) = if topic > 3 { (1, 1) } else { (2, 2) };
            self.step(&Op::PutTopic { topic, read, write, permission: 6, dedup_ms })?;
        }
        for (group, ordered, retries) in [(0, false, 3), (1, true, 2), (2, false, 0)] {
            let steps_ms = vec![1_000, 10_000];
            let from = (group == 1).then_some(ConsumeFrom::Earliest);
            self.step(&Op::PutGroup { group, ordered, retries, steps_ms, enabled: true, from })?;
        }
        self.flush()
    }

    pub fn step(&mut self, op: &Op) -> Result<Next, String> {
        // A checkpoint that takes several steps goes on while other things happen.
        self.jobs.extend(self.engine.encode_checkpoint().map(Job::run));
        match op {
            Op::PutTopic { topic, read, write, permission, dedup_ms } => {
                // Dead letters are looked for in one queue.
                let one = TOPICS[*topic].starts_with('%');
                let config = TopicConfig {
                    message_type: type_of(*topic),
                    read_queues: if one { 1 } else { *read },
                    write_queues: if one { 1 } else { *write },
                    permission: Permission::from_bits(*permission),
                    dedup_window: dedup_ms.map(Duration::from_millis),
                    ..TopicConfig::default()
                };
                self.put_topic(topic_name(*topic), config)?;
            }
            Op::DeleteTopic { topic } => self.delete_topic(topic_name(*topic))?,
            Op::PutGroup { group, ordered, retries, steps_ms, enabled, from } => {
                let steps = steps_ms.iter().map(|ms| Duration::from_millis(*ms)).collect();
                let config = GroupConfig {
                    enabled: *enabled,
                    ordered: *ordered,
                    retries_max: *retries,
                    retry: RetryPolicy::Ladder(steps),
                    attributes: from.iter().map(|from| (CONSUME_FROM.to_owned(), from.to_string())).collect(),
                };
                self.put_group(group_name(*group), config)?;
            }
            Op::DeleteGroup { group } => self.delete_group(group_name(*group))?,
            Op::Send { topic, shapes, queue, half, fit } => self.send(*topic, shapes, *queue, *half, *fit)?,
            Op::Pop(pop) => return self.pop(pop),
            Op::Ack { pick } => self.ack(&[*pick], false)?,
            Op::AckBatch { picks } => self.ack(picks, true)?,
            Op::GiveBack { pick, ms } => self.give_back(*pick, *ms)?,
            Op::Invisible { pick, ms } => self.reschedule(*pick, Change::Invisible(*ms))?,
            Op::Renew { pick, ms } => self.reschedule(*pick, Change::Renew(*ms))?,
            Op::Forward { pick } => self.forward(*pick)?,
            Op::End { pick, commit } => self.end_transaction(*pick, *commit)?,
            Op::Recall { pick } => self.recall(*pick)?,
            Op::SendBack { group, topic, queue, offset, delay_ms, retries } => {
                self.send_back(*group, *topic, *queue, *offset, *delay_ms, *retries)?;
            }
            Op::Pull { topic, queue, offset, max, filter } => {
                self.pull(*topic, *queue, *offset, *max, *filter)?;
            }
            Op::CommitOffset { group, topic, queue, offset } => {
                self.commit_offset(*group, *topic, *queue, *offset)?;
            }
            Op::PullFrom { group, topic, queue } => self.pull_from(*group, *topic, *queue)?,
            Op::Reset { group, topic, queue, to } => self.reset(*group, *topic, *queue, *to)?,
            Op::Query { topic, key, from_age_ms, span_ms, max } => {
                self.query(*topic, *key, *from_age_ms, *span_ms, *max)?;
            }
            Op::OffsetAt { topic, queue, age_ms } => self.offset_at(*topic, *queue, *age_ms)?,
            Op::Pass { ms } => {
                self.reference.now += ms;
                self.tick()?;
            }
            Op::Tick => self.tick()?,
            Op::Submit => self.submit()?,
            Op::Refuse => self.refused()?,
            Op::Commit { frames } => self.commit(*frames)?,
            Op::Flush => self.flush()?,
            Op::Seal => {
                while let Some(job) = self.engine.seal() {
                    self.jobs.push(job.run());
                }
            }
            Op::Checkpoint => self.jobs.extend(self.engine.checkpoint().map(Job::run)),
            Op::Jobs => self.finish_jobs()?,
            Op::Restart => self.restart()?,
        }
        Ok(Next::Go)
    }

    fn tick(&mut self) -> Check {
        let checks = self.engine.tick(self.now());
        let expected = self.reference.tick();
        let found: Vec<(Position, u32)> = checks.iter().map(|check| (check.id, check.checks)).collect();
        if found != expected {
            return Err(format!("transactions to be asked about: {found:?}, expected {expected:?}"));
        }
        match (self.engine.next_deadline(), self.reference.next_deadline()) {
            (found, Some(expected)) if found.is_none_or(|found| found.0 > expected) => {
                Err(format!("next deadline {found:?}, but something is due at {expected}"))
            }
            _ => Ok(()),
        }
    }

    pub fn submit(&mut self) -> Check {
        let index = match self.engine.submit(self.now()) {
            Ok(index) => index,
            Err((_, outcomes)) => return self.withdraw(outcomes),
        };
        if let Some(index) = index {
            self.appended.push_back(index);
            let batch = std::mem::take(&mut self.reference.batch);
            self.reference.frames.push_back(batch);
        } else if !self.reference.batch.is_empty() {
            return Err(format!("nothing to append, but {:?}", self.reference.batch));
        }
        Ok(())
    }

    fn refused(&mut self) -> Check {
        self.refuse.store(true, Ordering::Relaxed);
        let result = self.engine.submit(self.now());
        self.refuse.store(false, Ordering::Relaxed);
        match result {
            Ok(None) => Ok(()),
            Ok(Some(index)) => Err(format!("frame {index} was not refused")),
            Err((_, outcomes)) => self.withdraw(outcomes),
        }
    }

    /// The log refused the frame: each of its decisions has the outcome, and none took effect.
    fn withdraw(&mut self, outcomes: Vec<(Ticket, Outcome)>) -> Check {
        let refused: Vec<Ticket> = outcomes
            .into_iter()
            .map(|(ticket, outcome)| match outcome {
                Outcome::Refused(_) => Ok(ticket),
                other => Err(format!("{ticket:?} was refused, not {other:?}")),
            })
            .collect::<Result<_, _>>()?;
        let expected = self.reference.withdraw();
        if refused != expected {
            return Err(format!("refused {refused:?}, expected {expected:?}"));
        }
        Ok(())
    }

    fn commit(&mut self, frames: usize) -> Check {
        self.flusher.flush().map_err(|error| error.to_string())?;
        let frames = frames.min(self.appended.len());
        let Some(last) = self.appended.drain(..frames).next_back() else { return Ok(()) };
        self.engine.take_wakes();
        let before: Vec<Vec<usize>> = self.queue_ends();
        let outcomes = self.engine.committed(last).map_err(|gap| gap.to_string())?;
        self.reference.commit(frames, outcomes)?;
        self.learn_ids()?;
        self.check_wakes(&before)
    }

    fn queue_ends(&self) -> Vec<Vec<usize>> {
        self.reference.topics.iter().map(|topic| topic.queues.iter().map(Vec::len).collect()).collect()
    }

    /// A queue that gained a message is named, so that the receives which wait for it are woken.
    fn check_wakes(&mut self, before: &[Vec<usize>]) -> Check {
        let wakes = self.engine.take_wakes();
        for (n, topic) in self.reference.topics.iter().enumerate().filter(|(_, topic)| topic.alive) {
            for (queue, entries) in topic.queues.iter().enumerate() {
                let had = before.get(n).and_then(|queues| queues.get(queue)).copied().unwrap_or(0);
                let woken = wakes
                    .queues
                    .iter()
                    .any(|key| Some(key.topic) == topic.id && key.queue.0 as usize == queue);
                if entries.len() > had && !woken {
                    return Err(format!("no receive is woken for {} queue {queue}", topic.name));
                }
            }
        }
        Ok(())
    }

    /// The engine's numbers of new topics and groups. They are never used twice.
    fn learn_ids(&mut self) -> Check {
        for n in 0..self.reference.topics.len() {
            let topic = &self.reference.topics[n];
            if topic.alive && topic.id.is_none() {
                let Some(view) = self.engine.topic(&topic.name) else {
                    return Err(format!("topic {} is missing", topic.name));
                };
                if self.reference.topics.iter().any(|other| other.id == Some(view.id)) {
                    return Err(format!("topic {} has a number that was used before", view.name));
                }
                self.reference.topics[n].id = Some(view.id);
            }
        }
        for n in 0..self.reference.groups.len() {
            let group = &self.reference.groups[n];
            if group.alive && group.id.is_none() {
                let Some(view) = self.engine.group(&group.name) else {
                    return Err(format!("group {} is missing", group.name));
                };
                if self.reference.groups.iter().any(|other| other.id == Some(view.id)) {
                    return Err(format!("group {} has a number that was used before", view.name));
                }
                self.reference.groups[n].id = Some(view.id);
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Check {
        self.submit()?;
        // What happened is kept when a frame is too large for the log, and goes with the next.
        self.submit()?;
        self.commit(usize::MAX)
    }

    fn finish_jobs(&mut self) -> Check {
        for done in std::mem::take(&mut self.jobs) {
            self.engine.job_done(done).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn restart(&mut self) -> Check {
        self.flush()?;
        let Some(disk) = self.disk.clone() else { return Ok(()) };
        self.jobs.clear();
        let nothing =
            Engine::open(Box::new(MemoryLog::new()), config()).map_err(|error| error.to_string())?.0;
        drop(std::mem::replace(&mut self.engine, nothing));
        (self.engine, self.flusher) = open(Some(&disk), &self.refuse);
        self.compare()
    }

    pub fn propose(&mut self, ticket: Ticket, what: What) {
        self.reference.propose(Some(ticket), what);
    }
}

fn open(disk: Option<&SimStorage>, refuse: &Arc<AtomicBool>) -> (Engine, Arc<dyn Flusher>) {
    let options = Options::with_segment_bytes(SEGMENT_BYTES);
    let log: Box<dyn Log> = match disk {
        Some(disk) => Box::new(DiskLog::open(Arc::new(disk.clone()), options).unwrap().0),
        None => Box::new(MemoryLog::with_options(options)),
    };
    let log = Gate { log, refuse: refuse.clone() };
    let flusher = log.flusher();
    let (engine, recovered) = Engine::open(Box::new(log), config()).unwrap();
    let damaged = recovered.damaged_checkpoints.len() + recovered.damaged_indexes.len();
    assert_eq!(damaged, 0, "a clean restart finds nothing damaged: {recovered:?}");
    (engine, flusher)
}
