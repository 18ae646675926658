use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use redstart_engine::{
    Config as EngineConfig, GroupConfig, GroupName, Message, MessageType, SendOptions, SendReceipt,
    Timestamp, TopicConfig, TopicName,
};
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{Config, Opened, Reply, SendFailure, Shard, ShardHandle};
use tempfile::TempDir;

pub const KIB: usize = 1024;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Timestamp(since.as_millis() as u64)
}

pub fn topic() -> TopicName {
    TopicName::new("bench").expect("a valid name")
}

pub fn group() -> GroupName {
    GroupName::new("bench-group").expect("a valid name")
}

pub fn message(n: usize, size: usize) -> Message {
    Message { id: format!("{n:032X}"), body: Bytes::from(vec![b'x'; size]), ..Message::default() }
}

pub fn open(dir: &TempDir) -> Opened {
    let storage = FsStorage::open(dir.path()).expect("a directory");
    Shard::open(Arc::new(storage), Options::default(), EngineConfig::default(), Config::default())
        .expect("a shard")
}

pub fn set_up(handle: &ShardHandle, message_type: MessageType) {
    let config = TopicConfig { message_type, ..TopicConfig::default() };
    let put = handle.change(move |engine, _| engine.put_topic(&topic(), config)).expect("room");
    put.wait().expect("an answer").expect("a topic");
    let put = handle.change(|engine, _| engine.put_group(&group(), GroupConfig::default())).expect("room");
    put.wait().expect("an answer").expect("a group");
}

pub fn send(handle: &ShardHandle, message: Message) {
    let reply = handle.send(topic(), vec![message], SendOptions::default()).expect("room");
    reply.wait().expect("an answer").expect("a receipt");
}

/// Sends with a window of requests in flight, as fast as the shard takes them.
pub fn send_all(handle: &ShardHandle, messages: impl Iterator<Item = Message>) {
    let mut window: VecDeque<Reply<Result<Vec<SendReceipt>, SendFailure>>> = VecDeque::new();
    for message in messages {
        if window.len() >= 4096 {
            let reply = window.pop_front().expect("a full window");
            reply.wait().expect("an answer").expect("a receipt");
        }
        window.push_back(handle.send(topic(), vec![message], SendOptions::default()).expect("room"));
    }
    for reply in window {
        reply.wait().expect("an answer").expect("a receipt");
    }
}

/// Callers that each have one send of 1 KiB in flight, as the tasks of a front end do. Returns how many were stored
/// while `going` said so.
pub fn send_concurrently(handle: &ShardHandle, callers: usize, going: impl AsyncFn() -> bool) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let stop = AtomicBool::new(false);
    let caller = async |n: usize| {
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let reply = handle.send(topic(), vec![message(n, KIB)], SendOptions::default()).expect("room");
            reply.await.expect("an answer").expect("a receipt");
            sent += 1;
        }
        sent
    };
    let watch = async {
        while going().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.store(true, Ordering::Relaxed);
        0
    };
    runtime.block_on(async {
        let callers = futures_util::future::join_all((0..callers).map(caller));
        let (sent, _) = tokio::join!(callers, watch);
        sent.into_iter().sum()
    })
}

/// Resident memory of this process, in MiB.
pub fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Processor time of this process.
pub fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|f| f.parse().ok()).collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}

pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
