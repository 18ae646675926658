//! Topics: create, change, list, delete.

use std::collections::BTreeMap;

use redstart_wire::remoting::{
    Command,
    body::{GroupList, Queue, TopicEntry, TopicList, TopicPage, TopicRoute, TopicStatsRow},
    code,
};
use serde::Deserialize;

use super::{Admin, Broker, Error, Target, cluster, is_system_topic, json};

/// Topics of one answer.
const PAGE: usize = 2000;
/// The template of new topics. Servers require the field and use it only for topics that they create themselves.
const DEFAULT_TOPIC: &str = "TBW102";

/// The wanted configuration of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    pub name: String,
    pub read_queues: u32,
    pub write_queues: u32,
    /// 4 to read, 2 to write, 1 to inherit.
    pub permission: u8,
    pub order: bool,
    pub system_flag: i32,
    /// `+key=value,-key`; what is not named stays as it is.
    pub attributes: String,
}

impl TopicSpec {
    pub fn new(name: &str, queues: u32) -> TopicSpec {
        TopicSpec {
            name: name.to_owned(),
            read_queues: queues,
            write_queues: queues,
            permission: 6,
            order: false,
            system_flag: 0,
            attributes: String::new(),
        }
    }

    /// A topic as it is, so that some of it can be changed.
    pub fn of(entry: &TopicEntry) -> TopicSpec {
        TopicSpec {
            name: entry.topic_name.clone(),
            read_queues: entry.read_queue_nums,
            write_queues: entry.write_queue_nums,
            permission: entry.perm,
            order: entry.order,
            system_flag: entry.topic_sys_flag,
            attributes: String::new(),
        }
    }
}

/// How full a topic's queues on one broker are.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicStats {
    pub put_per_second: f64,
    pub queues: Vec<(Queue, TopicStatsRow)>,
}

impl Admin {
    /// Creates or changes a topic on one broker.
    pub async fn put_topic(&self, broker: &str, topic: &TopicSpec) -> Result<(), Error> {
        let request = Command::request(code::UPDATE_AND_CREATE_TOPIC)
            .with_field("topic", &topic.name)
            .with_field("defaultTopic", DEFAULT_TOPIC)
            .with_field("readQueueNums", topic.read_queues)
            .with_field("writeQueueNums", topic.write_queues)
            .with_field("perm", topic.permission)
            .with_field("topicFilterType", "SINGLE_TAG")
            .with_field("topicSysFlag", topic.system_flag)
            .with_field("order", topic.order)
            .with_field("attributes", &topic.attributes);
        self.ask(broker, request).await.map(drop)
    }

    /// Deletes a topic with its messages on one broker.
    pub async fn delete_topic_in_broker(&self, broker: &str, topic: &str) -> Result<(), Error> {
        let request = Command::request(code::DELETE_TOPIC_IN_BROKER).with_field("topic", topic);
        self.ask(broker, request).await.map(drop)
    }

    /// Makes every name server forget a topic. `None`: in all clusters.
    pub async fn delete_topic_in_names(&self, topic: &str, cluster: Option<&str>) -> Result<(), Error> {
        for address in self.names() {
            let mut request = Command::request(code::DELETE_TOPIC_IN_NAMESRV).with_field("topic", topic);
            if let Some(cluster) = cluster {
                request = request.with_field("clusterName", cluster);
            }
            self.ask_name(address, request).await?;
        }
        Ok(())
    }

    /// The names of all topics, sorted.
    pub async fn topic_names(&self) -> Result<Vec<String>, Error> {
        let request = code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER;
        let answer = self.ask_names(Command::request(request)).await?;
        self.names_of(request, &answer)
    }

    pub async fn topic_names_of_cluster(&self, cluster: &str) -> Result<Vec<String>, Error> {
        let request = code::GET_TOPICS_BY_CLUSTER;
        let answer = self.ask_names(Command::request(request).with_field("cluster", cluster)).await?;
        self.names_of(request, &answer)
    }

    fn names_of(&self, request: i32, answer: &Command) -> Result<Vec<String>, Error> {
        let mut names = json::read::<TopicList>(&self.names_text(), request, answer)?.topic_list;
        names.sort();
        Ok(names)
    }

