//! Producers: all kinds of messages, ends of transactions, recalls.

use std::time::Duration;

use bytes::Bytes;
use redstart_engine::{
    DEDUP_KEY, HalfOptions, Message, MessageType, QueueId, SendError, SendOptions, Sent, Timestamp,
    TopicName, TopicView, Visibility,
};

use super::{
    Op,
    lite::{addressed, public_name},
};
use crate::{
    Profile,
    oracle::{
        Checked, Violation, content, dedup, ensure,
        model::{End, Fate, Known},
        visibility,
    },
    outcomes::Proposed,
    world::World,
};

const ACCEPTED: &str = "a valid message is accepted";
const TIMERS_MAX: usize = 60;

impl World {
    fn some_message(&mut self, kind: MessageType) -> Message {
        let id = self.model.messages.len();
        let uniform = self.profile == Profile::Uniform;
        let len = if uniform { 100 } else { self.rng.of([0, 10, 100, 400, 900]) };
        let fill = self.rng.draw();
        let body: Vec<u8> =
            (0..len).map(|at: u64| (fill.rotate_left((at % 64) as u32) ^ id as u64) as u8).collect();
        let mut message = Message {
            id: format!("{id:08X}"),
            born_at: self.now,
            born_host: "10.0.0.7:4711".to_owned(),
            flag: (fill >> 40) as i32,
            body: Bytes::from(body),
            ..Message::default()
        };
        if uniform {
            return message;
        }
        message.tag = self.rng.of([None, Some("A"), Some("B"), Some("C")]).map(str::to_owned);
        if self.rng.one_in(3) {
            message.keys = vec![format!("k{}", self.rng.below(20))];
        }
        if self.rng.one_in(2) {
            message.properties.push(("size".to_owned(), self.rng.below(11).to_string()));
        }
        match kind {
            MessageType::Fifo => message.group = Some(format!("order-{}", self.rng.below(4))),
            MessageType::Delay => message.deliver_at = Some(self.some_due()),
            MessageType::Priority => message.priority = Some(self.rng.below(12) as u8),
            MessageType::Transaction if self.rng.one_in(4) => message.deliver_at = Some(self.some_due()),
            MessageType::Transaction if self.rng.one_in(3) => {
                message.group = Some(format!("order-{}", self.rng.below(4)));
            }
            _ => {}
        }
        message
    }

    fn some_due(&mut self) -> Timestamp {
        let ms = match self.rng.below(6) {
            0 => return Timestamp(self.now.0.saturating_sub(self.rng.below(1000))),
            1 | 2 => self.rng.between(1, 2_000),
            3 => self.rng.between(1, 60_000),
            _ => self.rng.between(1, 4 * 3_600_000),
        };
        self.now.after(Duration::from_millis(ms))
    }

    /// The kind of message that `op` sends to a topic of this type, if it takes one.
    fn kind_for(&mut self, op: Op, topic: MessageType) -> Option<MessageType> {
        let wanted = match op {
            Op::SendDelayed => MessageType::Delay,
            Op::SendHalf => MessageType::Transaction,
            _ if topic == MessageType::Priority => MessageType::Priority,
            _ if topic == MessageType::Lite => MessageType::Lite,
            _ if topic == MessageType::Fifo => MessageType::Fifo,
            _ if topic == MessageType::Mixed => self.rng.of([MessageType::Normal, MessageType::Fifo]),
            _ => MessageType::Normal,
        };
        topic.takes(wanted).then_some(wanted)
    }

    pub fn send_some(&mut self, op: Op) -> Checked {
        let takes = |name: &TopicName| name.is_lite() || !name.as_str().starts_with('%');
        let topics: Vec<TopicName> = self.topics().into_iter().filter(takes).collect();
        let mut fitting = Vec::new();
        for name in topics {
            let Some(view) = self.engine().topic(&name) else { continue };
            if view.config.message_type == MessageType::Lite && !name.is_lite() {
                continue;
            }
            let deduplicates = op != Op::SendDedup || view.config.dedup_window.is_some();
            if let (Some(kind), true) = (self.kind_for(op, view.config.message_type), deduplicates) {
                fitting.push((view, kind));
            }
        }
        let full = self.engine().deferred().delayed + self.engine().deferred().transactions > TIMERS_MAX;
        let Some((view, kind)) = self.rng.pick(&fitting).cloned() else { return Ok(()) };
        if full && matches!(op, Op::SendDelayed | Op::SendHalf) {
            return Ok(());
        }
        let count = if op == Op::SendBatch { self.rng.between(2, 6) } else { 1 };
        let first = self.model.messages.len();
        let options = SendOptions {
            queue: self
                .rng
                .one_in(2)
                .then(|| QueueId(self.rng.below(view.config.write_queues.into()) as u32)),
            half: (op == Op::SendHalf).then_some(HalfOptions::default()),
            untyped: false,
        };
        let mut messages = Vec::new();
        for _ in 0..count {
            let mut message = self.some_message(kind);
            if op == Op::SendDedup {
                message.properties.push((DEDUP_KEY.to_owned(), format!("order {}", self.rng.below(6))));
            }
            // A batch has one message group, as one queue has one order.
            message.group = message.group.map(|group| {
                messages.first().map_or(group, |first: &Message| first.group.clone().unwrap_or_default())
            });
            addressed(&view.name, &mut message);
            self.note_sent(&view, &message, options);
            messages.push(message);
        }
        self.send(&view, first, &messages, options)
    }

