//! Nothing that was acknowledged is lost: at the end, when everything is due and all consumers have caught up.

use std::collections::BTreeSet;

use redstart_engine::{GroupId, QueueKey, QueueOffset, TopicId};

use super::{Checked, Model, ensure, model::Fate};

pub const STORED: &str = "no acknowledged message is lost";
pub const DELIVERED: &str = "every group that was there gets every message";
pub const SENT_BACK: &str = "a message sent back comes again";
pub const BY_TOPIC: &str = "receives of a topic get its messages from the retry topic";

/// Every message that its sender was promised is in its queue, or was until its time was out.
pub fn check_stored(model: &Model, topics: &BTreeSet<TopicId>) -> Checked {
    for known in model.messages.iter().filter(|known| known.promised() && topics.contains(&known.topic)) {
        ensure(known.place.is_some(), STORED, || {
            format!("message {:X} of {}: {:?}", known.number, known.topic_name, known.receipt)
        })?;
    }
    for back in model.sent_back.iter().filter(|back| topics.contains(&back.to)) {
        ensure(back.fate != Fate::Stored || back.seen || model.forced, SENT_BACK, || format!("{back:?}"))?;
    }
    Ok(())
}

/// Every message of a topic is done for every group that consumes it. `topics` are those that are left: receives by topic
/// skip messages of a deleted one in the group's retry topic.
pub fn check_delivered(model: &Model, topics: &BTreeSet<TopicId>, group: GroupId, topic: TopicId) -> Checked {
    let Some(subscription) = model.subscriptions.get(&(group, topic)) else { return Ok(()) };
    for (queue, log) in model.queues.iter().filter(|(queue, _)| queue.topic == topic) {
        let start = subscription.start_of(queue.queue).max(log.min);
        for (offset, seen) in log.seen.range(start..) {
            let done = subscription.turns.get(&(queue.queue, *offset)).is_some_and(|turn| turn.done());
            // Retention has taken the body, and left the entry for a while.
            let removed = seen.position < model.log_start;
            let known = &model.messages[seen.number];
            let of_deleted_topic = subscription.received_by_topic && !topics.contains(&known.topic);
            let skipped = removed || of_deleted_topic || subscription.may_skip(&known.message);
            ensure(done || skipped, DELIVERED, || {
                let turn = subscription.turns.get(&(queue.queue, *offset));
                format!(
                    "group {} never finished message {:X}, topic {} queue {} offset {offset}: {turn:?}",
                    group.0, seen.number, topic, queue.queue
                )
            })?;
        }
    }
    Ok(())
}

/// Consumers of the group have received by topic until nothing came, and yet the group's retry topic gives out a message.
pub fn check_left_in_retry_topic(
    model: &Model,
    topics: &BTreeSet<TopicId>,
    queue: QueueKey,
    offset: QueueOffset,
) -> Checked {
    let Some(seen) = model.seen(queue, offset) else { return Ok(()) };
    let home = model.messages[seen.number].topic;
    // No receive by topic asks for a deleted topic, nor do those of lite topics look into the retry topic.
    let unasked = !topics.contains(&home) || model.is_lite(home) || seen.position < model.log_start;
    ensure(unasked, BY_TOPIC, || format!("message {:X} at {queue:?} offset {offset}", seen.number))
}
