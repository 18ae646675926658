//! The brokers of a cluster, and which of them a request goes to.

use std::collections::BTreeMap;

use redstart_wire::remoting::{
    CHANGED_KEYS, Command,
    body::{ClusterInfo, KeyValues},
    code,
};

use super::{Admin, Error, json};

/// Id of the broker that takes writes.
const MASTER: &str = "0";

/// One broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Broker {
    pub cluster: String,
    pub name: String,
    /// 0 for the one that takes writes.
    pub id: u64,
    pub address: String,
}

/// Whom a request goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Every broker that the name server knows.
    Everywhere,
    Cluster(String),
    /// By its address, or by its name.
    Broker(String),
}

impl Admin {
    /// The name server's own view.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        let request = code::GET_BROKER_CLUSTER_INFO;
        let answer = self.ask_names(Command::request(request)).await?;
        json::read(&self.names_text(), request, &answer)
    }

    /// All brokers, by cluster, name and id.
    pub async fn brokers(&self) -> Result<Vec<Broker>, Error> {
        Ok(brokers(&self.cluster_info().await?))
    }

    /// The brokers that take writes, each of which has its own part of every topic.
    pub async fn masters(&self, target: &Target) -> Result<Vec<Broker>, Error> {
        let info = self.cluster_info().await?;
        let mut masters: Vec<Broker> = brokers(&info).into_iter().filter(|broker| broker.id == 0).collect();
        if masters.is_empty() {
            return Err(Error::NoBrokers { address: self.names_text() });
        }
        match target {
            Target::Everywhere => {}
            Target::Cluster(name) => {
                if !info.cluster_addr_table.contains_key(name) {
                    let known = info.cluster_addr_table.into_keys().collect();
                    return Err(Error::UnknownCluster { name: name.clone(), known });
                }
                masters.retain(|broker| broker.cluster == *name);
            }
            Target::Broker(wanted) => {
                let known: Vec<String> = masters.iter().map(|broker| broker.name.clone()).collect();
                masters.retain(|broker| broker.name == *wanted || broker.address == *wanted);
                if masters.is_empty() {
                    return Err(Error::UnknownBroker { name: wanted.clone(), known });
                }
            }
        }
        Ok(masters)
    }

    /// What a broker says of itself: versions, rates, totals.
    pub async fn runtime_info(&self, broker: &str) -> Result<BTreeMap<String, String>, Error> {
        let request = code::GET_BROKER_RUNTIME_INFO;
        let answer = self.ask(broker, Command::request(request)).await?;
        Ok(json::read::<KeyValues>(broker, request, &answer)?.table)
    }

    /// A broker's settings, as `key=value` lines.
    pub async fn broker_config(&self, broker: &str) -> Result<BTreeMap<String, String>, Error> {
        let answer = self.ask(broker, Command::request(code::GET_BROKER_CONFIG)).await?;
        Ok(properties(&String::from_utf8_lossy(&answer.body)))
    }

    /// The settings of a broker that were changed while it ran, and its cluster's and its own name. Only Redstart tells.
    pub async fn changed_config(&self, broker: &str) -> Result<ChangedConfig, Error> {
        let answer = self.ask(broker, Command::request(code::GET_BROKER_CONFIG)).await?;
        let mut settings = properties(&String::from_utf8_lossy(&answer.body));
        let keys = answer.fields.get(CHANGED_KEYS).unwrap_or_default();
        let changed = keys.split(',').filter_map(|key| settings.remove_entry(key)).collect();
        let mut take = |key| settings.remove(key).unwrap_or_default();
        Ok(ChangedConfig { cluster: take("brokerClusterName"), broker: take("brokerName"), changed })
    }
}

/// What `updateBrokerConfig` has changed on a broker, under RocketMQ's names and in its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedConfig {
    pub cluster: String,
    pub broker: String,
    pub changed: BTreeMap<String, String>,
}

fn brokers(info: &ClusterInfo) -> Vec<Broker> {
    let mut all = Vec::new();
    for broker in info.broker_addr_table.values() {
        for (id, address) in &broker.broker_addrs {
            all.push(Broker {
                cluster: broker.cluster.clone(),
                name: broker.broker_name.clone(),
                id: id.parse().unwrap_or(u64::MAX),
                address: address.clone(),
            });
        }
    }
    all.sort();
    all
}

/// The address to write to, of the addresses by id.
pub(super) fn master(addresses: &BTreeMap<String, String>) -> Option<&String> {
    addresses.get(MASTER)
}

/// The address to read from: the master's if there is one.
pub(super) fn readable(addresses: &BTreeMap<String, String>) -> Option<&String> {
    master(addresses).or_else(|| addresses.values().next())
}

pub(super) fn properties(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_found_in_what_apache_writes() {
        let text =
            br#"{"brokerAddrTable":{"b":{"brokerAddrs":{1:"h:3",0:"h:2"},"brokerName":"b","cluster":"c",
            "enableActingMaster":false},"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"c"}},
            "clusterAddrTable":{"c":["b","a"]}}"#;
        let answer = Command { body: text.to_vec().into(), ..Command::default() };
        let found = brokers(&json::read("n", 106, &answer).unwrap());
        let found: Vec<(&str, u64, &str)> =
            found.iter().map(|broker| (broker.name.as_str(), broker.id, broker.address.as_str())).collect();
        assert_eq!(found, [("a", 0, "h:1"), ("b", 0, "h:2"), ("b", 1, "h:3")]);
    }

    #[test]
    fn settings_are_read_line_by_line() {
        let settings = properties("#Comment\na=1\n b = x=y \nnothing\n");
        let expected = [("a", "1"), ("b", "x=y")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(settings, expected.into());
    }
}
