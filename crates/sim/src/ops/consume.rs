//! Consumers: receive, ack, give back, give up.

use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{
    ConsumeFrom, Delivery, GroupView, IndexError, Loss, Pop, PopError, Proof, QueueId, QueueKey, QueueOffset,
    Receipt, Start, TopicView, fetch,
};

use super::{filters::FilterKind, lite::public_name};
use crate::{
    observe::READABLE,
    oracle::{Checked, Violation, acks, attempts, content, ensure, order, places, retention, turn::Current},
    outcomes::Note,
    world::World,
};

pub const FILTERED: &str = "a consumer gets what its group subscribes to";
pub const SUBSCRIBED: &str = "a group goes on where it left off";
const RECEIPTS_KEPT: usize = 200;

/// One receive.
#[derive(Debug, Clone)]
pub struct Ask {
    pub queue: Option<QueueId>,
    pub max: usize,
    pub invisible: Duration,
    pub filter: FilterKind,
    pub attempt: Option<String>,
    pub start: Start,
    pub one_per_group: bool,
    pub in_order: bool,
    /// Also messages of the group's retry topic.
    pub retries: bool,
}

impl World {
    pub fn some_group_and_topic(&mut self) -> Option<(GroupView, TopicView)> {
        let (groups, topics) = (self.engine().group_names(), self.topics());
        let group = self.rng.pick(&groups)?.clone();
        let mut topic = self.rng.pick(&topics)?.clone();
        if topic.as_str().starts_with('%') && !topic.is_lite() && !self.rng.one_in(3) {
            topic = self.rng.pick(&topics)?.clone();
        }
        Some((self.engine().group(&group)?, self.engine().topic(&topic)?))
    }

    pub fn pop_some(&mut self) -> Checked {
        let Some((group, topic)) = self.some_group_and_topic() else { return Ok(()) };
        let queues = topic.queues.len() as u64;
        let filter = match self.rng.below(12) {
            0 => FilterKind::TagA,
            1 => FilterKind::TagsAOrB,
            2 => FilterKind::SizeOverFive,
            3 => FilterKind::NotTagC,
            _ => FilterKind::All,
        };
        // Some pairs of group and topic have one filter for good.
        let fixed = (u64::from(group.id.0) + u64::from(topic.id.0)).is_multiple_of(3);
        let ask = Ask {
            queue: self.rng.one_in(3).then(|| QueueId(self.rng.below(queues.max(1)) as u32)),
            max: self.rng.of([1, 1, 2, 5, 32]),
            invisible: Duration::from_millis(self.rng.of([50, 1_000, 10_000, 60_000])),
            filter: if fixed { FilterKind::All } else { filter },
            attempt: self.rng.one_in(3).then(|| format!("try {}", self.rng.below(6))),
            start: self.rng.of([Start::Earliest, Start::Earliest, Start::Configured, Start::At(self.now)]),
            one_per_group: self.rng.one_in(4),
            in_order: self.rng.one_in(10),
            retries: self.rng.one_in(2),
        };
        self.pop(&group, &topic, &ask).map(|_| ())
    }

