//! The shard's steps, taken by hand on a simulated disk.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use redstart_engine::{
    Config as EngineConfig, Filter, GroupConfig, GroupName, HalfOptions, Job, Message, MessageType, Popped,
    Receipt, SendError, SendOptions, Start, Timestamp, TopicConfig, TopicName, Transactions,
};
use redstart_log::{DiskLog, Options, Storage, sim::SimStorage};
use tokio::sync::{mpsc, oneshot};

use crate::shard::{
    Config, Now, PopRequest, ReceiveError, Reply, SendFailure, ShardHandle, Stepped, Unavailable,
};

const MS: Duration = Duration::from_millis(1);
/// A shard that does not sleep for so many steps spins.
const STEPS_MAX: usize = 50;

struct Bench {
    shard: Stepped,
    handle: ShardHandle,
    disk: SimStorage,
    now: Now,
}

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

impl Bench {
    fn new(engine: EngineConfig, config: Config, kind: MessageType, retries_max: u32) -> Bench {
        let disk = SimStorage::new(1);
        let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
        let (shard, _) = Stepped::start(Box::new(log), engine, config).unwrap();
        let now = Now { time: Timestamp(1_700_000_000_000), uptime: Duration::ZERO };
        let mut bench = Bench { handle: shard.handle(), shard, disk, now };
        let config =
            TopicConfig { message_type: kind, read_queues: 1, write_queues: 1, ..TopicConfig::default() };
        let put = bench.handle.change(move |engine, _| engine.put_topic(&topic(), config)).unwrap();
        bench.get(put).unwrap();
        let config = GroupConfig { retries_max, ..GroupConfig::default() };
        let put = bench.handle.change(move |engine, _| engine.put_group(&group(), config)).unwrap();
        bench.get(put).unwrap();
        bench
    }

    fn normal() -> Bench {
        Bench::new(EngineConfig::default(), Config::default(), MessageType::Normal, 16)
    }

    fn pass(&mut self, time: Duration) {
        self.now.time = self.now.time.after(time);
        self.now.uptime += time;
    }

    /// Takes steps until the shard would sleep; returns for how long.
    fn settle(&mut self) -> Duration {
        for _ in 0..STEPS_MAX {
            let effects = self.shard.step(self.now).unwrap();
            if effects.flush {
                let committed = self.shard.flusher().flush();
                self.shard.flushed(committed, self.now).unwrap();
            }
            for job in effects.jobs {
                self.shard.job_done(job.run(), self.now);
            }
            let sleep = self.shard.sleep(self.now);
            if !sleep.is_zero() {
                return sleep;
            }
        }
        panic!("{STEPS_MAX} steps, and the shard does not sleep");
    }

    /// Lets time pass as the shard wants it to, up to `time`. Counts its steps.
    fn run_for(&mut self, time: Duration) -> usize {
        let (end, mut steps) = (self.now.uptime + time, 0);
        while self.now.uptime < end {
            let sleep = self.settle().max(MS).min(end - self.now.uptime);
            self.pass(sleep);
            steps += 1;
        }
        self.settle();
        steps
    }

    fn get<T>(&mut self, reply: Reply<T>) -> T {
        let mut reply = pin!(reply);
        self.settle();
        match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.unwrap(),
            Poll::Pending => panic!("no answer"),
        }
    }

    fn send(&mut self, message: Message) -> Result<(), SendFailure> {
        let reply = self.handle.send(topic(), vec![message], SendOptions::default()).unwrap();
        self.get(reply).map(|_| ())
    }

    fn pop(&mut self) -> Popped {
        let reply = self.handle.pop(pop(Duration::ZERO)).unwrap();
        self.get(reply).unwrap()
    }

    fn ack(&mut self, receipt: Receipt) {
        let reply = self.handle.ask(move |engine, now| engine.ack(receipt, now)).unwrap();
        self.get(reply).unwrap();
    }
}

