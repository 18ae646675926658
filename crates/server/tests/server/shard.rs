//! The shard runtime: durable answers, long polls, back-pressure, restarts.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use redstart_engine::{
    Engine, Filter, GroupConfig, GroupName, Message, MessageType, Popped, PullStatus, QueueId, QueueOffset,
    SendOptions, Start, Timestamp, TopicConfig, TopicName, fetch,
};
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{
    Config, Flush, Opened, PendingBytesBudget, PopRequest, PullRequest, SendFailure, Shard, ShardHandle,
    Unavailable,
};
use tempfile::TempDir;

use crate::engine;

fn open(dir: &TempDir, config: Config) -> Opened {
    let storage = FsStorage::open(dir.path()).unwrap();
    Shard::open(Arc::new(storage), Options::with_segment_bytes(1 << 20), engine::engine(), config).unwrap()
}

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

fn set_up(handle: &ShardHandle, message_type: MessageType) {
    let config = TopicConfig { message_type, ..TopicConfig::default() };
    handle.change(move |engine, _| engine.put_topic(&topic(), config)).unwrap().wait().unwrap().unwrap();
    handle
        .change(|engine, _| engine.put_group(&group(), GroupConfig::default()))
        .unwrap()
        .wait()
        .unwrap()
        .unwrap();
}

fn message(id: &str) -> Message {
    Message { id: id.to_owned(), body: Bytes::from_static(b"hello"), ..Message::default() }
}

fn send(handle: &ShardHandle, id: &str) {
    let reply = handle.send(topic(), vec![message(id)], SendOptions::default()).unwrap();
    reply.wait().unwrap().unwrap();
}

fn pop(wait: Duration) -> PopRequest {
    PopRequest {
        group: group(),
        topic: topic(),
        queue: None,
        max: 32,
        invisible: Duration::from_secs(30),
        filter: Filter::All,
        attempt: None,
        client: "test".to_owned(),
        start: Start::Earliest,
        one_per_group: false,
        refused_attribute: None,
        only_if_begun: false,
        in_order: false,
        with_retry_topic: false,
        wait,
    }
}

fn ids(handle: &ShardHandle, popped: &Popped) -> Vec<String> {
    let reader = handle.reader();
    let id = |position, size| fetch(&*reader, position, size).unwrap().message().unwrap().id.to_owned();
    popped.deliveries.iter().map(|delivery| id(delivery.position, delivery.size)).collect()
}

#[test]
fn messages_and_progress_survive_a_restart() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    for n in 0..100 {
        send(&handle, &format!("m{n}"));
    }
    let popped = handle.pop(pop(Duration::ZERO)).unwrap().wait().unwrap().unwrap();
    assert_eq!(popped.deliveries.len(), 32);
    let receipts: Vec<_> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
    let acked = handle.ask(move |engine, now| engine.ack_batch(&receipts, now)).unwrap().wait().unwrap();
    assert!(acked.iter().all(Result::is_ok));
    opened.shard.stop().unwrap();

    let opened = open(&dir, Config::default());
    assert_eq!(opened.engine.frames_replayed, 0, "a clean stop leaves a checkpoint");
    let handle = opened.shard.handle();
    let mut rest = 0;
    loop {
        let popped = handle.pop(pop(Duration::ZERO)).unwrap().wait().unwrap().unwrap();
        if popped.deliveries.is_empty() {
            break;
        }
        rest += popped.deliveries.len();
    }
    assert_eq!(rest, 68);
}

#[test]
fn a_long_poll_is_answered_by_the_message_it_waits_for() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let waiting: Vec<_> = (0..3).map(|_| handle.pop(pop(Duration::from_secs(20))).unwrap()).collect();
    // Each arrival serves one of the three.
    let started = Instant::now();
    for n in 0..3 {
        send(&handle, &format!("m{n}"));
    }
    let mut got: Vec<String> =
        waiting.into_iter().flat_map(|reply| ids(&handle, &reply.wait().unwrap().unwrap())).collect();
    got.sort();
    assert_eq!(got, ["m0", "m1", "m2"]);
    assert!(started.elapsed() < Duration::from_secs(10), "woken by the arrival, not by the deadline");
}

#[test]
fn a_long_poll_ends_empty_at_its_deadline() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let started = Instant::now();
    let popped = handle.pop(pop(Duration::from_millis(200))).unwrap().wait().unwrap().unwrap();
    assert!(popped.deliveries.is_empty());
    // Deadlines are whole milliseconds of the wall clock, so one may come up to a millisecond before its time.
    assert!(started.elapsed() >= Duration::from_millis(199));
}

