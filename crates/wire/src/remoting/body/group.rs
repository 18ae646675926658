//! Bodies about consumer groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value};

use super::{DataVersion, Queue, names, queue::by_queue};
use crate::remoting::from_slice;

/// A consumer group as tools know it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupConfig {
    pub group_name: String,
    pub consume_enable: bool,
    pub consume_message_orderly: bool,
    pub retry_max_times: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_retry_policy: Option<GroupRetryPolicy>,
    #[serde(flatten)]
    pub extras: GroupExtras,
    pub attributes: Option<BTreeMap<String, String>>,
}

/// Reads both parts out of one object: what is flattened into another type forgets which types it expects, and only
/// those tell how a number that is written as text is meant.
impl<'de> Deserialize<'de> for GroupConfig {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<GroupConfig, D::Error> {
        let text = Value::Object(Map::deserialize(input)?).to_string();
        let own: OwnConfig = from_slice(text.as_bytes()).map_err(D::Error::custom)?;
        Ok(GroupConfig {
            group_name: own.group_name,
            consume_enable: own.consume_enable,
            consume_message_orderly: own.consume_message_orderly,
            retry_max_times: own.retry_max_times,
            group_retry_policy: own.group_retry_policy,
            extras: from_slice(text.as_bytes()).map_err(D::Error::custom)?,
            attributes: own.attributes,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnConfig {
    group_name: String,
    consume_enable: bool,
    consume_message_orderly: bool,
    retry_max_times: i32,
    group_retry_policy: Option<GroupRetryPolicy>,
    attributes: Option<BTreeMap<String, String>>,
}

impl Default for OwnConfig {
    fn default() -> Self {
        OwnConfig {
            group_name: String::new(),
            consume_enable: true,
            consume_message_orderly: false,
            retry_max_times: 16,
            group_retry_policy: None,
            attributes: None,
        }
    }
}

/// What is kept for tools and means nothing to this broker, or only to its 4.x clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupExtras {
    pub consume_from_min_enable: bool,
    pub consume_broadcast_enable: bool,
    pub retry_queue_nums: i32,
    pub broker_id: i64,
    pub which_broker_when_consume_slowly: i64,
    pub notify_consumer_ids_changed_enable: bool,
    pub group_sys_flag: i32,
    pub consume_timeout_minute: i32,
}

impl Default for GroupExtras {
    fn default() -> Self {
        GroupExtras {
            consume_from_min_enable: true,
            consume_broadcast_enable: true,
            retry_queue_nums: 1,
            broker_id: 0,
            which_broker_when_consume_slowly: 1,
            notify_consumer_ids_changed_enable: true,
            group_sys_flag: 0,
            consume_timeout_minute: 15,
        }
    }
}

/// When a message comes again that could not be processed. Without details: RocketMQ's own delays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRetryPolicy {
    #[serde(deserialize_with = "names::retry_policy", skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential_retry_policy: Option<ExponentialRetry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customized_retry_policy: Option<CustomizedRetry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExponentialRetry {
    pub initial: u64,
    pub max: u64,
    pub multiplier: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomizedRetry {
    pub next: Vec<u64>,
}

/// Groups to create or change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupConfigs {
    pub group_config_list: Vec<GroupConfig>,
}

/// Some or all groups of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupPage {
    pub subscription_group_table: BTreeMap<String, GroupConfig>,
    /// Bits by group and topic: what the group may not do there.
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    pub data_version: DataVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    pub group_list: Vec<String>,
}

/// Whether a group may read a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Forbidden {
    pub topic: String,
    pub group: String,
    pub readable: bool,
}

/// Offsets that a group was moved to, as Java and Go clients read them.
pub fn reset_body(offsets: &[(Queue, i64)]) -> String {
    format!(r#"{{"offsetTable":{}}}"#, by_queue(offsets.iter().cloned()))
}

/// The same for C++ clients.
pub fn reset_list(offsets: &[(Queue, i64)]) -> String {
    let row = |(queue, offset): &(Queue, i64)| {
        serde_json::json!({
            "brokerName": queue.broker_name, "offset": offset, "queueId": queue.queue_id, "topic": queue.topic
        })
    };
    let rows: Vec<Value> = offsets.iter().map(row).collect();
    serde_json::json!({ "offsetTable": rows }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_rocketmqs_defaults_and_comes_back_as_it_was_set() {
        let group: GroupConfig = serde_json::from_str(r#"{"groupName":"g"}"#).unwrap();
        assert!(group.consume_enable && group.extras.notify_consumer_ids_changed_enable);
        assert_eq!((group.retry_max_times, group.extras.retry_queue_nums), (16, 1));
        let text = r#"{"groupName":"g","retryQueueNums":3,"brokerId":2,"unknown":{"a":1},"attributes":{}}"#;
        let group: GroupConfig = serde_json::from_str(text).unwrap();
        let shown = serde_json::to_value(&group).unwrap();
        assert_eq!((&shown["retryQueueNums"], &shown["brokerId"]), (&3.into(), &2.into()));
        assert_eq!(shown["whichBrokerWhenConsumeSlowly"], 1);
    }

    #[test]
    fn offsets_have_the_shape_that_each_client_reads() {
        let queue = Queue { broker_name: "b".to_owned(), queue_id: 1, topic: "t".to_owned() };
        let offsets = [(queue, 7)];
        let expected = r#"{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}"#;
        assert_eq!(reset_body(&offsets), expected);
        let expected = r#"{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"t"}]}"#;
        assert_eq!(reset_list(&offsets), expected);
    }
}