    /// Receives, checks what came, and returns it.
    pub fn pop(
        &mut self,
        group: &GroupView,
        topic: &TopicView,
        ask: &Ask,
    ) -> Result<Vec<Receipt>, Violation> {
        self.know_group(group);
        // A group begins at the first message of a lite topic, which has one queue.
        let of_lite = Ask { queue: None, start: Start::Earliest, ..ask.clone() };
        let ask = if topic.name.is_lite() { &of_lite } else { ask };
        if let Some(limits) = self.model.groups.get_mut(&group.id) {
            limits.ever_ordered |= ask.in_order;
        }
        let name = public_name(&topic.name);
        let subscribed = self.engine().groups_of(&topic.name).contains(&group.name);
        let retries = ask.retries && !ask.in_order;
        // The topic of the group's retries, and whether the group begins with it now.
        let retry = self.engine().topic(&group.name.retry_topic());
        let retry = retry.filter(|retry| retries && retry.id != topic.id);
        let unsubscribed = |world: &mut World, retry: &TopicView| {
            !world.engine().groups_of(&retry.name).contains(&group.name)
        };
        let new_retry = retry.clone().filter(|retry| unsubscribed(self, retry));
        let (now, filter) = (self.now, ask.filter.filter());
        let pop = Pop {
            group: &group.name,
            topic: &name,
            queue: ask.queue,
            max: ask.max,
            invisible: ask.invisible,
            filter: &filter,
            attempt: ask.attempt.as_deref(),
            client: "c1",
            start: ask.start,
            one_per_group: ask.one_per_group,
            in_order: ask.in_order,
        };
        let popped = match topic.name.is_lite() {
            true => self.engine().pop_lite(&pop, &[topic.id], None, now),
            false if retries => self.engine().pop_with_retries(&pop, now),
            false => self.engine().pop(&pop, now),
        };
        // Consumers read for themselves.
        self.storage.fail_read(0);
        if !subscribed && self.engine().groups_of(&topic.name).contains(&group.name) {
            self.note_subscription(group, topic, ask)?;
        }
        if let Some(retry) = new_retry.filter(|retry| !unsubscribed(self, retry)) {
            let from_its_beginning = Ask { start: Start::Earliest, ..ask.clone() };
            self.note_subscription(group, &retry, &from_its_beginning)?;
        }
        self.note_filter(group, topic, ask.filter);
        if let Some(retry) = retry {
            // Retries were received before, by a filter of that time: the receive passes over its retry topic without one.
            self.note_filter(group, &retry, FilterKind::All);
            self.model.subscription(group.id, retry.id).received_by_topic = true;
        }
        let popped = match popped {
            Ok(popped) => popped,
            Err(PopError::Index(IndexError::Malformed { .. })) if self.index_damaged => {
                self.heal();
                return Ok(Vec::new());
            }
            Err(PopError::Index(IndexError::Read(_))) if self.read_fails => return Ok(Vec::new()),
            Err(PopError::UnknownQueue { .. }) => return Ok(Vec::new()),
            Err(PopError::UnknownGroup { .. }) if self.deletes_group(&group.name) => return Ok(Vec::new()),
            Err(error) => {
                return Err(Violation::new(READABLE, format!("{} {}: {error}", group.name, topic.name)));
            }
        };
        self.say(format!(
            "pop {} {}{} max {} {:?} {:?}: {:?}{}",
            group.name,
            topic.name,
            if retries { " and retries" } else { "" },
            ask.max,
            ask.filter,
            ask.attempt,
            popped
                .deliveries
                .iter()
                .map(|d| (d.receipt.queue.queue, d.receipt.offset, d.attempt))
                .collect::<Vec<_>>(),
            if popped.more { " and more" } else { "" },
        ));
        let mut by_queue: BTreeMap<QueueKey, Vec<(QueueOffset, bool)>> = BTreeMap::new();
        for delivery in &popped.deliveries {
            let repeated = attempts::repeats(&mut self.model, delivery, ask.attempt.as_deref(), now);
            by_queue.entry(delivery.receipt.queue).or_default().push((delivery.receipt.offset, repeated));
        }
        for (queue, offsets) in by_queue {
            order::check_delivered(&self.model, group.id, queue, &offsets)?;
        }
        let mut receipts = Vec::new();
        for delivery in popped.deliveries {
            if self.delivered(group, topic, ask, &delivery)? {
                receipts.push(delivery.receipt);
            }
        }
        Ok(receipts)
    }

    /// A message that was just delivered is gone for good.
    fn pass_over(&mut self, receipt: Receipt, proof: Proof) -> Checked {
        let passed = self.engine().pass_over(receipt, proof);
        passed.map_err(|error| Violation::new(READABLE, format!("{proof:?} is refused: {error}")))
    }

    fn note_filter(&mut self, group: &GroupView, topic: &TopicView, filter: FilterKind) {
        let subscription = self.model.subscription(group.id, topic.id);
        if !subscription.filters.contains(&filter) {
            subscription.filters.push(filter);
        }
    }

