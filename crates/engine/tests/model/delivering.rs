//! Receiving and what follows it: the same on both sides.

use std::time::Duration;

use redstart_engine::*;

use super::{
    check::{Check, Harness, Next, group_name, picked, same_refusal, topic_name},
    offsets::first_at,
    ops::{Choice, From, PopOp},
    progress::{Given, LEVELS, Part, Place, Progress, Rules, Seen},
    reference::*,
};

/// How a delivery's invisible time is changed.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    Invisible(u64),
    Renew(u64),
}

const INVISIBLE_MAX_MS: u64 = 12 * 3_600_000;

/// The n-th failed delivery waits for the n-th step of the ladder, then for its last.
pub fn retry_delay_ms(config: &GroupConfig, attempt: u16) -> u64 {
    let RetryPolicy::Ladder(steps) = &config.retry else { return 0 };
    let step = usize::from(attempt.max(1) - 1).min(steps.len() - 1);
    steps[step].as_millis() as u64
}

impl Harness {
    fn expected_pop(&self, pop: &PopOp) -> Vec<&'static str> {
        let group = self.reference.lasting_group(&group_name(pop.group));
        let topic = self.reference.topic(&topic_name(pop.topic));
        let mut faults = Vec::new();
        faults.extend(group.is_none().then_some("group"));
        faults.extend(topic.is_none().then_some("topic"));
        if let Some(group) = group {
            faults.extend((!self.reference.groups[group].config.enabled).then_some("disabled"));
        }
        if let Some(topic) = topic {
            let permission = self.reference.topics[topic].config.permission;
            faults.extend((!permission.read).then_some("not readable"));
            let readable = self.reference.readable(topic);
            faults.extend(pop.queue.is_some_and(|queue| queue >= readable).then_some("queue"));
        }
        faults
    }

    pub fn pop(&mut self, op: &PopOp) -> Result<Next, String> {
        let (by, from, filter) = (group_name(op.group), topic_name(op.topic), op.filter.filter());
        let attempt = op.attempt.map(|n| format!("attempt-{n}"));
        let now = self.reference.now;
        let request = Pop {
            group: &by,
            topic: &from,
            queue: op.queue.map(QueueId),
            max: op.max,
            invisible: Duration::from_millis(op.invisible_ms),
            filter: &filter,
            attempt: attempt.as_deref(),
            client: "model",
            start: match op.start {
                From::Configured => Start::Configured,
                From::Earliest => Start::Earliest,
                From::Latest => Start::Latest,
                From::Ago(ms) => Start::At(Timestamp(now.saturating_sub(ms))),
            },
            one_per_group: false,
            in_order: op.in_order,
        };
        let expected = self.expected_pop(op);
        let result = match op.retries {
            true => self.engine.pop_with_retries(&request, Timestamp(now)),
            false => self.engine.pop(&request, Timestamp(now)),
        };
        let found = result.as_ref().err().map(|error| match error {
            PopError::UnknownTopic { .. } => "topic",
            PopError::UnknownGroup { .. } => "group",
            PopError::GroupDisabled { .. } => "disabled",
            PopError::NotReadable { .. } => "not readable",
            PopError::UnknownQueue { .. } => "queue",
            _ => "other",
        });
        same_refusal("pop", &expected, found)?;
        let Ok(popped) = result else { return Ok(Next::Go) };
        let (Some(group), Some(topic)) = (self.reference.group(&by), self.reference.topic(&from)) else {
            return Ok(Next::Go);
        };
        let config = &self.reference.groups[group].config;
        let rules = Rules {
            ordered: config.ordered || op.in_order,
            by_priority: !config.ordered
                && !op.in_order
                && self.reference.topics[topic].config.message_type == MessageType::Priority,
            part: Part::All,
            fresh: popped.deliveries.iter().map(|delivery| delivery.receipt).collect(),
            attempts_max: config.attempts_max(),
            attempt_id: attempt,
            now,
            visible_at: now + op.invisible_ms,
        };
        let by_topic = self.reference.subscriptions.get(&(group, topic)).is_some_and(|found| found.by_topic);
        if rules.ordered && by_topic {
            // The locks of what receives of other topics have passed over are not those of message groups.
            return Ok(Next::Stop);
        }
        let retry = self.reference.retry_topic(group, topic).filter(|_| op.retries);
        let of_retry = |delivery: &&Delivery| {
            retry.is_some_and(|retry| Some(delivery.receipt.queue.topic) == self.reference.topics[retry].id)
        };
        let (retries, own) =
            popped.deliveries.split_at(popped.deliveries.iter().take_while(of_retry).count());
        if let Some(retry) = retry
            && self.judge_retries(group, topic, retry, op.max, &rules, retries)? == Next::Stop
        {
            return Ok(Next::Stop);
        }
        self.receipts.extend(popped.deliveries.iter().map(|delivery| delivery.receipt));
        let op = &PopOp { max: op.max - retries.len(), ..op.clone() };
        if op.max == 0 {
            let nothing = own.is_empty();
            return if nothing { Ok(Next::Go) } else { Err(format!("more than asked for: {own:?}")) };
        }
        self.subscribe(group, topic, op.start);
        self.check_deliveries(group, topic, own)?;
        let next = self.judge(group, topic, op, &rules, own)?;
        if next == Next::Stop {
            return Ok(next);
        }
        self.reference.end_final_attempts();
        self.check_next_visible(group, topic, popped.next_visible)?;
        if let Some(retry) = retry {
            self.check_next_retry(group, topic, retry, popped.next_visible)?;
        }
        Ok(next)
    }

    /// A new group starts in all queues at once.
    pub fn subscribe(&mut self, group: usize, topic: usize, start: From) {
        let reference = &mut self.reference;
        let known = reference.subscriptions.contains_key(&(group, topic));
        let queues = if known { 0 } else { reference.readable(topic) };
        let now = reference.now;
        let from_earliest = reference.groups[group]
            .config
            .attributes
            .get(CONSUME_FROM)
            .is_some_and(|from| from == "earliest");
        let starts: Vec<usize> = (0..queues)
            .map(|queue| {
                let entries = reference.entries(topic, queue);
                match start {
                    From::Configured if from_earliest => 0,
                    From::Earliest => 0,
                    From::Configured | From::Latest => entries.len(),
                    From::Ago(ms) => first_at(entries, now.saturating_sub(ms)),
                }
            })
            .collect();
        let subscription = reference.subscriptions.entry((group, topic)).or_default();
        subscription.popped = true;
        if !known {
            subscription.queues = starts.into_iter().map(|at| Some(Progress::starting_at(at))).collect();
        }
    }

    /// The messages are the ones that were sent, word for word.
    pub fn check_deliveries(&self, group: usize, topic: usize, deliveries: &[Delivery]) -> Check {
        let reader = self.engine.reader();
        for delivery in deliveries {
            let receipt = delivery.receipt;
            let ours = Some(receipt.group) == self.reference.groups[group].id
                && Some(receipt.queue.topic) == self.reference.topics[topic].id;
            let entries = self.reference.entries(topic, receipt.queue.queue.0);
            let entry = entries.get(receipt.offset.0 as usize).filter(|_| ours);
            let Some(entry) = entry else { return Err(format!("nothing of this topic: {delivery:?}")) };
            let fetched = fetch(&*reader, delivery.position, delivery.size).map_err(|e| e.to_string())?;
            let message = fetched.message().map_err(|e| e.to_string())?.to_message();
            let expected = &self.reference.stored[entry.message].message;
            if message != *expected || delivery.stored_at.0 != entry.stored_at {
                return Err(format!("{delivery:?} is {message:?}, expected {expected:?} as {entry:?}"));
            }
        }
        Ok(())
    }

    fn seen(&self, topic: usize, queue: u32, filter: Choice) -> Vec<Seen> {
        let entries = self.reference.entries(topic, queue);
        let seen = |(offset, entry): (usize, &Visible)| {
            let message = &self.reference.stored[entry.message].message;
            Seen {
                message_group: message.group.clone(),
                level: self.reference.level(topic, queue, offset),
                passes: filter.passes(message.tag.as_deref(), weight(message)),
                attempt: entry.attempt,
            }
        };
        entries.iter().enumerate().map(seen).collect()
    }

    /// Queues are looked through in turn, and any may be the first.
    fn judge(
        &mut self,
        group: usize,
        topic: usize,
        op: &PopOp,
        rules: &Rules,
        deliveries: &[Delivery],
    ) -> Result<Next, String> {
        let readable = self.reference.readable(topic);
        let seen: Vec<Vec<Seen>> = (0..readable).map(|queue| self.seen(topic, queue, op.filter)).collect();
        let progresses: Vec<Progress> =
            (0..readable).map(|queue| self.reference.progress_mut(group, topic, queue).clone()).collect();
        let (first, count) = match op.queue {
            Some(queue) => (queue..queue + 1, 1),
            None if rules.by_priority => (0..1, readable),
            None => (0..readable, readable),
        };
        let mut outcomes: Vec<Vec<Progress>> = Vec::new();
        let mut refusal = String::new();
        for start in first {
            let queues = (0..count).map(|n| (start + n) % readable);
            let order: Vec<(Part, u32)> = if rules.by_priority {
                let down: Vec<u32> = queues.rev().collect();
                [Part::New, Part::Retries].iter().flat_map(|part| down.iter().map(|q| (*part, *q))).collect()
            } else {
                queues.map(|queue| (Part::All, queue)).collect()
            };
            match judge_in(&order, progresses.clone(), &seen, op.max, rules, deliveries) {
                Ok(outcome) if outcomes.contains(&outcome) => {}
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => refusal = error,
            }
        }
        if progresses.iter().zip(&seen).any(|(progress, seen)| progress.is_ambiguous(seen, rules)) {
            return Ok(Next::Stop);
        }
        let Some(outcome) = outcomes.pop() else { return Err(format!("pop by {group}: {refusal}")) };
        for (queue, progress) in outcome.into_iter().enumerate() {
            *self.reference.progress_mut(group, topic, queue as u32) = progress;
        }
        Ok(if outcomes.is_empty() { Next::Go } else { Next::Stop })
    }

    /// A pop that waits is told of the next retry in time. What is visible already and was not delivered waits for something else.
    fn check_next_visible(&self, group: usize, topic: usize, found: Option<Timestamp>) -> Check {
        let queues = &self.reference.subscriptions[&(group, topic)].queues;
        let flights = queues.iter().flatten().flat_map(|progress| progress.flights());
        let times = flights.filter(|(_, flight)| !flight.ending).map(|(_, flight)| flight.visible_at);
        let next = times.filter(|at| *at > self.reference.now).min();
        match next {
            Some(next) if found.is_none_or(|found| found.0 > next) => {
                Err(format!("next visible {found:?}, expected {next}"))
            }
            _ => Ok(()),
        }
    }

    /// The delivery that a receipt names.
    fn delivery_of(&self, receipt: Receipt) -> Option<Dead> {
        let group = self.reference.groups.iter().position(|group| group.id == Some(receipt.group))?;
        let topic = self.reference.topics.iter().position(|topic| topic.id == Some(receipt.queue.topic))?;
        let dead = Dead { group, topic, queue: receipt.queue.queue.0, offset: receipt.offset.0 as usize };
        self.reference.progress(group, topic, dead.queue).map(|_| dead)
    }

    /// What a receipt is good for: `Ok(true)` in flight, `Ok(false)` done already.
    fn validity_of(&self, receipt: Receipt) -> Result<bool, &'static [AckError]> {
        let Some(dead) = self.delivery_of(receipt) else { return Err(&[AckError::Unknown]) };
        let progress = self.reference.progress(dead.group, dead.topic, dead.queue);
        match progress.and_then(|progress| progress.places.get(dead.offset)) {
            Some(Place::Flight(flight)) => {
                let current =
                    flight.receipt == receipt && flight.visible_at > self.reference.now && !flight.ending;
                if current { Ok(true) } else { Err(&[AckError::Expired]) }
            }
            Some(Place::Done) => Ok(false),
            // A reset took it back: the receipt is void, by whichever name.
            _ => Err(&[AckError::Unknown, AckError::Expired]),
        }
    }

    pub fn ack(&mut self, picks: &[usize], batch: bool) -> Check {
        let receipts: Vec<Receipt> = picks.iter().filter_map(|pick| picked(&self.receipts, *pick)).collect();
        let now = self.now();
        let before: Vec<_> = receipts.iter().map(|receipt| self.validity_of(*receipt)).collect();
        let results = match (batch, receipts.first()) {
            (_, None) => return Ok(()),
            (true, _) => self.engine.ack_batch(&receipts, now),
            (false, Some(receipt)) => vec![self.engine.ack(*receipt, now)],
        };
        for ((receipt, result), before) in receipts.iter().zip(results).zip(before) {
            // An earlier receipt of the same batch may have acked the same message.
            let after = self.validity_of(*receipt);
            let expected = if after.is_ok() == result.is_ok() { after } else { before };
            let legal = match (&expected, result) {
                (Ok(_), Ok(())) => true,
                (Err(expected), Err(error)) => expected.contains(&error),
                // Of levels that a reset has brought together it is not known what was acked before.
                (Err(_), Ok(())) => self.is_leveled(*receipt),
                (Ok(_), Err(_)) => false,
            };
            if !legal {
                return Err(format!("ack of {receipt:?}: {result:?}, expected {expected:?}"));
            }
            if let (Ok(true), Some(dead)) = (expected, self.delivery_of(*receipt)) {
                self.reference.finish(dead);
            }
        }
        Ok(())
    }

    fn is_leveled(&self, receipt: Receipt) -> bool {
        let progress = self.delivery_of(receipt);
        let progress = progress.and_then(|dead| self.reference.progress(dead.group, dead.topic, dead.queue));
        progress.is_some_and(|progress| progress.cursors != [progress.cursors[0]; LEVELS])
    }

    pub fn reschedule(&mut self, pick: usize, change: Change) -> Check {
        let Some(receipt) = picked(&self.receipts, pick) else { return Ok(()) };
        let now = self.now();
        let dead = self.delivery_of(receipt);
        let (delay_ms, result) = match change {
            Change::Invisible(ms) => {
                (ms, self.engine.change_invisible(receipt, Duration::from_millis(ms), now))
            }
            Change::Renew(ms) => {
                (ms, self.engine.renew(receipt, Duration::from_millis(ms), now).map(|()| receipt))
            }
        };
        let over = delay_ms > INVISIBLE_MAX_MS;
        let legal = match (self.validity_of(receipt), result) {
            (_, Err(AckError::InvisibleTime { .. })) => over,
            (Ok(true), Ok(_)) => !over,
            (Ok(false), Err(error)) => error == AckError::Expired,
            (Err(expected), Err(error)) => expected.contains(&error) || self.is_leveled(receipt),
            _ => false,
        };
        if !legal {
            let expected = self.validity_of(receipt);
            return Err(format!("{change:?} of {receipt:?}: {result:?}, expected {expected:?}"));
        }
        if let (Ok(new), Some(dead)) = (result, dead)
            && let Some(flight) = self.reference.flight_mut(dead)
        {
            flight.receipt = new;
            flight.visible_at = now.0 + delay_ms;
            flight.given_back = !matches!(change, Change::Renew(_));
            self.receipts.push(new);
        }
        Ok(())
    }

    /// A delivery that did not reach its consumer: it does not count, be its time over or not.
    pub fn give_back(&mut self, pick: usize, ms: u64) -> Check {
        let Some(receipt) = picked(&self.receipts, pick) else { return Ok(()) };
        let now = self.now();
        let dead = self.delivery_of(receipt);
        let flight = dead.and_then(|dead| self.reference.flight_mut(dead));
        let flight =
            flight.filter(|flight| flight.receipt == receipt && !flight.given_back && !flight.ending);
        let result = self.engine.give_back(&[receipt], Duration::from_millis(ms), now)[0];
        let (Ok(new), Some(flight)) = (result, flight) else {
            let current = dead.and_then(|dead| self.reference.flight_mut(dead)).cloned();
            return match result {
                Ok(_) => Err(format!("{receipt:?} was given back, it is {current:?}")),
                Err(_)
                    if current.is_some_and(|flight| {
                        flight.receipt == receipt && !flight.given_back && !flight.ending
                    }) =>
                {
                    Err(format!("{receipt:?} was not given back: {result:?}"))
                }
                Err(_) => Ok(()),
            };
        };
        flight.receipt = new;
        // What was given back may be held again by a renewal, and be given back once more.
        flight.attempt = flight.attempt.saturating_sub(1);
        flight.visible_at = now.0 + ms.min(INVISIBLE_MAX_MS);
        flight.given_back = true;
        self.receipts.push(new);
        Ok(())
    }

    pub fn forward(&mut self, pick: usize) -> Check {
        let Some(receipt) = picked(&self.receipts, pick) else { return Ok(()) };
        let result = self.engine.forward_to_dead_letters(receipt, None, self.now());
        let expected = self.validity_of(receipt);
        let dead = self.delivery_of(receipt).filter(|_| expected == Ok(true));
        if let Some(dead) = dead {
            let attempts = self.reference.flight_mut(dead).map_or(0, |flight| flight.attempt);
            let ticket = result.as_ref().ok().copied();
            let proposed = self.reference.dead_letter(ticket, dead, attempts, "given up by the consumer");
            let legal =
                if proposed { result.is_ok() } else { matches!(result, Err(ForwardError::NoTopic { .. })) };
            return if legal { Ok(()) } else { Err(format!("forward of {receipt:?}: {result:?}")) };
        }
        match result {
            Err(ForwardError::Receipt(_)) => Ok(()),
            other => Err(format!("forward of {receipt:?}: {other:?}, expected {expected:?}")),
        }
    }
}

