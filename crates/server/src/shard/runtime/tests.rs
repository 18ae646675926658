//! The runtime on a simulated disk; the tests take its steps and give it the time.

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
    Config, Now, PopRequest, ReceiveError, Reply, SendFailure, ShardHandle, SteppedShard, Unavailable,
};

const MS: Duration = Duration::from_millis(1);
/// A shard that does not sleep within this many steps is in a busy loop.
const STEPS_MAX: usize = 50;

struct TestShard {
    steps: SteppedShard,
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

impl TestShard {
    fn new(engine: EngineConfig, config: Config, kind: MessageType, retries_max: u32) -> TestShard {
        let disk = SimStorage::new(1);
        let (log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap();
        let (steps, _) = SteppedShard::start(Box::new(log), engine, config).unwrap();
        let now = Now { time: Timestamp(1_700_000_000_000), uptime: Duration::ZERO };
        let mut shard = TestShard { handle: steps.handle(), steps, disk, now };
        let config =
            TopicConfig { message_type: kind, read_queues: 1, write_queues: 1, ..TopicConfig::default() };
        let put = shard.handle.change(move |engine, _| engine.put_topic(&topic(), config)).unwrap();
        shard.get(put).unwrap();
        let config = GroupConfig { retries_max, ..GroupConfig::default() };
        let put = shard.handle.change(move |engine, _| engine.put_group(&group(), config)).unwrap();
        shard.get(put).unwrap();
        shard
    }

    fn normal() -> TestShard {
        TestShard::new(EngineConfig::default(), Config::default(), MessageType::Normal, 16)
    }

    fn pass(&mut self, time: Duration) {
        self.now.time = self.now.time.after(time);
        self.now.uptime += time;
    }

    /// Takes steps until the shard would sleep; returns for how long.
    fn run_until_idle(&mut self) -> Duration {
        for _ in 0..STEPS_MAX {
            let waits = self.disk.counters().waiting_reads;
            let effects = self.steps.step(self.now).unwrap();
            assert_eq!(self.disk.counters().waiting_reads, waits, "the owner thread waits for no read");
            if effects.flush {
                let committed = self.steps.flusher().flush();
                self.steps.flushed(committed, self.now).unwrap();
            }
            for job in effects.jobs {
                self.steps.job_done(job.run(), self.now);
            }
            let sleep = self.steps.sleep(self.now);
            if !sleep.is_zero() {
                return sleep;
            }
        }
        panic!("{STEPS_MAX} steps, and the shard does not sleep");
    }

    /// Runs the shard for `time`, which passes in the steps that the shard asks for. Returns the number of steps.
    fn run_for(&mut self, time: Duration) -> usize {
        let (end, mut steps) = (self.now.uptime + time, 0);
        while self.now.uptime < end {
            let sleep = self.run_until_idle().max(MS).min(end - self.now.uptime);
            self.pass(sleep);
            steps += 1;
        }
        self.run_until_idle();
        steps
    }

    fn get<T>(&mut self, reply: Reply<T>) -> T {
        let mut reply = pin!(reply);
        self.run_until_idle();
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
        refused_attribute: None,
        only_if_begun: false,
        in_order: false,
        with_retry_topic: false,
        wait,
    }
}

#[test]
fn a_receiver_that_leaves_during_its_poll_uses_up_no_attempt() {
    let mut shard = TestShard::new(EngineConfig::default(), Config::default(), MessageType::Normal, 0);
    shard.send(message("a")).unwrap();
    // Without retries, a counted delivery is the last one.
    for _ in 0..3 {
        drop(shard.handle.pop(pop(Duration::ZERO)).unwrap());
        shard.run_until_idle();
    }
    let popped = shard.pop();
    assert_eq!(popped.deliveries.len(), 1, "it was not moved to the dead-letter topic");
    assert_eq!(popped.deliveries[0].attempt, 1);
}

#[test]
fn a_message_given_back_by_a_receiver_that_left_goes_to_the_next_that_waits() {
    let mut shard = TestShard::normal();
    let mut left = shard.handle.pop(pop(Duration::from_secs(60))).unwrap();
    let mut waits = shard.handle.pop(pop(Duration::from_secs(60))).unwrap();
    shard.run_until_idle();
    assert!(!is_answered(&mut left) && !is_answered(&mut waits));
    drop(left);
    shard.send(message("a")).unwrap();
    assert!(is_answered(&mut waits));
}

#[test]
fn a_receive_that_waits_behind_others_gets_what_becomes_visible_after_they_were_served() {
    let mut shard = TestShard::normal();
    let asked = || PopRequest { invisible: Duration::from_secs(1), ..pop(Duration::from_secs(60)) };
    let mut waits: Vec<_> = (0..4).map(|_| shard.handle.pop(asked()).unwrap()).collect();
    shard.run_until_idle();
    shard.send(message("a")).unwrap();
    // No consumer acks, so each second the message is delivered to the next one.
    for served in 1..=4 {
        waits.retain_mut(|reply| !is_answered(reply));
        assert_eq!(waits.len(), 4 - served);
        shard.run_for(Duration::from_millis(1_010));
    }
}

#[test]
fn a_message_behind_a_message_group_lock_does_not_hide_one_that_becomes_visible_later() {
    let mut shard = TestShard::new(EngineConfig::default(), Config::default(), MessageType::Fifo, 16);
    for (id, group) in [("x1", "x"), ("x2", "x"), ("y1", "y")] {
        shard.send(Message { group: Some(group.to_owned()), ..message(id) }).unwrap();
    }
    let in_order = || PopRequest { in_order: true, ..pop(Duration::from_secs(20)) };
    let reply = shard.handle.pop(in_order()).unwrap();
    let got: Vec<Receipt> = shard.get(reply).unwrap().deliveries.iter().map(|one| one.receipt).collect();
    assert_eq!(got.len(), 3);
    // The second message of a group has to wait for the first, however short its invisible time is.
    for (receipt, secs) in [(got[1], 1), (got[2], 5)] {
        let delay = Duration::from_secs(secs);
        let reply =
            shard.handle.ask(move |engine, now| engine.change_invisible(receipt, delay, now)).unwrap();
        shard.get(reply).unwrap();
    }
    shard.run_for(Duration::from_secs(2));
    let mut waits = shard.handle.pop(in_order()).unwrap();
    shard.run_for(Duration::from_secs(2));
    assert!(!is_answered(&mut waits));
    shard.run_for(Duration::from_secs(2));
    assert!(is_answered(&mut waits));
}

#[test]
fn a_search_that_cannot_read_the_disk_backs_off_and_ends_at_its_deadline() {
    let mut shard = TestShard::normal();
    let mut red = message("a");
    red.properties.push(("colour".to_owned(), "red".to_owned()));
    shard.send(red).unwrap();
    shard.disk.fail_reads(true);
    let filter = Filter::sql("colour = 'red'").unwrap();
    let wait = Duration::from_secs(3);
    let asked = PopRequest { filter: filter.clone(), wait, ..pop(wait) };
    let mut reply = shard.handle.pop(asked).unwrap();
    let steps = shard.run_for(wait - 10 * MS);
    assert!(!is_answered(&mut reply));
    assert!(steps < 300, "{steps} steps");
    shard.run_for(20 * MS);
    assert!(is_answered(&mut reply), "its deadline has passed");
    // When the disk can be read again, the message is delivered.
    let reply = shard.handle.pop(PopRequest { filter, ..pop(wait) }).unwrap();
    shard.run_for(100 * MS);
    shard.disk.fail_reads(false);
    shard.run_for(600 * MS);
    assert_eq!(shard.get(reply).unwrap().deliveries.len(), 1);
}

#[test]
fn a_search_that_makes_progress_goes_on_although_the_receive_does_not_wait() {
    let mut engine = EngineConfig::default();
    engine.limits.scan_entries_max = 10;
    let mut shard = TestShard::new(engine, Config::default(), MessageType::Normal, 16);
    for n in 0..200 {
        let tag = if n == 199 { "wanted" } else { "other" };
        shard.send(Message { tag: Some(tag.to_owned()), ..message(&format!("m{n}")) }).unwrap();
    }
    let filter = Filter::tags("wanted").unwrap();
    let reply = shard.handle.pop(PopRequest { filter, ..pop(Duration::ZERO) }).unwrap();
    assert_eq!(shard.get(reply).unwrap().deliveries.len(), 1);
}

#[test]
fn while_the_log_refuses_frames_only_sends_are_refused_and_the_shard_sleeps_between_attempts() {
    let config = Config { checkpoint_frames: 5, ..Config::default() };
    let mut shard = TestShard::new(EngineConfig::default(), config, MessageType::Normal, 16);
    for n in 0..4 {
        shard.send(message(&format!("m{n}"))).unwrap();
    }
    shard.disk.no_space_after(Some(0));
    assert!(matches!(shard.send(message("refused")), Err(SendFailure::Log(_))));
    let popped = shard.pop();
    assert_eq!(popped.deliveries.len(), 4);
    for delivery in &popped.deliveries {
        shard.ack(delivery.receipt);
    }
    // More than one checkpoint comes due in this time.
    let steps = shard.run_for(Duration::from_secs(70));
    assert!(steps < 2_000, "{steps} steps");
    assert!(shard.steps.takes_requests(), "nothing waits for a checkpoint");
    let topics = shard.handle.ask(|engine, _| engine.topic_names().len()).unwrap();
    assert!(shard.get(topics) >= 1);
    assert!(matches!(shard.send(message("refused")), Err(SendFailure::Log(_))));
    shard.disk.no_space_after(None);
    shard.run_for(Duration::from_secs(1));
    shard.send(message("stored")).unwrap();
    assert_eq!(shard.pop().deliveries.len(), 1, "what was acked does not come again");
}

#[test]
fn on_a_full_disk_messages_are_refused_while_there_is_room_for_acks() {
    let mut shard = TestShard::normal();
    let large = |n: usize| Message { body: Bytes::from(vec![7; 4 << 10]), ..message(&format!("m{n}")) };
    for n in 0..40 {
        shard.send(large(n)).unwrap();
    }
    // Another process takes the rest of the volume.
    let usage = shard.disk.usage().unwrap();
    shard.disk.set_capacity(Some(usage.total - usage.free + 1_000));
    let mut stored = 40;
    let refused = loop {
        match shard.send(large(stored)) {
            Ok(()) => stored += 1,
            Err(refused) => break refused,
        }
        assert!(stored < 100, "the disk is full");
    };
    assert!(matches!(refused, SendFailure::Refused(SendError::NoRoom { .. })), "{refused:?}");
    // All messages are received and acked, over more than one attempt to make a segment, and no ack stays in memory.
    let mut acked = 0;
    while acked < stored {
        for delivery in shard.pop().deliveries {
            shard.ack(delivery.receipt);
            acked += 1;
        }
        shard.run_for(100 * MS);
        assert!(!shard.steps.with_engine(|engine| engine.has_batch()), "acks are written");
    }
    let refused = shard.send(large(stored)).unwrap_err();
    assert!(matches!(refused, SendFailure::Refused(SendError::NoRoom { .. })), "{refused:?}");
    // The volume has room again, which the shard notices without a restart.
    shard.disk.set_capacity(None);
    shard.run_for(Duration::from_secs(2));
    shard.send(large(stored)).unwrap();
    assert_eq!(shard.pop().deliveries.len(), 1, "what was acked does not come again");
}

#[test]
fn no_request_waits_longer_for_a_checkpoint_than_for_the_disk() {
    let config = Config { checkpoint_frames: 2, ..Config::default() };
    let mut shard = TestShard::new(EngineConfig::default(), config, MessageType::Normal, 16);
    for n in 0..20 {
        shard.pass(60 * MS);
        shard.send(message(&format!("m{n}"))).unwrap();
        // After each step in which everything became durable, the next request is taken without any time passing.
        shard.pop();
        assert!(shard.steps.takes_requests());
    }
}

#[test]
fn a_transaction_check_that_the_channel_does_not_take_is_not_counted_and_is_sent_later() {
    let (checks, mut asked) = mpsc::channel(1);
    let transactions = Transactions {
        first_check_after: Duration::from_secs(1),
        check_interval: Duration::from_secs(5),
        checks_max: 2,
        open_max: Duration::from_secs(3600),
    };
    let engine = EngineConfig { transactions, ..EngineConfig::default() };
    let config = Config { checks: Some(checks), ..Config::default() };
    let mut shard = TestShard::new(engine, config, MessageType::Transaction, 16);
    for id in ["a", "b"] {
        let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
        let reply = shard.handle.send(topic(), vec![message(id)], half).unwrap();
        shard.get(reply).unwrap();
    }
    let steps = shard.run_for(Duration::from_secs(60));
    assert!(steps < 500, "{steps} steps");
    assert_eq!(
        shard.steps.with_engine(|engine| engine.deferred().transactions),
        2,
        "none was rolled back without a check"
    );
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(asked.try_recv().unwrap().checks);
        shard.run_for(Duration::from_secs(3));
    }
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2, 2]);
}

