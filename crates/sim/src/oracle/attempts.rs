//! Attempts count up one by one, to the group's maximum, and never while the message is with another consumer.

use redstart_engine::{Delivery, GroupId, Timestamp};

use super::{Checked, Model, ensure};

pub const COUNTED: &str = "attempts count up one by one";
pub const BOUNDED: &str = "a message is delivered at most as often as its group allows";
pub const INVISIBLE: &str = "a message is invisible while a consumer has it";

/// Whether the delivery repeats the answer to a receive that was lost on its way.
pub fn repeats(model: &mut Model, delivery: &Delivery, attempt_id: Option<&str>, now: Timestamp) -> bool {
    let receipt = delivery.receipt;
    let ordered = model.is_lite(receipt.queue.topic)
        || model.groups.get(&receipt.group).is_some_and(|group| group.ever_ordered);
    let turn = model.turn(receipt.group, receipt.queue, receipt.offset);
    let with_consumer = turn.current.as_ref().is_some_and(|current| current.until > now);
    let same = attempt_id.is_some() && turn.attempt_id.as_deref() == attempt_id;
    ordered && same && ((with_consumer && !turn.given_back) || turn.unsure) && delivery.attempt <= turn.most()
}

pub fn check(model: &mut Model, group: GroupId, delivery: &Delivery, now: Timestamp) -> Checked {
    let receipt = delivery.receipt;
    let limit = model.groups.get(&group).map_or(u32::MAX, |group| group.attempts_high);
    let turn = model.turn(group, receipt.queue, receipt.offset);
    let (low, high, attempt) = (turn.low, turn.most(), delivery.attempt);
    let place = || format!("group {} queue {:?} offset {}", group.0, receipt.queue, receipt.offset);
    ensure(attempt > low && attempt <= high + 1, COUNTED, || {
        format!("{}: attempt {attempt} after {low} to {high}", place())
    })?;
    // An entry that has been delivered before through another queue is delivered from this one at least once.
    ensure(u32::from(attempt) <= limit.max(u32::from(turn.base) + 1), BOUNDED, || {
        format!("{}: attempt {attempt}, the limit is {limit}", place())
    })?;
    ensure(turn.not_before <= now, INVISIBLE, || {
        format!("{}: delivered at {now}, invisible until {}", place(), turn.not_before)
    })
}
