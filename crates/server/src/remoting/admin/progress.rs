//! The progress of consumer groups in their topics.

use std::collections::BTreeMap;

use redstart_engine::{
    Engine, GroupName, OffsetError, QueueId, QueueOffset, QueueProgress, Timestamp, TopicName,
};
use redstart_wire::remoting::{
    body::{self, ConsumeStatsRow, ConsumeTimeSpan, ConsumeTimeSpans, Queue, TopicStatsRow},
    code,
};

use super::page;
use crate::{
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
    shard::{Clock, SystemClock},
    statistics::Span,
};

fn queue(request: &Request, topic: &TopicName, id: QueueId) -> Queue {
    Queue { broker_name: request.context.name.clone(), queue_id: id.0 as i32, topic: topic.to_string() }
}

/// When the message at `offset` became visible.
fn time_at(
    engine: &Engine,
    topic: &TopicName,
    queue: QueueId,
    offset: Option<QueueOffset>,
) -> Option<Timestamp> {
    let entries = engine.entries(topic, queue, offset?, 1).ok()?;
    entries.first().map(|(_, entry)| entry.stored_at)
}

fn before(offset: QueueOffset) -> Option<QueueOffset> {
    offset.0.checked_sub(1).map(QueueOffset)
}

pub(crate) async fn topic_stats(request: &Request) -> Result<Answer, Refusal> {
    let topic = TopicName::new(request.required("topic")?)?;
    let name = topic.clone();
    let rows = request
        .look(move |engine, _| {
            let view = engine.topic(&name)?;
            let row = |(id, min, end): (QueueId, QueueOffset, QueueOffset)| {
                let last = time_at(engine, &name, id, before(end)).unwrap_or_default();
                let row = TopicStatsRow {
                    min_offset: min.0 as i64,
                    max_offset: end.0 as i64,
                    last_update_timestamp: last.0 as i64,
                };
                (id, row)
            };
            Some(view.queues.into_iter().map(row).collect::<Vec<_>>())
        })
        .await?
        .ok_or_else(|| Refusal::unknown_topic(topic.as_str()))?;
    let rows = rows.into_iter().map(|(id, row)| (queue(request, &topic, id), row)).collect();
    let statistics = request.context.shard.counters().statistics();
    let put = statistics.of_topic(&topic, Span::Minute, SystemClock.now()).unwrap_or_default();
    page::answer(body::topic_stats(rows, put.per_second()))
}

/// A group's progress in a topic.
type Rows = Vec<(QueueId, ConsumeStatsRow)>;

fn rows(engine: &Engine, group: &GroupName, topic: &TopicName) -> Result<Rows, OffsetError> {
    let row = |progress: QueueProgress| {
        let last = time_at(engine, topic, progress.queue, before(progress.consumer)).unwrap_or_default();
        let row = ConsumeStatsRow {
            broker_offset: progress.end.0 as i64,
            consumer_offset: progress.consumer.0 as i64,
            pull_offset: (progress.consumer.0 + progress.in_flight as u64) as i64,
            last_timestamp: last.0 as i64,
        };
        (progress.queue, row)
    };
    Ok(engine.progress(group, topic)?.into_iter().map(row).collect())
}

pub(crate) async fn consume_stats(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("consumerGroup")?;
    let named = named_topics(request)?;
    let online = request.context.members.consumers(group.as_str());
    let name = group.clone();
    let stats: BTreeMap<TopicName, Rows> = request
        .look(move |engine, _| {
            // Topics that no connected consumer of the group subscribes to are left out.
            let wanted = |topic: &TopicName| {
                online.as_ref().is_none_or(|online| {
                    online.members.values().any(|member| member.subscriptions.contains_key(topic.as_str()))
                })
            };
            let topics = match named.clone() {
                Some(named) => named,
                None => engine.topics_of(&name).into_iter().filter(wanted).collect(),
            };
            let stats = topics.into_iter().filter_map(|topic| match rows(engine, &name, &topic) {
                Ok(rows) => Some(Ok((topic, rows))),
                Err(OffsetError::UnknownTopic { .. }) => None,
                Err(error) => Some(Err(error)),
            });
            stats.collect::<Result<_, _>>()
        })
        .await??;
    let statistics = request.context.shard.counters().statistics();
    let rate = |topic| statistics.of_group(topic, &group, Span::Minute, SystemClock.now());
    let tps: f64 = stats.keys().filter_map(rate).map(|sum| sum.per_second()).sum();
    let rows = stats
        .iter()
        .flat_map(|(topic, rows)| rows.iter().map(move |(id, row)| (queue(request, topic, *id), *row)));
    page::answer(body::consume_stats(rows.collect(), tps))
}