#[test]
fn a_long_poll_gets_a_message_whose_invisible_time_runs_out() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    send(&handle, "a");
    let short = PopRequest { invisible: Duration::from_millis(300), ..pop(Duration::ZERO) };
    assert_eq!(handle.pop(short).unwrap().wait().unwrap().unwrap().deliveries.len(), 1);
    let popped = handle.pop(pop(Duration::from_secs(20))).unwrap().wait().unwrap().unwrap();
    assert_eq!(popped.deliveries[0].attempt, 2);
}

#[test]
fn an_abandoned_long_poll_takes_no_message() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    drop(handle.pop(pop(Duration::from_secs(20))).unwrap());
    send(&handle, "a");
    let popped = handle.pop(pop(Duration::from_secs(20))).unwrap().wait().unwrap().unwrap();
    assert_eq!((ids(&handle, &popped), popped.deliveries[0].attempt), (vec!["a".to_owned()], 1));
}

#[test]
fn a_delayed_message_reaches_a_waiting_consumer_when_due_and_never_early() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Delay);
    let at = Timestamp(now().0 + 400);
    let delayed = Message { deliver_at: Some(at), ..message("a") };
    handle.send(topic(), vec![delayed], SendOptions::default()).unwrap().wait().unwrap().unwrap();
    let popped = handle.pop(pop(Duration::from_secs(20))).unwrap().wait().unwrap().unwrap();
    assert_eq!(popped.deliveries.len(), 1);
    assert!(now() >= at);
}

#[test]
fn a_pull_waits_for_its_queue() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let request = PullRequest {
        topic: topic(),
        queue: QueueId(3),
        offset: QueueOffset(0),
        max: 32,
        bytes_max: 1 << 20,
        filter: Filter::All,
        wait: Duration::from_secs(20),
    };
    let waiting = handle.pull(request).unwrap();
    for queue in [2, 3] {
        let options = SendOptions { queue: Some(QueueId(queue)), ..SendOptions::default() };
        handle.send(topic(), vec![message("a")], options).unwrap().wait().unwrap().unwrap();
    }
    let pulled = waiting.wait().unwrap().unwrap();
    assert_eq!((pulled.status, pulled.messages.len()), (PullStatus::Found, 1));
}

#[test]
fn senders_past_the_byte_bound_are_refused_at_once_and_nothing_accepted_is_lost() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config { pending_bytes: PendingBytesBudget::new(64 << 10), ..Config::default() });
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let mut accepted = Vec::new();
    let mut refused = 0;
    for n in 0..1_000 {
        let big = Message { body: vec![0; 16 << 10].into(), ..message(&format!("m{n}")) };
        match handle.send(topic(), vec![big], SendOptions::default()) {
            Ok(reply) => accepted.push(reply),
            Err(Unavailable::Overloaded { limit, .. }) => {
                assert_eq!(limit, 64 << 10);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    let stored = accepted.len();
    for reply in accepted {
        reply.wait().unwrap().unwrap();
    }
    let queues = handle.ask(|engine, _| engine.topic(&topic()).unwrap().queues).unwrap().wait().unwrap();
    assert_eq!(queues.iter().map(|(_, _, end)| end.0).sum::<u64>(), stored as u64);
}

#[test]
fn many_senders_share_frames_and_each_gets_its_own_answer() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let handle = handle.clone();
            thread::spawn(move || {
                (0..50)
                    .map(|n| {
                        let id = format!("{t}-{n}");
                        let reply = handle.send(topic(), vec![message(&id)], SendOptions::default()).unwrap();
                        let receipt = reply.wait().unwrap().unwrap()[0];
                        let fetched = fetch(&*handle.reader(), receipt.position, receipt.size).unwrap();
                        assert_eq!(fetched.message().unwrap().id, id);
                    })
                    .count()
            })
        })
        .collect();
    assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>(), 400);
}

#[test]
fn async_flush_answers_without_waiting_for_the_disk_and_a_stop_flushes() {
    let dir = TempDir::new().unwrap();
    let config = Config { flush: Flush::Async { interval: Duration::from_secs(3600) }, ..Config::default() };
    let opened = open(&dir, config.clone());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    send(&handle, "a");
    opened.shard.stop().unwrap();
    let opened = open(&dir, config);
    let popped = opened.shard.handle().pop(pop(Duration::ZERO)).unwrap().wait().unwrap().unwrap();
    assert_eq!(popped.deliveries.len(), 1);
}

