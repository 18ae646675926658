//! Bodies of the name service: routes, brokers, registrations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names;

/// Where a topic's queues are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRoute {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    pub queue_datas: Vec<QueueData>,
    pub broker_datas: Vec<BrokerData>,
    pub filter_server_table: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    pub broker_name: String,
    pub read_queue_nums: u32,
    pub write_queue_nums: u32,
    pub perm: u8,
    pub topic_sys_flag: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    pub cluster: String,
    pub broker_name: String,
    /// By broker id; keys are quoted, which every client reads.
    pub broker_addrs: BTreeMap<String, String>,
    pub enable_acting_master: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    pub cluster_addr_table: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    pub topic_list: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyValues {
    pub table: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    pub counter: i64,
    pub state_version: i64,
    pub timestamp: i64,
}

/// A broker tells the name service what it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Registration {
    pub topic_config_serialize_wrapper: TopicConfigs,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigs {
    pub topic_config_table: BTreeMap<String, TopicEntry>,
    pub data_version: DataVersion,
}

/// Some or all topics of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicPage {
    pub topic_config_table: BTreeMap<String, TopicEntry>,
    pub data_version: DataVersion,
    pub topic_queue_mapping_info_map: BTreeMap<String, String>,
    pub topic_queue_mapping_detail_map: BTreeMap<String, String>,
    pub mapping_data_version: DataVersion,
}

/// Topics to create or change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigList {
    pub topic_config_list: Vec<TopicEntry>,
}

/// The brokers of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMembers {
    pub broker_member_group: BrokerMemberGroup,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroup {
    pub cluster: String,
    pub broker_name: String,
    pub broker_addrs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicEntry {
    pub topic_name: String,
    pub read_queue_nums: u32,
    pub write_queue_nums: u32,
    pub perm: u8,
    #[serde(deserialize_with = "names::filter_type")]
    pub topic_filter_type: String,
    pub topic_sys_flag: i32,
    pub order: bool,
    pub attributes: BTreeMap<String, String>,
}

impl Default for TopicEntry {
    fn default() -> Self {
        TopicEntry {
            topic_name: String::new(),
            read_queue_nums: 16,
            write_queue_nums: 16,
            perm: 6,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_sys_flag: 0,
            order: false,
            attributes: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_keys_that_clients_look_for() {
        let route = TopicRoute {
            queue_datas: vec![QueueData {
                broker_name: "b".to_owned(),
                read_queue_nums: 8,
                write_queue_nums: 8,
                perm: 6,
                topic_sys_flag: 0,
            }],
            broker_datas: vec![BrokerData {
                cluster: "c".to_owned(),
                broker_name: "b".to_owned(),
                broker_addrs: [("0".to_owned(), "127.0.0.1:10911".to_owned())].into(),
                enable_acting_master: false,
            }],
            ..TopicRoute::default()
        };
        let expected = concat!(
            r#"{"queueDatas":[{"brokerName":"b","readQueueNums":8,"writeQueueNums":8,"perm":6,"topicSysFlag":0}],"#,
            r#""brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"0":"127.0.0.1:10911"},"#,
            r#""enableActingMaster":false}],"filterServerTable":{}}"#
        );
        assert_eq!(serde_json::to_string(&route).unwrap(), expected);
    }
}