#[test]
fn receives_wait_by_the_clock_that_does_not_jump() {
    for jump in [Duration::from_secs(3600), Duration::ZERO] {
        let mut shard = TestShard::normal();
        let mut reply = shard.handle.pop(pop(Duration::from_secs(10))).unwrap();
        shard.run_until_idle();
        let time = shard.now.time;
        shard.now.time =
            if jump.is_zero() { time.before(Duration::from_secs(3600)) } else { time.after(jump) };
        shard.run_for(Duration::from_secs(9));
        assert!(!is_answered(&mut reply), "not before its time");
        shard.run_for(Duration::from_secs(2));
        assert!(is_answered(&mut reply));
    }
}

#[test]
fn a_receive_that_is_refused_because_too_many_wait_has_taken_nothing() {
    let config = Config { waiting_receives_max: 0, ..Config::default() };
    let mut shard = TestShard::new(EngineConfig::default(), config, MessageType::Normal, 0);
    let reply = shard.handle.pop(pop(Duration::from_secs(10))).unwrap();
    let refused = shard.get(reply).unwrap_err();
    assert!(matches!(refused, ReceiveError::Unavailable(Unavailable::Overloaded { .. })));
    shard.send(message("a")).unwrap();
    let reply = shard.handle.pop(pop(Duration::from_secs(10))).unwrap();
    assert_eq!(shard.get(reply).unwrap().deliveries[0].attempt, 1);
}

