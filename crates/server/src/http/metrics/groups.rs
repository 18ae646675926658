//! Metrics of consumer groups.

use redstart_engine::{Backlog, GroupName, Timestamp, TopicName};

use super::{
    catalogue::{self, Family},
    survey::Survey,
    text::Text,
};
use crate::statistics::{OTHERS, SHOWN_MAX};

pub(super) fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Topics that RocketMQ counts as the broker's own.
pub(super) fn is_system_topic(topic: &TopicName) -> bool {
    topic.is_reserved() && !topic.is_retry() && !topic.is_dead_letter() && !topic.is_lite()
}

pub(super) fn is_system_group(group: &str) -> bool {
    const PREFIX: &str = "CID_RMQ_SYS_";
    group.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// A metric, and its value.
type Column<'a> = (&'static Family, &'a dyn Fn(&Backlog) -> u64);

struct Row<'a> {
    labels: [&'a str; 4],
    backlog: Backlog,
}

impl<'a> Row<'a> {
    fn new(group: &'a GroupName, topic: &'a TopicName, backlog: Backlog) -> Row<'a> {
        let system = is_system_topic(topic) || is_system_group(group.as_str());
        let labels = [group.as_str(), topic.as_str(), truth(topic.is_retry()), truth(system)];
        Row { labels, backlog }
    }
}

/// One row for each group and topic in the order of their names; those past the limit are summed up in one row.
fn rows(survey: &Survey) -> Vec<Row<'_>> {
    let all = || survey.backlogs.iter();
    let mut rows: Vec<Row<'_>> =
        all().take(SHOWN_MAX).map(|((group, topic), backlog)| Row::new(group, topic, *backlog)).collect();
    let others = all().skip(SHOWN_MAX).map(|(_, backlog)| *backlog).reduce(Backlog::and);
    rows.extend(others.map(|backlog| Row { labels: [OTHERS, OTHERS, "false", "false"], backlog }));
    rows
}

pub(super) fn write(text: &mut Text, survey: Option<&Survey>) {
    let rows = survey.map(rows).unwrap_or_default();
    let now = survey.map(|survey| survey.now).unwrap_or_default();
    let age = |since: Option<Timestamp>| since.map_or(0, |since| now.since(since).as_millis() as u64);
    let columns: [Column<'_>; 5] = [
        (catalogue::LAG_MESSAGES, &|backlog| backlog.lag),
        (catalogue::LAG_LATENCY, &|backlog| age(backlog.oldest_not_done)),
        (catalogue::INFLIGHT, &|backlog| backlog.in_flight),
        (catalogue::QUEUEING_LATENCY, &|backlog| age(backlog.oldest_ready)),
        (catalogue::READY, &|backlog| backlog.ready),
    ];
    for (family, value) in columns {
        let mut samples = text.family(family);
        for row in &rows {
            samples.put(&row.labels, value(&row.backlog));
        }
    }
}
