//! The entries of a queue, as `mqadmin` shows them.

use redstart_engine::{Entry, QueueId, QueueOffset, TopicName};
use redstart_wire::remoting::body::{QueueEntries, QueueEntry};

use crate::remoting::{
    pull::queue_id,
    refusal::Refusal,
    request::{Answer, Request},
};

const ENTRIES_MAX: i64 = 1024;

/// The entries of a queue as they are stored.
pub(crate) async fn queue_entries(request: &Request) -> Result<Answer, Refusal> {
    let topic = TopicName::new(request.required("topic")?)?;
    let queue = QueueId(queue_id(request)?);
    let index: i64 = request.number("index")?;
    let count = request.number_or::<i64>("count", 10)?.clamp(1, ENTRIES_MAX) as usize;
    let name = topic.clone();
    let ((min, end), entries) = request
        .look(move |engine, _| {
            let range = engine.offset_range(&name, queue)?;
            let from = QueueOffset(u64::try_from(index).unwrap_or(0)).max(range.0);
            Ok::<_, redstart_engine::OffsetError>((range, engine.entries(&name, queue, from, count)?))
        })
        .await??;
    let group = request.field("consumerGroup").filter(|group| !group.is_empty());
    let wanted =
        group.map(|group| request.context.members.subscription(group, topic.as_str(), &request.peer));
    let (wanted, filter_data) = match wanted {
        None => (None, None),
        Some(Ok(wanted)) => (Some(wanted), None),
        Some(Err(_)) => (None, group.map(|group| format!("{group}@{topic} is not online!"))),
    };
    let row = |(_, entry): &(QueueOffset, Entry)| QueueEntry {
        physic_offset: entry.position.0,
        physic_size: entry.size,
        tags_code: entry.tag_hash.into(),
        eval: wanted.as_ref().is_some_and(|wanted| {
            wanted.filter.by_tag_hash(entry.tag_hash) != redstart_engine::filter::Verdict::No
        }),
    };
    Ok(Answer::json(&QueueEntries {
        queue_data: entries.iter().map(row).collect(),
        subscription_data: wanted.as_ref().map(|wanted| wanted.subscription.clone()),
        filter_data,
        max_queue_index: end.0,
        min_queue_index: min.0,
    }))
}
