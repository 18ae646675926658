//! FIFO: a message group is stored in the order it was sent, and an ordered consumer group gets the next of a message
//! group only when those before it are done.

use std::collections::BTreeSet;

use redstart_engine::{GroupId, QueueKey, QueueOffset};

use super::{Checked, Model, ensure};

pub const STORED: &str = "a message group is stored in the order it was sent";
pub const DELIVERED: &str = "the next of a message group comes only after the one before is done";
pub const IN_ANSWER: &str = "the messages of an answer are in order";

/// A message was found at the end of a queue: the one sent before it to the same message group is before it.
pub fn check_stored(model: &Model, number: usize, queue: QueueKey, offset: QueueOffset) -> Checked {
    let this = &model.messages[number];
    let Some(group) = this.message.group.as_ref().filter(|_| this.immediate()) else { return Ok(()) };
    let Some(log) = model.queues.get(&queue) else { return Ok(()) };
    for (at, seen) in log.seen.range(..offset.0) {
        let other = &model.messages[seen.number];
        let same = other.topic == this.topic && other.message.group.as_ref() == Some(group);
        ensure(!same || !other.immediate() || other.number < number, STORED, || {
            format!("message {number:X} at offset {offset}, {:X} at {at}", other.number)
        })?;
    }
    Ok(())
}

pub const ALONE: &str = "a lite topic gives one message at a time";

/// One answer to an ordered group: `offsets` of one queue, in the order they came, and whether each only repeats an
/// answer that was lost on its way.
pub fn check_delivered(
    model: &Model,
    group: GroupId,
    queue: QueueKey,
    offsets: &[(QueueOffset, bool)],
) -> Checked {
    let lite = model.is_lite(queue.topic);
    ensure(!lite || offsets.len() <= 1, ALONE, || format!("queue {queue:?}: {offsets:?}"))?;
    if !lite && !model.groups.get(&group).is_some_and(|group| group.always_ordered) {
        return Ok(());
    }
    let (Some(log), Some(subscription)) =
        (model.queues.get(&queue), model.subscriptions.get(&(group, queue.topic)))
    else {
        return Ok(());
    };
    // Retries are given to receives of their topics without order.
    if subscription.received_by_topic {
        return Ok(());
    }
    let from = subscription
        .order_from
        .get(&queue.queue)
        .copied()
        .unwrap_or(0)
        .max(subscription.start_of(queue.queue));
    let ours: BTreeSet<u64> = offsets.iter().map(|(offset, _)| offset.0).collect();
    ensure(offsets.is_sorted_by_key(|(offset, _)| *offset), IN_ANSWER, || {
        format!("queue {queue:?}: {offsets:?}")
    })?;
    for (offset, _) in offsets.iter().filter(|(_, repeated)| !repeated) {
        let Some(lock) = log.seen.get(&offset.0).map(|seen| seen.lock) else { continue };
        for (before, seen) in log.seen.range(from.max(log.min)..offset.0.max(from.max(log.min))) {
            let passed = seen.lock != lock
                || seen.position < model.log_start
                || ours.contains(before)
                || subscription.may_skip(&model.messages[seen.number].message)
                || subscription.turns.get(&(queue.queue, *before)).is_some_and(|turn| turn.may_be_done());
            ensure(passed, DELIVERED, || {
                format!("group {} queue {queue:?}: offset {offset} delivered, {before} is not done", group.0)
            })?;
        }
    }
    Ok(())
}