    fn note_sent(&mut self, view: &TopicView, message: &Message, options: SendOptions) {
        self.model.messages.push(Known {
            number: self.model.messages.len(),
            topic: view.id,
            topic_name: view.name.clone(),
            message: message.clone(),
            sent_at: self.now,
            fate: Fate::Refused,
            receipt: None,
            end: options.half.map(|_| End::Open),
            recall: None,
            place: None,
        });
    }

    pub fn send(
        &mut self,
        view: &TopicView,
        first: usize,
        messages: &[Message],
        options: SendOptions,
    ) -> Checked {
        let now = self.now;
        let sent = self.engine().send(&public_name(&view.name), messages, options, now);
        let numbers: Vec<usize> = (first..first + messages.len()).collect();
        self.say(format!(
            "send {first:X} x{} to {} due {:?}: {sent:?}",
            messages.len(),
            view.name,
            messages[0].deliver_at
        ));
        match sent {
            Ok(Sent::Proposed(ticket)) => {
                for number in &numbers {
                    self.model.messages[*number].fate = Fate::Proposed;
                }
                self.tickets.insert(ticket, Proposed::Send { numbers, answered: 0 });
                Ok(())
            }
            Ok(Sent::Duplicate(receipt)) => {
                let key = messages[0].dedup_key().unwrap_or_default().to_owned();
                dedup::check_duplicate(&mut self.model, view.id, &key, &receipt)
            }
            Ok(Sent::DuplicateOf(ticket)) => {
                let of = self.tickets.get(&ticket);
                let same = matches!(of, Some(Proposed::Send { numbers, .. })
                    if self.model.messages[numbers[0]].message.dedup_key() == messages[0].dedup_key());
                ensure(same, dedup::FIRST, || format!("{ticket:?} stands for {of:?}"))
            }
            // A change of the topic may have come between.
            Err(
                SendError::TypeMismatch { .. }
                | SendError::UnknownQueue { .. }
                | SendError::DiskFull { .. }
                | SendError::NoRoom { .. },
            ) => Ok(()),
            Err(SendError::BatchDedup) => Ok(()),
            Err(SendError::TooMany { what: "dedup keys", limit, .. }) => {
                dedup::check_full(&self.model, limit, now)
            }
            // Its deletion is under way.
            Err(SendError::UnknownLiteTopic { .. }) => Ok(()),
            Err(SendError::Deleting { topic }) if self.deletes_topic(&topic) => Ok(()),
            Err(error) => Err(Violation::new(ACCEPTED, format!("message {first:X}: {error}"))),
        }
    }

    pub fn end_some_transaction(&mut self) -> Checked {
        let open: Vec<usize> = self
            .model
            .messages
            .iter()
            .filter(|known| {
                known.fate == Fate::Stored && matches!(known.end, Some(End::Open | End::Unknown { .. }))
            })
            .map(|known| known.number)
            .collect();
        let Some(number) = self.rng.pick(&open).copied() else { return Ok(()) };
        let commit = !self.rng.one_in(3);
        let known = &self.model.messages[number];
        let (Some(receipt), now, before) = (known.receipt, self.now, known.end) else { return Ok(()) };
        // A different end than the one that may have happened would leave the outcome open for good.
        let commit = if let Some(End::Unknown { commit }) = before { commit } else { commit };
        let answer = self.engine().end_transaction(receipt.position, commit, now);
        self.say(format!("end of {number:X}, commit {commit}: {answer:?}"));
        let known = &mut self.model.messages[number];
        match (answer, before) {
            (Ok(ticket), _) => {
                known.end = Some(End::Proposed { commit });
                self.tickets.insert(ticket, Proposed::End { number, commit });
            }
            // It was given up, or is being: it never comes.
            (Err(_), Some(End::Open)) => known.end = Some(End::Acknowledged { commit: false }),
            (Err(_), _) => {}
        }
        Ok(())
    }

    pub fn recall_some(&mut self) -> Checked {
        let delayed: Vec<usize> = self
            .model
            .messages
            .iter()
            .filter(|known| known.fate == Fate::Stored && known.recall.is_none())
            .filter(|known| matches!(known.receipt.map(|r| r.visibility), Some(Visibility::Delayed(_))))
            .map(|known| known.number)
            .collect();
        let Some(number) = self.rng.pick(&delayed).copied() else { return Ok(()) };
        let known = &self.model.messages[number];
        let (Some(Visibility::Delayed(key)), now) = (known.receipt.map(|r| r.visibility), self.now) else {
            return Ok(());
        };
        let (due, place) = (key.due, known.place);
        let answer = self.engine().recall(key, now);
        self.say(format!("recall {number:X}: {answer:?}"));
        if let Ok(ticket) = answer {
            ensure(place.is_none(), visibility::RECALLED, || {
                format!("{number:X} is at {place:?} and is recalled")
            })?;
            self.model.messages[number].recall = Some(Fate::Proposed);
            self.tickets.insert(ticket, Proposed::Recall { number });
            return Ok(());
        }
        let name = self.model.messages[number].topic_name.clone();
        let exists = self.engine().topic(&name);
        let same = exists.is_some_and(|view| view.id == self.model.messages[number].topic);
        ensure(place.is_some() || due <= now || !same, content::NEVER_SENT, || {
            format!("message {number:X} is due at {due}, it is {now}, and its recall says {answer:?}")
        })
    }
}
