//! A real process killed with SIGKILL under load, again and again: everything it acknowledged is accounted for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/engine.rs"]
mod engine;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use redstart_engine::{
    Filter, GroupConfig, GroupName, HalfOptions, Message, MessageType, QueueId, QueueOffset, SendOptions,
    Start, Timestamp, TopicConfig, TopicName, fetch,
};
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{Config, PopRequest, PullRequest, Shard, ShardHandle};
use tempfile::TempDir;

/// Set for the process that is to be killed: its data directory and the number of its round.
const CHILD_DIR: &str = "REDSTART_KILL_DIR";
const CHILD_ROUND: &str = "REDSTART_KILL_ROUND";
const ROUNDS: usize = 6;
const SENDERS: usize = 4;

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

fn open(dir: &Path) -> Shard {
    let storage = FsStorage::open(dir).unwrap();
    // Small segments and frequent checkpoints, so that a kill meets seals and checkpoints under way.
    let config = Config {
        checkpoint_frames: 200,
        housekeeping_interval: Duration::from_millis(20),
        ..Config::default()
    };
    let options = Options::with_segment_bytes(256 << 10);
    Shard::open(Arc::new(storage), options, engine::engine(), config).unwrap().shard
}

/// The body tells what the id is, so that an altered message shows.
fn body_of(id: &str) -> Vec<u8> {
    id.bytes().cycle().take(100 + id.len() * 7 % 900).collect()
}

fn pop() -> PopRequest {
    PopRequest {
        group: group(),
        topic: topic(),
        queue: None,
        max: 16,
        invisible: Duration::from_secs(3600),
        filter: Filter::All,
        attempt: None,
        client: "child".to_owned(),
        start: Start::Earliest,
        one_per_group: false,
        refused_attribute: None,
        only_if_begun: false,
        in_order: false,
        with_retry_topic: false,
        wait: Duration::from_millis(50),
    }
}

fn say(line: String) {
    // One write, so that a kill leaves whole lines or nothing.
    std::io::stdout().lock().write_all(format!("\n@{line}\n").as_bytes()).unwrap();
}

/// Not a test by itself: the body of the process that is killed.
#[test]
fn child_under_load() {
    let (Ok(dir), Ok(round)) = (std::env::var(CHILD_DIR), std::env::var(CHILD_ROUND)) else { return };
    let shard = open(Path::new(&dir));
    let handle = shard.handle();
    let config = TopicConfig { message_type: MessageType::Mixed, ..TopicConfig::default() };
    handle.change(move |engine, _| engine.put_topic(&topic(), config)).unwrap().wait().unwrap().unwrap();
    handle
        .change(|engine, _| engine.put_group(&group(), GroupConfig::default()))
        .unwrap()
        .wait()
        .unwrap()
        .unwrap();
    for sender in 0..SENDERS {
        let (handle, round) = (handle.clone(), round.clone());
        thread::spawn(move || {
            for n in 0.. {
                send(&handle, format!("{round}-{sender}-{n}"), n);
            }
        });
    }
    loop {
        consume(&handle);
    }
}

fn send(handle: &ShardHandle, id: String, n: usize) {
    let mut message = Message { id: id.clone(), body: body_of(&id).into(), ..Message::default() };
    let mut options = SendOptions::default();
    match n % 4 {
        1 => message.deliver_at = Some(now().after(Duration::from_millis(30))),
        2 | 3 => options.half = Some(HalfOptions::default()),
        _ => {}
    }
    let receipts = handle.send(topic(), vec![message], options).unwrap().wait().unwrap().unwrap();
    if n % 4 < 2 {
        return say(format!("sent {id}"));
    }
    let (position, commit) = (receipts[0].position, n % 4 == 2);
    say(format!("half {id}"));
    handle
        .change(move |engine, now| engine.end_transaction(position, commit, now))
        .unwrap()
        .wait()
        .unwrap()
        .unwrap();
    say(format!("{} {id}", if commit { "sent" } else { "rolled-back" }));
}

fn consume(handle: &ShardHandle) {
    let popped = handle.pop(pop()).unwrap().wait().unwrap().unwrap();
    let reader = handle.reader();
    let mut ids = Vec::new();
    for delivery in popped.deliveries.iter().step_by(2) {
        let fetched = fetch(&*reader, delivery.position, delivery.size).unwrap();
        ids.push((delivery.receipt, fetched.message().unwrap().id.to_owned()));
    }
    let receipts: Vec<_> = ids.iter().map(|(receipt, _)| *receipt).collect();
    let acked = handle.ask(move |engine, now| engine.ack_batch(&receipts, now)).unwrap().wait().unwrap();
    assert!(acked.iter().all(Result::is_ok));
    let barrier = handle.change(|engine, _| Ok::<_, std::convert::Infallible>(engine.barrier())).unwrap();
    barrier.wait().unwrap().unwrap();
    for (_, id) in ids {
        say(format!("consumed {id}"));
    }
}

