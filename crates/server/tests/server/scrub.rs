//! Damage in what is stored is found before a consumer reads it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use redstart_engine::{Config as EngineConfig, Message, SendOptions, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options, SegmentInfo};
use redstart_server::{
    scrub,
    shard::{Config, Shard, ShardHandle},
};
use tempfile::TempDir;

const SEGMENT_BYTES: u64 = 64 << 10;
const RATE: u64 = 1 << 30;

async fn segments(shard: &ShardHandle) -> Vec<SegmentInfo> {
    shard.ask(|engine, _| engine.log().segments()).unwrap().await.unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A shard with several sealed segments, all of them indexed.
async fn filled(dir: &Path) -> Shard {
    let storage = Arc::new(FsStorage::open(dir).unwrap());
    let options = Options::with_segment_bytes(SEGMENT_BYTES);
    let config = Config { housekeeping_interval: Duration::from_millis(10), ..Config::default() };
    let shard = Shard::open(storage, options, EngineConfig::default(), config).unwrap().shard;
    let handle = shard.handle();
    let topic = TopicName::new("t").unwrap();
    let put = topic.clone();
    let made = handle.change(move |engine, _| engine.put_topic(&put, TopicConfig::default()));
    made.unwrap().await.unwrap().unwrap();
    for n in 0..60 {
        let body = Bytes::from(vec![7; 4 << 10]);
        let message = Message { id: format!("m{n}"), body, ..Message::default() };
        handle.send(topic.clone(), vec![message], SendOptions::default()).unwrap().await.unwrap().unwrap();
    }
    until("every sealed segment gets its index", async || {
        let segments = segments(&handle).await;
        segments.len() > 3 && segments.iter().all(|segment| segment.active || segment.has_index)
    })
    .await;
    shard
}

fn file(dir: &Path, segment: &SegmentInfo, kind: &str) -> PathBuf {
    dir.join(format!("{:020}.{kind}", segment.id.0))
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_a_sealed_segment_or_its_index_is_reported_unread() {
    let dir = TempDir::new().unwrap();
    let shard = filled(dir.path()).await;
    let handle = shard.handle();
    let found = segments(&handle).await;
    let sealed: u64 =
        found.iter().filter(|segment| !segment.active).map(|segment| segment.end.0 - segment.id.0 - 64).sum();

    // What is sound is read, and nothing is said.
    let sound = tokio::spawn(scrub::run(handle.clone(), RATE));
    until("every sealed segment is read", async || handle.counters().scrubbed_bytes() > sealed).await;
    sound.abort();
    assert_eq!(handle.counters().scrub_damage(), (0, 0));

    flip(&file(dir.path(), &found[0], "log"), 30_000);
    flip(&file(dir.path(), &found[1], "idx"), 200);
    let second = tokio::spawn(scrub::run(handle.clone(), RATE));
    until("the damage is found", async || handle.counters().scrub_damage() == (1, 1)).await;
    second.abort();
    let metric = handle.counters().passed_over_by_pulls();
    assert_eq!(metric, (0, 0), "no consumer has read it");
    shard.stop().unwrap();
}
