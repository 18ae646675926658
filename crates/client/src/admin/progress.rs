use std::collections::BTreeMap;

use redstart_wire::remoting::{
    Command,
    body::{ConsumeStatsRow, Queue},
    code,
};
use serde::Deserialize;

use super::{Admin, Error, Target, json};

/// The progress of a group on one broker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConsumeStats {
    pub per_second: f64,
    pub queues: Vec<(Queue, ConsumeStatsRow)>,
}

/// The progress of a group in the whole cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    pub per_second: f64,
    /// In the order of topics, brokers and queues.
    pub queues: Vec<(Queue, ConsumeStatsRow)>,
}

impl Progress {
    /// Messages that the group has not consumed.
    pub fn lag(&self) -> i64 {
        self.queues.iter().map(|(_, row)| row.lag()).sum()
    }
}

impl Admin {
    /// The progress of a group on one broker: in one topic, or in all that it has consumed.
    pub async fn consume_stats(
        &self,
        broker: &str,
        group: &str,
        topic: Option<&str>,
    ) -> Result<ConsumeStats, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Table {
            offset_table: BTreeMap<String, ConsumeStatsRow>,
            #[serde(default)]
            consume_tps: f64,
        }
        let request = code::GET_CONSUME_STATS;
        let mut command = Command::request(request).with_field("consumerGroup", group);
        if let Some(topic) = topic {
            command = command.with_field("topic", topic);
        }
        let answer = self.ask(broker, command).await.map_err(|error| error.about_group(group))?;
        let table: Table = json::read(broker, request, &answer)?;
        let queues = json::by_queue(broker, request, table.offset_table)?;
        Ok(ConsumeStats { per_second: table.consume_tps, queues })
    }

    /// The progress of a group on all brokers.
    pub async fn progress(&self, group: &str, topic: Option<&str>) -> Result<Progress, Error> {
        let mut progress = Progress::default();
        for broker in self.masters(&Target::Everywhere).await? {
            let stats = self.consume_stats(&broker.address, group, topic).await?;
            progress.per_second += stats.per_second;
            progress.queues.extend(stats.queues);
        }
        progress.queues.sort_by(|(one, _), (other, _)| json::order(one).cmp(&json::order(other)));
        Ok(progress)
    }
}
