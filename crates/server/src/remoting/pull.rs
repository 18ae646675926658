//! Consumers pull: by queue and offset, waiting for messages when there are none.

use std::time::Duration;

use redstart_engine::{Filter, GroupName, PullStatus, Pulled, QueueId, QueueOffset, TopicName};
use redstart_wire::remoting::code;

use super::{
    admin::is_forbidden,
    members,
    records::{self, Place},
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::shard::PullRequest;

const COMMIT: i32 = 1;
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;

const MESSAGES_MAX: usize = 1024;
const BYTES_MAX: usize = 256 << 10;
/// Clients give a pull up after 30 s.
const SUSPEND_MAX: Duration = Duration::from_secs(29);

/// Why a consumer may not read, beside the code.
const FORBIDDEN_GROUP: i32 = 2;
const FORBIDDEN_TOPIC: i32 = 3;
const FORBIDDEN_SUBSCRIPTION: i32 = 5;

pub(super) async fn pull(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("consumerGroup")?;
    let topic = TopicName::new(request.required("topic")?)?;
    let queue = QueueId(queue_id(request)?);
    let offset: i64 = request.number("queueOffset")?;
    let flags: i32 = request.number("sysFlag")?;
    let max: i32 = request.number("maxMsgNums")?;
    let bytes_max = request.number_or::<i32>("maxMsgBytes", 0)?;
    let commit = if flags & COMMIT != 0 { Some(request.number::<i64>("commitOffset")?) } else { None };
    let wait = if flags & SUSPEND != 0 { request.number::<u64>("suspendTimeoutMillis")? } else { 0 };
    if !group.is_reserved() {
        request.ensure_group(&group).await?;
    }
    if let Some(answer) = forbidden(request, &group, &topic, queue, commit).await? {
        return Ok(answer);
    }
    let filter = filter(request, flags, &group, &topic)?;
    let Ok(offset) = u64::try_from(offset) else { return moved(request, &topic, queue, None).await };
    if let Some(target) = request.context.resets.moved(&group, &topic, queue, QueueOffset(offset)) {
        return moved(request, &topic, queue, Some(target)).await;
    }
    let pulled = request.context.shard.pull(PullRequest {
        topic: topic.clone(),
        queue,
        offset: QueueOffset(offset),
        max: usize::try_from(max).unwrap_or(0).clamp(1, MESSAGES_MAX),
        bytes_max: usize::try_from(bytes_max)
            .ok()
            .filter(|bytes| *bytes > 0)
            .unwrap_or(BYTES_MAX)
            .min(BYTES_MAX),
        filter: filter.clone(),
        wait: Duration::from_millis(wait).min(SUSPEND_MAX),
    })?;
    let pulled = pulled.await??;
    let status = match pulled.status {
        PullStatus::Found => return found(request, &group, &topic, queue, pulled, &filter).await,
        PullStatus::NoNewMessage => code::PULL_NOT_FOUND,
        PullStatus::NoMatch => code::PULL_RETRY_IMMEDIATELY,
        PullStatus::OffsetMoved => code::PULL_OFFSET_MOVED,
    };
    request.context.shard.counters().statistics().missed.add(1, 0);
    Ok(answer(status, &pulled))
}

pub(super) fn queue_id(request: &Request) -> Result<u32, Refusal> {
    let id: i32 = request.number("queueId")?;
    u32::try_from(id).map_err(|_| Refusal::invalid(format!("queueId is {id}; it must not be negative")))
}

/// Looks whether the group may read the topic, and stores where it stands if it says so.
async fn forbidden(
    request: &Request,
    group: &GroupName,
    topic: &TopicName,
    queue: QueueId,
    commit: Option<i64>,
) -> Result<Option<Answer>, Refusal> {
    let commit = commit.and_then(|offset| u64::try_from(offset).ok()).map(QueueOffset);
    let (names, context) = ((group.clone(), topic.clone()), request.context.clone());
    let (enabled, allowed, readable) = request
        .ask(move |engine, _| {
            let (group, topic) = names;
            let config = engine.group(&group).map(|group| group.config);
            let enabled = config.as_ref().is_none_or(|config| config.enabled);
            let allowed = config.is_none_or(|config| !is_forbidden(&config, &topic));
            let readable = engine.topic(&topic).map(|topic| topic.config.permission.read);
            let commit = commit.filter(|offset| context.resets.takes(&group, &topic, queue, *offset));
            if let (true, Some(offset)) = (enabled, commit) {
                // A queue that does not exist is refused by the pull itself.
                let _ = engine.commit_offset(&group, &topic, queue, offset);
            }
            (enabled, allowed, readable)
        })
        .await?;
    let no = |kind: i32, why: String| {
        let mut answer = Answer::from(Refusal::new(code::NO_PERMISSION, why));
        answer.fields.insert("forbiddenType".to_owned(), kind.to_string());
        // Clients read these whatever the code is.
        for name in ["suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"] {
            answer.fields.insert(name.to_owned(), "0".to_owned());
        }
        Some(answer)
    };
    match readable {
        _ if !enabled => Ok(no(FORBIDDEN_GROUP, format!("consumer group {group} is disabled"))),
        None => Err(Refusal::unknown_topic(topic.as_str())),
        Some(_) if !allowed => {
            Ok(no(FORBIDDEN_SUBSCRIPTION, format!("consumer group {group} may not read topic {topic}")))
        }
        Some(false) => Ok(no(FORBIDDEN_TOPIC, format!("topic {topic} is not readable"))),
        Some(true) => Ok(None),
    }
}

/// The filter of the request, or that of the consumer's heartbeat.
fn filter(request: &Request, flags: i32, group: &GroupName, topic: &TopicName) -> Result<Filter, Refusal> {
    if flags & SUBSCRIPTION != 0 {
        let expression = request.field("subscription").unwrap_or(redstart_engine::filter::EVERYTHING);
        return members::filter(request.field("expressionType"), expression)
            .map_err(|error| Refusal::new(code::SUBSCRIPTION_PARSE_FAILED, error.to_string()));
    }
    let wanted = request.context.members.wanted(group.as_str(), topic.as_str(), &request.peer);
    let wanted = wanted.map_err(|members| {
        let why = if members { "does not subscribe" } else { "has no consumer, so none that subscribes" };
        Refusal::new(code::SUBSCRIPTION_NOT_EXIST, format!("consumer group {group} {why} to {topic}"))
    })?;
    let version: i64 = request.number_or("subVersion", 0)?;
    if wanted.subscription.sub_version < version {
        let why = format!("the subscription of {group} to {topic} is older than the pull's");
        return Err(Refusal::new(code::SUBSCRIPTION_NOT_LATEST, why));
    }
    Ok(wanted.filter)
}

/// Sends the consumer elsewhere: to the beginning, if nothing else is known.
async fn moved(
    request: &Request,
    topic: &TopicName,
    queue: QueueId,
    to: Option<QueueOffset>,
) -> Result<Answer, Refusal> {
    let name = topic.clone();
    let (min, end) = request.ask(move |engine, _| engine.offset_range(&name, queue)).await??;
    let pulled =
        Pulled { status: PullStatus::OffsetMoved, messages: Vec::new(), next: to.unwrap_or(min), min, end };
    Ok(answer(code::PULL_OFFSET_MOVED, &pulled))
}

async fn found(
    request: &Request,
    group: &GroupName,
    topic: &TopicName,
    queue: QueueId,
    pulled: Pulled,
    filter: &Filter,
) -> Result<Answer, Refusal> {
    let places = pulled.messages.iter().map(|message| Place::pulled(queue, message)).collect();
    let records = records::read(request, topic, places, filter).await?;
    if records.written.is_empty() {
        return Ok(answer(code::PULL_RETRY_IMMEDIATELY, &pulled));
    }
    let statistics = request.context.shard.counters().statistics();
    statistics.got(topic, group, records.written.len(), records.body.len());
    Ok(Answer { body: records.body, room: Some(records.room), ..answer(code::SUCCESS, &pulled) })
}

fn answer(status: i32, pulled: &Pulled) -> Answer {
    Answer::new(status)
        .with("suggestWhichBrokerId", 0)
        .with("nextBeginOffset", pulled.next)
        .with("minOffset", pulled.min)
        .with("maxOffset", pulled.end)
        .with("topicSysFlag", 0)
        .with("groupSysFlag", 0)
}