fn is_answered<T>(reply: &mut Reply<T>) -> bool {
    pin!(reply).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn message(id: &str) -> Message {
    Message { id: id.to_owned(), body: Bytes::from_static(b"hello"), ..Message::default() }
}

fn pop(wait: Duration) -> PopRequest {
    PopRequest {
        group: group(),
        topic: topic(),
        queue: None,
        max: 8,
        invisible: Duration::from_secs(30),
        filter: Filter::All,
        attempt: None,
        client: "test".to_owned(),
        start: Start::Earliest,
        one_per_group: false,
        not_with: None,
        in_order: false,
        retries: false,
        wait,
    }
}

#[test]
fn a_receiver_that_leaves_during_its_poll_uses_up_no_attempt() {
    let mut bench = Bench::new(EngineConfig::default(), Config::default(), MessageType::Normal, 0);
    bench.send(message("a")).unwrap();
    // Without retries, a counted delivery is the last one.
    for _ in 0..3 {
        drop(bench.handle.pop(pop(Duration::ZERO)).unwrap());
        bench.settle();
    }
    let popped = bench.pop();
    assert_eq!(popped.deliveries.len(), 1, "it was not sent to the dead letters");
    assert_eq!(popped.deliveries[0].attempt, 1);
}

#[test]
fn a_message_given_back_by_a_receiver_that_left_goes_to_the_next_that_waits() {
    let mut bench = Bench::normal();
    let mut left = bench.handle.pop(pop(Duration::from_secs(60))).unwrap();
    let mut waits = bench.handle.pop(pop(Duration::from_secs(60))).unwrap();
    bench.settle();
    assert!(!is_answered(&mut left) && !is_answered(&mut waits));
    drop(left);
    bench.send(message("a")).unwrap();
    assert!(is_answered(&mut waits));
}

#[test]
fn a_receive_that_waits_behind_others_gets_what_becomes_visible_after_they_were_served() {
    let mut bench = Bench::normal();
    let asked = || PopRequest { invisible: Duration::from_secs(1), ..pop(Duration::from_secs(60)) };
    let mut waits: Vec<_> = (0..4).map(|_| bench.handle.pop(asked()).unwrap()).collect();
    bench.settle();
    bench.send(message("a")).unwrap();
    // Nobody acks: each second the message goes to the next.
    for served in 1..=4 {
        waits.retain_mut(|reply| !is_answered(reply));
        assert_eq!(waits.len(), 4 - served);
        bench.run_for(Duration::from_millis(1_010));
    }
}

#[test]
fn what_is_held_back_does_not_hide_what_becomes_visible_later() {
    let mut bench = Bench::new(EngineConfig::default(), Config::default(), MessageType::Fifo, 16);
    for (id, group) in [("x1", "x"), ("x2", "x"), ("y1", "y")] {
        bench.send(Message { group: Some(group.to_owned()), ..message(id) }).unwrap();
    }
    let in_order = || PopRequest { in_order: true, ..pop(Duration::from_secs(20)) };
    let reply = bench.handle.pop(in_order()).unwrap();
    let got: Vec<Receipt> = bench.get(reply).unwrap().deliveries.iter().map(|one| one.receipt).collect();
    assert_eq!(got.len(), 3);
    // The second of a message group has to wait for the first, however early its time is out.
    for (receipt, secs) in [(got[1], 1), (got[2], 5)] {
        let delay = Duration::from_secs(secs);
        let reply =
            bench.handle.ask(move |engine, now| engine.change_invisible(receipt, delay, now)).unwrap();
        bench.get(reply).unwrap();
    }
    bench.run_for(Duration::from_secs(2));
    let mut waits = bench.handle.pop(in_order()).unwrap();
    bench.run_for(Duration::from_secs(2));
    assert!(!is_answered(&mut waits));
    bench.run_for(Duration::from_secs(2));
    assert!(is_answered(&mut waits));
}

#[test]
fn a_search_that_the_disk_holds_up_is_tried_after_pauses_and_ends_at_its_deadline() {
    let mut bench = Bench::normal();
    let mut red = message("a");
    red.properties.push(("colour".to_owned(), "red".to_owned()));
    bench.send(red).unwrap();
    bench.disk.fail_reads(true);
    let filter = Filter::sql("colour = 'red'").unwrap();
    let wait = Duration::from_secs(3);
    let asked = PopRequest { filter: filter.clone(), wait, ..pop(wait) };
    let mut reply = bench.handle.pop(asked).unwrap();
    let steps = bench.run_for(wait - 10 * MS);
    assert!(!is_answered(&mut reply));
    assert!(steps < 300, "{steps} steps");
    bench.run_for(20 * MS);
    assert!(is_answered(&mut reply), "its time is over");
    // When the disk reads again, what was not decided is delivered.
    let reply = bench.handle.pop(PopRequest { filter, ..pop(wait) }).unwrap();
    bench.run_for(100 * MS);
    bench.disk.fail_reads(false);
    bench.run_for(600 * MS);
    assert_eq!(bench.get(reply).unwrap().deliveries.len(), 1);
}

#[test]
fn a_search_that_makes_progress_goes_on_although_the_receive_does_not_wait() {
    let mut engine = EngineConfig::default();
    engine.limits.scan_entries_max = 10;
    let mut bench = Bench::new(engine, Config::default(), MessageType::Normal, 16);
    for n in 0..200 {
        let tag = if n == 199 { "wanted" } else { "other" };
        bench.send(Message { tag: Some(tag.to_owned()), ..message(&format!("m{n}")) }).unwrap();
    }
    let filter = Filter::tags("wanted").unwrap();
    let reply = bench.handle.pop(PopRequest { filter, ..pop(Duration::ZERO) }).unwrap();
    assert_eq!(bench.get(reply).unwrap().deliveries.len(), 1);
}

#[test]
fn while_the_log_refuses_only_sends_are_refused_and_the_shard_sleeps_in_between() {
    let config = Config { checkpoint_frames: 5, ..Config::default() };
    let mut bench = Bench::new(EngineConfig::default(), config, MessageType::Normal, 16);
    for n in 0..4 {
        bench.send(message(&format!("m{n}"))).unwrap();
    }
    bench.disk.no_space_after(Some(0));
    assert!(matches!(bench.send(message("refused")), Err(SendFailure::Log(_))));
    let popped = bench.pop();
    assert_eq!(popped.deliveries.len(), 4);
    for delivery in &popped.deliveries {
        bench.ack(delivery.receipt);
    }
    // More than one checkpoint comes due in this time.
    let steps = bench.run_for(Duration::from_secs(70));
    assert!(steps < 2_000, "{steps} steps");
    assert!(bench.shard.takes_requests(), "nothing waits for a checkpoint");
    let topics = bench.handle.ask(|engine, _| engine.topic_names().len()).unwrap();
    assert!(bench.get(topics) >= 1);
    assert!(matches!(bench.send(message("refused")), Err(SendFailure::Log(_))));
    bench.disk.no_space_after(None);
    bench.run_for(Duration::from_secs(1));
    bench.send(message("stored")).unwrap();
    assert_eq!(bench.pop().deliveries.len(), 1, "what was acked does not come again");
}

#[test]
fn on_a_full_disk_messages_are_refused_while_there_is_room_for_acks() {
    let mut bench = Bench::normal();
    let large = |n: usize| Message { body: Bytes::from(vec![7; 4 << 10]), ..message(&format!("m{n}")) };
    for n in 0..40 {
        bench.send(large(n)).unwrap();
    }
    // Another process takes the rest of the volume.
    let usage = bench.disk.usage().unwrap();
    bench.disk.set_capacity(Some(usage.total - usage.free + 1_000));
    let mut stored = 40;
    let refused = loop {
        match bench.send(large(stored)) {
            Ok(()) => stored += 1,
            Err(refused) => break refused,
        }
        assert!(stored < 100, "the disk is full");
    };
    assert!(matches!(refused, SendFailure::Refused(SendError::NoRoom { .. })), "{refused:?}");
    // Everything is received and acked, over more than one retry of the log, and without anything waiting in memory.
    let mut acked = 0;
    while acked < stored {
        for delivery in bench.pop().deliveries {
            bench.ack(delivery.receipt);
            acked += 1;
        }
        bench.run_for(100 * MS);
        assert!(!bench.shard.look(|engine| engine.has_batch()), "acks are written");
    }
    let refused = bench.send(large(stored)).unwrap_err();
    assert!(matches!(refused, SendFailure::Refused(SendError::NoRoom { .. })), "{refused:?}");
    // The room is given back: it is noticed without a restart.
    bench.disk.set_capacity(None);
    bench.run_for(Duration::from_secs(2));
    bench.send(large(stored)).unwrap();
    assert_eq!(bench.pop().deliveries.len(), 1, "what was acked does not come again");
}

#[test]
fn no_request_waits_longer_for_a_checkpoint_than_for_the_disk() {
    let config = Config { checkpoint_frames: 2, ..Config::default() };
    let mut bench = Bench::new(EngineConfig::default(), config, MessageType::Normal, 16);
    for n in 0..20 {
        bench.pass(60 * MS);
        bench.send(message(&format!("m{n}"))).unwrap();
        // After each step in which everything became durable, the next request is taken without any time passing.
        bench.pop();
        assert!(bench.shard.takes_requests());
    }
}

#[test]
fn a_transaction_check_without_room_is_not_counted_and_is_handed_over_later() {
    let (checks, mut asked) = mpsc::channel(1);
    let transactions = Transactions {
        first_check_after: Duration::from_secs(1),
        check_interval: Duration::from_secs(5),
        checks_max: 2,
        open_max: Duration::from_secs(3600),
    };
    let engine = EngineConfig { transactions, ..EngineConfig::default() };
    let config = Config { checks: Some(checks), ..Config::default() };
    let mut bench = Bench::new(engine, config, MessageType::Transaction, 16);
    for id in ["a", "b"] {
        let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
        let reply = bench.handle.send(topic(), vec![message(id)], half).unwrap();
        bench.get(reply).unwrap();
    }
    let steps = bench.run_for(Duration::from_secs(60));
    assert!(steps < 500, "{steps} steps");
    assert_eq!(bench.shard.look(|engine| engine.held().transactions), 2, "neither was given up unasked");
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(asked.try_recv().unwrap().checks);
        bench.run_for(Duration::from_secs(3));
    }
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2, 2]);
}