    /// The group has begun with the topic, as `topic` was at that moment.
    fn note_subscription(&mut self, group: &GroupView, topic: &TopicView, ask: &Ask) -> Checked {
        let subscription = self.model.subscription(group.id, topic.id);
        let lasting = subscription.durable;
        subscription.start.clear();
        let from_earliest = match ask.start {
            Start::Configured => group.config.consume_from() == Some(ConsumeFrom::Earliest),
            start => start == Start::Earliest,
        };
        for (queue, min, end) in &topic.queues {
            let start = if from_earliest { *min } else { *end };
            subscription.start.insert(*queue, start.0);
        }
        let queue = QueueKey { topic: topic.id, queue: QueueId(0) };
        self.notes.push(Note::Subscribed { group: group.id, queue });
        ensure(!lasting, SUBSCRIBED, || format!("{} begins {} anew", group.name, topic.name))
    }

    /// Checks one delivery. `false` when its body is rightly gone.
    fn delivered(
        &mut self,
        group: &GroupView,
        topic: &TopicView,
        ask: &Ask,
        delivery: &Delivery,
    ) -> Result<bool, Violation> {
        let (receipt, now) = (delivery.receipt, self.now);
        self.model.deliveries += 1;
        let Some(seen) = self.model.seen(receipt.queue, receipt.offset).copied() else {
            if self.model.forced {
                // Removed by force before anyone could see it.
                let reader = self.engine().reader();
                let read = fetch(&*reader, delivery.position, delivery.size);
                if let Some(proof) = read.err().and_then(|error| error.proof()) {
                    self.pass_over(receipt, proof)?;
                    return Ok(false);
                }
            }
            return Err(Violation::new(
                content::NEVER_SENT,
                format!("{} offset {} is in no queue", topic.name, receipt.offset),
            ));
        };
        let same = seen.position == delivery.position && seen.stored_at == delivery.stored_at;
        ensure(same, places::STABLE, || format!("{seen:?} is delivered as {delivery:?}"))?;
        let reader = self.engine().reader();
        match fetch(&*reader, delivery.position, delivery.size) {
            Ok(fetched) => {
                let view = fetched.message().map_err(|error| Violation::new(READABLE, error.to_string()))?;
                let number = content::check(&self.model, &view, &topic.name)?;
                ensure(number == seen.number, places::STABLE, || {
                    format!("{number:X} is delivered for {seen:?}")
                })?;
            }
            Err(error) if error.proof().is_some_and(|proof| proof.loss() == Loss::Removed) => {
                retention::check_removed(&self.model, seen.number, seen.stored_at, now)?;
                if let Some(proof) = error.proof() {
                    self.pass_over(receipt, proof)?;
                }
                self.model.turn(group.id, receipt.queue, receipt.offset).exempt = true;
                return Ok(false);
            }
            Err(error) => return Err(Violation::new(READABLE, error.to_string())),
        }
        // A retry was received before, by a filter of that time.
        let is_retry = receipt.queue.topic != topic.id;
        let message = &self.model.messages[seen.number].message;
        let wanted = is_retry
            || self.model.subscriptions.get(&(group.id, topic.id)).is_some_and(|subscription| {
                subscription.filters.iter().any(|filter| filter.accepts(message))
            });
        ensure(wanted, FILTERED, || format!("{} gets message {:X}", group.name, seen.number))?;
        if !attempts::repeats(&mut self.model, delivery, ask.attempt.as_deref(), now) {
            acks::check(&mut self.model, delivery)?;
            attempts::check(&mut self.model, group.id, delivery, now)?;
        }
        let until = now.after(ask.invisible);
        let turn = self.model.turn(group.id, receipt.queue, receipt.offset);
        turn.high = delivery.attempt;
        turn.peak = turn.peak.max(delivery.attempt);
        turn.not_before = until;
        turn.current = Some(Current { receipt, until });
        turn.attempt_id = ask.attempt.clone();
        turn.given_up = false;
        turn.unsure = false;
        turn.given_back = false;
        turn.moved = false;
        turn.outstanding += 1;
        let life = turn.life;
        let attempt = delivery.attempt;
        self.notes.push(Note::Delivered {
            group: group.id,
            queue: receipt.queue,
            offset: receipt.offset,
            attempt,
            life,
        });
        self.receipts.push(receipt);
        if self.receipts.len() > RECEIPTS_KEPT {
            self.receipts.remove(0);
        }
        Ok(true)
    }
}