/// What the killed processes said.
#[derive(Default)]
struct Said {
    sent: BTreeSet<String>,
    half: BTreeSet<String>,
    rolled_back: BTreeSet<String>,
    consumed: BTreeSet<String>,
}

fn run_and_kill(dir: &Path, round: usize, said: &mut Said) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_under_load", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .env(CHILD_ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reading =
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).collect::<Vec<String>>());
    thread::sleep(Duration::from_millis(400 + 130 * round as u64));
    child.kill().unwrap();
    child.wait().unwrap();
    for line in reading.join().unwrap() {
        let Some((what, id)) = line.strip_prefix('@').and_then(|line| line.split_once(' ')) else { continue };
        let list = match what {
            "sent" => &mut said.sent,
            "half" => &mut said.half,
            "rolled-back" => &mut said.rolled_back,
            "consumed" => &mut said.consumed,
            other => panic!("{other}"),
        };
        list.insert(id.to_owned());
    }
}

/// All visible messages, by id, with how often each is there.
fn stored(handle: &ShardHandle) -> BTreeMap<String, usize> {
    let reader = handle.reader();
    let mut found = BTreeMap::new();
    for queue in 0..8 {
        let mut offset = QueueOffset(0);
        loop {
            let request = PullRequest {
                topic: topic(),
                queue: QueueId(queue),
                offset,
                max: 256,
                bytes_max: 1 << 20,
                filter: Filter::All,
                wait: Duration::ZERO,
            };
            let pulled = handle.pull(request).unwrap().wait().unwrap().unwrap();
            for message in &pulled.messages {
                let fetched = fetch(&*reader, message.position, message.size).unwrap();
                let view = fetched.message().unwrap();
                assert_eq!(view.body, body_of(view.id), "{} was altered", view.id);
                *found.entry(view.id.to_owned()).or_default() += 1;
            }
            if pulled.messages.is_empty() {
                break;
            }
            offset = pulled.next;
        }
    }
    found
}

fn wait_for_timers(handle: &ShardHandle) {
    let until = Instant::now() + Duration::from_secs(10);
    while handle.ask(|engine, _| engine.deferred().delayed).unwrap().wait().unwrap() > 0 {
        assert!(Instant::now() < until, "delayed messages are overdue");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_process_keeps_every_acknowledged_message() {
    let dir = TempDir::new().unwrap();
    let mut said = Said::default();
    for round in 0..ROUNDS {
        run_and_kill(dir.path(), round, &mut said);
        let shard = open(dir.path());
        let handle = shard.handle();
        wait_for_timers(&handle);
        let found = stored(&handle);
        for id in &said.sent {
            assert_eq!(found.get(id), Some(&1), "round {round}: {id} was acknowledged");
        }
        for id in &said.rolled_back {
            assert_eq!(found.get(id), None, "round {round}: {id} was rolled back");
        }
        let open_halves =
            said.half.iter().filter(|id| !said.sent.contains(*id) && !said.rolled_back.contains(*id));
        assert!(open_halves.count() <= SENDERS * (round + 1), "at most one undecided half message a sender");
        // Only one popped message in two was acked; nothing acked durably may come again.
        let mut again = PopRequest { invisible: Duration::from_millis(1), ..pop() };
        again.wait = Duration::ZERO;
        loop {
            let popped = handle.pop(again.clone()).unwrap().wait().unwrap().unwrap();
            for delivery in &popped.deliveries {
                let fetched = fetch(&*handle.reader(), delivery.position, delivery.size).unwrap();
                let id = fetched.message().unwrap().id.to_owned();
                assert!(!said.consumed.contains(&id), "round {round}: {id} was consumed and came again");
            }
            let first_attempts = popped.deliveries.iter().any(|delivery| delivery.attempt == 1);
            if popped.deliveries.is_empty() || !first_attempts {
                break;
            }
        }
        shard.stop().unwrap();
    }
    assert!(said.sent.len() > 200, "only {} messages: the load was no load", said.sent.len());
    assert!(!said.consumed.is_empty());
}
