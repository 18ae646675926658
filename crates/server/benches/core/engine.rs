//! The engine alone, on the log in memory, on one core.

use std::time::{Duration, Instant};

use redstart_engine::{
    Config, Engine, Filter, GroupConfig, Message, Pop, SendOptions, Start, Timestamp, TopicConfig,
};
use redstart_log::{Log, MemoryLog};

use crate::support::{KIB, group, message, topic};

const MESSAGES: usize = 2_000_000;
const BATCH: usize = 64;

struct Bench {
    engine: Engine,
    flusher: std::sync::Arc<dyn redstart_log::Flusher>,
    now: Timestamp,
}

impl Bench {
    fn new() -> Bench {
        let log = MemoryLog::default();
        let flusher = log.flusher();
        let (engine, _) = Engine::open(Box::new(log), Config::default()).expect("an engine");
        let mut bench = Bench { engine, flusher, now: Timestamp(1) };
        bench.engine.put_topic(&topic(), TopicConfig::default()).expect("a topic");
        bench.engine.put_group(&group(), GroupConfig::default()).expect("a group");
        bench.commit();
        bench
    }

    fn commit(&mut self) -> usize {
        self.engine.submit(self.now).map_err(|(error, _)| error).expect("a frame");
        let index = self.flusher.flush().expect("a flush");
        let outcomes = self.engine.committed(index).expect("applied").len();
        self.engine.take_wakes();
        outcomes
    }

    fn append(&mut self, messages: &[Message], count: usize) -> f64 {
        let topic = topic();
        let start = Instant::now();
        let mut stored = 0;
        while stored < count {
            self.now = Timestamp(self.now.0 + 1);
            for message in messages {
                let message = std::slice::from_ref(message);
                self.engine.send(&topic, message, SendOptions::default(), self.now).expect("sent");
            }
            stored += self.commit();
        }
        stored as f64 / start.elapsed().as_secs_f64()
    }
}

fn messages() -> Vec<Message> {
    (0..BATCH)
        .map(|n| Message {
            tag: Some("tag".to_owned()),
            keys: vec![format!("key-{n}")],
            properties: vec![("origin".to_owned(), "bench".to_owned())],
            ..message(n, KIB)
        })
        .collect()
}

pub fn append() {
    let messages = messages();
    // The first round pays for memory that the system hands out page by page; the later ones use it again.
    let first = Bench::new().append(&messages, MESSAGES);
    let mut rates: Vec<f64> = (0..3).map(|_| Bench::new().append(&messages, MESSAGES)).collect();
    rates.sort_unstable_by(f64::total_cmp);
    println!(
        "  appends of 1 KiB on the memory log: {:.0}/s (limit 1,000,000); {first:.0}/s into fresh memory",
        rates[1]
    );
}

pub fn pop_ack() {
    let messages = messages();
    let mut bench = Bench::new();
    bench.append(&messages, MESSAGES);
    let (group, topic) = (group(), topic());
    let start = Instant::now();
    let mut acked = 0;
    loop {
        bench.now = Timestamp(bench.now.0 + 1);
        let pop = Pop {
            group: &group,
            topic: &topic,
            queue: None,
            max: 32,
            invisible: Duration::from_secs(60),
            filter: &Filter::All,
            attempt: None,
            client: "bench",
            start: Start::Earliest,
            one_per_group: false,
            in_order: false,
        };
        let popped = bench.engine.pop(&pop, bench.now).expect("popped");
        if popped.deliveries.is_empty() {
            break;
        }
        for delivery in &popped.deliveries {
            bench.engine.ack(delivery.receipt, bench.now).expect("acked");
        }
        acked += popped.deliveries.len();
        bench.commit();
    }
    let rate = acked as f64 / start.elapsed().as_secs_f64();
    println!("  pop (32 at a time) + ack (one at a time) on the memory log: {rate:.0}/s (limit 500,000)");
}
