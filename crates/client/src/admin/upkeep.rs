//! Occasional requests to a broker: batches of topics and groups, statistics, cleaning.

use std::{collections::BTreeMap, time::Duration};

use redstart_wire::remoting::{
    Command,
    body::{
        ConsumeStatsRow, GroupConfig, GroupConfigs, Queue, RequestMode, StatisticsData, TopicConfigList,
        TopicEntry, TopicList,
    },
    code,
};
use serde::Deserialize;

use super::{Admin, ConsumeStats, Error, json};

/// The progress of all groups of a broker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BrokerConsumeStats {
    /// A group and its offsets, one topic after the other.
    pub groups: Vec<(String, ConsumeStats)>,
    pub lag: i64,
}

/// What a broker can be told to clean at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleaning {
    Queues,
    Topics,
    Log,
}

impl Admin {
    /// Creates or changes topics on one broker. Attributes are changes: their names begin with `+` or `-`.
    pub async fn put_topics(&self, broker: &str, topics: &[TopicEntry]) -> Result<(), Error> {
        let body = TopicConfigList { topic_config_list: topics.to_vec() };
        self.ask_with(broker, Command::request(code::UPDATE_AND_CREATE_TOPIC_LIST), &body).await.map(drop)
    }

    pub async fn put_groups(&self, broker: &str, groups: &[GroupConfig]) -> Result<(), Error> {
        let body = GroupConfigs { group_config_list: groups.to_vec() };
        self.ask_with(broker, Command::request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST), &body)
            .await
            .map(drop)
    }

    /// Whether the consumers of a group pull or pop a topic.
    pub async fn set_request_mode(&self, broker: &str, mode: &RequestMode) -> Result<(), Error> {
        self.ask_with(broker, Command::request(code::SET_MESSAGE_REQUEST_MODE), mode).await.map(drop)
    }

    /// Moves a group in one queue, and tells consumers that are online.
    pub async fn reset_queue(
        &self,
        broker: &str,
        group: &str,
        queue: (&str, i32),
        offset: i64,
    ) -> Result<(), Error> {
        let (topic, queue) = queue;
        self.set_consumer_offset(broker, group, topic, queue, offset).await?;
        let request = Command::request(code::INVOKE_BROKER_TO_RESET_OFFSET)
            .with_field("topic", topic)
            .with_field("group", group)
            .with_field("queueId", queue)
            .with_field("offset", offset)
            .with_field("timestamp", 0)
            .with_field("isForce", true);
        self.ask(broker, request).await.map(drop)
    }

    /// Counts of a broker; `None` when there are none under that name.
    pub async fn statistics(
        &self,
        broker: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<StatisticsData>, Error> {
        let request = code::VIEW_BROKER_STATS_DATA;
        let command = Command::request(request).with_field("statsName", name).with_field("statsKey", key);
        match self.ask(broker, command).await {
            Ok(answer) => json::read(broker, request, &answer).map(Some),
            Err(Error::Refused { code: code::SYSTEM_ERROR, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Offsets of all groups of a broker, or of those of ordered topics.
    pub async fn broker_consume_stats(
        &self,
        broker: &str,
        ordered: bool,
        timeout: Duration,
    ) -> Result<BrokerConsumeStats, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Table {
            #[serde(default)]
            offset_table: BTreeMap<String, ConsumeStatsRow>,
            #[serde(default)]
            consume_tps: f64,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tables {
            #[serde(default)]
            consume_stats_list: Vec<BTreeMap<String, Vec<Table>>>,
            #[serde(default)]
            total_diff: i64,
        }
        let request = code::GET_BROKER_CONSUME_STATS;
        let command = Command::request(request).with_field("isOrder", ordered);
        let answer = self.call(broker, command, timeout).await?;
        let tables: Tables = json::read(broker, request, &answer)?;
        let mut groups = Vec::new();
        for (group, table) in tables
            .consume_stats_list
            .into_iter()
            .flatten()
            .flat_map(|(group, tables)| tables.into_iter().map(move |table| (group.clone(), table)))
        {
            let queues: Vec<(Queue, ConsumeStatsRow)> = json::by_queue(broker, request, table.offset_table)?;
            groups.push((group, ConsumeStats { per_second: table.consume_tps, queues }));
        }
        Ok(BrokerConsumeStats { groups, lag: tables.total_diff })
    }

    /// The topics that a broker has for itself.
    pub async fn system_topics(&self, broker: &str) -> Result<Vec<String>, Error> {
        let request = code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER;
        let answer = self.ask(broker, Command::request(request)).await?;
        Ok(json::read::<TopicList>(broker, request, &answer)?.topic_list)
    }

    pub async fn clean(&self, broker: &str, what: Cleaning) -> Result<(), Error> {
        let request = match what {
            Cleaning::Queues => code::CLEAN_EXPIRED_CONSUMEQUEUE,
            Cleaning::Topics => code::CLEAN_UNUSED_TOPIC,
            Cleaning::Log => code::DELETE_EXPIRED_COMMITLOG,
        };
        self.ask(broker, Command::request(request)).await.map(drop)
    }

    /// The answer to any request as JSON, for what has no type here.
    pub async fn ask_json(&self, broker: &str, request: Command) -> Result<serde_json::Value, Error> {
        let asked = request.code;
        let answer = self.ask(broker, request).await?;
        json::read(broker, asked, &answer)
    }
}
