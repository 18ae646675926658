use serde::{Deserialize, Serialize};

use super::names;

/// Who a client is, what it sends and what it wants.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Heartbeat {
    #[serde(rename = "clientID")]
    pub client_id: String,
    pub producer_data_set: Vec<ProducerData>,
    pub consumer_data_set: Vec<ConsumerData>,
    /// Not 0: the client speaks the second version, in which a heartbeat may come without subscriptions.
    pub heartbeat_fingerprint: i32,
    pub without_sub: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    pub group_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    pub group_name: String,
    #[serde(deserialize_with = "names::consume_type")]
    pub consume_type: Option<String>,
    #[serde(deserialize_with = "names::message_model")]
    pub message_model: Option<String>,
    #[serde(deserialize_with = "names::consume_from_where")]
    pub consume_from_where: Option<String>,
    pub subscription_data_set: Vec<Subscription>,
    pub unit_mode: bool,
}

/// What a consumer wants of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subscription {
    pub topic: String,
    pub sub_string: String,
    pub tags_set: Vec<String>,
    pub code_set: Vec<i32>,
    pub sub_version: i64,
    pub class_filter_mode: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
}

/// A consumer asks whether its expression is understood.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClient {
    pub client_id: String,
    pub group: String,
    pub subscription_data: Option<Subscription>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerIds {
    pub consumer_id_list: Vec<String>,
}

/// The subscription of one client, as tools are shown it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientSubscription {
    pub group: String,
    pub topic: String,
    /// Absent when no consumer of the group subscribes to the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<Subscription>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remoting::from_slice;

    #[test]
    fn heartbeats_of_all_clients_are_read() {
        let go = r#"{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"g","subscriptionDataSet":
            [{"topic":"t","subString":"a||b","tagsSet":["a","b"],"codeSet":["97","98"],"subVersion":1700000000000000000}],
            "consumeType":"CONSUME_PASSIVELY","unknown":[1]}]}"#;
        let heartbeat: Heartbeat = from_slice(go.as_bytes()).unwrap();
        let subscription = &heartbeat.consumer_data_set[0].subscription_data_set[0];
        assert_eq!(subscription.code_set, [97, 98]);
        assert_eq!(subscription.expression_type, None);
        let java = r#"{"clientID":"c","heartbeatFingerprint":-5,"withoutSub":true,"consumerDataSet":[]}"#;
        assert!(from_slice::<Heartbeat>(java.as_bytes()).unwrap().without_sub);
        let numbers: Subscription = from_slice(br#"{"codeSet":[1,-2],"topic":"t"}"#).unwrap();
        assert_eq!(numbers.code_set, [1, -2]);
    }
}
