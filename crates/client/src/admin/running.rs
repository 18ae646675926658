//! The running info of a consumer, and messages that an operator gives to one.

use std::{collections::BTreeMap, time::Duration};

use redstart_wire::remoting::{
    Command,
    body::{Queue, Subscription},
    code,
};
use serde::Deserialize;
use serde_json::Value;

use super::{Admin, Error, Message, json};

/// The broker passes the request on to the consumer, which has ten seconds to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The running info of a consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningInfo {
    pub properties: BTreeMap<String, String>,
    pub subscriptions: Vec<Subscription>,
    pub queues: Vec<(Queue, QueueInfo)>,
    pub pop_queues: Vec<(Queue, PopQueueInfo)>,
    /// By topic.
    pub rates: BTreeMap<String, ConsumeRates>,
    pub user_info: BTreeMap<String, String>,
    /// The stacks of its threads, when they were asked for.
    pub stacks: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueInfo {
    pub commit_offset: i64,
    pub cached_msg_min_offset: i64,
    pub cached_msg_max_offset: i64,
    pub cached_msg_count: i64,
    pub cached_msg_size_in_mi_b: i64,
    pub transaction_msg_min_offset: i64,
    pub transaction_msg_max_offset: i64,
    pub transaction_msg_count: i64,
    pub locked: bool,
    pub try_unlock_times: i64,
    pub last_lock_timestamp: i64,
    /// So it is spelt; the Go client spells it otherwise.
    #[serde(alias = "dropped")]
    pub droped: bool,
    pub last_pull_timestamp: i64,
    pub last_consume_timestamp: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PopQueueInfo {
    pub wait_ack_count: i64,
    /// So it is spelt; the Go client spells it otherwise.
    #[serde(alias = "dropped")]
    pub droped: bool,
    pub last_pop_timestamp: i64,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ConsumeRates {
    #[serde(rename = "pullRT")]
    pub pull_rt: f64,
    #[serde(rename = "pullTPS")]
    pub pull_tps: f64,
    #[serde(rename = "consumeRT")]
    pub consume_rt: f64,
    #[serde(rename = "consumeOKTPS")]
    pub consume_ok_tps: f64,
    #[serde(rename = "consumeFailedTPS")]
    pub consume_failed_tps: f64,
    #[serde(rename = "consumeFailedMsgs")]
    pub consume_failed_msgs: i64,
}

/// The result of a message that was given to a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectResult {
    pub order: bool,
    pub auto_commit: bool,
    /// A name, or its number from the Go client.
    consume_result: Value,
    pub remark: Option<String>,
    pub spent_time_mills: i64,
}

const RESULTS: [&str; 6] =
    ["CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"];

impl DirectResult {
    pub fn result(&self) -> &str {
        let named = |number: u64| RESULTS.get(usize::try_from(number).ok()?).copied();
        self.consume_result.as_str().or_else(|| named(self.consume_result.as_u64()?)).unwrap_or("null")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Body {
    properties: BTreeMap<String, Value>,
    subscription_set: Vec<Subscription>,
    mq_table: BTreeMap<String, QueueInfo>,
    mq_pop_table: BTreeMap<String, PopQueueInfo>,
    status_table: BTreeMap<String, ConsumeRates>,
    user_consumer_info: Option<BTreeMap<String, String>>,
    jstack: Option<String>,
}

impl RunningInfo {
    /// Whether it is a push consumer.
    pub fn is_push(&self) -> bool {
        self.properties.get("PROP_CONSUME_TYPE").is_some_and(|kind| kind == "CONSUME_PASSIVELY")
    }

    pub fn is_ordered(&self) -> bool {
        self.properties.get("PROP_CONSUMEORDERLY").is_some_and(|ordered| ordered == "true")
    }

    /// Milliseconds since 1970.
    pub fn started_at(&self) -> Option<i64> {
        self.properties.get("PROP_CONSUMER_START_TIMESTAMP")?.parse().ok()
    }
}

impl Admin {
    pub async fn running_info(
        &self,
        broker: &str,
        group: &str,
        client: &str,
        stacks: bool,
    ) -> Result<RunningInfo, Error> {
        let request = code::GET_CONSUMER_RUNNING_INFO;
        let command = Command::request(request)
            .with_field("consumerGroup", group)
            .with_field("clientId", client)
            .with_field("jstackEnable", stacks);
        let answer = self.call(broker, command, TIMEOUT).await.map_err(|error| error.about_group(group))?;
        read(broker, &answer)
    }

    /// Hands a message to one consumer of a group.
    pub async fn consume_directly(
        &self,
        message: &Message,
        group: &str,
        client: &str,
    ) -> Result<DirectResult, Error> {
        let broker = message.stored.store_host.to_string();
        let request = code::CONSUME_MESSAGE_DIRECTLY;
        let command = Command::request(request)
            .with_field("topic", &message.stored.topic)
            .with_field("consumerGroup", group)
            .with_field("clientId", client)
            .with_field("msgId", message.offset_id());
        let answer = self.call(&broker, command, TIMEOUT).await.map_err(|error| error.about_group(group))?;
        json::read(&broker, request, &answer)
    }
}

fn read(broker: &str, answer: &Command) -> Result<RunningInfo, Error> {
    let request = code::GET_CONSUMER_RUNNING_INFO;
    let body: Body = json::read(broker, request, answer)?;
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(RunningInfo {
        properties: body.properties.into_iter().map(|(name, value)| (name, text(value))).collect(),
        subscriptions: body.subscription_set,
        queues: json::by_queue(broker, request, body.mq_table)?,
        pop_queues: json::by_queue(broker, request, body.mq_pop_table)?,
        rates: body.status_table,
        user_info: body.user_consumer_info.unwrap_or_default(),
        stacks: body.jstack,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the Java client writes it: queues are keys, and some properties are no text.
    const JAVA: &str = r#"{"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":1,"topic":"t"}:{"cachedMsgCount":2,
        "cachedMsgSizeInMiB":1,"commitOffset":7,"droped":true,"locked":false}},"properties":{"PROP_CONSUMEORDERLY":"true",
        "PROP_CONSUME_TYPE":"CONSUME_PASSIVELY","PROP_CONSUMER_START_TIMESTAMP":"17","adjustThreadPoolNumsThreshold":100},
        "statusTable":{"t":{"consumeOKTPS":0.5,"pullRT":1.25}},
        "subscriptionSet":[{"classFilterMode":false,"codeSet":[],"subString":"*","tagsSet":[],"topic":"t"}]}"#;

    #[test]
    fn what_a_java_consumer_says_is_read() {
        let answer = Command { body: JAVA.into(), ..Command::default() };
        let info = read("b:1", &answer).expect("understood");
        assert!(info.is_push() && info.is_ordered());
        assert_eq!(info.started_at(), Some(17));
        assert_eq!(info.properties["adjustThreadPoolNumsThreshold"], "100");
        let (queue, state) = &info.queues[0];
        assert_eq!((queue.topic.as_str(), queue.queue_id), ("t", 1));
        assert_eq!((state.commit_offset, state.cached_msg_count, state.cached_msg_size_in_mi_b), (7, 2, 1));
        assert!(state.droped && !state.locked);
        assert_eq!((info.rates["t"].consume_ok_tps, info.rates["t"].pull_rt), (0.5, 1.25));
        assert_eq!(info.stacks, None);
    }

    #[test]
    fn results_have_names_and_numbers() {
        for (body, result) in [
            (r#"{"consumeResult":"CR_LATER"}"#, "CR_LATER"),
            (r#"{"consumeResult":4}"#, "CR_THROW_EXCEPTION"),
            (r#"{"consumeResult":9}"#, "null"),
            ("{}", "null"),
        ] {
            let read: DirectResult = serde_json::from_str(body).expect(body);
            assert_eq!(read.result(), result, "{body}");
        }
    }
}
