//! Configuration, sends, and messages that wait: the same on both sides.

use std::time::Duration;

use redstart_engine::*;

use super::{
    check::{Check, Harness, group_name, picked, same_refusal, topic_name},
    ops::Shape,
    reference::*,
};

fn admin_refusal(error: &AdminError) -> &'static str {
    match error {
        AdminError::UnknownTopic { .. } | AdminError::UnknownGroup { .. } => "unknown",
        AdminError::Creating { .. } => "creating",
        AdminError::Deleting { .. } => "deleting",
        _ => "other",
    }
}

fn send_refusal(error: &SendError) -> &'static str {
    match error {
        SendError::UnknownTopic { .. } => "unknown topic",
        SendError::NotWritable { .. } => "not writable",
        SendError::TypeMismatch { .. } => "type",
        SendError::UnknownQueue { .. } => "queue",
        SendError::BatchDedup => "dedup in batch",
        SendError::Deleting { .. } => "deleting",
        SendError::Invalid(InvalidMessage::BatchMixed { .. }) => "mixed batch",
        SendError::Invalid(InvalidMessage::BatchType { .. }) => "type in batch",
        _ => "other",
    }
}

impl Harness {
    fn admin(&mut self, result: Result<Ticket, AdminError>, expected: &[&str], what: What) -> Check {
        let found = result.as_ref().err().map(admin_refusal);
        same_refusal(&format!("{what:?}"), expected, found)?;
        if let Ok(ticket) = result {
            self.propose(ticket, what);
        }
        Ok(())
    }

