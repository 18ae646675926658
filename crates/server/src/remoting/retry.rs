//! Messages that a consumer could not process: handed back by their address, or sent to the retry topic as a copy.

use std::time::Instant;

use redstart_engine::{
    DLQ_ATTEMPTS, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, DLQ_REASON, Engine, GroupConfig, GroupName,
    Message, QueueId, RETRY_PREFIX, SendBack, SendBackError, SendOptions, Ticket, Timestamp, TopicName,
};
use redstart_wire::remoting::{SendHeader, code, offset_message_id};

use super::{
    convert::read_physical_offset,
    ensure::{ensure_retry_topic, ensure_topic, system_topic},
    property as p,
    refusal::Refusal,
    request::{Answer, Request},
    send,
};
use crate::shard::ChangeError;

/// The level of the first retry: 10 s, unless configured otherwise.
const FIRST_LEVEL: u32 = 3;
/// Older clients have no limit of their own.
const OWN_LIMIT_SINCE: i32 = 121;

/// A message to hand back, as often as it takes.
#[derive(Debug, Clone)]
struct Back {
    group: GroupName,
    position: redstart_log::Position,
    attempt: u16,
    level: i32,
    retries_max: Option<u32>,
    /// The id under which the message was first delivered.
    origin: String,
}

impl Back {
    fn propose(&self, engine: &mut Engine, now: Timestamp) -> Result<Ticket, SendBackError> {
        let policy = engine.group(&self.group).map(|group| group.config.retry);
        let level = match u32::try_from(self.level) {
            Ok(0) if policy == Some(GroupConfig::default().retry) => FIRST_LEVEL + u32::from(self.attempt),
            // A group with its own policy has its own delays.
            Ok(level) => level,
            Err(_) => 0,
        };
        let back = SendBack {
            group: &self.group,
            position: self.position,
            attempt: self.attempt,
            delay: engine.config().delay_of_level(level),
            retries_max: self.retries_max,
            give_up: self.level < 0,
            properties: vec![(p::ORIGIN_MESSAGE_ID.to_owned(), self.origin.clone())],
        };
        engine.send_back(&back, now)
    }
}

pub(super) async fn send_back(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("group")?;
    let offset: i64 = request.number("offset")?;
    let (position, attempt) = read_physical_offset(offset).ok_or_else(|| {
        Refusal::new(code::SYSTEM_ERROR, format!("look message by offset failed, {offset}"))
    })?;
    let own_limit = request.optional_number::<i32>("maxReconsumeTimes")?;
    let own_limit = own_limit.filter(|_| request.version >= OWN_LIMIT_SINCE);
    let back = Back {
        group: group.clone(),
        position,
        attempt,
        origin: offset_message_id(request.broker_address(), position.0 as i64),
        level: request.number("delayLevel")?,
        retries_max: own_limit.and_then(|limit| u32::try_from(limit).ok()),
    };
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

/// A copy for the retry topic, with its count and its delay; past the maximum it becomes a dead letter. So does every one
/// of an ordered group: its messages come again in place, and are sent only when they are given up.
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
    let ordered = request.context.locks.is_locked(group.as_str(), Instant::now());
    let dead = i64::from(header.reconsume_times) > limit || ordered;
    let target = if dead {
        dead_letter(&mut message, header.reconsume_times);
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

fn dead_letter(message: &mut Message, attempts: i32) {
    let origin = message.properties.iter().find(|(name, _)| name == p::RETRY_TOPIC);
    let origin = origin.map(|(_, value)| value.clone()).unwrap_or_default();
    message.deliver_at = None;
    message.properties.retain(|(name, _)| name != p::DELAY_LEVEL);
    let about = [
        (DLQ_ORIGIN_TOPIC, origin),
        (DLQ_ORIGIN_MESSAGE_ID, message.id.clone()),
        (DLQ_ATTEMPTS, attempts.to_string()),
        (DLQ_REASON, "retries exhausted".to_owned()),
    ];
    message.properties.extend(about.map(|(name, value)| (name.to_owned(), value)));
}
