//! Metrics of messages in and out, of delayed and transactional messages, and of the time that calls take.

use redstart_engine::{GroupName, TopicName};
use redstart_wire::remoting::code;

use super::{
    catalogue::{self, Family},
    groups::{is_system_group, is_system_topic, truth},
    survey::Survey,
    text::Text,
};
use crate::{
    grpc::{Code, Method},
    remoting,
    statistics::{Call, DeferredTraffic, GroupTraffic, OTHERS, Statistics, TopicTraffic},
};

/// RocketMQ's labels for storage on a local disk.
pub(super) const STORAGE: [&str; 2] = ["local", "disk"];

pub(super) fn write(text: &mut Text, statistics: &Statistics, survey: Option<&Survey>) {
    let (mut topics, others) = statistics.topics();
    topics.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let topics: Vec<Topic<'_>> = topics
        .iter()
        .map(|(name, traffic)| Topic::new(name, traffic))
        .chain([Topic { name: OTHERS, is_system: "false", counted: true, traffic: &others }])
        .collect();
    incoming(text, &topics);
    let (mut groups, others) = statistics.groups();
    groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    outgoing(text, &groups, others);
    calls(text, statistics);
    transactions(text, &topics, survey);
    timers(text, &topics, survey);
}

/// A metric, and its value.
type Column = (&'static Family, fn(&GroupTraffic) -> u64);

struct Topic<'a> {
    name: &'a str,
    is_system: &'static str,
    /// False for retry and dead-letter topics, which RocketMQ leaves out: their messages were counted in their first topic.
    counted: bool,
    traffic: &'a TopicTraffic,
}

impl Topic<'_> {
    fn new<'a>(name: &'a TopicName, traffic: &'a TopicTraffic) -> Topic<'a> {
        let counted = !name.is_retry() && !name.is_dead_letter();
        Topic { name: name.as_str(), is_system: truth(is_system_topic(name)), counted, traffic }
    }
}