    /// What is under creation or deletion cannot be changed until that is done.
    fn expected_admin(&self, name: &str, exists: Option<bool>) -> Vec<&'static str> {
        let creating = self.reference.is_creating(name).then_some("creating");
        let deleting = self.reference.is_deleting(name).then_some("deleting");
        let unknown = (exists == Some(false)).then_some("unknown");
        [creating, deleting, unknown].into_iter().flatten().collect()
    }

    pub fn put_topic(&mut self, name: TopicName, config: TopicConfig) -> Check {
        let expected = self.expected_admin(name.as_str(), None);
        let result = self.engine.put_topic(&name, config.clone());
        self.admin(result, &expected, What::PutTopic { name, config })
    }

    pub fn delete_topic(&mut self, name: TopicName) -> Check {
        let topic = self.reference.topic(&name);
        let expected = self.expected_admin(name.as_str(), Some(topic.is_some()));
        let result = self.engine.delete_topic(&name);
        self.admin(result, &expected, What::DeleteTopic { topic: topic.unwrap_or(0) })
    }

    pub fn put_group(&mut self, name: GroupName, config: GroupConfig) -> Check {
        let expected = self.expected_admin(name.as_str(), None);
        let result = self.engine.put_group(&name, config.clone());
        self.admin(result, &expected, What::PutGroup { name, config })
    }

    pub fn delete_group(&mut self, name: GroupName) -> Check {
        let group = self.reference.group(&name);
        let expected = self.expected_admin(name.as_str(), Some(group.is_some()));
        let result = self.engine.delete_group(&name);
        self.admin(result, &expected, What::DeleteGroup { group: group.unwrap_or(0) })
    }

    fn message(&mut self, shape: &Shape, fit: Option<MessageType>) -> Message {
        self.messages_sent += 1;
        let id = format!("m{}", self.messages_sent);
        let takes = |kind: MessageType| fit.is_none_or(|fit| fit == kind || fit == MessageType::Mixed);
        let group = match (fit, shape.group) {
            (Some(MessageType::Fifo), group) => Some(group.unwrap_or(0)),
            (Some(MessageType::Normal | MessageType::Priority), _) => None,
            (_, group) => group,
        };
        let delay = shape.delay_ms.filter(|_| takes(MessageType::Delay));
        // A priority of its own is a type; beside a message group or a delay it is only carried along.
        let priority =
            shape.priority.filter(|_| takes(MessageType::Priority) && fit != Some(MessageType::Mixed));
        let mut properties = vec![("weight".to_owned(), shape.property.to_string())];
        properties.extend(shape.dedup.map(|key| (DEDUP_KEY.to_owned(), format!("d{key}"))));
        // A key may repeat, or be the id of the message itself.
        let keys = shape.keys.iter().map(|key| if *key == 3 { id.clone() } else { format!("k{key}") });
        Message {
            tag: shape.tag.map(|tag| ["A", "B", "C"][usize::from(tag)].to_owned()),
            keys: keys.collect(),
            group: group.map(|group| format!("order-{group}")),
            deliver_at: delay.map(|ms| Timestamp(self.reference.now.saturating_add_signed(ms))),
            priority,
            properties,
            body: vec![b'x'; 10 + shape.padding].into(),
            born_at: self.now(),
            id,
            ..Message::default()
        }
    }

    pub fn send(
        &mut self,
        topic: usize,
        shapes: &[Shape],
        queue: Option<u32>,
        half: Option<Option<u64>>,
        fit: bool,
    ) -> Check {
        let name = topic_name(topic);
        let known = self.reference.topic(&name);
        let kind = known.map(|topic| self.reference.topics[topic].config.message_type);
        let queues = known.map_or(1, |topic| self.reference.topics[topic].config.write_queues);
        let queue = if fit { queue.map(|queue| queue % queues) } else { queue };
        let half = half.filter(|_| !fit || matches!(kind, Some(MessageType::Mixed)) && shapes.len() == 1);
        let messages: Vec<Message> =
            shapes.iter().map(|shape| self.message(shape, kind.filter(|_| fit))).collect();
        let check_after = half.map(|after| after.map(Duration::from_millis));
        let options = SendOptions {
            queue: queue.map(QueueId),
            half: check_after.map(|check_after| HalfOptions { check_after }),
            untyped: false,
        };
        let expected = self.expected_send(known, &messages, queue, half.is_some());
        let now = self.now();
        let result = self.engine.send(&name, &messages, options, now);
        same_refusal("send", &expected, result.as_ref().err().map(send_refusal))?;
        let (Ok(sent), Some(topic)) = (result, known) else { return Ok(()) };

        let window = self.reference.topics[topic].config.dedup_window;
        let dedup = messages[0].dedup_key().filter(|_| window.is_some()).map(str::to_owned);
        if let Some(key) = &dedup {
            let first = self.first_of(topic, key);
            if first.is_some() || !matches!(sent, Sent::Proposed(_)) {
                let same = first == Some(sent);
                return if same { Ok(()) } else { Err(format!("dedup: {sent:?}, expected {first:?}")) };
            }
        }
        let Sent::Proposed(ticket) = sent else { return Err(format!("nothing to be a copy of: {sent:?}")) };
        if let Some(key) = dedup {
            self.reference.keyed.insert((topic, key), ticket);
        }
        let config_type = self.reference.topics[topic].config.message_type;
        let default_check = self.reference.config.transactions.first_check_after.as_millis() as u64;
        for (n, message) in messages.into_iter().enumerate() {
            let queue = match config_type {
                MessageType::Priority => Ok(u32::from(message.priority.unwrap_or(0)).min(queues - 1)),
                _ => queue.filter(|_| message.group.is_none()).ok_or(queues),
            };
            let store = Store {
                topic,
                message,
                queue,
                half: half.map(|after| after.unwrap_or(default_check)),
                stored_at: now.0,
                dead: None,
                // A batch shares a queue, except where the priority decides.
                after: n.checked_sub(1).filter(|_| config_type != MessageType::Priority),
            };
            self.propose(ticket, What::Store(Box::new(store)));
        }
        Ok(())
    }

    fn expected_send(
        &self,
        topic: Option<usize>,
        messages: &[Message],
        queue: Option<u32>,
        half: bool,
    ) -> Vec<&'static str> {
        let Some(topic) = topic else { return vec!["unknown topic"] };
        let config = &self.reference.topics[topic].config;
        let types: Vec<MessageType> = messages.iter().map(|message| message.message_type(half)).collect();
        let batch = messages.len() > 1;
        let kept_back = |kind: &MessageType| matches!(kind, MessageType::Delay | MessageType::Transaction);
        let keyed = messages.iter().any(|message| message.dedup_key().is_some());
        let faults = [
            ("deleting", self.reference.is_deleting_topic(topic)),
            ("not writable", !config.permission.write),
            ("queue", queue.is_some_and(|queue| queue >= config.write_queues)),
            ("type", types.iter().any(|kind| !takes(config.message_type, *kind))),
            ("type in batch", batch && types.iter().any(kept_back)),
            ("mixed batch", batch && types.iter().any(|kind| *kind != types[0])),
            ("dedup in batch", batch && keyed && config.dedup_window.is_some()),
        ];
        faults.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    /// What a message with this dedup key is answered with instead of being stored.
    fn first_of(&self, topic: usize, key: &str) -> Option<Sent> {
        let key = (topic, key.to_owned());
        if let Some(ticket) = self.reference.keyed.get(&key) {
            return Some(Sent::DuplicateOf(*ticket));
        }
        let first = self.reference.firsts.get(&key)?;
        (first.expires > self.reference.now).then_some(Sent::Duplicate(first.receipt))
    }

    pub fn end_transaction(&mut self, pick: usize, commit: bool) -> Check {
        let all: Vec<_> = self.reference.halves.iter().map(|half| half.id).collect();
        let Some(id) = picked(&all, pick) else { return Ok(()) };
        let half = self.reference.halves.iter().position(|half| half.id == id && half.open && !half.ending);
        let result = self.engine.end_transaction(id, commit, self.now());
        if let Some(half) = half.filter(|_| commit) {
            let topic = self.reference.halves[half].topic;
            let (alive, deleting) =
                (self.reference.topics[topic].alive, self.reference.is_deleting_topic(topic));
            if !alive || deleting {
                if !alive {
                    self.reference.halves[half].ending = true;
                    let at = self.reference.now;
                    self.reference.propose(None, What::End { half, commit: false, at });
                }
                let gone = Err(TransactionError::TopicGone { id });
                return if result == gone { Ok(()) } else { Err(format!("{result:?}, expected {gone:?}")) };
            }
        }
        if result.is_ok() != half.is_some() {
            return Err(format!("end of transaction {id}: {result:?}, it is {half:?}"));
        }
        let (Ok(ticket), Some(half)) = (result, half) else { return Ok(()) };
        self.reference.halves[half].ending = true;
        let at = self.reference.now;
        self.propose(ticket, What::End { half, commit, at });
        Ok(())
    }

    pub fn recall(&mut self, pick: usize) -> Check {
        let all: Vec<_> = self.reference.timers.iter().filter_map(|timer| timer.key).collect();
        let Some(key) = picked(&all, pick) else { return Ok(()) };
        let timer = self.reference.timers.iter().position(|timer| timer.key == Some(key)).unwrap_or(0);
        let result = self.engine.recall(key, self.now());
        let delivered = Err(RecallError::Delivered { due: key.due });
        let legal = match self.reference.timers[timer].phase {
            Phase::Waiting => result.is_ok(),
            Phase::Firing | Phase::Fired => result == delivered,
            Phase::Recalling => result == Err(RecallError::Unknown),
            // The first recall was answered; past its time a cancelled message cannot be told from a delivered one.
            Phase::Recalled => {
                result == Err(RecallError::Unknown) || key.due.0 <= self.reference.now && result == delivered
            }
        };
        if !legal {
            return Err(format!("recall: {result:?} for {:?}", self.reference.timers[timer]));
        }
        if let Ok(ticket) = result {
            self.reference.timers[timer].phase = Phase::Recalling;
            self.propose(ticket, What::Recall { timer });
        }
        Ok(())
    }

    pub fn send_back(
        &mut self,
        group: usize,
        topic: usize,
        queue: u32,
        offset: u64,
        delay_ms: Option<u64>,
        retries: Option<u32>,
    ) -> Check {
        let (group_name, topic_name) = (group_name(group), topic_name(topic));
        // Only what a consumer was given has an address.
        let found = self.engine.message_at(&topic_name, QueueId(queue), QueueOffset(offset)).ok();
        let known = self.reference.topic(&topic_name);
        let entry =
            known.and_then(|topic| self.reference.entries(topic, queue).get(offset as usize).cloned());
        let (Some(place), Some(entry)) = (found, entry) else { return Ok(()) };
        let back = SendBack {
            reason: None,
            group: &group_name,
            position: place.position,
            attempt: entry.attempt,
            delay: delay_ms.map(Duration::from_millis),
            retries_max: retries,
            give_up: false,
            properties: Vec::new(),
        };
        let result = self.engine.send_back(&back, self.now());
        let found = result.as_ref().err().map(|error| match error {
            SendBackError::UnknownGroup { .. } => "group",
            SendBackError::NoRetryTopic { .. } => "no retry topic",
            SendBackError::NoDeadLetterTopic { .. } => "no dead-letter topic",
            SendBackError::UnknownPosition { .. } | SendBackError::Unread { .. } => "message",
        });
        let refused = |expected| same_refusal("send back", &[expected], found);
        let Some(group) = self.reference.lasting_group(&group_name) else { return refused("group") };
        let Some(home) = self.reference.home_of(entry.message, group) else { return refused("message") };
        let config = self.reference.groups[group].config.clone();
        if u32::from(entry.attempt) >= retries.unwrap_or(config.retries_max) {
            let ticket = result.ok();
            let proposed = self.reference.dead_letter(ticket, home, entry.attempt + 1, "retries exhausted");
            let expected: &[&str] = if proposed { &[] } else { &["no dead-letter topic"] };
            return same_refusal("send back", expected, found);
        }
        let to = self.reference.topic(&group_name.retry_topic());
        let Some(to) = to.filter(|to| !self.reference.is_deleting_topic(*to)) else {
            return refused("no retry topic");
        };
        same_refusal("send back", &[], found)?;
        let attempt = entry.attempt + 1;
        let delay = delay_ms.unwrap_or_else(|| super::delivering::retry_delay_ms(&config, attempt));
        let due = self.reference.now + delay;
        let (message, phase) = (entry.message, Phase::Waiting);
        let timer = Timer { due, topic: to, queue: 0, message, attempt, phase, key: None };
        if let Ok(ticket) = result {
            self.propose(ticket, What::SendBack { timer, left: None });
        }
        Ok(())
    }
}

/// Which messages a topic takes.
fn takes(topic: MessageType, message: MessageType) -> bool {
    match topic {
        MessageType::Mixed => !matches!(message, MessageType::Priority | MessageType::Lite),
        MessageType::Priority => matches!(message, MessageType::Priority | MessageType::Normal),
        other => other == message,
    }
}
