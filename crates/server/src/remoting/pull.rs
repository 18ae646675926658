//! Consumers pull: by queue and offset, waiting for messages when there are none.

use std::time::Duration;

use redstart_engine::{
    Engine, Filter, GroupConfig, GroupName, OffsetError, PullStatus, Pulled, QueueId, QueueOffset, TopicName,
};
use redstart_wire::remoting::code;

use super::{
    admin::is_forbidden,
    members::{self, NoSubscription},
    records::{self, Place},
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::shard::{PullRequest, ReceiveError};

const COMMIT: i32 = 1;
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;

const MESSAGES_MAX: usize = 1024;
const BYTES_MAX: usize = 256 << 10;
/// How long a pull waits at most: clients give it up after 30 s.
const SUSPEND_MAX: Duration = Duration::from_secs(29);
/// How long a pull waits for a heartbeat with its newer subscription. Shorter than the 3 s after which the client tries again.
const HEARTBEAT_WAIT: Duration = Duration::from_secs(2);

/// Values of `forbiddenType`.
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
    let consumer = Consumer { group, topic, queue };
    let filter = filter(request, flags, &consumer).await;
    let pull = PullRequest {
        topic: consumer.topic.clone(),
        queue,
        offset: QueueOffset(u64::try_from(offset).unwrap_or(0)),
        max: usize::try_from(max).unwrap_or(0).clamp(1, MESSAGES_MAX),
        bytes_max: usize::try_from(bytes_max)
            .ok()
            .filter(|bytes| *bytes > 0)
            .unwrap_or(BYTES_MAX)
            .min(BYTES_MAX),
        filter: filter.as_ref().ok().cloned().unwrap_or_default(),
        wait: long_poll_time(wait),
    };
    let commit = commit.and_then(|offset| u64::try_from(offset).ok()).map(QueueOffset);
    let pulled = try_pull(request, &consumer, commit, &pull).await?;
    let pulled = match pulled {
        Ok(pulled) => pulled,
        Err(forbidden) => return forbidden.answer(&consumer),
    };
    let filter = filter?;
    if offset < 0 {
        return moved(request, &consumer, None).await;
    }
    if let Some(target) = request.context.resets.moved(&consumer.group, &consumer.topic, queue, pull.offset) {
        return moved(request, &consumer, Some(target)).await;
    }
    let mut pulled = pulled?;
    if pulled.status == PullStatus::NoNewMessage && !pull.wait.is_zero() {
        pulled = request.context.shard.pull(pull)?.await??;
    }
    let status = match pulled.status {
        PullStatus::Found => return found(request, &consumer, pulled, &filter).await,
        PullStatus::NoNewMessage => code::PULL_NOT_FOUND,
        PullStatus::NoMatch => code::PULL_RETRY_IMMEDIATELY,
        PullStatus::OffsetMoved => code::PULL_OFFSET_MOVED,
    };
    request.context.shard.counters().statistics().empty_receives.add(1, 0);
    Ok(answer(status, &pulled))
}

/// How long a pull that finds nothing waits.
fn long_poll_time(wanted_ms: u64) -> Duration {
    Duration::from_millis(wanted_ms).min(SUSPEND_MAX)
}

/// The group, topic and queue of a pull.
#[derive(Debug, Clone)]
struct Consumer {
    group: GroupName,
    topic: TopicName,
    queue: QueueId,
}

/// Why a group may not pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forbidden {
    Disabled,
    UnknownTopic,
    NotAllowed,
    NotReadable,
}

pub(super) fn queue_id(request: &Request) -> Result<u32, Refusal> {
    let id: i32 = request.number("queueId")?;
    u32::try_from(id).map_err(|_| Refusal::invalid(format!("queueId is {id}; it must not be negative")))
}

