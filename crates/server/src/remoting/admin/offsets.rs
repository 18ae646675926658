//! Consumer offsets: reset, clone, list.

use std::collections::{BTreeMap, BTreeSet};

use redstart_engine::{Engine, GroupName, QueueId, QueueOffset, ResetTo, Timestamp, TopicName};
use redstart_wire::remoting::{
    Command, Language,
    body::{DataVersion, Queue, reset_body, reset_list},
    code,
};

use super::{page, topics};
use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

/// Resets a group's offsets. Its connected 4.x consumers, which keep their own offsets, are told to follow.
pub(crate) async fn reset(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.group("group")?, TopicName::new(request.required("topic")?)?);
    let timestamp: i64 = request.number("timestamp")?;
    let queue: i64 = request.number_or("queueId", -1)?;
    let offset: i64 = request.number_or("offset", -1)?;
    topics::known(request, &topic).await?;
    let queue = u32::try_from(queue).ok().map(QueueId);
    let to = match (u64::try_from(offset), u64::try_from(timestamp)) {
        (Ok(offset), _) if queue.is_some() => ResetTo::Offset(QueueOffset(offset)),
        (_, Ok(at)) => ResetTo::Time(Timestamp(at)),
        (_, Err(_)) => ResetTo::Latest,
    };
    let offsets = move_group(request, &group, &topic, queue, to).await?;
    let rows: Vec<(Queue, i64)> =
        offsets.iter().map(|(queue, offset)| (row(request, &topic, *queue), offset.0 as i64)).collect();
    tell_consumers(request, &group, &topic, timestamp, &rows);
    tracing::info!(%group, %topic, ?to, queues = rows.len(), "an operator reset the offsets of a group");
    let body = if request.language == Language::CPP { reset_list(&rows) } else { reset_body(&rows) };
    page::answer(body)
}

fn row(request: &Request, topic: &TopicName, queue: QueueId) -> Queue {
    Queue { broker_name: request.context.name.clone(), queue_id: queue.0 as i32, topic: topic.to_string() }
}

async fn move_group(
    request: &Request,
    group: &GroupName,
    topic: &TopicName,
    queue: Option<QueueId>,
    to: ResetTo,
) -> Result<Vec<(QueueId, QueueOffset)>, Refusal> {
    if let (Some(queue), ResetTo::Offset(offset)) = (queue, to) {
        let name = topic.clone();
        let (min, end) = request.ask(move |engine, _| engine.offset_range(&name, queue)).await??;
        if offset < min || offset > end {
            let why = format!("offset {offset} is not within queue {queue}, which has {min} to {end}");
            return Err(Refusal::new(code::SYSTEM_ERROR, why));
        }
    }
    let online = request.context.members.consumers(group.as_str()).is_some();
    let (by, name, context) = (group.clone(), topic.clone(), request.context.clone());
    // A time is looked up in the index, which may not be in memory: not in the step on the owner thread that moves the group.
    let asked = topic.clone();
    let targets = match to {
        ResetTo::Time(_) => request.look(move |engine, _| engine.reset_targets(&asked, queue, to)).await??,
        _ => Vec::new(),
    };
    let offsets = request
        .ask(move |engine, _| {
            let mut offsets = Vec::with_capacity(targets.len());
            for (queue, offset) in targets {
                offsets.extend(engine.reset(&by, &name, Some(queue), ResetTo::Offset(offset))?);
            }
            if !matches!(to, ResetTo::Time(_)) {
                offsets = engine.reset(&by, &name, queue, to)?;
            }
            // On the owner thread, so that no consumer stores an offset in between.
            for (queue, offset) in offsets.iter().filter(|_| online) {
                context.resets.add(&by, &name, *queue, *offset);
            }
            Ok::<_, redstart_engine::OffsetError>(offsets)
        })
        .await??;
    // A reset is a fact, durable with the next frame. The operator is answered when it is durable.
    request.change(|engine, _| Ok::<_, Refusal>(engine.barrier())).await?;
    Ok(offsets)
}

fn tell_consumers(
    request: &Request,
    group: &GroupName,
    topic: &TopicName,
    timestamp: i64,
    rows: &[(Queue, i64)],
) {
    let members = request.context.members.consumers(group.as_str()).map(|group| group.members);
    for member in members.unwrap_or_default().into_values() {
        let body = if member.language == Language::CPP { reset_list(rows) } else { reset_body(rows) };
        let command = Command::question(code::RESET_CONSUMER_CLIENT_OFFSET)
            .with_field("topic", topic)
            .with_field("group", group)
            .with_field("timestamp", timestamp)
            .with_field("isForce", true);
        // A consumer that does not read its commands follows with its next pull.
        member.peer.notify(Command { body: body.into(), ..command });
    }
}

