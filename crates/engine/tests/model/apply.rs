//! What a durable frame does to the reference, compared with the outcomes that the engine reports for it.

use redstart_engine::*;

use super::reference::*;

type Outcomes = std::vec::IntoIter<(Ticket, Outcome)>;

impl Reference {
    /// Applies the oldest `count` frames.
    pub fn commit(&mut self, count: usize, outcomes: Vec<(Ticket, Outcome)>) -> Result<(), String> {
        let mut outcomes = outcomes.into_iter();
        for proposal in self.frames.drain(..count).flatten().collect::<Vec<_>>() {
            self.apply(proposal, &mut outcomes)?;
        }
        match outcomes.next() {
            Some(extra) => Err(format!("an outcome of no proposal: {extra:?}")),
            None => Ok(()),
        }
    }

    fn apply(&mut self, proposal: Proposal, outcomes: &mut Outcomes) -> Result<(), String> {
        let outcome = match proposal.ticket {
            None => None,
            Some(ticket) => match outcomes.next() {
                Some((found, outcome)) if found == ticket => Some(outcome),
                other => return Err(format!("no outcome for {ticket:?} but {other:?}")),
            },
        };
        if let What::Store(store) = proposal.what {
            return match outcome {
                Some(Outcome::Stored(receipt)) => self.store(*store, Some(receipt)),
                None => self.store(*store, None),
                other => Err(format!("a stored message has the outcome {other:?}")),
            };
        }
        if outcome.is_some_and(|outcome| outcome != Outcome::Done) {
            return Err(format!("the outcome of {:?} is not done", proposal.what));
        }
        match proposal.what {
            What::Store(_) => {}
            What::Link { timer, visible_at, .. } => self.link(timer, visible_at),
            What::End { half, commit, at } => self.end(half, commit, at),
            What::PutTopic { name, config } => self.put_topic(name, config),
            What::DeleteTopic { topic } => {
                self.topics[topic].alive = false;
                self.subscriptions.retain(|(_, of), _| *of != topic);
            }
            What::PutGroup { name, config } => self.put_group(name, config),
            What::DeleteGroup { group } => {
                self.groups[group].alive = false;
                self.subscriptions.retain(|(by, _), _| *by != group);
            }
            What::Recall { timer } => {
                self.timers[timer].phase = Phase::Recalled;
                self.free_key(self.timers[timer].message);
            }
            What::SendBack { timer, left } => {
                self.timers.push(timer);
                if let Some(left) = left {
                    self.finish(left);
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, store: Store, receipt: Option<SendReceipt>) -> Result<(), String> {
        let queue = self.queue_of(&store, receipt)?;
        let dedup = store.dedup();
        self.keyed.retain(|key, _| dedup.as_ref() != Some(key));
        let position = receipt.map(|receipt| receipt.position);
        let message = self.stored.len();
        let deliver_at = store.message.deliver_at.map_or(0, |at| at.0);
        self.stored.push(Stored { message: store.message, topic: store.topic, position });
        let visibility = if let Some(check_after) = store.half {
            let id = position.ok_or("a half message without a receipt")?;
            let check_after = check_after.min(self.config.transactions.open_max.as_millis() as u64);
            self.halves.push(Half {
                id,
                message,
                topic: store.topic,
                queue,
                opened_at: store.stored_at,
                next_check: store.stored_at + check_after,
                checks: 0,
                ending: false,
                open: true,
            });
            Visibility::Half
        } else if deliver_at > store.stored_at {
            let id = position.ok_or("a delayed message without a receipt")?;
            let key = TimerKey { due: Timestamp(deliver_at), id };
            self.timers.push(Timer {
                due: deliver_at,
                topic: store.topic,
                queue,
                message,
                attempt: 0,
                phase: Phase::Waiting,
                key: Some(key),
            });
            Visibility::Delayed(key)
        } else {
            let entry = Visible { message, stored_at: store.stored_at, attempt: 0 };
            let offset = self.push(store.topic, queue, entry);
            Visibility::Visible(QueueOffset(offset as u64))
        };
        if let Some(dead) = store.dead
            && self.flight_mut(dead).is_some_and(|flight| flight.ending)
        {
            self.finish(dead);
        }
        let alive = self.topics[store.topic].alive;
        if let Some(receipt) = receipt {
            if alive && (receipt.visibility, receipt.stored_at.0) != (visibility, store.stored_at) {
                return Err(format!("{visibility:?} at {} was expected: {receipt:?}", store.stored_at));
            }
            let window = self.topics[store.topic].config.dedup_window.filter(|_| alive);
            if let (Some(key), Some(window)) = (dedup, window) {
                let expires = store.stored_at + window.as_millis() as u64;
                self.firsts.insert(key, First { receipt, expires });
            }
        }
        Ok(())
    }

    /// The queue a message was stored in: any is right unless the sender or the message group decides.
    fn queue_of(&mut self, store: &Store, receipt: Option<SendReceipt>) -> Result<u32, String> {
        let found = receipt.map_or(0, |receipt| receipt.queue.queue.0);
        let topic = &mut self.topics[store.topic];
        if receipt.is_some_and(|receipt| topic.id.is_some_and(|id| id != receipt.queue.topic)) {
            return Err(format!("stored in another topic than {}: {receipt:?}", topic.name));
        }
        let queue = match (store.queue, &store.message.group) {
            (Ok(_), Some(_)) => return Err("a message group decides on its queue itself".into()),
            (Err(count), Some(group)) => *topic.homes.entry((count, group.clone())).or_insert(found),
            (Ok(queue), None) => queue,
            (Err(_), None) => found,
        };
        let together = store.after.is_none_or(|_| receipt.is_none_or(|_| self.last_queue == found));
        let in_range = store.queue.map_or_else(|count| found < count, |_| true);
        let legal = found == queue && in_range && (together || store.message.group.is_some());
        self.last_queue = found;
        if legal { Ok(queue) } else { Err(format!("queue {queue} was expected, not {found}")) }
    }

    /// Makes a message visible, unless its topic is gone.
    fn push(&mut self, topic: usize, queue: u32, entry: Visible) -> usize {
        let topic = &mut self.topics[topic];
        if !topic.alive {
            return 0;
        }
        if topic.queues.len() <= queue as usize {
            topic.queues.resize(queue as usize + 1, Vec::new());
        }
        let queue = &mut topic.queues[queue as usize];
        queue.push(entry);
        queue.len() - 1
    }

    fn link(&mut self, timer: usize, visible_at: u64) {
        let timer = &mut self.timers[timer];
        timer.phase = Phase::Fired;
        let (topic, queue) = (timer.topic, timer.queue);
        let entry = Visible { message: timer.message, stored_at: visible_at, attempt: timer.attempt };
        self.push(topic, queue, entry);
    }

    fn end(&mut self, half: usize, commit: bool, at: u64) {
        let half = &mut self.halves[half];
        half.open = false;
        if !commit {
            let message = half.message;
            self.free_key(message);
            return;
        }
        let (id, topic, queue, message) = (half.id, half.topic, half.queue, half.message);
        match self.stored[message].message.deliver_at.filter(|due| due.0 > at) {
            Some(due) => {
                let key = Some(TimerKey { due, id });
                let phase = Phase::Waiting;
                self.timers.push(Timer { due: due.0, topic, queue, message, attempt: 0, phase, key });
            }
            None => {
                self.push(topic, queue, Visible { message, stored_at: at, attempt: 0 });
            }
        }
    }

    /// A message that never became visible leaves its dedup key to another.
    fn free_key(&mut self, message: usize) {
        let position = self.stored[message].position;
        self.firsts.retain(|_, first| Some(first.receipt.position) != position);
    }

    fn put_topic(&mut self, name: TopicName, config: TopicConfig) {
        if let Some(topic) = self.topic(&name) {
            self.topics[topic].config = config;
            return;
        }
        self.topics.push(Topic {
            name,
            config,
            alive: true,
            id: None,
            queues: Vec::new(),
            homes: Default::default(),
        });
    }

    fn put_group(&mut self, name: GroupName, config: GroupConfig) {
        if let Some(group) = self.group(&name) {
            self.groups[group].config = config;
            return;
        }
        self.groups.push(Group { name, config, alive: true, id: None });
    }
}