    /// Whether a topic is the server's own: by its name, or named for the cluster or a broker.
    pub fn is_own_topic(topic: &str, brokers: &[Broker]) -> bool {
        let of_broker = |broker: &Broker| {
            topic == broker.name
                || topic == broker.cluster
                || topic.strip_suffix("_REPLY_TOPIC") == Some(&broker.cluster)
        };
        is_system_topic(topic) || brokers.iter().any(of_broker)
    }

    pub async fn route(&self, topic: &str) -> Result<TopicRoute, Error> {
        let request = code::GET_ROUTEINFO_BY_TOPIC;
        let command =
            Command::request(request).with_field("topic", topic).with_field("acceptStandardJsonOnly", true);
        let answer = self.ask_names(command).await.map_err(|error| error.about_topic(topic))?;
        json::read(&self.names_text(), request, &answer)
    }

    /// The brokers that have a part of the topic, of each the one to ask.
    pub async fn brokers_of_topic(&self, topic: &str) -> Result<Vec<Broker>, Error> {
        let route = self.route(topic).await?;
        let broker = |data: &redstart_wire::remoting::body::BrokerData| {
            let address = cluster::readable(&data.broker_addrs)?.clone();
            Some(Broker { cluster: data.cluster.clone(), name: data.broker_name.clone(), id: 0, address })
        };
        let mut brokers: Vec<Broker> = route.broker_datas.iter().filter_map(broker).collect();
        brokers.sort();
        Ok(brokers)
    }

    /// A topic's settings on one broker.
    pub async fn topic_config(&self, broker: &str, topic: &str) -> Result<TopicEntry, Error> {
        let request = code::GET_TOPIC_CONFIG;
        let answer = self.ask(broker, Command::request(request).with_field("topic", topic)).await;
        json::read(broker, request, &answer.map_err(|error| error.about_topic(topic))?)
    }

    /// A topic's settings on the first broker that has it.
    pub async fn topic_config_anywhere(&self, topic: &str) -> Result<Option<TopicEntry>, Error> {
        for broker in self.masters(&Target::Everywhere).await? {
            match self.topic_config(&broker.address, topic).await {
                Err(Error::UnknownTopic { .. }) => {}
                other => return other.map(Some),
            }
        }
        Ok(None)
    }

    /// The settings of all topics of one broker.
    pub async fn topic_configs(&self, broker: &str) -> Result<BTreeMap<String, TopicEntry>, Error> {
        let request = code::GET_ALL_TOPIC_CONFIG;
        let mut all = BTreeMap::new();
        loop {
            let before = all.len();
            let command = Command::request(request)
                .with_field("topicSeq", before)
                .with_field("maxTopicNum", PAGE)
                .with_field("dataVersion", "");
            let answer = self.ask(broker, command).await?;
            all.extend(json::read::<TopicPage>(broker, request, &answer)?.topic_config_table);
            let total: usize = answer.number_or("totalTopicNum", 0).unwrap_or(0);
            // Without a total it was everything.
            if all.len() >= total || all.len() == before {
                return Ok(all);
            }
        }
    }

    pub async fn topic_stats(&self, broker: &str, topic: &str) -> Result<TopicStats, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Table {
            offset_table: BTreeMap<String, TopicStatsRow>,
            #[serde(default)]
            topic_put_tps: f64,
        }
        let request = code::GET_TOPIC_STATS_INFO;
        let answer = self.ask(broker, Command::request(request).with_field("topic", topic)).await;
        let table: Table = json::read(broker, request, &answer.map_err(|error| error.about_topic(topic))?)?;
        let queues = json::by_queue(broker, request, table.offset_table)?;
        Ok(TopicStats { put_per_second: table.topic_put_tps, queues })
    }

    /// The groups that have read a topic on one broker.
    pub async fn groups_of_topic(&self, broker: &str, topic: &str) -> Result<Vec<String>, Error> {
        let request = code::QUERY_TOPIC_CONSUME_BY_WHO;
        let answer = self.ask(broker, Command::request(request).with_field("topic", topic)).await;
        let answer = answer.map_err(|error| error.about_topic(topic))?;
        let mut groups = json::read::<GroupList>(broker, request, &answer)?.group_list;
        groups.sort();
        Ok(groups)
    }
}
