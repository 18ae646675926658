//! Retention removes nothing before its time.

use redstart_engine::{QueueKey, QueueOffset, Timestamp};

use super::{Checked, Model, ensure};

pub const IN_TIME: &str = "retention removes nothing before its time";

/// A message that became visible at `stored_at` is no longer stored.
pub fn check_removed(model: &Model, number: usize, stored_at: Timestamp, now: Timestamp) -> Checked {
    let expires = stored_at.after(model.keep);
    ensure(model.forced || now >= expires, IN_TIME, || {
        format!("message {number:X}, visible since {stored_at}, is removed at {now}, kept until {expires}")
    })
}

/// The queue begins at `min` now.
pub fn check_minimum(model: &mut Model, queue: QueueKey, min: QueueOffset, now: Timestamp) -> Checked {
    let Some(log) = model.queues.get(&queue) else { return Ok(()) };
    for (_, seen) in log.seen.range(log.min..min.0) {
        check_removed(model, seen.number, seen.stored_at, now)?;
    }
    let log = model.queues.entry(queue).or_default();
    log.min = log.min.max(min.0);
    // What was removed before the model looked was linked and removed between two looks.
    log.next = log.next.max(min.0);
    Ok(())
}