/// Copies the offsets of one group to another.
pub(crate) async fn clone_offsets(request: &Request) -> Result<Answer, Refusal> {
    let (from, to) = (request.group("srcGroup")?, request.group("destGroup")?);
    let topic = request.field("topic").filter(|topic| !topic.is_empty()).map(TopicName::new).transpose()?;
    request.ensure_group(&to).await?;
    let cloned = request.ask(move |engine, _| {
        let topics = topic.map_or_else(|| engine.topics_of(&from), |topic| vec![topic]);
        for topic in topics {
            let offsets = started(engine, &from, &topic)?;
            for (queue, offset) in offsets {
                engine.reset(&to, &topic, Some(queue), ResetTo::Offset(offset))?;
            }
        }
        Ok::<_, redstart_engine::OffsetError>(())
    });
    cloned.await??;
    request.change(|engine, _| Ok::<_, Refusal>(engine.barrier())).await?;
    Ok(Answer::ok())
}

/// The queues of a topic that a group has consumed, with its offsets.
fn started(
    engine: &Engine,
    group: &GroupName,
    topic: &TopicName,
) -> Result<Vec<(QueueId, QueueOffset)>, redstart_engine::OffsetError> {
    let mut found = Vec::new();
    for queue in engine.topic(topic).map(|topic| topic.queues).unwrap_or_default() {
        found.extend(engine.consumer_offset(group, topic, queue.0)?.map(|offset| (queue.0, offset)));
    }
    Ok(found)
}

/// The least offset of all groups but some, by queue; the largest number there is where `compareGroup` is behind it.
pub(crate) async fn correction(request: &Request) -> Result<Answer, Refusal> {
    let topic = TopicName::new(request.required("topic")?)?;
    let compare = request.group("compareGroup")?;
    let left_out: BTreeSet<String> =
        request.field("filterGroups").unwrap_or_default().split(',').map(str::to_owned).collect();
    topics::known(request, &topic).await?;
    let corrections = request
        .ask(move |engine, _| {
            let mut least: BTreeMap<u32, u64> = BTreeMap::new();
            for group in
                engine.groups_of(&topic).into_iter().filter(|group| !left_out.contains(group.as_str()))
            {
                for (queue, offset) in started(engine, &group, &topic)? {
                    let known = least.entry(queue.0).or_insert(offset.0);
                    *known = offset.0.min(*known);
                }
            }
            if engine.group_id(&compare).is_some() {
                for (queue, offset) in started(engine, &compare, &topic)? {
                    let least = least.entry(queue.0).or_insert(offset.0);
                    if *least > offset.0 {
                        *least = i64::MAX as u64;
                    }
                }
            }
            Ok::<_, redstart_engine::OffsetError>(least)
        })
        .await??;
    Ok(Answer::json(&serde_json::json!({ "correctionOffsets": corrections })))
}

/// The offsets of all groups.
pub(crate) async fn all_consumer_offsets(request: &Request) -> Result<Answer, Refusal> {
    let groups = request.ask(|engine, _| engine.group_names()).await?;
    let mut table: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for group in groups {
        let rows = request
            .ask(move |engine, _| {
                let row = |topic: TopicName| {
                    let offsets = started(engine, &group, &topic)?;
                    let offsets = offsets.into_iter().map(|(queue, offset)| (queue.0, offset.0)).collect();
                    Ok((format!("{topic}@{group}"), offsets))
                };
                engine
                    .topics_of(&group)
                    .into_iter()
                    .map(row)
                    .collect::<Result<Vec<_>, redstart_engine::OffsetError>>()
            })
            .await?;
        // A topic deleted meanwhile has no offsets.
        table.extend(rows.unwrap_or_default());
    }
    table.retain(|_, offsets: &mut BTreeMap<u32, u64>| !offsets.is_empty());
    let version = page::version(&table);
    page::json(&serde_json::json!({ "offsetTable": table, "dataVersion": version }))
}

/// Delayed messages are not kept in queues, so that delay levels have no offsets.
pub(crate) fn all_delay_offsets() -> Result<Answer, Refusal> {
    Ok(Answer::json(&serde_json::json!({ "offsetTable": {}, "dataVersion": DataVersion::default() })))
}
