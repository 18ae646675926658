use serde::{Deserialize, Serialize};

use super::{Queue, Subscription, queue::by_queue};

/// One queue of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatsRow {
    pub min_offset: i64,
    pub max_offset: i64,
    pub last_update_timestamp: i64,
}

/// A group's standing in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsRow {
    pub broker_offset: i64,
    pub consumer_offset: i64,
    pub pull_offset: i64,
    pub last_timestamp: i64,
}

impl ConsumeStatsRow {
    pub fn lag(&self) -> i64 {
        self.broker_offset - self.consumer_offset
    }
}

/// Text, because queues are keys in it; the same holds for the next two.
pub fn topic_stats(rows: Vec<(Queue, TopicStatsRow)>, put_tps: f64) -> String {
    format!(r#"{{"offsetTable":{},"topicPutTps":{put_tps:?}}}"#, by_queue(rows))
}

pub fn consume_stats(rows: Vec<(Queue, ConsumeStatsRow)>, tps: f64) -> String {
    format!(r#"{{"consumeTps":{tps:?},"offsetTable":{}}}"#, by_queue(rows))
}

/// All groups of a broker, each with one text of [`consume_stats`] for a topic.
pub fn consume_stats_list(
    broker: &str,
    groups: &[(String, Vec<String>)],
    total_lag: i64,
    total_in_flight: i64,
) -> String {
    let group = |(group, stats): &(String, Vec<String>)| {
        format!("{{{}:[{}]}}", serde_json::Value::from(group.as_str()), stats.join(","))
    };
    let groups: Vec<String> = groups.iter().map(group).collect();
    format!(
        r#"{{"brokerAddr":{},"consumeStatsList":[{}],"totalDiff":{total_lag},"totalInflightDiff":{total_in_flight}}}"#,
        serde_json::Value::from(broker),
        groups.join(",")
    )
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpans {
    pub consume_time_span_set: Vec<ConsumeTimeSpan>,
}

/// From when to when the messages of a queue are, and up to when a group has read them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpan {
    pub message_queue: Queue,
    pub min_time_stamp: i64,
    pub max_time_stamp: i64,
    pub consume_time_stamp: i64,
    pub delay_time: i64,
}

/// A count over the last minute, hour and day.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatisticsData {
    pub stats_minute: Statistic,
    pub stats_hour: Statistic,
    pub stats_day: Statistic,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistic {
    pub sum: u64,
    pub tps: f64,
    pub avgpt: f64,
}

/// Entries of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueEntries {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<Subscription>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<String>,
    pub queue_data: Vec<QueueEntry>,
    pub max_queue_index: u64,
    pub min_queue_index: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueEntry {
    pub physic_offset: u64,
    pub physic_size: u32,
    pub tags_code: i64,
    pub eval: bool,
}

/// A broker without copies of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaStatus {
    pub master: bool,
    pub master_commit_log_max_offset: u64,
    pub in_sync_slave_nums: u32,
    pub ha_connection_info: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_by_queue_have_rocketmqs_shape() {
        let queue = || Queue { broker_name: "b".to_owned(), queue_id: 0, topic: "t".to_owned() };
        let row = TopicStatsRow { min_offset: 1, max_offset: 2, last_update_timestamp: 3 };
        let expected = concat!(
            r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:"#,
            r#"{"minOffset":1,"maxOffset":2,"lastUpdateTimestamp":3}},"topicPutTps":0.5}"#
        );
        assert_eq!(topic_stats(vec![(queue(), row)], 0.5), expected);
        let row = ConsumeStatsRow { broker_offset: 5, consumer_offset: 3, pull_offset: 4, last_timestamp: 9 };
        let text = consume_stats(vec![(queue(), row)], 0.0);
        assert!(text.starts_with(r#"{"consumeTps":0.0,"offsetTable":{{"#), "{text}");
        let list = consume_stats_list("a:1", &[("g".to_owned(), vec![text])], 2, 0);
        assert!(list.contains(r#""consumeStatsList":[{"g":[{"consumeTps""#), "{list}");
    }
}