/// Checks that the group may read the topic, stores the offset that comes with the request, and pulls: one operation on the
/// engine, because each costs a switch to the owner thread. An unknown group is created first.
async fn try_pull(
    request: &Request,
    consumer: &Consumer,
    commit: Option<QueueOffset>,
    pull: &PullRequest,
) -> Result<Result<Result<Pulled, OffsetError>, Forbidden>, Refusal> {
    let turn = || {
        let (consumer, pull, context) = (consumer.clone(), pull.clone(), request.context.clone());
        // A pull goes on also where its offset cannot be kept: the next one brings it again.
        let commit = commit.filter(|_| context.shard.check_recording().is_ok());
        request.ask_here(move |engine| {
            let config = engine.group_config(&consumer.group);
            let known = config.is_some() || consumer.group.is_reserved();
            if let Err(forbidden) = check_access(engine, &consumer, config) {
                return (known, Err(forbidden));
            }
            let Consumer { group, topic, queue } = &consumer;
            if let Some(offset) =
                commit.filter(|offset| context.resets.accepts(group, topic, *queue, *offset))
            {
                // A queue that does not exist is refused by the pull itself.
                let _ = engine.commit_offset(group, topic, *queue, offset);
            }
            (known, Ok(engine.pull(&pull.pull())))
        })
    };
    let looked = match turn().await? {
        (true, looked) => looked,
        (false, _) => {
            request.ensure_group(&consumer.group).await?;
            turn().await?.1
        }
    };
    match looked {
        // The shard suspends the pull until the index block that it needs is read.
        Ok(Err(error)) if error.is_cold() => {
            let pull = PullRequest { wait: Duration::ZERO, ..pull.clone() };
            match request.context.shard.pull(pull)?.await? {
                Err(ReceiveError::Pull(error)) => Ok(Ok(Err(error))),
                pulled => Ok(Ok(Ok(pulled?))),
            }
        }
        looked => Ok(looked),
    }
}

fn check_access(engine: &Engine, consumer: &Consumer, config: Option<&GroupConfig>) -> Result<(), Forbidden> {
    if config.is_some_and(|config| !config.enabled) {
        return Err(Forbidden::Disabled);
    }
    let readable = engine.topic_config(&consumer.topic).map(|config| config.permission.read);
    match readable {
        None => Err(Forbidden::UnknownTopic),
        Some(_) if config.is_some_and(|config| is_forbidden(config, &consumer.topic)) => {
            Err(Forbidden::NotAllowed)
        }
        Some(false) => Err(Forbidden::NotReadable),
        Some(true) => Ok(()),
    }
}

impl Forbidden {
    fn answer(self, Consumer { group, topic, .. }: &Consumer) -> Result<Answer, Refusal> {
        let (kind, why) = match self {
            Forbidden::Disabled => {
                (FORBIDDEN_GROUP, format!("subscription group no permission, {group}: it is disabled"))
            }
            Forbidden::UnknownTopic => return Err(Refusal::unknown_topic(topic.as_str())),
            Forbidden::NotAllowed => (
                FORBIDDEN_SUBSCRIPTION,
                format!("the consumer group[{group}] is forbidden for topic[{topic}]"),
            ),
            Forbidden::NotReadable => {
                (FORBIDDEN_TOPIC, format!("the topic[{topic}] pulling message is forbidden"))
            }
        };
        let mut answer = Answer::from(Refusal::new(code::NO_PERMISSION, why)).with("forbiddenType", kind);
        // Clients read these fields with every code.
        for name in ["suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"] {
            answer = answer.with(name, 0);
        }
        Ok(answer)
    }
}

/// The filter of the request, or that of the consumer's heartbeat.
///
/// The Java clients (4.9.8, 5.5.0: `RebalancePushImpl.messageQueueChanged`) give a subscription its new version first, which
/// pulls carry from then on, and tell it by a heartbeat after that. A pull that overtakes the heartbeat waits for it: to
/// refuse it at once, as RocketMQ does, costs the consumer three seconds before it tries again.
async fn filter(request: &Request, flags: i32, consumer: &Consumer) -> Result<Filter, Refusal> {
    let mut known = filter_by_now(request, flags, consumer);
    let not_latest = |known: &Result<_, Refusal>| {
        known.as_ref().is_err_and(|refusal| refusal.code == code::SUBSCRIPTION_NOT_LATEST)
    };
    if not_latest(&known) {
        let until = tokio::time::Instant::now() + HEARTBEAT_WAIT;
        let mut heartbeats = request.context.members.heartbeats();
        loop {
            known = filter_by_now(request, flags, consumer);
            if !not_latest(&known) || tokio::time::timeout_at(until, heartbeats.changed()).await.is_err() {
                break;
            }
        }
    }
    known
}

