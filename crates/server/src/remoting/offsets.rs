//! The offset ranges of queues, and the consumer offsets of groups.

use redstart_engine::{Engine, OffsetError, QueueId, QueueOffset, Timestamp, TopicName};
use redstart_wire::remoting::code;

use super::{
    pull::queue_id,
    refusal::Refusal,
    request::{Answer, Request},
};

/// A queue is young while its messages span less than this in the log: a new group starts at its first message.
const YOUNG_BYTES: u64 = 1 << 30;

fn queue(request: &Request) -> Result<(TopicName, QueueId), Refusal> {
    Ok((TopicName::new(request.required("topic")?)?, QueueId(queue_id(request)?)))
}

pub(super) async fn committed(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("consumerGroup")?;
    let (topic, queue) = queue(request)?;
    let zero = request.truth("setZeroIfNotFound").unwrap_or(true);
    // A consumer asks where to begin. Other clients, such as an operator's tools, only look.
    let begins = request.context.members.has_consumer(group.as_str(), &request.peer);
    let found = request
        .ask_here(move |engine| {
            let stored = match begins {
                true => engine.pull_from(&group, &topic, queue),
                false => engine.consumer_offset(&group, &topic, queue),
            };
            match stored {
                Ok(None) | Err(OffsetError::UnknownGroup { .. })
                    if zero && is_young(engine, &topic, queue) =>
                {
                    Ok(Some(QueueOffset(0)))
                }
                Err(OffsetError::UnknownGroup { .. }) => Ok(None),
                other => other,
            }
        })
        .await??;
    match found {
        Some(offset) => Ok(Answer::ok().with("offset", offset)),
        None => {
            let why = "Not found, maybe this group consumer boot first: the client decides where it starts";
            Err(Refusal::new(code::QUERY_NOT_FOUND, why))
        }
    }
}

/// RocketMQ starts a new group at 0 while the first message is still in memory, whatever the client would prefer.
fn is_young(engine: &Engine, topic: &TopicName, queue: QueueId) -> bool {
    let Ok((QueueOffset(0), end)) = engine.offset_range(topic, queue) else { return false };
    let position = |offset| engine.message_at(topic, queue, offset).map(|found| found.position.0);
    let Some(last) = end.0.checked_sub(1) else { return true };
    match (position(QueueOffset(0)), position(QueueOffset(last))) {
        (Ok(first), Ok(last)) => last.abs_diff(first) < YOUNG_BYTES,
        _ => false,
    }
}

pub(super) async fn commit(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("consumerGroup")?;
    let (topic, queue) = queue(request)?;
    let offset: i64 = request.number("commitOffset")?;
    let offset = u64::try_from(offset)
        .map_err(|_| Refusal::invalid(format!("commitOffset is {offset}; it must not be negative")))?;
    request.ensure_group(&group).await?;
    let context = request.context.clone();
    let commit = move |engine: &mut Engine, _| {
        // A consumer that has not followed a reset must not undo it.
        if !context.resets.accepts(&group, &topic, queue, QueueOffset(offset)) {
            return Ok(());
        }
        engine.commit_offset(&group, &topic, queue, QueueOffset(offset))
    };
    request.record(commit).await??;
    Ok(Answer::ok())
}

async fn range(request: &Request) -> Result<(QueueOffset, QueueOffset), Refusal> {
    let (topic, queue) = queue(request)?;
    match request.ask_here(move |engine| engine.offset_range(&topic, queue)).await? {
        Err(OffsetError::UnknownQueue { .. }) => Ok((QueueOffset(0), QueueOffset(0))),
        other => Ok(other?),
    }
}

pub(super) async fn max(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("offset", range(request).await?.1))
}

pub(super) async fn min(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("offset", range(request).await?.0))
}

pub(super) async fn by_time(request: &Request) -> Result<Answer, Refusal> {
    let (topic, queue) = queue(request)?;
    let at: i64 = request.number("timestamp")?;
    let upper = request.field("boundaryType").is_some_and(|kind| kind.eq_ignore_ascii_case("upper"));
    let at = Timestamp(u64::try_from(at).unwrap_or(0));
    let found = request
        .look(move |engine, _| {
            if !upper {
                return engine.offset_at(&topic, queue, at);
            }
            // The last one of that time: the one before the first later one.
            let (min, _) = engine.offset_range(&topic, queue)?;
            let after = engine.offset_at(&topic, queue, Timestamp(at.0.saturating_add(1)))?;
            Ok(QueueOffset(after.0.saturating_sub(1)).max(min))
        })
        .await??;
    Ok(Answer::ok().with("offset", found))
}

pub(super) async fn earliest_time(request: &Request) -> Result<Answer, Refusal> {
    let (topic, queue) = queue(request)?;
    let found = request
        .look(move |engine, _| {
            let (min, _) = engine.offset_range(&topic, queue)?;
            Ok::<_, OffsetError>(engine.message_at(&topic, queue, min).ok())
        })
        .await??;
    let time = found.map_or_else(|| "-1".to_owned(), |found| found.stored_at.to_string());
    Ok(Answer::ok().with("timestamp", time))
}
