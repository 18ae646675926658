//! Starts with much to start from.

use std::time::Instant;

use redstart_engine::{MessageType, TopicConfig, TopicName};
use tempfile::TempDir;

use crate::support::{KIB, message, open, resident_mib, send_all, set_up};

pub fn ten_gigabytes() {
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let loading = Instant::now();
    let count = 10 * (1 << 30) / (10 * KIB);
    send_all(&handle, (0..count).map(|n| message(n, 10 * KIB)));
    println!("  stored 10 GiB in {:.0} s", loading.elapsed().as_secs_f64());
    opened.shard.stop().expect("a clean stop");
    let start = Instant::now();
    let opened = open(&dir);
    let queues = opened.shard.handle().ask(|engine, _| engine.topic(&crate::support::topic()));
    let queues = queues.expect("room").wait().expect("an answer").expect("the topic").queues;
    let elapsed = start.elapsed().as_secs_f64();
    assert_eq!(queues.iter().map(|(_, _, end)| end.0).sum::<u64>(), count as u64);
    println!("  serving again after {elapsed:.2} s, {:.0} MiB resident (limit 3 s)", resident_mib());
    opened.shard.stop().expect("a clean stop");
}

pub fn many_topics() {
    const TOPICS: usize = 100_000;
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    let mut last = None;
    for n in 0..TOPICS {
        let put = handle.change(move |engine, _| {
            let name = TopicName::new(&format!("topic-number-{n}")).expect("a valid name");
            engine.put_topic(&name, TopicConfig::default())
        });
        match put {
            Ok(reply) => last = Some(reply),
            // The channel is full: let it drain.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
        if n % 1000 == 0
            && let Some(reply) = last.take()
        {
            reply.wait().expect("an answer").expect("a topic");
        }
    }
    opened.shard.stop().expect("a clean stop");
    let start = Instant::now();
    let opened = open(&dir);
    let count = opened.shard.handle().ask(|engine, _| engine.topic_names().len());
    let count = count.expect("room").wait().expect("an answer");
    println!(
        "  {count} topics of 8 queues: serving after {:.2} s, {:.0} MiB resident (limits 2 s, 256 MB)",
        start.elapsed().as_secs_f64(),
        resident_mib()
    );
    opened.shard.stop().expect("a clean stop");
}
