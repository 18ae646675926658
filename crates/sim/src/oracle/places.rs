//! Offsets of a queue are dense, and a message keeps its offset over restarts.

use redstart_engine::{QueueKey, QueueOffset};

use super::{Checked, Model, ensure, model::Seen};

pub const STABLE: &str = "a message keeps its offset";
pub const DENSE: &str = "offsets of a queue are dense";
pub const ONCE: &str = "a message is in its queue once";

/// Something was found at an offset. Says whether it is new.
pub fn check(
    model: &mut Model,
    queue: QueueKey,
    offset: QueueOffset,
    seen: Seen,
) -> Result<bool, super::Violation> {
    let log = model.queues.entry(queue).or_default();
    if let Some(before) = log.seen.get(&offset.0) {
        ensure(*before == seen, STABLE, || {
            format!("queue {queue:?} offset {offset}: was {before:?}, is {seen:?}")
        })?;
        return Ok(false);
    }
    ensure(offset.0 == log.next, DENSE, || {
        format!("queue {queue:?}: offset {offset} found, {} is next", log.next)
    })?;
    log.next = offset.0 + 1;
    log.seen.insert(offset.0, seen);
    Ok(true)
}

/// The range that a queue says it has. Neither end ever goes back.
pub fn check_range(model: &Model, queue: QueueKey, min: QueueOffset, end: QueueOffset) -> Checked {
    let Some(log) = model.queues.get(&queue) else { return Ok(()) };
    ensure(min.0 >= log.min && end.0 >= log.next && min <= end, STABLE, || {
        format!("queue {queue:?} was {} to {}, is {min} to {end}", log.min, log.next)
    })
}

/// The message has its one place in the topic it was sent to.
pub fn check_once(model: &mut Model, number: usize, queue: QueueKey, offset: QueueOffset) -> Checked {
    let known = &mut model.messages[number];
    let before = known.place;
    known.place = Some((queue, offset));
    ensure(before.is_none_or(|before| before == (queue, offset)), ONCE, || {
        format!("message {number:X} is at {before:?} and at {queue:?} offset {offset}")
    })
}