/// The topics that a request names, in one of two fields; `None` for all.
fn named_topics(request: &Request) -> Result<Option<Vec<TopicName>>, Refusal> {
    const TOPICS_MAX: usize = 10_000;
    let listed = request.field("topicList").unwrap_or_default();
    let listed: Vec<&str> = listed.split(';').filter(|topic| !topic.is_empty()).take(TOPICS_MAX).collect();
    let named = if listed.is_empty() {
        request.field("topic").filter(|topic| !topic.is_empty()).into_iter().collect()
    } else {
        listed
    };
    let topics = named.iter().map(|topic| Ok(TopicName::new(topic)?)).collect::<Result<Vec<_>, Refusal>>()?;
    Ok(Some(topics).filter(|topics| !topics.is_empty()))
}

/// Every group with every topic it has read.
pub(crate) async fn broker_consume_stats(request: &Request) -> Result<Answer, Refusal> {
    let ordered = request.truth("isOrder").unwrap_or(false);
    let groups = request.ask(|engine, _| engine.group_names()).await?;
    let (mut all, mut lag, mut in_flight) = (Vec::new(), 0, 0);
    // One group at a time, so that other requests are served in between.
    for group in groups {
        let name = group.clone();
        let stats = request
            .look(move |engine, _| {
                let topics = engine.topics_of(&name).into_iter().filter(|topic| !topic.is_retry());
                let ordered_topic = |topic: &TopicName| {
                    engine.topic(topic).is_some_and(|topic| super::topics::is_ordered(&topic.config))
                };
                let topics = topics.filter(|topic| !ordered || ordered_topic(topic));
                let stats = topics.filter_map(|topic| Some((rows(engine, &name, &topic).ok()?, topic)));
                stats.collect::<Vec<_>>()
            })
            .await?;
        let mut texts = Vec::new();
        for (rows, topic) in stats {
            lag += rows.iter().map(|(_, row)| row.lag()).sum::<i64>();
            in_flight += rows.iter().map(|(_, row)| row.pull_offset - row.consumer_offset).sum::<i64>();
            let rows = rows.into_iter().map(|(id, row)| (queue(request, &topic, id), row)).collect();
            texts.push(body::consume_stats(rows, 0.0));
        }
        if !texts.is_empty() {
            all.push((group.to_string(), texts));
        }
    }
    let broker = request.broker_address().to_string();
    page::answer(body::consume_stats_list(&broker, &all, lag, in_flight))
}

/// The times of a topic's first and last messages, and of the last one that a group has consumed.
pub(crate) async fn consume_time_span(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.group("group")?, TopicName::new(request.required("topic")?)?);
    let (name, by) = (topic.clone(), group.clone());
    let spans = request
        .look(move |engine, now| {
            let view = engine.topic(&name).ok_or_else(|| Refusal::unknown_topic(name.as_str()))?;
            let consumed: BTreeMap<QueueId, QueueProgress> = match engine.progress(&by, &name) {
                Ok(progress) => progress.into_iter().map(|progress| (progress.queue, progress)).collect(),
                Err(OffsetError::UnknownGroup { .. }) => BTreeMap::new(),
                Err(error) => return Err(Refusal::from(error)),
            };
            let span = |(id, min, end): (QueueId, QueueOffset, QueueOffset)| {
                let at = |offset| time_at(engine, &name, id, offset).unwrap_or_default().0 as i64;
                let (min, max) = (at(Some(min)), at(before(end)));
                let progress = consumed.get(&id);
                let read = progress.map_or(min, |progress| at(before(progress.consumer)).max(min));
                let behind = progress.and_then(|progress| progress.oldest_unconsumed);
                let delay = behind.map_or(0, |at| now.since(at).as_millis() as i64);
                (id, min, max, read, delay)
            };
            Ok(view.queues.into_iter().map(span).collect::<Vec<_>>())
        })
        .await??;
    let span = |(id, min, max, read, delay)| ConsumeTimeSpan {
        message_queue: queue(request, &topic, id),
        min_time_stamp: min,
        max_time_stamp: max,
        consume_time_stamp: read,
        delay_time: delay,
    };
    let spans: Vec<ConsumeTimeSpan> = spans.into_iter().map(span).collect();
    if spans.is_empty() {
        return Err(Refusal::new(code::TOPIC_NOT_EXIST, format!("topic {topic} has no queues")));
    }
    Ok(Answer::json(&ConsumeTimeSpans { consume_time_span_set: spans }))
}
