//! A message becomes a dead letter once, when its attempts are used up or its consumer gives it up.

use redstart_engine::{
    DLQ_ATTEMPTS, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, DLQ_PREFIX, DLQ_REASON, GroupId, MessageView,
    QueueKey, QueueOffset, RETRY_PREFIX, TopicId,
};

use super::{
    Checked, Model, Violation, ensure,
    turn::{Acked, Turn},
};
use crate::ops::lite::public_name;

pub const ORIGIN: &str = "a dead letter names where it comes from";
pub const EXHAUSTED: &str = "a message becomes a dead letter once, when its attempts are used up";

/// A dead letter as it was found.
#[derive(Debug, Clone, Copy)]
struct Found {
    number: usize,
    attempts: u16,
    given_up: bool,
}

/// A dead letter was found in the topic `name`. There is one turn of the message that it ends.
pub fn check(model: &mut Model, name: &str, number: usize, view: &MessageView<'_>) -> Checked {
    let broken = |what: &str| Violation::new(ORIGIN, format!("message {number:X} in {name}: {what}"));
    let attempts = view.property(DLQ_ATTEMPTS).and_then(|text| text.parse::<u16>().ok());
    let attempts = attempts.ok_or_else(|| broken("no attempts"))?;
    let given_up = view.property(DLQ_REASON).ok_or_else(|| broken("no reason"))? != "retries exhausted";
    let group = name.strip_prefix(DLQ_PREFIX).ok_or_else(|| broken("no dead-letter topic"))?;
    let topic = view.property(DLQ_ORIGIN_TOPIC).ok_or_else(|| broken("no topic"))?;
    let home = public_name(&model.messages[number].topic_name);
    let home = home.as_str();
    // One that became a dead letter again comes from the first dead-letter topic.
    ensure(topic == home || topic.starts_with('%'), ORIGIN, || {
        format!("message {number:X} of {home} says {topic}")
    })?;
    let id = view.property(DLQ_ORIGIN_MESSAGE_ID);
    ensure(id == Some(view.id), ORIGIN, || format!("message {number:X} says its id was {id:?}"))?;

    let found = Found { number, attempts, given_up };
    if end_turn(model, group, found, topic) {
        return Ok(());
    }
    // A consumer that pulls has no turns.
    let by_hand = model.dead_lettered_by_pulls.get_mut(&(group.to_owned(), number)).filter(|left| **left > 0);
    if let Some(left) = by_hand {
        *left -= 1;
        return Ok(());
    }
    let turns: Vec<_> =
        turns(model, group, number).into_iter().filter_map(|key| turn_at(model, key).cloned()).collect();
    Err(Violation::new(
        EXHAUSTED,
        format!("group {group} message {number:X} after {attempts} attempts: {turns:?}"),
    ))
}

type TurnKey = (GroupId, QueueKey, u64);

/// The turns of a message for all groups that ever had this name.
fn turns(model: &Model, group: &str, number: usize) -> Vec<TurnKey> {
    let mut found = Vec::new();
    for ((id, topic), subscription) in &model.subscriptions {
        if model.groups.get(id).is_none_or(|limits| limits.name != group) {
            continue;
        }
        for (queue, offset) in subscription.turns.keys() {
            let key = QueueKey { topic: TopicId(topic.0), queue: *queue };
            let log = model.queues.get(&key);
            if log.and_then(|log| log.seen.get(offset)).is_some_and(|seen| seen.number == number) {
                found.push((*id, key, *offset));
            }
        }
    }
    found
}

fn turn_at(model: &Model, (group, queue, offset): TurnKey) -> Option<&Turn> {
    model.subscriptions.get(&(group, queue.topic))?.turns.get(&(queue.queue, offset))
}

/// Ends the turn that this is the end of; `false` when there is none.
fn end_turn(model: &mut Model, group: &str, found: Found, origin: &str) -> bool {
    let mut fitting = Vec::new();
    for key in turns(model, group, found.number) {
        let topic = model.topic_names.get(&key.1.topic).map_or("", String::as_str);
        if topic != origin && !topic.starts_with(RETRY_PREFIX) {
            continue;
        }
        let needed = model.groups.get(&key.0).map_or(0, |limits| limits.attempts_low);
        if turn_at(model, key).is_some_and(|turn| fits(turn, found, needed)) {
            fitting.push(key);
        }
    }
    let single = fitting.len() == 1;
    for (group, queue, offset) in &fitting {
        let turn = model.turn(*group, *queue, QueueOffset(*offset));
        // On its way when the group was moved: it may have gone back to the beginning since. And a message may have
        // come to the group in more than one way: then it is not known which of them has ended.
        turn.dead = single && !turn.moved;
        turn.exempt |= !turn.dead;
        turn.ever_dead = true;
        turn.current = None;
    }
    !fitting.is_empty()
}

fn fits(turn: &Turn, found: Found, needed: u32) -> bool {
    let open = !turn.dead && matches!(turn.acked, Acked::No | Acked::Uncertain);
    let made = found.attempts >= turn.low && found.attempts <= turn.most() && turn.most() > turn.base;
    let due = if found.given_up { turn.given_up } else { u32::from(found.attempts) >= needed };
    open && made && due
}