#[test]
fn receives_wait_by_the_clock_that_does_not_jump() {
    for jump in [Duration::from_secs(3600), Duration::ZERO] {
        let mut bench = Bench::normal();
        let mut reply = bench.handle.pop(pop(Duration::from_secs(10))).unwrap();
        bench.settle();
        let time = bench.now.time;
        bench.now.time =
            if jump.is_zero() { time.before(Duration::from_secs(3600)) } else { time.after(jump) };
        bench.run_for(Duration::from_secs(9));
        assert!(!is_answered(&mut reply), "not before its time");
        bench.run_for(Duration::from_secs(2));
        assert!(is_answered(&mut reply));
    }
}

#[test]
fn a_receive_that_finds_no_room_to_wait_has_taken_nothing() {
    let config = Config { waiting_max: 0, ..Config::default() };
    let mut bench = Bench::new(EngineConfig::default(), config, MessageType::Normal, 0);
    let reply = bench.handle.pop(pop(Duration::from_secs(10))).unwrap();
    let refused = bench.get(reply).unwrap_err();
    assert!(matches!(refused, ReceiveError::Unavailable(Unavailable::Overloaded { .. })));
    bench.send(message("a")).unwrap();
    let reply = bench.handle.pop(pop(Duration::from_secs(10))).unwrap();
    assert_eq!(bench.get(reply).unwrap().deliveries[0].attempt, 1);
}

