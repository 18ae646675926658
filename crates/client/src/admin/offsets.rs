use std::collections::BTreeMap;

use redstart_wire::remoting::{Command, body::Queue, code};
use serde::Deserialize;

use super::{Admin, Error, json};

/// Which message of a time counts when several have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    #[default]
    First,
    Last,
}

impl Admin {
    /// The first offset of a queue that still has its message.
    pub async fn min_offset(&self, broker: &str, topic: &str, queue: i32) -> Result<i64, Error> {
        self.offset(broker, of_queue(code::GET_MIN_OFFSET, topic, queue)).await
    }

    /// The offset that the next message of a queue will have.
    pub async fn max_offset(&self, broker: &str, topic: &str, queue: i32) -> Result<i64, Error> {
        self.offset(broker, of_queue(code::GET_MAX_OFFSET, topic, queue)).await
    }

    /// The offset of the first message that was stored at or after a time.
    pub async fn offset_at(
        &self,
        broker: &str,
        topic: &str,
        queue: i32,
        timestamp: i64,
        boundary: Boundary,
    ) -> Result<i64, Error> {
        let boundary = match boundary {
            Boundary::First => "LOWER",
            Boundary::Last => "UPPER",
        };
        let request = of_queue(code::SEARCH_OFFSET_BY_TIMESTAMP, topic, queue)
            .with_field("timestamp", timestamp)
            .with_field("boundaryType", boundary);
        self.offset(broker, request).await
    }

    /// The offset of a group in a queue; `None` when it has stored none.
    pub async fn consumer_offset(
        &self,
        broker: &str,
        group: &str,
        topic: &str,
        queue: i32,
    ) -> Result<Option<i64>, Error> {
        let request = of_queue(code::QUERY_CONSUMER_OFFSET, topic, queue)
            .with_field("consumerGroup", group)
            .with_field("setZeroIfNotFound", false);
        match self.offset(broker, request).await {
            Err(error) if error.code() == Some(code::QUERY_NOT_FOUND) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Stores the offset of a group in a queue. Consumers that are online overwrite it soon after.
    pub async fn set_consumer_offset(
        &self,
        broker: &str,
        group: &str,
        topic: &str,
        queue: i32,
        offset: i64,
    ) -> Result<(), Error> {
        let request = of_queue(code::UPDATE_CONSUMER_OFFSET, topic, queue)
            .with_field("consumerGroup", group)
            .with_field("commitOffset", offset);
        self.ask(broker, request).await.map(drop).map_err(|error| error.about_group(group))
    }

    /// Resets a group in all queues of a topic on one broker to a time, -1 for the end; returns the new offsets.
    pub async fn reset_offsets(
        &self,
        broker: &str,
        group: &str,
        topic: &str,
        timestamp: i64,
    ) -> Result<Vec<(Queue, i64)>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Table {
            #[serde(default)]
            offset_table: BTreeMap<String, i64>,
        }
        let request = code::INVOKE_BROKER_TO_RESET_OFFSET;
        let command = Command::request(request)
            .with_field("topic", topic)
            .with_field("group", group)
            .with_field("timestamp", timestamp)
            .with_field("isForce", true)
            .with_field("queueId", -1)
            .with_field("offset", -1);
        let answer = self.ask(broker, command).await;
        let answer = answer.map_err(|error| error.about_topic(topic).about_group(group))?;
        let table: Table = json::read(broker, request, &answer)?;
        json::by_queue(broker, request, table.offset_table)
    }

    async fn offset(&self, broker: &str, request: Command) -> Result<i64, Error> {
        let code = request.code;
        let topic = request.field("topic").unwrap_or_default().to_owned();
        let answer = self.ask(broker, request).await.map_err(|error| error.about_topic(&topic))?;
        answer.number("offset").map_err(|error| Error::field(broker, code, &error))
    }
}

fn of_queue(code: i32, topic: &str, queue: i32) -> Command {
    Command::request(code).with_field("topic", topic).with_field("queueId", queue)
}