#[test]
fn deliveries_whose_caller_has_given_up_are_given_back() {
    let mut shard = TestShard::normal();
    shard.send(message("a")).unwrap();
    let mut runtime = shard.steps.runtime();
    let popped = pop(Duration::ZERO).run(&mut runtime.engine, shard.now.time).unwrap();
    assert_eq!(popped.deliveries.len(), 1);
    let (reply, answer) = oneshot::channel();
    drop(answer);
    runtime.deliver(popped, reply, shard.now);
    drop(runtime);
    assert_eq!(shard.pop().deliveries[0].attempt, 1);
}

#[test]
fn a_receive_waits_for_the_disk_and_other_requests_do_not() {
    let mut shard = TestShard::normal();
    // Enough for two segments, so that the index of the first one is on the disk only.
    for n in 0..1_500 {
        shard.send(message(&n.to_string())).unwrap();
    }
    shard.run_for(Duration::from_secs(30));
    assert!(shard.steps.with_engine(|engine| engine.log().segments().len()) > 1);
    shard.disk.evict();

    let mut cold = shard.handle.pop(pop(Duration::ZERO)).unwrap();
    let effects = shard.steps.step(shard.now).unwrap();
    let reads: Vec<Job> = effects.jobs.into_iter().filter(|job| matches!(job, Job::Read { .. })).collect();
    assert_eq!(reads.len(), 1);
    let mut same = shard.handle.pop(pop(Duration::ZERO)).unwrap();
    shard.send(message("while the disk is read")).unwrap();
    assert!(!is_answered(&mut cold) && !is_answered(&mut same), "both wait for one read");

    for job in reads {
        shard.disk.evict();
        shard.steps.job_done(job.run(), shard.now);
    }
    shard.disk.evict();
    assert_eq!(shard.get(cold).unwrap().deliveries.len(), 8);
    assert_eq!(shard.get(same).unwrap().deliveries.len(), 8);
}

