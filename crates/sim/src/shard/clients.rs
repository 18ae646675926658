//! What clients ask, and what becomes of the answers.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use redstart_engine::{
    AckError, FetchError, HalfOptions, Job, Message, MessageType, Popped, Pulled, QueueId, QueueOffset,
    Receipt, SendOptions, SendReceipt, Start, TransactionError, fetch,
};
use redstart_server::shard::{
    ChangeError, Now, PopRequest, PullRequest, ReceiveError, Reply, SendFailure, Unavailable,
};

use super::{
    ANSWERED, LATE_MAX, ShardWorld,
    model::{End, Fate, GROUPS, Group, Known},
};
use crate::oracle::{Checked, ensure};

pub const SERVED: &str = "a waiting receive gets what could be delivered to it";

/// Waiting receives of one group.
const WAITING_MAX: usize = 4;

pub struct Sent {
    pub first: usize,
    pub count: usize,
    reply: Reply<Result<Vec<SendReceipt>, SendFailure>>,
}

pub struct Pop {
    pub group: Group,
    pub deadline: Duration,
    reply: Reply<Result<Popped, ReceiveError>>,
}

pub struct Pull {
    queue: QueueId,
    offset: QueueOffset,
    deadline: Duration,
    reply: Reply<Result<Pulled, ReceiveError>>,
}

pub struct Ending {
    pub number: usize,
    commit: bool,
    reply: Reply<Result<(), ChangeError<TransactionError>>>,
}

pub struct Ack {
    group: Group,
    number: usize,
    reply: Reply<Result<(), AckError>>,
}

/// A message that a consumer has.
#[derive(Debug, Clone, Copy)]
pub struct Unacked {
    pub group: Group,
    pub number: usize,
    pub receipt: Receipt,
}

#[derive(Default)]
pub struct Clients {
    pub sends: Vec<Sent>,
    pub pops: Vec<Pop>,
    pub pulls: Vec<Pull>,
    pub ends: Vec<Ending>,
    pub acks: Vec<Ack>,
    /// Asked since this time.
    pub questions: Vec<(Duration, Reply<usize>)>,
    pub unacked: Vec<Unacked>,
    /// Where the pull consumer is in each queue.
    pulled: [u64; 2],
}

impl Clients {
    pub fn nothing_is_open(&self) -> bool {
        self.sends.is_empty()
            && self.pops.is_empty()
            && self.pulls.is_empty()
            && self.ends.is_empty()
            && self.acks.is_empty()
            && self.questions.is_empty()
    }

    /// Requests may have waited so long before they were taken.
    pub fn put_off(&mut self, time: Duration) {
        self.pops.iter_mut().for_each(|pop| pop.deadline += time);
        self.pulls.iter_mut().for_each(|pull| pull.deadline += time);
    }

    /// The shard sleeps and no flush is under way: nothing may be overdue.
    pub fn check_answered(&self, now: Now) -> Checked {
        let late = |deadline: Duration| now.uptime > deadline + LATE_MAX;
        let questions = self.questions.len() + self.acks.len();
        ensure(questions == 0, ANSWERED, || format!("{questions} questions are open at {:?}", now.uptime))?;
        let late = self
            .pops
            .iter()
            .map(|pop| pop.deadline)
            .chain(self.pulls.iter().map(|pull| pull.deadline))
            .find(|at| late(*at));
        ensure(late.is_none(), ANSWERED, || format!("a receive until {late:?} is open at {:?}", now.uptime))
    }
}

