//! What the reference does when time has passed: due messages, dead letters, checks of transactions.

use redstart_engine::*;
use redstart_log::Position;

use super::{
    progress::{Flight, Place},
    reference::*,
};

impl Reference {
    /// Proposes everything that is due; returns the transactions to be asked about, with the number of the question.
    pub fn tick(&mut self) -> Vec<(Position, u32)> {
        self.fire();
        self.end_final_attempts();
        self.check_transactions()
    }

    /// Due messages go to their queues one step after the other.
    fn is_linking(&self) -> bool {
        self.underway().any(|what| matches!(what, What::Link { counts: true, .. }))
    }

    fn fire(&mut self) {
        if self.is_linking() {
            return;
        }
        let now = self.now;
        let is_due = |timer: &Timer| timer.phase == Phase::Waiting && timer.due <= now;
        let mut due: Vec<usize> = (0..self.timers.len()).filter(|n| is_due(&self.timers[*n])).collect();
        due.sort_by_key(|n| (self.timers[*n].due, *n));
        for timer in due {
            self.timers[timer].phase = Phase::Firing;
            // A message whose topic is gone is dropped, and nothing waits for that.
            let counts = self.topics[self.timers[timer].topic].alive;
            self.propose(None, What::Link { timer, visible_at: now, counts });
        }
    }

    /// Messages whose last attempt has failed, or that pull consumers have left behind, in the order in which their time ran
    /// out.
    fn unasked_for(&self) -> Vec<(u64, Dead, u16)> {
        let mut found = Vec::new();
        for ((group, topic), subscription) in &self.subscriptions {
            let max = self.groups[*group].config.attempts_max();
            for (queue, progress) in subscription.queues.iter().enumerate() {
                let Some(progress) = progress else { continue };
                for (at, offset, attempt) in progress.left_behind(self.now) {
                    if u32::from(attempt) < max {
                        let dead = Dead { group: *group, topic: *topic, queue: queue as u32, offset };
                        found.push((at, dead, attempt));
                    }
                }
                for (offset, flight) in progress.flights() {
                    let over = flight.visible_at <= self.now && u32::from(flight.attempt) >= max;
                    if over && !flight.ending {
                        let dead = Dead { group: *group, topic: *topic, queue: queue as u32, offset };
                        found.push((flight.visible_at, dead, flight.attempt));
                    }
                }
            }
        }
        found.sort_by_key(|(at, dead, _)| (*at, dead.group, dead.topic, dead.queue, dead.offset));
        found
    }

    /// Moves exhausted messages to the dead letters of their group, or has the topic for these made; those left behind go
    /// to the retry topic likewise.
    pub fn end_final_attempts(&mut self) {
        for (_, dead, attempts) in self.unasked_for() {
            if u32::from(attempts) >= self.groups[dead.group].config.attempts_max() {
                self.dead_letter(None, dead, attempts, "retries exhausted");
            } else {
                self.retry(dead, attempts);
            }
        }
    }

    /// Proposes the retry of a message that was left behind, if the topic for it is there.
    fn retry(&mut self, left: Dead, attempts: u16) {
        let Some(to) = self.own_topic(self.groups[left.group].name.retry_topic()) else { return };
        let entry = self.entries(left.topic, left.queue)[left.offset].clone();
        let (message, attempt) = (entry.message, attempts.max(entry.attempt));
        let (due, phase) = (self.now, Phase::Waiting);
        let timer = Timer { due, topic: to, queue: 0, message, attempt, phase, key: None };
        let place = &mut self.progress_mut(left.group, left.topic, left.queue).places[left.offset];
        match place {
            Place::Flight(flight) => flight.ending = true,
            _ => *place = Place::Flight(Flight::blocked()),
        }
        self.propose(None, What::SendBack { timer, left: Some(left) });
    }

    /// A topic of a group's own; proposed when there is none.
    fn own_topic(&mut self, name: TopicName) -> Option<usize> {
        let Some(to) = self.topic(&name) else {
            if !self.is_creating(name.as_str()) {
                let (message_type, read_queues, write_queues) = (MessageType::Mixed, 1, 1);
                let config =
                    TopicConfig { message_type, read_queues, write_queues, ..TopicConfig::default() };
                self.propose(None, What::PutTopic { name, config });
            }
            return None;
        };
        Some(to).filter(|to| !self.is_deleting_topic(*to))
    }

    /// Proposes a dead letter; `false` when its topic does not exist yet.
    pub fn dead_letter(&mut self, ticket: Option<Ticket>, dead: Dead, attempts: u16, reason: &str) -> bool {
        let name = self.groups[dead.group].name.dead_letter_topic();
        let Some(to) = self.own_topic(name) else { return false };
        let original = &self.stored[self.entries(dead.topic, dead.queue)[dead.offset].message];
        // A topic that is gone has left no name behind: then it is the retry topic, if it came out of that.
        let home = [original.topic, dead.topic].into_iter().find(|home| self.topics[*home].alive);
        let mut message = original.message.clone();
        message.deliver_at = None;
        let origin = [
            (DLQ_ORIGIN_TOPIC, home.map(|home| self.topics[home].name.to_string()).unwrap_or_default()),
            (DLQ_ORIGIN_MESSAGE_ID, message.id.clone()),
            (DLQ_ATTEMPTS, attempts.to_string()),
            (DLQ_REASON, reason.to_owned()),
        ];
        message.properties.retain(|(name, _)| origin.iter().all(|(ours, _)| ours != name));
        message.properties.extend(origin.map(|(name, value)| (name.to_owned(), value)));
        let queues = self.topics[to].config.write_queues;
        let store = Store {
            topic: to,
            message,
            queue: Err(queues),
            half: None,
            stored_at: self.now,
            dead: Some(dead),
            after: None,
        };
        if let Some(flight) = self.flight_mut(dead) {
            flight.ending = true;
        }
        self.propose(ticket, What::Store(Box::new(store)));
        true
    }

    fn check_transactions(&mut self) -> Vec<(Position, u32)> {
        let rules = self.config.transactions.clone();
        let (interval, open_max) = (rules.check_interval.as_millis(), rules.open_max.as_millis());
        let mut due: Vec<usize> = (0..self.halves.len())
            .filter(|n| {
                let half = &self.halves[*n];
                half.open && !half.ending && half.next_check <= self.now
            })
            .collect();
        due.sort_by_key(|n| (self.halves[*n].next_check, *n));
        let mut asked = Vec::new();
        for n in due {
            let half = &mut self.halves[n];
            let last = half.opened_at + open_max as u64;
            if half.checks >= rules.checks_max || self.now >= last {
                half.ending = true;
                self.propose(None, What::End { half: n, commit: false, at: self.now });
                continue;
            }
            half.checks += 1;
            half.next_check = (self.now + interval as u64).min(last);
            asked.push((half.id, half.checks));
        }
        asked
    }

    /// When something has to be done next that the reference knows of.
    pub fn next_deadline(&self) -> Option<u64> {
        let waiting = |timer: &&Timer| timer.phase == Phase::Waiting && !self.is_linking();
        let timers = self.timers.iter().filter(waiting).map(|timer| timer.due);
        let halves = self.halves.iter().filter(|half| half.open && !half.ending).map(|half| half.next_check);
        timers.chain(halves).min()
    }
}