#[test]
fn the_message_of_a_dead_letter_is_read_by_a_job_when_it_is_not_in_memory() {
    let mut shard = TestShard::new(EngineConfig::default(), Config::default(), MessageType::Normal, 0);
    // Enough for two segments, so that the index of the first one is on the disk only.
    for n in 0..1_500 {
        shard.send(message(&n.to_string())).unwrap();
    }
    shard.run_for(Duration::from_secs(30));
    assert_eq!(shard.pop().deliveries.len(), 8);
    shard.disk.evict();
    shard.run_for(Duration::from_secs(35));
    let letters = shard.steps.with_engine(|engine| engine.topic(&group().dead_letter_topic()));
    let (_, min, end) = letters.expect("there are dead letters").queues[0];
    assert_eq!(end.0 - min.0, 8);
}

#[test]
fn when_refused_facts_fill_their_memory_acks_and_receives_are_refused_and_reads_go_on() {
    let config = Config { refused_bytes_max: 300, ..Config::default() };
    let mut shard = TestShard::new(EngineConfig::default(), config, MessageType::Normal, 16);
    for n in 0..20 {
        shard.send(message(&n.to_string())).unwrap();
    }
    shard.disk.no_space_after(Some(0));
    let popped = shard.pop();
    let full = |unavailable| matches!(unavailable, Unavailable::Overloaded { limit: 300, .. });
    // A waiting receive, to find out whether it gets what nobody could keep a record of.
    let mut waiting = shard.handle.pop(pop(Duration::from_secs(60))).unwrap();
    shard.run_until_idle();
    assert!(is_answered(&mut waiting), "there are messages left");
    let receipt = popped.deliveries[0].receipt;
    let refused = shard.handle.record(move |engine, now| engine.ack(receipt, now)).err();
    assert!(refused.is_some_and(full), "an ack");
    assert!(shard.handle.pop(pop(Duration::ZERO)).err().is_some_and(full), "a receive");
    let asked = shard.handle.query(|engine, _| engine.topic_names().len()).unwrap();
    assert_eq!(shard.get(asked), 1, "a question");
    let bytes = shard.steps.with_engine(|engine| engine.batch_bytes());
    shard.run_for(Duration::from_secs(120));
    assert!(shard.steps.with_engine(|engine| engine.batch_bytes()) <= bytes + 200, "memory is bounded");

    shard.disk.no_space_after(None);
    shard.run_for(Duration::from_secs(60));
    assert!(!shard.pop().deliveries.is_empty());
}