#[test]
fn a_reply_that_is_gone_gets_its_messages_taken_back() {
    let mut bench = Bench::normal();
    bench.send(message("a")).unwrap();
    let mut runtime = bench.shard.runtime();
    let popped = pop(Duration::ZERO).run(&mut runtime.engine, bench.now.time).unwrap();
    assert_eq!(popped.deliveries.len(), 1);
    let (reply, answer) = oneshot::channel();
    drop(answer);
    runtime.deliver(popped, reply, bench.now);
    drop(runtime);
    assert_eq!(bench.pop().deliveries[0].attempt, 1);
}

#[test]
fn a_receive_waits_for_the_disk_and_other_requests_do_not() {
    let mut bench = Bench::normal();
    // Enough for two segments, so that the index of the first one is on the disk only.
    for n in 0..1_500 {
        bench.send(message(&n.to_string())).unwrap();
    }
    bench.run_for(Duration::from_secs(30));
    assert!(bench.shard.look(|engine| engine.log().segments().len()) > 1);
    bench.disk.evict();

    let mut cold = bench.handle.pop(pop(Duration::ZERO)).unwrap();
    let effects = bench.shard.step(bench.now).unwrap();
    let reads: Vec<Job> = effects.jobs.into_iter().filter(|job| matches!(job, Job::Read { .. })).collect();
    assert_eq!(reads.len(), 1);
    let mut same = bench.handle.pop(pop(Duration::ZERO)).unwrap();
    bench.send(message("while the disk is read")).unwrap();
    assert!(!is_answered(&mut cold) && !is_answered(&mut same), "both wait for one read");

    for job in reads {
        bench.disk.evict();
        bench.shard.job_done(job.run(), bench.now);
    }
    bench.disk.evict();
    assert_eq!(bench.get(cold).unwrap().deliveries.len(), 8);
    assert_eq!(bench.get(same).unwrap().deliveries.len(), 8);
}
