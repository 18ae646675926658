//! Nothing that was acknowledged is lost: at the end, when everything is due and all consumers have caught up.

use std::collections::BTreeSet;

use redstart_engine::{GroupId, TopicId};

use super::{Checked, Model, ensure, model::Fate};

pub const STORED: &str = "no acknowledged message is lost";
pub const DELIVERED: &str = "every group that was there gets every message";
pub const HANDED_BACK: &str = "a message handed back comes again";

/// Every message that its sender was promised is in its queue, or was until its time was out.
pub fn check_stored(model: &Model, topics: &BTreeSet<TopicId>) -> Checked {
    for known in model.messages.iter().filter(|known| known.promised() && topics.contains(&known.topic)) {
        ensure(known.place.is_some(), STORED, || {
            format!("message {:X} of {}: {:?}", known.number, known.topic_name, known.receipt)
        })?;
    }
    for back in model.handed_back.iter().filter(|back| topics.contains(&back.to)) {
        ensure(back.fate != Fate::Stored || back.seen || model.forced, HANDED_BACK, || format!("{back:?}"))?;
    }
    Ok(())
}

/// Every message of a topic is done for every group that consumes it.
pub fn check_delivered(model: &Model, group: GroupId, topic: TopicId) -> Checked {
    let Some(standing) = model.standings.get(&(group, topic)) else { return Ok(()) };
    for (queue, log) in model.queues.iter().filter(|(queue, _)| queue.topic == topic) {
        let start = standing.start_of(queue.queue).max(log.min);
        for (offset, seen) in log.seen.range(start..) {
            let done = standing.turns.get(&(queue.queue, *offset)).is_some_and(|turn| turn.done());
            // Retention has taken the body, and left the entry for a while.
            let removed = seen.position < model.log_start;
            let skipped = removed || standing.may_skip(&model.messages[seen.number].message);
            ensure(done || skipped, DELIVERED, || {
                let turn = standing.turns.get(&(queue.queue, *offset));
                format!(
                    "group {} never finished message {:X}, topic {} queue {} offset {offset}: {turn:?}",
                    group.0, seen.number, topic, queue.queue
                )
            })?;
        }
    }
    Ok(())
}
