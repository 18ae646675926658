use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Queue, Subscription, queue::by_queue};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    pub client_id: String,
    pub client_addr: String,
    pub language: String,
    pub version: i32,
}

/// Who consumes for a group, and what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    pub connection_set: Vec<Connection>,
    pub subscription_table: BTreeMap<String, Subscription>,
    pub consume_type: String,
    pub message_model: String,
    pub consume_from_where: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    pub connection_set: Vec<Connection>,
}

/// All producers by group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Producers {
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    pub client_id: String,
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    pub language: String,
    pub version: i32,
    pub last_update_timestamp: i64,
}

/// Offsets of consumers in their queues, by client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerStatus {
    pub by_client: BTreeMap<String, BTreeMap<Queue, i64>>,
}

impl ConsumerStatus {
    /// Text, because queues are keys in it.
    pub fn to_text(&self) -> String {
        let clients = self.by_client.iter().map(|(client, offsets)| {
            let client = serde_json::Value::from(client.as_str());
            format!("{client}:{}", by_queue(offsets.clone()))
        });
        let clients: Vec<String> = clients.collect();
        format!(r#"{{"consumerTable":{{{}}},"messageQueueTable":{{}}}}"#, clients.join(","))
    }
}