fn filter_by_now(request: &Request, flags: i32, consumer: &Consumer) -> Result<Filter, Refusal> {
    let Consumer { group, topic, .. } = consumer;
    if flags & SUBSCRIPTION != 0 {
        let expression = request.field("subscription").unwrap_or(redstart_engine::filter::EVERYTHING);
        return members::filter(request.field("expressionType"), expression)
            .map_err(|error| Refusal::subscription(&error));
    }
    let known = request.context.members.subscription(group.as_str(), topic.as_str(), &request.peer);
    let known = known.map_err(|missing| {
        let why = match missing {
            NoSubscription::OtherTopics => {
                format!("the consumer's subscription not exist: {group} does not subscribe to {topic}")
            }
            NoSubscription::NoConsumers => {
                format!("the consumer's group info not exist: no consumer of {group} is connected")
            }
        };
        Refusal::new(code::SUBSCRIPTION_NOT_EXIST, why)
    })?;
    let version: i64 = request.number_or("subVersion", 0)?;
    if known.subscription.sub_version < version {
        let why = format!(
            "the consumer's subscription not latest: that of {group} to {topic} is older than the pull's"
        );
        return Err(Refusal::new(code::SUBSCRIPTION_NOT_LATEST, why));
    }
    Ok(known.filter)
}

/// Tells the consumer to continue at another offset; at the first one, if `to` is not given.
async fn moved(request: &Request, consumer: &Consumer, to: Option<QueueOffset>) -> Result<Answer, Refusal> {
    let (name, queue) = (consumer.topic.clone(), consumer.queue);
    let (min, end) = request.ask_here(move |engine| engine.offset_range(&name, queue)).await??;
    let pulled =
        Pulled { status: PullStatus::OffsetMoved, messages: Vec::new(), next: to.unwrap_or(min), min, end };
    Ok(answer(code::PULL_OFFSET_MOVED, &pulled))
}

async fn found(
    request: &Request,
    consumer: &Consumer,
    mut pulled: Pulled,
    filter: &Filter,
) -> Result<Answer, Refusal> {
    let Consumer { group, topic, queue } = consumer;
    let places: Vec<Place> = pulled.messages.iter().map(|message| Place::pulled(*queue, message)).collect();
    let records = records::read(request, topic, &places, filter).await?;
    records.lost.iter().for_each(|(_, proof)| request.context.shard.bodies().passed_over(*proof));
    if let (Some(error), 0) = (&records.failed, records.end) {
        return Err(Refusal::unread(error));
    }
    // The consumer continues at the first message that it was not given; what it skips counts as consumed.
    if let Some(place) = places.get(records.end) {
        pulled.next = place.offset;
    }
    if records.written.is_empty() {
        return Ok(answer(code::PULL_RETRY_IMMEDIATELY, &pulled));
    }
    let statistics = request.context.shard.counters().statistics();
    statistics.got(topic, group, records.written.len(), records.body.len());
    Ok(Answer { body: records.body, grant: Some(records.grant), ..answer(code::SUCCESS, &pulled) })
}

fn answer(status: i32, pulled: &Pulled) -> Answer {
    Answer::new(status)
        .and("suggestWhichBrokerId", 0)
        .and("nextBeginOffset", pulled.next.0)
        .and("minOffset", pulled.min.0)
        .and("maxOffset", pulled.end.0)
        .and("topicSysFlag", 0)
        .and("groupSysFlag", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_held_as_long_as_it_asks_but_not_until_its_client_gives_up() {
        for (wanted, held) in
            [(0, 0), (15_000, 15_000), (29_000, 29_000), (30_000, 29_000), (u64::MAX, 29_000)]
        {
            assert_eq!(long_poll_time(wanted), Duration::from_millis(held), "{wanted}");
        }
    }
}
