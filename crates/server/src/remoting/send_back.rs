//! Messages that a 4.x consumer could not process. It sends them back by their offset, or sends a copy to the retry topic.

use std::time::{Duration, Instant};

use redstart_engine::{
    Engine, GroupConfig, GroupName, Message, QueueId, RETRY_PREFIX, SendBack, SendBackError, SendOptions,
    Ticket, Timestamp, TopicName, dead_letter,
};
use redstart_wire::remoting::{SendHeader, code, offset_message_id};

use super::{
    auto_create::{ensure_retry_topic, ensure_topic, system_topic},
    convert::read_physical_offset,
    delay_levels::delay_of_level,
    property as p,
    refusal::Refusal,
    request::{Answer, Request},
    rights::SUB,
    send,
};
use crate::{dead_letter_reason::dead_letter_reason, shard::ChangeError};

/// The level of the first retry: 10 s, unless configured otherwise.
const FIRST_LEVEL: u32 = 3;
/// Clients send a limit of their own from this version on, which is 3.4.9.
const OWN_LIMIT_SINCE: i32 = 121;

/// A message to send back. Kept, because it is proposed again when the dead-letter topic has to be created first.
#[derive(Debug, Clone)]
struct Proposal {
    group: GroupName,
    position: redstart_log::Position,
    attempt: u16,
    level: i32,
    retries_max: Option<u32>,
    delay_levels: Vec<Duration>,
    /// The id under which the message was first delivered.
    origin: String,
    reason: Option<String>,
}

impl Proposal {
    fn propose(&self, engine: &mut Engine, now: Timestamp) -> Result<Ticket, SendBackError> {
        let policy = engine.group(&self.group).map(|group| group.config.retry);
        let level = match u32::try_from(self.level) {
            Ok(0) if policy == Some(GroupConfig::default().retry) => FIRST_LEVEL + u32::from(self.attempt),
            // A level that the client names; 0 for a group with its own policy, which then decides.
            Ok(level) => level,
            Err(_) => 0,
        };
        let back = SendBack {
            group: &self.group,
            position: self.position,
            attempt: self.attempt,
            delay: delay_of_level(&self.delay_levels, level.into()),
            retries_max: self.retries_max,
            give_up: self.level < 0,
            reason: self.reason.as_deref(),
            properties: vec![(p::ORIGIN_MESSAGE_ID.to_owned(), self.origin.clone())],
        };
        engine.send_back(&back, now)
    }
}

pub(super) async fn send_back(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("group")?;
    let offset: i64 = request.number("offset")?;
    let not_found = || Refusal::new(code::SYSTEM_ERROR, format!("look message by offset failed, {offset}"));
    let (position, attempt) = read_physical_offset(offset).ok_or_else(not_found)?;
    let own_limit = request.optional_number::<i32>("maxReconsumeTimes")?;
    let own_limit = own_limit.filter(|_| request.version >= OWN_LIMIT_SINCE);
    let back = Proposal {
        group: group.clone(),
        position,
        attempt,
        origin: offset_message_id(request.broker_address(), position.0 as i64),
        level: request.number("delayLevel")?,
        // Of Redstart's own client. Others do not send it.
        reason: request.field("reason").and_then(dead_letter_reason),
        retries_max: own_limit.and_then(|limit| u32::try_from(limit).ok()),
        delay_levels: request.context.node.config.delay_levels.clone(),
    };
    check_message(request, position, not_found).await?;
    request.ensure_group(&group).await?;
    ensure_retry_topic(request, &group).await?;
    let first = back.clone();
    match request.context.shard.change(move |engine, now| first.propose(engine, now))?.await? {
        Err(ChangeError::Refused(SendBackError::NoDeadLetterTopic { topic })) => {
            ensure_topic(request, topic, system_topic()).await?;
            request.change(move |engine, now| back.propose(engine, now)).await?;
        }
        other => other?,
    }
    Ok(Answer::ok())
}

/// Any position can be named: the message there must be one that the caller may consume, else it would come to its group. It is
/// in memory then, so that the owner thread does not wait for the disk when it reads it.
async fn check_message(
    request: &Request,
    position: redstart_log::Position,
    not_found: impl Fn() -> Refusal,
) -> Result<(), Refusal> {
    let found = request.look(move |engine, _| engine.message_by_position(position)).await?;
    if !request.context.node.config.resources.access.is_on() {
        return Ok(());
    }
    let found = found.map_err(|error| Refusal::of_position(error, &not_found))?;
    request.check_topic(found.queue.topic, SUB).await.map_err(|_| not_found())
}

/// Stores a copy in the retry topic, with its count and its delay. Past the maximum it becomes a dead letter. So does every
/// copy of an orderly group: its messages are retried in the consumer, which sends a copy only when it gives up.
pub(super) async fn send(
    request: &Request,
    header: SendHeader<'_>,
    topic: TopicName,
) -> Result<Answer, Refusal> {
    let group = GroupName::new(header.topic.strip_prefix(RETRY_PREFIX).unwrap_or_default())?;
    let known = {
        let group = group.clone();
        request.ask(move |engine, _| engine.group(&group)).await?
    };
    let known = known.ok_or_else(|| Refusal::unknown_group(group.as_str()))?;
    let mut message = send::accept(request, &header)?.message;
    let own_limit = header.max_reconsume_times.filter(|_| request.version >= OWN_LIMIT_SINCE);
    let limit = own_limit.map_or(i64::from(known.config.retries_max), i64::from);
    let ordered = request.context.queue_locks.is_locked(group.as_str(), Instant::now());
    let dead = i64::from(header.reconsume_times) > limit || ordered;
    let target = if dead {
        message = dead_copy(message, header.reconsume_times);
        group.dead_letter_topic()
    } else {
        message.properties.retain(|(name, _)| name != p::RECONSUME_TIME);
        message.properties.push((p::RECONSUME_TIME.to_owned(), header.reconsume_times.to_string()));
        topic
    };
    ensure_topic(request, target.clone(), system_topic()).await?;
    let options = SendOptions { queue: Some(QueueId(0)), half: None, untyped: true };
    let id = message.id.clone();
    let receipts = request.context.shard.send(target, vec![message], options)?.await??;
    Ok(send::sent(request, &receipts).with("transactionId", id))
}

/// A copy that a client sent past its last retry, as a dead letter.
fn dead_copy(mut copy: Message, attempts: i32) -> Message {
    let origin = copy.properties.iter().find(|(name, _)| name == p::RETRY_TOPIC);
    let origin = origin.map(|(_, value)| value.clone()).unwrap_or_default();
    copy.properties.retain(|(name, _)| name != p::DELAY_LEVEL);
    dead_letter(copy, origin, attempts.unsigned_abs(), "retries exhausted")
}

#[cfg(test)]
mod tests {
    use redstart_engine::DLQ_ATTEMPTS;

    use super::*;

    #[test]
    fn a_message_that_becomes_a_dead_letter_again_tells_of_the_last_time_only() {
        let mut copy = Message::default();
        for (name, value) in [(p::RETRY_TOPIC, "orders"), (p::DELAY_LEVEL, "3"), (DLQ_ATTEMPTS, "9")] {
            copy.properties.push((name.to_owned(), value.to_owned()));
        }
        let dead = dead_copy(copy, 17);
        let values = |wanted: &str| -> Vec<&str> {
            let named = dead.properties.iter().filter(|(name, _)| name == wanted);
            named.map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(values(DLQ_ATTEMPTS), ["17"]);
        assert_eq!(values(p::DELAY_LEVEL), [""; 0]);
    }
}
