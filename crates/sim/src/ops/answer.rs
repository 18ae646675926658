//! What consumers say about the messages they were given: done, again, later, never.

use std::time::Duration;

use redstart_engine::{AckError, ForwardError, Receipt, Timestamp};

use super::Op;
use crate::{
    observe::READABLE,
    oracle::{
        Checked, Violation, receipts,
        turn::{Acked, Current},
    },
    outcomes::{Note, Proposed},
    world::World,
};

impl World {
    /// A consumer says something about a message it was given, now or long ago.
    pub fn answer_some(&mut self, op: Op) -> Checked {
        if self.receipts.is_empty() {
            return Ok(());
        }
        // Mostly about the newest.
        let len = self.receipts.len();
        let back = if self.rng.one_in(4) { self.rng.index(len) } else { self.rng.index(len.min(6)) };
        let at = len - 1 - back;
        let receipt = self.receipts[at];
        if op != Op::Renew && !self.rng.one_in(5) {
            self.receipts.remove(at);
        }
        match op {
            Op::Ack => self.ack(receipt),
            Op::AckBatch => {
                let mut batch = vec![receipt];
                for _ in 0..self.rng.below(6) {
                    if let Some(receipt) = self.receipts.pop() {
                        batch.push(receipt);
                    }
                }
                self.ack_batch(&batch)
            }
            Op::Renew => {
                let time = Duration::from_millis(self.rng.of([100, 5_000, 60_000]));
                let now = self.now;
                let answer = self.engine().renew(receipt, time, now);
                self.say(format!("renew {}: {answer:?}", brief(receipt)));
                self.check_receipt(receipt, answer)?;
                self.changed(receipt, answer.map(|()| receipt).ok(), time, true);
                Ok(())
            }
            Op::Forward => self.forward(receipt),
            _ => self.give_back(op, receipt),
        }
    }

    /// Whether the answer about a receipt is right. What was deleted has no receipts.
    fn check_receipt(&mut self, receipt: Receipt, answer: Result<(), AckError>) -> Checked {
        let (groups, topics) = (self.engine().group_names(), self.topics());
        let group =
            groups.iter().any(|name| self.engine().group(name).is_some_and(|view| view.id == receipt.group));
        let topic = topics
            .iter()
            .any(|name| self.engine().topic(name).is_some_and(|view| view.id == receipt.queue.topic));
        if !group || !topic {
            return Ok(());
        }
        receipts::check(&mut self.model, receipt, answer, self.now)
    }

    pub fn ack(&mut self, receipt: Receipt) -> Checked {
        let now = self.now;
        let answer = self.engine().ack(receipt, now);
        self.say(format!("ack {}: {answer:?}", brief(receipt)));
        self.check_receipt(receipt, answer)?;
        if answer.is_ok() {
            self.note_ack(receipt);
        }
        Ok(())
    }

    fn ack_batch(&mut self, batch: &[Receipt]) -> Checked {
        let now = self.now;
        let answers = self.engine().ack_batch(batch, now);
        self.say(format!(
            "ack {:?}: {answers:?}",
            batch.iter().map(|receipt| brief(*receipt)).collect::<Vec<_>>()
        ));
        for (receipt, answer) in batch.iter().zip(answers) {
            self.check_receipt(*receipt, answer)?;
            if answer.is_ok() {
                self.note_ack(*receipt);
            }
        }
        Ok(())
    }

    /// The broker said that the message is done.
    fn note_ack(&mut self, receipt: Receipt) {
        if !self.model.subscriptions.contains_key(&(receipt.group, receipt.queue.topic)) {
            return;
        }
        let now = self.now;
        let turn = self.model.turn(receipt.group, receipt.queue, receipt.offset);
        if receipts::is_current(turn, receipt, now) {
            turn.acked = Acked::Pending;
            turn.ever_acked = true;
            turn.current = None;
            turn.not_before = Timestamp(0);
            turn.outstanding += 1;
            let life = turn.life;
            self.notes.push(Note::Acked {
                group: receipt.group,
                queue: receipt.queue,
                offset: receipt.offset,
                life,
            });
        } else if turn.acked == Acked::No && !turn.dead {
            // A receipt from before a crash: whether its delivery is remembered is not known.
            turn.acked = Acked::Uncertain;
            turn.ever_acked = true;
        }
    }

    fn give_back(&mut self, op: Op, receipt: Receipt) -> Checked {
        let now = self.now;
        let attempt = self.model.turn(receipt.group, receipt.queue, receipt.offset).high;
        let (answer, delay) = if op == Op::Nack {
            let names = self.engine().group_names();
            let views = names.iter().filter_map(|name| self.engine.as_ref()?.group(name));
            let delay = views.into_iter().find(|view| view.id == receipt.group);
            let delay = delay.map_or(Duration::ZERO, |view| view.config.retry.delay(attempt.into()));
            (self.engine().change_invisible(receipt, delay, now), delay)
        } else {
            let delay = Duration::from_millis(self.rng.of([0, 100, 5_000, 60_000]));
            (self.engine().change_invisible(receipt, delay, now), delay)
        };
        self.say(format!("{op:?} {}: {answer:?}", brief(receipt)));
        self.check_receipt(receipt, answer.map(|_| ()))?;
        self.changed(receipt, answer.ok(), delay, false);
        if let Ok(receipt) = answer {
            self.receipts.push(receipt);
        }
        Ok(())
    }

    fn changed(&mut self, old: Receipt, new: Option<Receipt>, delay: Duration, kept: bool) {
        let Some(new) = new else { return };
        let now = self.now;
        let turn = self.model.turn(old.group, old.queue, old.offset);
        // Under this receipt, or under one that a crash made void and that fits again.
        let certain = receipts::is_current(turn, old, now);
        let until = now.after(delay);
        turn.not_before = if certain { until } else { Timestamp(0) };
        turn.current = certain.then_some(Current { receipt: new, until });
        turn.given_back = !kept;
        turn.outstanding += 1;
        self.notes.push(Note::Changed { group: old.group, queue: old.queue, offset: old.offset });
    }

    /// Whether the body of a message has left the log.
    fn is_removed(&self, receipt: Receipt) -> bool {
        let seen = self.model.seen(receipt.queue, receipt.offset);
        seen.is_none_or(|seen| seen.position < self.model.log_start)
    }

    fn forward(&mut self, receipt: Receipt) -> Checked {
        let now = self.now;
        let answer = self.engine().forward_to_dead_letters(receipt, None, now);
        self.say(format!("forward {}: {answer:?}", brief(receipt)));
        match answer {
            Ok(ticket) => {
                self.tickets.insert(ticket, Proposed::Forward);
                let turn = self.model.turn(receipt.group, receipt.queue, receipt.offset);
                turn.given_up = true;
                Ok(())
            }
            Err(ForwardError::NoTopic { .. }) => Ok(()),
            // Retention has taken it from its consumer.
            Err(ForwardError::Unreadable) if self.is_removed(receipt) => {
                self.model.turn(receipt.group, receipt.queue, receipt.offset).exempt = true;
                Ok(())
            }
            Err(ForwardError::Later) if self.read_fails || self.index_damaged => Ok(()),
            Err(ForwardError::Receipt(error)) => self.check_receipt(receipt, Err(error)),
            Err(error @ (ForwardError::Unreadable | ForwardError::Later)) => {
                Err(Violation::new(READABLE, error.to_string()))
            }
        }
    }
}

fn brief(receipt: Receipt) -> String {
    format!(
        "g{} t{} {}:{} #{}",
        receipt.group.0, receipt.queue.topic.0, receipt.queue.queue, receipt.offset, receipt.seq
    )
}