fn incoming(text: &mut Text, topics: &[Topic<'_>]) {
    let rows: Vec<_> = topics
        .iter()
        .filter(|topic| topic.counted)
        .flat_map(|topic| topic.traffic.incoming.iter().map(move |incoming| (topic, incoming)))
        .map(|(topic, incoming)| (topic, incoming.kind.to_string().to_ascii_lowercase(), incoming))
        .collect();
    let mut samples = text.family(catalogue::MESSAGES_IN);
    for (topic, kind, incoming) in &rows {
        samples.put(&[topic.name, kind, topic.is_system], incoming.sizes.count);
    }
    let mut samples = text.family(catalogue::THROUGHPUT_IN);
    for (topic, kind, incoming) in &rows {
        samples.put(&[topic.name, kind, topic.is_system], incoming.bytes);
    }
    let mut samples = text.family(catalogue::MESSAGE_SIZE);
    for (topic, kind, incoming) in &rows {
        samples.distribution(&[topic.name, kind, topic.is_system], &incoming.sizes, 1.0);
    }
}

fn outgoing(text: &mut Text, groups: &[((TopicName, GroupName), GroupTraffic)], others: GroupTraffic) {
    let row = |(names, traffic): &((TopicName, GroupName), GroupTraffic)| {
        let (topic, group) = names.clone();
        let is_system = truth(is_system_topic(&topic) || is_system_group(group.as_str()));
        let counted = !topic.is_retry() && !topic.is_dead_letter();
        (topic.to_string(), group.to_string(), is_system, counted, *traffic)
    };
    let others = (OTHERS.to_owned(), OTHERS.to_owned(), "false", true, others);
    let rows: Vec<_> = groups.iter().map(row).chain([others]).collect();
    let columns: [Column; 2] = [
        (catalogue::MESSAGES_OUT, |traffic| traffic.messages),
        (catalogue::THROUGHPUT_OUT, |traffic| traffic.bytes),
    ];
    for (family, value) in columns {
        let mut samples = text.family(family);
        for (topic, group, is_system, _, traffic) in
            rows.iter().filter(|(.., counted, traffic)| *counted && traffic.messages > 0)
        {
            samples.put(&[topic, group, is_system], value(traffic));
        }
    }
    let mut samples = text.family(catalogue::SEND_TO_DLQ);
    for (topic, group, is_system, _, traffic) in rows.iter().filter(|(.., traffic)| traffic.dead_lettered > 0)
    {
        samples.put(&[topic, group, is_system], traffic.dead_lettered);
    }
}

fn calls(text: &mut Text, statistics: &Statistics) {
    let mut samples = text.family(catalogue::RPC_LATENCY);
    let mut calls: Vec<_> = statistics.rpcs.all().map(|(call, times)| (labels(call), times)).collect();
    calls.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for (labels, times) in &calls {
        samples.distribution(&labels.each_ref().map(|label| &**label), times, 1.0);
    }
}

fn labels(call: Call) -> [String; 5] {
    let named = |name: Option<&str>, code: i32| match name {
        Some(name) => name.to_ascii_lowercase(),
        None => code.to_string(),
    };
    match call {
        Call::Remoting { request, response, one_way } => [
            "remoting".to_owned(),
            named(code::request_name(request), request),
            named(code::response_name(response), response),
            (remoting::kind(request) == remoting::Kind::Poll).to_string(),
            if one_way { "oneway" } else { "success" }.to_owned(),
        ],
        Call::Grpc { method, status } => [
            "grpc".to_owned(),
            Method::numbered(method).map_or_else(|| OTHERS.to_owned(), |method| snake_case(method.name())),
            Code::label(status).to_owned(),
            Method::numbered(method).is_some_and(Method::may_wait).to_string(),
            "success".to_owned(),
        ],
        Call::Other => [OTHERS; 5].map(str::to_owned),
    }
}

fn snake_case(words: &str) -> String {
    let mut out = String::new();
    for c in words.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn deferred<'a>(topics: &'a [Topic<'_>]) -> impl Iterator<Item = (&'a str, &'a DeferredTraffic)> {
    topics.iter().filter_map(|topic| Some((topic.name, topic.traffic.deferred.as_ref()?)))
}

fn transactions(text: &mut Text, topics: &[Topic<'_>], survey: Option<&Survey>) {
    let mut samples = text.family(catalogue::HALF_MESSAGES);
    if let Some(survey) = survey {
        let (deferred, others) =
            deferred_of(survey, |deferred| deferred.transactions, survey.overview.deferred.transactions);
        for (topic, count) in deferred.iter().chain([&(OTHERS, others)]).filter(|(_, count)| *count > 0) {
            samples.put(&[topic], count);
        }
    }
    let mut samples = text.family(catalogue::COMMIT_MESSAGES);
    for (topic, deferred) in deferred(topics).filter(|(_, deferred)| deferred.finished.count > 0) {
        samples.put(&[topic], deferred.finished.count);
    }
    let mut samples = text.family(catalogue::ROLLBACK_MESSAGES);
    for (topic, deferred) in deferred(topics).filter(|(_, deferred)| deferred.rolled_back > 0) {
        samples.put(&[topic], deferred.rolled_back);
    }
    let mut samples = text.family(catalogue::FINISH_LATENCY);
    for (topic, deferred) in deferred(topics).filter(|(_, deferred)| deferred.finished.count > 0) {
        samples.distribution(&[topic], &deferred.finished, 1.0);
    }
}

fn timers(text: &mut Text, topics: &[Topic<'_>], survey: Option<&Survey>) {
    let [local, disk] = STORAGE;
    let mut samples = text.family(catalogue::TIMING_MESSAGES);
    if let Some(survey) = survey {
        let (deferred, others) =
            deferred_of(survey, |deferred| deferred.delayed, survey.overview.deferred.delayed);
        for (topic, count) in deferred.iter().chain([&(OTHERS, others)]).filter(|(_, count)| *count > 0) {
            samples.put(&[local, disk, topic], count);
        }
    }
    let delayed = || deferred(topics).filter(|(_, deferred)| deferred.delays.count > 0);
    let mut samples = text.family(catalogue::TIMER_ENQUEUE);
    for (topic, deferred) in delayed() {
        samples.put(&[local, disk, topic], deferred.delays.count);
    }
    let mut samples = text.family(catalogue::TIMER_DEQUEUE);
    for (topic, deferred) in deferred(topics).filter(|(_, deferred)| deferred.due > 0) {
        samples.put(&[local, disk, topic], deferred.due);
    }
    let mut samples = text.family(catalogue::DELAY_LATENCY);
    for (topic, deferred) in delayed() {
        samples.distribution(&[local, disk, topic], &deferred.delays, 1.0);
    }
    let overdue = survey.map(|survey| (survey.now, survey.overview.overdue));
    let mut samples = text.family(catalogue::TIMER_DEQUEUE_LAG);
    if let Some((_, overdue)) = overdue {
        samples.put(&STORAGE, overdue.messages);
    }
    let mut samples = text.family(catalogue::TIMER_DEQUEUE_LATENCY);
    if let Some((now, overdue)) = overdue {
        samples.put(&STORAGE, overdue.oldest.map_or(0, |due| now.since(due).as_millis()));
    }
}

/// Delayed or half messages by topic, sorted, and the sum for the topics that the survey left out. The lite topics of a parent count
/// together.
fn deferred_of(
    survey: &Survey,
    count: fn(&redstart_engine::DeferredOfTopic) -> usize,
    all: usize,
) -> (Vec<(&str, usize)>, usize) {
    let mut rows: Vec<(&str, usize)> = survey
        .overview
        .deferred_of
        .iter()
        .map(|deferred| (deferred.topic.as_str(), count(deferred)))
        .collect();
    rows.sort_unstable();
    rows.dedup_by(|next, row| {
        let same = next.0 == row.0;
        if same {
            row.1 += next.1;
        }
        same
    });
    let shown: usize = rows.iter().map(|(_, count)| count).sum();
    (rows, all.saturating_sub(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_rocketmqs_names() {
        let labels = |call| labels(call).join(" ");
        let remoting = |request, response, one_way| Call::Remoting { request, response, one_way };
        assert_eq!(labels(remoting(310, 0, false)), "remoting send_message_v2 success false success");
        assert_eq!(labels(remoting(11, 19, false)), "remoting pull_message pull_not_found true success");
        assert_eq!(labels(remoting(15, 0, true)), "remoting update_consumer_offset success false oneway");
        assert_eq!(labels(remoting(12_345, 77, false)), "remoting 12345 77 false success");
        assert_eq!(labels(Call::Grpc { method: 0, status: 0 }), "grpc send_message ok false success");
        assert_eq!(
            labels(Call::Grpc { method: 1, status: 8 }),
            "grpc receive_message resource_exhausted true success"
        );
    }
}