#[test]
fn a_stopped_shard_says_so() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let waiting = handle.pop(pop(Duration::from_secs(60))).unwrap();
    opened.shard.stop().unwrap();
    assert!(waiting.wait().is_err());
    match handle.send(topic(), vec![message("late")], SendOptions::default()) {
        Err(Unavailable::Stopped) => {}
        other => panic!("{other:?}"),
    }
}

/// A copy of the directory, as a power cut would leave it if everything written were on disk.
fn copy(dir: &TempDir) -> TempDir {
    let to = TempDir::new().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

#[test]
fn what_was_recorded_without_the_owner_is_soon_written() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    (0..3).for_each(|n| send(&handle, &format!("m{n}")));
    let filled = |engine: &mut Engine| {
        let end = |queue: &QueueId| engine.offset_range(&topic(), *queue).unwrap().1;
        (0..8).map(QueueId).find(|queue| end(queue) > QueueOffset(0))
    };
    let queue = handle.ask_here(filled).unwrap().wait().unwrap().unwrap();
    let commit = move |engine: &mut Engine| engine.commit_offset(&group(), &topic(), queue, QueueOffset(1));
    let offset = move |engine: &mut Engine| engine.consumer_offset(&group(), &topic(), queue).unwrap();
    handle.ask_here(commit).unwrap().wait().unwrap().unwrap();
    assert_eq!(handle.ask_here(offset).unwrap().wait().unwrap(), Some(QueueOffset(1)), "known at once");
    let deadline = Instant::now() + Duration::from_secs(10);
    while handle.ask_here(|engine| engine.has_batch()).unwrap().wait().unwrap() {
        assert!(Instant::now() < deadline, "nobody writes it");
        thread::sleep(Duration::from_millis(1));
    }
    let copied = copy(&dir);
    let again = open(&copied, Config::default());
    let found = again.shard.handle().ask_here(offset).unwrap().wait().unwrap();
    assert_eq!(found, Some(QueueOffset(1)));
}

#[test]
fn questions_without_the_owner_and_sends_do_not_get_in_each_others_way() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let asking = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let askers: Vec<_> = (0..2)
        .map(|_| {
            let (handle, asking) = (handle.clone(), asking.clone());
            thread::spawn(move || {
                let mut asked = 0;
                while asking.load(std::sync::atomic::Ordering::Relaxed) {
                    let commit = |engine: &mut Engine| {
                        engine.commit_offset(&group(), &topic(), QueueId(0), QueueOffset(0)).unwrap();
                        engine.offset_range(&topic(), QueueId(0)).unwrap()
                    };
                    handle.ask_here(commit).unwrap().wait().unwrap();
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    (0..200).for_each(|n| send(&handle, &format!("m{n}")));
    asking.store(false, std::sync::atomic::Ordering::Relaxed);
    for asker in askers {
        assert!(asker.join().unwrap() > 0);
    }
    let stored = |engine: &mut Engine| -> u64 {
        (0..8).map(|queue| engine.offset_range(&topic(), QueueId(queue)).unwrap().1.0).sum()
    };
    assert_eq!(handle.ask_here(stored).unwrap().wait().unwrap(), 200);
    opened.shard.stop().unwrap();
    assert!(matches!(handle.ask_here(stored), Err(Unavailable::Stopped)));
}

#[test]
fn a_shard_whose_engine_was_left_in_the_middle_of_something_ends() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let asker = handle.clone();
    let broken = thread::spawn(move || {
        asker.ask_here(|_| -> () { std::panic::resume_unwind(Box::new("left")) }).unwrap().wait()
    });
    assert!(!matches!(broken.join(), Ok(Ok(()))), "there is no answer");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !opened.shard.has_failed() {
        assert!(Instant::now() < deadline, "it goes on with it");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(handle.ask_here(|_| ()), Err(Unavailable::Stopped)));
}

#[test]
fn a_refused_send_is_answered_with_its_reason() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    let reply = handle.send(topic(), vec![message("a")], SendOptions::default()).unwrap().wait().unwrap();
    assert!(matches!(reply, Err(SendFailure::Refused(_))), "{reply:?}");
}

#[tokio::test]
async fn a_reply_can_be_awaited() {
    let dir = TempDir::new().unwrap();
    let opened = open(&dir, Config::default());
    let handle = opened.shard.handle();
    let config = TopicConfig::default();
    handle.change(move |engine, _| engine.put_topic(&topic(), config)).unwrap().await.unwrap().unwrap();
    let receipts =
        handle.send(topic(), vec![message("a")], SendOptions::default()).unwrap().await.unwrap().unwrap();
    assert_eq!(receipts.len(), 1);
}
