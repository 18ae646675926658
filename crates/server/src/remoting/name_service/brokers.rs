//! Other brokers that register here. They are kept in memory only: each registers again every few seconds.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redstart_wire::remoting::{
    body::{BrokerData, DataVersion, QueueData, Registration, TopicEntry},
    code,
};

use super::permissions::WRITE;
use crate::remoting::{
    peer_text,
    refusal::Refusal,
    request::{Answer, Request},
};

const SILENCE_MAX: Duration = Duration::from_secs(120);
const BROKERS_MAX: usize = 1024;
/// Topics of all registered brokers.
const TOPICS_MAX: usize = 100_000;

/// The name of a broker and its number among the brokers of that name; 0 is the master.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    name: String,
    number: i64,
}

#[derive(Debug)]
struct Registered {
    cluster: String,
    address: String,
    version: DataVersion,
    topics: BTreeMap<String, TopicEntry>,
    seen: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Brokers {
    table: Mutex<BTreeMap<Id, Registered>>,
}

impl Brokers {
    pub fn expire(&self, now: Instant) {
        self.table().retain(|_, broker| now.saturating_duration_since(broker.seen) <= SILENCE_MAX);
    }

    /// All registered brokers, by name.
    pub fn all(&self) -> Vec<BrokerData> {
        let mut all: BTreeMap<String, BrokerData> = BTreeMap::new();
        for (id, broker) in self.table().iter() {
            let data = all.entry(id.name.clone()).or_insert_with(|| BrokerData {
                cluster: broker.cluster.clone(),
                broker_name: id.name.clone(),
                ..BrokerData::default()
            });
            data.broker_addrs.insert(id.number.to_string(), broker.address.clone());
        }
        all.into_values().collect()
    }

    /// The queues of a topic on their masters.
    pub fn queues(&self, topic: &str) -> Vec<QueueData> {
        let queue = |(id, broker): (&Id, &Registered)| {
            let topic = broker.topics.get(topic).filter(|_| id.number == 0)?;
            Some(QueueData {
                broker_name: id.name.clone(),
                read_queue_nums: topic.read_queue_nums,
                write_queue_nums: topic.write_queue_nums,
                perm: topic.perm,
                topic_sys_flag: topic.topic_sys_flag,
            })
        };
        self.table().iter().filter_map(queue).collect()
    }

    pub fn topics(&self) -> Vec<String> {
        self.table().values().flat_map(|broker| broker.topics.keys().cloned()).collect()
    }

    /// Adds the write permission to all topics of a broker, or removes it; returns how many topics there are.
    pub fn set_writable(&self, name: &str, writable: bool) -> usize {
        let mut table = self.table();
        let brokers = table.iter_mut().filter(|(id, _)| id.name == name);
        let topics = brokers.flat_map(|(_, broker)| broker.topics.values_mut());
        let set = |topic: &mut TopicEntry| {
            topic.perm = if writable { topic.perm | WRITE } else { topic.perm & !WRITE };
        };
        topics.map(set).count()
    }

    pub fn forget_topic(&self, topic: &str) {
        for broker in self.table().values_mut() {
            broker.topics.remove(topic);
        }
    }