fn weight(message: &Message) -> u8 {
    let weight = message.properties.iter().find(|(name, _)| name == "weight");
    weight.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Judges an answer under one order of queues.
fn judge_in(
    order: &[(Part, u32)],
    mut progresses: Vec<Progress>,
    seen: &[Vec<Seen>],
    max: usize,
    rules: &Rules,
    deliveries: &[Delivery],
) -> Result<Vec<Progress>, String> {
    let mut rest = deliveries;
    for (part, queue) in order.iter().copied() {
        let rules = &Rules { part, ..rules.clone() };
        let room = max - (deliveries.len() - rest.len());
        if room == 0 {
            break;
        }
        let here = rest.iter().take_while(|delivery| {
            let (its, offset) = (delivery.receipt.queue.queue.0, delivery.receipt.offset.0 as usize);
            let new = || {
                let progress = &progresses[its as usize];
                // Given back before it counted: new as well.
                progress.flight(offset).is_some_and(|flight| flight.attempt == 0)
                    || seen[its as usize].get(offset).is_some_and(|seen| progress.is_new(offset, seen))
            };
            its == queue && (part != Part::New || new())
        });
        let here = here.count();
        let (own, others) = rest.split_at(here);
        let given: Vec<Given> = own
            .iter()
            .map(|delivery| Given {
                offset: delivery.receipt.offset.0 as usize,
                attempt: delivery.attempt,
                receipt: delivery.receipt,
            })
            .collect();
        let queue = queue as usize;
        progresses[queue]
            .judge(&seen[queue], &given, room, rules)
            .map_err(|e| format!("queue {queue}: {e}"))?;
        rest = others;
    }
    if rest.is_empty() { Ok(progresses) } else { Err(format!("queues out of turn: {rest:?}")) }
}
