//! Routes: the queues of a topic and the addresses of their brokers.

use std::{collections::BTreeMap, net::SocketAddr};

use redstart_engine::{GroupName, RETRY_PREFIX, TopicName};
use redstart_wire::remoting::body::{BrokerData, ClusterInfo, QueueData, TopicRoute};

use super::permissions::WRITE;
use crate::remoting::{
    AUTO_CREATE_QUEUES, AUTO_CREATE_TOPIC, Broker,
    auto_create::{TRACE_TOPIC, system_topic},
    refusal::Refusal,
    request::{Answer, Request},
};

/// Permission bits of a template topic: read, write, inherit.
const INHERIT: u8 = 7;
const BOTH: u8 = 6;
/// Namespace in which tools store how many queues of an ordered topic each broker has.
const ORDER_TOPICS: &str = "ORDER_TOPIC_CONFIG";

/// The route of a topic: its queues, and the addresses of the brokers that have them.
pub(crate) async fn route(request: &Request) -> Result<Answer, Refusal> {
    let topic = request.required("topic")?;
    let names = &request.context.node.name_service;
    let mut queue_datas = names.brokers.queues(topic);
    queue_datas.extend(own_queues(request, topic).await?);
    if queue_datas.is_empty() {
        return Err(Refusal::unknown_topic(topic));
    }
    let has_queues =
        |broker: &BrokerData| queue_datas.iter().any(|queue| queue.broker_name == broker.broker_name);
    let broker_datas = brokers(request).into_iter().filter(has_queues).collect();
    let ordered = request.context.node.brokers[0].settings.order_messages();
    let order_topic_conf = if ordered { names.kv_config.get(ORDER_TOPICS, topic) } else { None };
    Ok(Answer::json(&TopicRoute { order_topic_conf, queue_datas, broker_datas, ..TopicRoute::default() }))
}

/// The topic's queues on the brokers of this process.
async fn own_queues(request: &Request, topic: &str) -> Result<Vec<QueueData>, Refusal> {
    create_on_demand(request, topic).await?;
    let mut all = Vec::new();
    for broker in &request.context.node.brokers {
        all.extend(queues_of(request, broker, topic).await?);
    }
    Ok(all)
}

/// Creates a topic that clients and tools expect to be there.
async fn create_on_demand(request: &Request, topic: &str) -> Result<(), Refusal> {
    let Ok(name) = TopicName::new(topic) else { return Ok(()) };
    let node = &request.context.node;
    // Clients ask for the route of their group's retry topic before the first send back. A broker that a consumer of the group knows has
    // the topic since its heartbeat, and tools take every broker of the route for one that knows the consumers. So the others do not get it.
    if let Some(group) = topic.strip_prefix(RETRY_PREFIX).and_then(|group| GroupName::new(group).ok()) {
        for broker in &node.brokers {
            let (group, name) = (group.clone(), name.clone());
            let wanted = broker.shard.ask(move |engine, _| {
                engine.group_id(&group).is_some() && engine.topic_id(&name).is_none()
            })?;
            if !wanted.await? {
                return Ok(());
            }
        }
        return create_on(request, &name, |_| true).await;
    }
    // Tools send to topics named like the cluster and the broker.
    let everywhere = [TRACE_TOPIC, &node.config.cluster].contains(&topic);
    create_on(request, &name, |broker| everywhere || broker.name == topic).await
}

async fn create_on(
    request: &Request,
    name: &TopicName,
    wanted: impl Fn(&Broker) -> bool,
) -> Result<(), Refusal> {
    let node = &request.context.node;
    for broker in node.brokers.iter().filter(|broker| wanted(broker)) {
        let served = &node.shards.all()[usize::from(broker.number.0)];
        node.shards.ensure_topic(served, name, system_topic()).await?;
    }
    Ok(())
}

async fn queues_of(request: &Request, broker: &Broker, topic: &str) -> Result<Option<QueueData>, Refusal> {
    let config = &request.context.node.config;
    let taken = if broker.drained.get() { WRITE } else { 0 };
    let queues = |read, write, perm: u8| QueueData {
        broker_name: broker.name.clone(),
        read_queue_nums: read,
        write_queue_nums: write,
        perm: perm & !taken,
        topic_sys_flag: 0,
    };
    if topic == AUTO_CREATE_TOPIC && broker.settings.auto_create_topics() {
        return Ok(Some(queues(AUTO_CREATE_QUEUES, AUTO_CREATE_QUEUES, INHERIT)));
    }
    if topic == config.reply_topic() {
        return Ok(Some(queues(1, 1, BOTH)));
    }
    let Ok(name) = TopicName::new(topic) else { return Ok(None) };
    let view = broker.shard.ask(move |engine, _| engine.topic(&name))?.await?;
    Ok(view.map(|topic| {
        let config = &topic.config;
        queues(topic.queues.len() as u32, config.write_queues, config.permission.bits())
    }))
}

/// The brokers of this process and those that have registered.
pub(super) fn brokers(request: &Request) -> Vec<BrokerData> {
    let node = &request.context.node;
    let own = node.brokers.iter().map(|broker| {
        let master = address(request, node.address_of(broker, request.peer.local));
        let slaves = node.config.followers.addresses();
        let addresses = std::iter::once(master).chain(slaves);
        BrokerData {
            cluster: node.config.cluster.clone(),
            broker_name: broker.name.clone(),
            broker_addrs: (0..).map(|id: u32| id.to_string()).zip(addresses).collect(),
            enable_acting_master: false,
        }
    });
    let mut all = node.name_service.brokers.all();
    all.extend(own);
    all
}

/// The advertised address, or else the one that the client dialled.
fn address(request: &Request, dialled: SocketAddr) -> String {
    match request.context.node.config.advertised_host() {
        Some(host) => format!("{host}:{}", dialled.port()),
        None => dialled.to_string(),
    }
}

pub(crate) fn cluster(request: &Request) -> Result<Answer, Refusal> {
    let mut clusters: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let brokers = brokers(request);
    for broker in &brokers {
        clusters.entry(broker.cluster.clone()).or_default().push(broker.broker_name.clone());
    }
    let by_name = brokers.into_iter().map(|broker| (broker.broker_name.clone(), broker)).collect();
    Ok(Answer::json(&ClusterInfo { broker_addr_table: by_name, cluster_addr_table: clusters }))
}