    /// Adds a topic to those of the named brokers that are registered.
    pub fn add_topic(&self, topic: &str, queues: &[QueueData]) {
        let mut table = self.table();
        let mut room = TOPICS_MAX.saturating_sub(table.values().map(|broker| broker.topics.len()).sum());
        for (id, broker) in table.iter_mut() {
            let Some(queues) = queues.iter().find(|queues| queues.broker_name == id.name) else { continue };
            if room > 0 || broker.topics.contains_key(topic) {
                let entry = TopicEntry {
                    topic_name: topic.to_owned(),
                    read_queue_nums: queues.read_queue_nums,
                    write_queue_nums: queues.write_queue_nums,
                    perm: queues.perm,
                    topic_sys_flag: queues.topic_sys_flag,
                    ..TopicEntry::default()
                };
                room -= usize::from(broker.topics.insert(topic.to_owned(), entry).is_none());
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Id, Registered>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id(request: &Request) -> Result<Id, Refusal> {
    Ok(Id { name: request.required("brokerName")?.to_owned(), number: request.number_or("brokerId", 0)? })
}

pub(crate) async fn register(request: &Request) -> Result<Answer, Refusal> {
    if !request.context.node.config.foreign_brokers {
        let why = "brokers may not register with this name service; the setting foreign_brokers allows it";
        return Err(Refusal::new(code::NO_PERMISSION, why));
    }
    let id = id(request)?;
    if request.context.node.broker_named(&id.name).is_some() {
        return Err(Refusal::invalid(format!("the broker name {} is taken by this broker", id.name)));
    }
    let (cluster, address) = (request.required("clusterName")?, request.required("brokerAddr")?);
    for (what, text) in [("broker name", id.name.as_str()), ("cluster name", cluster), ("address", address)] {
        peer_text::check(what, text)?;
    }
    let registration = match request.truth("compressed") {
        _ if request.body.is_empty() => Registration::default(),
        Some(true) => Registration::unpack(&request.body)?,
        _ => request.json()?,
    };
    let wrapper = registration.topic_config_serialize_wrapper;
    let names = &request.context.node.name_service;
    let order = names.kv_config.all("ORDER_TOPIC_CONFIG");
    {
        let mut table = names.brokers.table();
        if !table.contains_key(&id) && table.len() >= BROKERS_MAX {
            return Err(Refusal::busy("registered brokers", BROKERS_MAX));
        }
        let mut room = TOPICS_MAX.saturating_sub(table.values().map(|broker| broker.topics.len()).sum());
        // Brokers register again every few seconds. As in RocketMQ (5.4.0, RouteInfoManager.isTopicConfigChanged), the same
        // version says nothing new of a topic that is known: a permission that an operator has taken stays taken.
        let unchanged = table
            .get(&id)
            .is_some_and(|broker| broker.version == wrapper.data_version && broker.address == address);
        let broker = table.entry(id.clone()).or_insert_with(|| Registered {
            cluster: cluster.to_owned(),
            address: String::new(),
            version: DataVersion::default(),
            topics: BTreeMap::new(),
            seen: Instant::now(),
        });
        // A registration may carry only the topics that have changed; the others stay.
        for (topic, entry) in wrapper.topic_config_table {
            if unchanged && broker.topics.contains_key(&topic) {
                continue;
            }
            if peer_text::check("topic", &topic).is_ok() && (room > 0 || broker.topics.contains_key(&topic)) {
                // Routes do not use the attributes.
                let entry = TopicEntry { topic_name: topic.clone(), attributes: BTreeMap::new(), ..entry };
                room -= usize::from(broker.topics.insert(topic, entry).is_none());
            }
        }
        address.clone_into(&mut broker.address);
        broker.version = wrapper.data_version;
        broker.seen = Instant::now();
    }
    let master =
        names.brokers.table().get(&Id { number: 0, ..id.clone() }).map(|broker| broker.address.clone());
    let mut answer = match order {
        Some(table) => Answer::json(&redstart_wire::remoting::body::KeyValues { table }),
        None => Answer::ok(),
    };
    if let (true, Some(master)) = (id.number != 0, master) {
        answer = answer.with("masterAddr", master);
    }
    Ok(answer)
}

pub(crate) fn unregister(request: &Request) -> Result<Answer, Refusal> {
    let id = id(request)?;
    request.context.node.name_service.brokers.table().remove(&id);
    Ok(Answer::ok())
}

pub(crate) fn heartbeat(request: &Request) -> Result<Answer, Refusal> {
    let id = id(request)?;
    if let Some(broker) = request.context.node.name_service.brokers.table().get_mut(&id) {
        broker.seen = Instant::now();
    }
    Ok(Answer::ok())
}

/// Whether a broker's topics have changed since its last registration.
pub(crate) fn data_version(request: &Request) -> Result<Answer, Refusal> {
    let (id, version): (Id, DataVersion) = (id(request)?, request.json()?);
    let mut table = request.context.node.name_service.brokers.table();
    let Some(broker) = table.get_mut(&id) else {
        return Ok(Answer::new(code::SUCCESS).with("changed", true));
    };
    broker.seen = Instant::now();
    Ok(Answer::json(&broker.version).with("changed", broker.version != version))
}
