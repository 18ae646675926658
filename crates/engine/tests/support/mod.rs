//! An engine on a log in memory, driven by hand: time moves only when a test says so.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redstart_engine::*;
use redstart_log::{Flusher, Log, MemoryLog, Options};

pub mod faulty;

use faulty::{FaultyLog, Switches};

pub struct Broker {
    pub engine: Engine,
    pub flusher: Arc<dyn Flusher>,
    pub now: Timestamp,
}

pub fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

pub fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

pub fn message(id: &str) -> Message {
    Message { id: id.to_owned(), body: Bytes::from(format!("body of {id}")), ..Message::default() }
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A delivered message, with its id read from the log.
#[derive(Debug, Clone)]
pub struct Got {
    pub id: String,
    pub attempt: u16,
    pub receipt: Receipt,
}

/// What a search by key came to, and how many steps it took.
#[derive(Debug)]
pub struct Queried {
    pub found: Vec<Found>,
    pub truncated: bool,
    pub steps: usize,
}

impl Default for Broker {
    fn default() -> Self {
        Broker::new(Config::default())
    }
}

impl Broker {
    pub fn new(config: Config) -> Broker {
        let log = MemoryLog::default();
        let flusher = log.flusher();
        let (engine, _) = Engine::open(Box::new(log), config).unwrap();
        Broker { engine, flusher, now: Timestamp(1_000_000) }
    }

    /// A broker whose reads fail when a test says so.
    pub fn faulty(config: Config, options: Options) -> (Broker, Switches) {
        let switches = Switches::default();
        let log = FaultyLog::new(options, switches.clone());
        let flusher = log.flusher();
        let (engine, _) = Engine::open(Box::new(log), config).unwrap();
        (Broker { engine, flusher, now: Timestamp(1_000_000) }, switches)
    }

    /// Looks for messages by key, to the end; the steps that it took are in the answer.
    pub fn query(
        &self,
        name: &str,
        key: &str,
        from: Timestamp,
        to: Timestamp,
        max: usize,
    ) -> Result<Queried, QueryError> {
        let mut query = self.engine.key_query(&topic(name), key, from, to, max)?;
        for steps in 1.. {
            match self.engine.query_step(&query)? {
                QueryStep::Unfinished(next) => query = next,
                QueryStep::Done(KeyAnswer { found, truncated }) => {
                    return Ok(Queried { found, truncated, steps });
                }
            }
        }
        unreachable!("steps are not counted to an end")
    }

    /// Makes everything proposed durable and applies it.
    pub fn commit(&mut self) -> Vec<(Ticket, Outcome)> {
        self.engine.submit(self.now).map_err(|(error, _)| error).unwrap();
        let index = self.flusher.flush().unwrap();
        self.engine.committed(index).unwrap()
    }

    /// Lets time pass and does what became due.
    pub fn pass(&mut self, time: Duration) -> Vec<TransactionCheck> {
        self.now = self.now.after(time);
        let checks = self.engine.tick(self.now);
        self.commit();
        checks
    }

    /// Removes the oldest segment, if its time has come: reads for each step of that, and commits it.
    pub fn retire(&mut self) -> Option<Retired> {
        self.try_retire().unwrap()
    }

    pub fn try_retire(&mut self) -> Result<Option<Retired>, RetireError> {
        for _ in 0..20 {
            if let Some(retired) = self.engine.retire(self.now)? {
                return Ok(Some(retired));
            }
            let read = self.read_for_engine();
            if self.engine.has_batch() {
                self.commit();
            } else if !read {
                return Ok(None);
            }
        }
        panic!("the removal of a segment does not come to an end")
    }

    pub fn create_topic(&mut self, name: &str, config: TopicConfig) {
        self.engine.put_topic(&topic(name), config).unwrap();
        self.commit();
    }

    pub fn create_group(&mut self, name: &str, config: GroupConfig) {
        self.engine.put_group(&group(name), config).unwrap();
        self.commit();
    }

    pub fn send_with(
        &mut self,
        to: &str,
        message: Message,
        options: SendOptions,
    ) -> Result<SendReceipt, SendError> {
        let ticket = match self.engine.send(&topic(to), &[message], options, self.now)? {
            Sent::Duplicate(receipt) => return Ok(receipt),
            Sent::Proposed(ticket) | Sent::DuplicateOf(ticket) => ticket,
        };
        let outcomes = self.commit();
        match outcomes.into_iter().find(|(found, _)| *found == ticket) {
            Some((_, Outcome::Stored(receipt))) => Ok(receipt),
            other => panic!("no receipt but {other:?}"),
        }
    }

    pub fn send(&mut self, to: &str, message: Message) -> SendReceipt {
        self.send_with(to, message, SendOptions::default()).unwrap()
    }

    /// Reads what the engine's own work waits for. Says whether there was anything.
    pub fn read_for_engine(&mut self) -> bool {
        let parts = self.engine.take_own_reads();
        for part in &parts {
            let done = self.engine.warm(*part).run();
            self.engine.job_done(done).unwrap();
        }
        !parts.is_empty()
    }

    pub fn pop_with(&mut self, pop: &Pop<'_>) -> Vec<Got> {
        let popped = self.engine.pop(pop, self.now).unwrap();
        let reader = self.engine.reader();
        popped
            .deliveries
            .iter()
            .map(|delivery| {
                let fetched = fetch(&*reader, delivery.position, delivery.size).unwrap();
                let id = fetched.message().unwrap().id.to_owned();
                Got { id, attempt: delivery.attempt, receipt: delivery.receipt }
            })
            .collect()
    }

    pub fn pop(&mut self, by: &str, from: &str, max: usize, invisible: Duration) -> Vec<Got> {
        self.pop_of(by, from, max, invisible, false)
    }

    /// Receives no message group twice.
    pub fn pop_one_per_group(&mut self, by: &str, from: &str) -> Vec<Got> {
        self.pop_of(by, from, 32, secs(10), true)
    }

    fn pop_of(
        &mut self,
        by: &str,
        from: &str,
        max: usize,
        invisible: Duration,
        one_per_group: bool,
    ) -> Vec<Got> {
        let (by, from) = (group(by), topic(from));
        self.pop_with(&Pop {
            group: &by,
            topic: &from,
            queue: None,
            max,
            invisible,
            filter: &Filter::All,
            attempt: None,
            client: "test",
            start: Start::Earliest,
            one_per_group,
            in_order: false,
        })
    }

    pub fn ids(&mut self, by: &str, from: &str) -> Vec<String> {
        self.pop(by, from, 32, secs(60)).into_iter().map(|got| got.id).collect()
    }

    pub fn ack(&mut self, got: &Got) {
        self.engine.ack(got.receipt, self.now).unwrap();
    }
}

pub fn one_queue(message_type: MessageType) -> TopicConfig {
    TopicConfig { message_type, read_queues: 1, write_queues: 1, ..TopicConfig::default() }
}