fn poll<T>(reply: &mut Reply<T>) -> Poll<Result<T, Unavailable>> {
    Pin::new(reply).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes the entries whose answer has come.
fn answered<E, T>(
    all: &mut Vec<E>,
    reply: impl Fn(&mut E) -> &mut Reply<T>,
) -> Vec<(E, Result<T, Unavailable>)> {
    let (mut done, mut open) = (Vec::new(), Vec::new());
    for mut entry in std::mem::take(all) {
        match poll(reply(&mut entry)) {
            Poll::Ready(answer) => done.push((entry, answer)),
            Poll::Pending => open.push(entry),
        }
    }
    *all = open;
    done
}

impl ShardWorld {
    pub(super) fn client_does_something(&mut self) -> Checked {
        match self.rng.below(20) {
            0..=5 => {
                let count = self.rng.between(1, 3) as usize;
                let group = self.rng.of(GROUPS);
                self.send(group, count);
            }
            6..=9 => self.pop_some(),
            10 => self.pull_some(),
            11..=13 => self.finish_some(),
            14 => self.leave(),
            15 | 16 => self.end_some(),
            17 => self.take_checks()?,
            _ => self.question(),
        }
        Ok(())
    }

    pub(super) fn send(&mut self, group: Group, count: usize) {
        let first = self.model.messages.len();
        let half = group.kind() == MessageType::Transaction;
        // A batch is of messages that are visible at once.
        let count = if group.kind() == MessageType::Normal { count } else { 1 };
        let messages: Vec<Message> =
            (first..first + count).map(|number| self.message(group, number)).collect();
        let options = SendOptions { half: half.then(HalfOptions::default), ..SendOptions::default() };
        for message in &messages {
            let size = message.properties.first().and_then(|(_, size)| size.parse().ok()).unwrap_or(0);
            self.model.messages.push(Known {
                kind: group.kind(),
                size,
                sent_at: self.now.uptime,
                fate: Fate::Refused,
                receipt: None,
                end: half.then_some(End::Open),
                checks: 0,
                deaths: 0,
            });
        }
        if let Ok(reply) = self.handle().send(group.topic(), messages, options) {
            self.model.messages[first..].iter_mut().for_each(|known| known.fate = Fate::Pending);
            self.clients.sends.push(Sent { first, count, reply });
        }
        self.say(format!("send {first:X} x{count} to {}", group.topic()));
    }

    fn message(&mut self, group: Group, number: usize) -> Message {
        let fifo = group.kind() == MessageType::Fifo;
        let bytes = self.rng.of([20, 200, 1_500]);
        Message {
            id: format!("{number:X}"),
            body: Bytes::from(vec![number as u8; bytes]),
            group: fifo.then(|| format!("order-{}", self.rng.below(if self.ordered_hang { 1 } else { 3 }))),
            properties: vec![("size".to_owned(), self.rng.below(11).to_string())],
            ..Message::default()
        }
    }

    pub(super) fn pop(&mut self, group: Group, wait: Duration, invisible: Duration) {
        let request = PopRequest {
            group: group.name(),
            topic: group.topic(),
            queue: None,
            max: 8,
            invisible,
            filter: group.filter(),
            attempt: None,
            client: "consumer".to_owned(),
            start: Start::Earliest,
            one_per_group: false,
            refused_attribute: None,
            only_if_begun: false,
            in_order: false,
            with_retry_topic: true,
            wait,
        };
        let deadline = self.now.uptime + wait;
        if let Ok(reply) = self.handle().pop(request) {
            self.clients.pops.push(Pop { group, deadline, reply });
        }
        self.say(format!("{group:?} pops, waits {wait:?}"));
    }

    pub(super) fn waiting(&self, group: Group) -> usize {
        self.clients.pops.iter().filter(|pop| pop.group == group).count()
    }

    fn pop_some(&mut self) {
        let group = self.rng.of(GROUPS);
        let wait = Duration::from_secs(self.rng.of([0, 1, 20, 300]));
        let invisible = Duration::from_secs(self.rng.of([1, 10, 30, 1_200]));
        if self.waiting(group) < WAITING_MAX {
            self.pop(group, wait, invisible);
            if self.rng.one_in(6) {
                // It leaves before its request is taken.
                self.say("... and leaves");
                self.clients.pops.pop();
            }
        }
    }

    /// A pull consumer stores where it is, and asks for more.
    fn pull_some(&mut self) {
        let at = self.rng.index(2);
        let (queue, offset) = (QueueId(at as u32), QueueOffset(self.clients.pulled[at]));
        let (group, topic) = (Group::Plain.name(), Group::Ordered.topic());
        let handle = self.handle();
        if handle.check_recording().is_ok() {
            drop(handle.ask_here(move |engine| engine.commit_offset(&group, &topic, queue, offset).is_ok()));
        }
        let wait = Duration::from_secs(self.rng.of([0, 5, 60]));
        let request = PullRequest {
            topic: Group::Ordered.topic(),
            queue,
            offset,
            max: 8,
            bytes_max: 1 << 20,
            filter: Group::Plain.filter(),
            wait,
        };
        let deadline = self.now.uptime + wait;
        if self.clients.pulls.len() < WAITING_MAX
            && let Ok(reply) = self.handle().pull(request)
        {
            self.clients.pulls.push(Pull { queue, offset, deadline, reply });
            self.say(format!("pull of queue {queue} from {offset}, waits {wait:?}"));
        }
    }

    /// A consumer acks what it has, gives it up to a retry, or keeps it.
    fn finish_some(&mut self) {
        let unacked = std::mem::take(&mut self.clients.unacked);
        for unacked in unacked {
            match self.rng.below(6) {
                _ if self.ordered_hang && unacked.group == Group::Ordered => {
                    self.clients.unacked.push(unacked);
                }
                0 => self.clients.unacked.push(unacked),
                1 => {
                    let receipt = unacked.receipt;
                    let back = self.handle().record(move |engine, now| {
                        engine.change_invisible(receipt, Duration::from_secs(1), now).is_ok()
                    });
                    drop(back);
                    self.say(format!("{:?} nacks {:X}", unacked.group, unacked.number));
                }
                _ => self.ack(unacked),
            }
        }
    }

    pub(super) fn ack(&mut self, Unacked { group, number, receipt }: Unacked) {
        if let Ok(reply) = self.handle().record(move |engine, now| engine.ack(receipt, now)) {
            self.clients.acks.push(Ack { group, number, reply });
            self.say(format!("{group:?} acks {number:X}"));
        }
    }

    /// A waiting client goes away.
    fn leave(&mut self) {
        if !self.clients.pops.is_empty() {
            let at = self.rng.index(self.clients.pops.len());
            let pop = self.clients.pops.swap_remove(at);
            self.say(format!("a consumer of {:?} leaves", pop.group));
        }
    }

    fn end_some(&mut self) {
        let open: Vec<usize> = self.open_transactions();
        if let Some(number) = self.rng.pick(&open).copied() {
            let commit = !self.rng.one_in(4);
            self.end(number, commit);
        }
    }

    pub(super) fn open_transactions(&self) -> Vec<usize> {
        let ending = |number: &usize| self.clients.ends.iter().any(|end| end.number == *number);
        let open = |number: &usize| {
            let known = &self.model.messages[*number];
            known.fate == Fate::Stored && known.end == Some(End::Open)
        };
        (0..self.model.messages.len()).filter(open).filter(|number| !ending(number)).collect()
    }

    pub(super) fn end(&mut self, number: usize, commit: bool) {
        let Some(receipt) = self.model.messages[number].receipt else { return };
        let id = receipt.position;
        if let Ok(reply) = self.handle().change(move |engine, now| engine.end_transaction(id, commit, now)) {
            // From now on it may have happened.
            self.clients.ends.push(Ending { number, commit, reply });
            self.say(format!("end of {number:X}, commit {commit}"));
        }
    }

    pub(super) fn take_checks(&mut self) -> Checked {
        let Some(checks) = &mut self.checks else { return Ok(()) };
        let taken: Vec<_> = std::iter::from_fn(|| checks.try_recv().ok()).collect();
        for check in taken {
            self.say(format!("asked about {:?}, check {}", check.id, check.checks));
            self.model.check_handed_over(&check)?;
        }
        Ok(())
    }

    fn question(&mut self) {
        if let Ok(reply) = self.handle().ask(|engine, _| engine.topic_names().len()) {
            self.clients.questions.push((self.now.uptime, reply));
        }
    }

    /// Takes every answer that has come. `unsure`: the process is dying, and what it refuses may have happened.
    pub(super) fn take_answers(&mut self, unsure: bool) -> Checked {
        for (sent, answer) in answered(&mut self.clients.sends, |sent| &mut sent.reply) {
            self.sent(&sent, answer, unsure);
        }
        for (end, answer) in answered(&mut self.clients.ends, |end| &mut end.reply) {
            self.ended(&end, answer, unsure)?;
        }
        answered(&mut self.clients.questions, |(_, reply)| reply);
        for (ack, answer) in answered(&mut self.clients.acks, |ack| &mut ack.reply) {
            if let Ok(Ok(())) = answer {
                let turn = self.model.turn(ack.group, ack.number);
                (turn.acked, turn.ack_unsure) = (true, false);
            }
        }
        for (pull, answer) in answered(&mut self.clients.pulls, |pull| &mut pull.reply) {
            if let Ok(Ok(pulled)) = answer {
                let at = &mut self.clients.pulled[pull.queue.0 as usize];
                *at = (*at).max(pulled.next.0);
                let (from, count) = (pull.offset, pulled.messages.len());
                self.say(format!("pulled {count} from {from}: {:?}", pulled.status));
            }
        }
        for (pop, answer) in answered(&mut self.clients.pops, |pop| &mut pop.reply) {
            self.popped(&pop, answer)?;
        }
        Ok(())
    }

    fn sent(
        &mut self,
        sent: &Sent,
        answer: Result<Result<Vec<SendReceipt>, SendFailure>, Unavailable>,
        unsure: bool,
    ) {
        let numbers = sent.first..sent.first + sent.count;
        match answer {
            Ok(Ok(receipts)) => {
                for (number, receipt) in numbers.clone().zip(receipts) {
                    self.model.messages[number].fate = Fate::Stored;
                    self.model.messages[number].receipt = Some(receipt);
                    self.model.by_position.insert(receipt.position, number);
                }
                self.say(format!("stored {numbers:X?}"));
            }
            Ok(Err(error)) => {
                let fate = if unsure { Fate::Unknown } else { Fate::Refused };
                self.model.messages[numbers.clone()].iter_mut().for_each(|known| known.fate = fate);
                self.say(format!("refused {numbers:X?}: {error}"));
            }
            Err(_) => self.model.messages[numbers].iter_mut().for_each(|known| known.fate = Fate::Unknown),
        }
    }

    fn ended(
        &mut self,
        end: &Ending,
        answer: Result<Result<(), ChangeError<TransactionError>>, Unavailable>,
        unsure: bool,
    ) -> Checked {
        let number = end.number;
        match answer {
            Ok(Ok(())) => {
                let how = if end.commit { End::Committed } else { End::RolledBack };
                self.model.messages[number].end = Some(how);
            }
            Ok(Err(ChangeError::Refused(_))) => {
                // What the engine has delivered counts, also if the client has not looked at it.
                self.take_checks()?;
                let checks_max = self.engine_config.transactions.checks_max;
                return self.model.given_up(number, checks_max, self.now.uptime);
            }
            // Nothing of it happened.
            Ok(Err(ChangeError::Log(_))) if !unsure => {}
            Ok(Err(_)) | Err(_) => self.model.messages[number].end = Some(End::Unknown),
        }
        Ok(())
    }

    fn popped(&mut self, pop: &Pop, answer: Result<Result<Popped, ReceiveError>, Unavailable>) -> Checked {
        let (group, reader) = (pop.group, self.handle().reader());
        let popped = match answer {
            Ok(Ok(popped)) => popped,
            // What it may have got is known when the process runs again.
            Err(_) => return Ok(()),
            Ok(Err(error)) => {
                self.say(format!("{group:?} popped: {error}"));
                return Ok(());
            }
        };
        for delivery in &popped.deliveries {
            let receipt = delivery.receipt;
            let read = fetch(&*reader, delivery.position, delivery.size)
                .and_then(|fetched| Ok(usize::from_str_radix(fetched.message()?.id, 16).ok()));
            match read {
                Ok(number) => {
                    self.say(format!("{group:?} got {number:X?} at attempt {}", delivery.attempt));
                    self.model.received(group, number, delivery.attempt)?;
                    self.clients.unacked.extend(number.map(|number| Unacked { group, number, receipt }));
                }
                Err(error) => self.unreadable(group, receipt, &error),
            }
        }
        Ok(())
    }

    /// As the front ends do: what is proven to be gone is passed over, the rest given back.
    fn unreadable(&mut self, group: Group, receipt: Receipt, error: &FetchError) {
        self.say(format!("{group:?} cannot read a message: {error}"));
        self.model.gave_back(group);
        let proof = error.proof();
        let told = self.handle().ask(move |engine, now| match proof {
            Some(proof) => drop(engine.pass_over(receipt, proof)),
            None => drop(engine.give_back(&[receipt], Duration::from_millis(100), now)),
        });
        drop(told);
    }

    /// A receive that comes now gets nothing that one which waits should have got.
    pub(super) fn probe_waiters(&mut self) -> Checked {
        let flushing = matches!(self.flushing, super::Flushing::Running { .. });
        for group in GROUPS {
            let waiting = self.waiting(group);
            if waiting == 0 || flushing || !self.faults.are_over(self.now) {
                continue;
            }
            let (restarts, before) = (self.restarts, self.model.deliveries);
            self.pop(group, Duration::ZERO, Duration::from_secs(10));
            self.settle()?;
            // A receive that has found something may wait for the disk to read it.
            if self.jobs.iter().any(|(.., job)| matches!(job, Job::Read { .. })) {
                continue;
            }
            let served = self.model.deliveries > before;
            let still = self.restarts == restarts && self.waiting(group) == waiting;
            ensure(!(served && still), SERVED, || {
                format!("{waiting} receives of {group:?} wait, and a new one was served")
            })?;
        }
        Ok(())
    }
}
