//! Consumers that pull: offsets, messages sent back; and operators that move groups.

use std::time::Duration;

use redstart_engine::{
    GroupView, QueueId, QueueKey, QueueOffset, ResetTo, SendBack, SendBackError, TopicView,
};

use crate::{
    oracle::{
        Checked, Violation,
        model::{Fate, SentBack},
    },
    outcomes::Proposed,
    world::{IN_STEP, World},
};

impl World {
    /// A place in a queue that holds a message.
    fn some_place(&mut self, topic: &TopicView) -> Option<(QueueId, QueueOffset)> {
        let filled: Vec<_> = topic.queues.iter().filter(|(_, min, end)| min < end).copied().collect();
        let (queue, min, end) = *self.rng.pick(&filled)?;
        Some((queue, QueueOffset(self.rng.between(min.0, end.0 - 1))))
    }

    pub fn send_some_back(&mut self) -> Checked {
        let Some((group, topic)) = self.some_group_and_topic() else { return Ok(()) };
        if topic.name.as_str().starts_with(redstart_engine::DLQ_PREFIX) {
            return Ok(());
        }
        let Some((queue, offset)) = self.some_place(&topic) else { return Ok(()) };
        let Some(seen) = self.model.seen(QueueKey { topic: topic.id, queue }, offset).copied() else {
            return Ok(());
        };
        let delay = self.rng.one_in(2).then(|| Duration::from_millis(self.rng.between(0, 600_000)));
        // As 4.x clients name a message: by where it is stored, and how often it was delivered before.
        let back = SendBack {
            reason: None,
            group: &group.name,
            position: seen.position,
            attempt: seen.attempt,
            delay,
            retries_max: Some(3),
            give_up: false,
            properties: Vec::new(),
        };
        let now = self.now;
        let to = self.engine().topic(&group.name.retry_topic());
        let answer = self.engine().send_back(&back, now);
        self.say(format!(
            "hand back {:X} ({}) from {} {queue}:{offset} to {} after {delay:?}: {answer:?}",
            seen.number, seen.position, topic.name, group.name
        ));
        match (answer, to) {
            (Ok(ticket), Some(to)) if seen.attempt < 3 => {
                let attempt = seen.attempt + 1;
                let delay = delay.unwrap_or_else(|| group.config.retry.delay(attempt.into()));
                let at = self.model.sent_back.len();
                let due = now.after(delay);
                let fate = Fate::Proposed;
                self.model.sent_back.push(SentBack {
                    number: seen.number,
                    to: to.id,
                    due,
                    attempt,
                    fate,
                    seen: false,
                });
                self.tickets.insert(ticket, Proposed::SendBack { at });
                Ok(())
            }
            (Ok(ticket), _) => {
                self.tickets.insert(ticket, Proposed::Forward);
                self.dead_lettered_by_pulls(&group, seen.number);
                Ok(())
            }
            (Err(SendBackError::NoRetryTopic { .. } | SendBackError::NoDeadLetterTopic { .. }), _) => Ok(()),
            // Its body may be gone while the queue still lists it.
            (Err(SendBackError::UnknownPosition { .. }), _) => Ok(()),
            (Err(SendBackError::UnknownGroup { .. }), _) if self.deletes_group(&group.name) => Ok(()),
            (Err(SendBackError::Unread { .. }), _) if self.read_fails || self.index_damaged => Ok(()),
            (Err(error), _) => Err(Violation::new(IN_STEP, error.to_string())),
        }
    }

    /// A consumer that pulls used up the retries: the group's turns of that message, if it has any, end with it.
    fn dead_lettered_by_pulls(&mut self, group: &GroupView, number: usize) {
        *self.model.dead_lettered_by_pulls.entry((group.name.to_string(), number)).or_default() += 1;
        for (key, offset) in self.model.places_of(number) {
            if self.model.subscriptions.contains_key(&(group.id, key.topic)) {
                self.model.turn(group.id, key, offset).moved(true);
            }
        }
    }

    pub fn commit_some_offset(&mut self) -> Checked {
        if self.rng.one_in(3) {
            return self.pull_from_some();
        }
        let Some((group, topic, queue, offset)) = self.some_subscribed_place() else { return Ok(()) };
        let answer = self.engine().commit_offset(&group.name, &topic.name, queue, offset);
        self.say(format!("offset of {} in {} {queue}: {offset}: {answer:?}", group.name, topic.name));
        if answer.is_ok() {
            self.pulled_to(&group, &topic, queue, offset);
        }
        Ok(())
    }

    /// A consumer that pulls begins at its group's offset.
    fn pull_from_some(&mut self) -> Checked {
        let Some((group, topic, queue, _)) = self.some_subscribed_place() else { return Ok(()) };
        let answer = self.engine().pull_from(&group.name, &topic.name, queue);
        self.say(format!("{} pulls from {} {queue}: {answer:?}", group.name, topic.name));
        if let Ok(Some(offset)) = answer {
            self.pulled_to(&group, &topic, queue, offset);
        }
        Ok(())
    }

    fn pulled_to(&mut self, group: &GroupView, topic: &TopicView, queue: QueueId, to: QueueOffset) {
        let key = QueueKey { topic: topic.id, queue };
        for offset in (0..to.0).map(QueueOffset) {
            if self.model.seen(key, offset).is_some() {
                self.model.turn(group.id, key, offset).passed_by_pulls();
            }
        }
        self.moved(group, topic, queue, to);
    }

    pub fn reset_some(&mut self) -> Checked {
        let Some((group, topic, queue, offset)) = self.some_subscribed_place() else { return Ok(()) };
        let to = match self.rng.below(4) {
            0 => ResetTo::Earliest,
            1 => ResetTo::Latest,
            2 => ResetTo::Time(self.now.before(Duration::from_secs(self.rng.below(600)))),
            _ => ResetTo::Offset(offset),
        };
        let answer = self.engine().reset(&group.name, &topic.name, Some(queue), to);
        self.say(format!("reset {} in {} {queue} to {to:?}: {answer:?}", group.name, topic.name));
        for (queue, offset) in answer.unwrap_or_default() {
            self.moved(&group, &topic, queue, offset);
        }
        Ok(())
    }

    fn some_subscribed_place(&mut self) -> Option<(GroupView, TopicView, QueueId, QueueOffset)> {
        let (group, topic) = self.some_group_and_topic()?;
        if !self.engine().groups_of(&topic.name).contains(&group.name) {
            return None;
        }
        let (queue, offset) = self.some_place(&topic)?;
        self.know_group(&group);
        self.model.subscription(group.id, topic.id);
        Some((group, topic, queue, offset))
    }

    fn moved(&mut self, group: &GroupView, topic: &TopicView, queue: QueueId, to: QueueOffset) {
        let key = QueueKey { topic: topic.id, queue };
        let next = self.model.queues.get(&key).map_or(0, |log| log.next);
        // Whatever is there now may come again or be passed over.
        for offset in 0..next {
            if self.model.seen(key, QueueOffset(offset)).is_some() {
                self.model.turn(group.id, key, QueueOffset(offset)).moved(offset < to.0);
            }
        }
        let subscription = self.model.subscription(group.id, topic.id);
        subscription.order_from.insert(queue, next);
    }
}
