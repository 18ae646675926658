//! Removing a broker's write permission from all routes, and restoring it. Operators drain a broker this way before a stop.

use redstart_wire::remoting::{
    body::{BrokerMemberGroup, BrokerMembers, TopicList, TopicRoute},
    code,
};

use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

pub(super) const WRITE: u8 = 2;

/// Changes the write permission in a broker's routes; returns the number of its topics.
async fn set(request: &Request, wiped: bool) -> Result<usize, Refusal> {
    let broker = request.required("brokerName")?;
    let names = &request.context.node.name_service;
    if let Some(own) = request.context.node.broker_named(broker) {
        own.drained.set(&own.shard, wiped).await?;
        tracing::info!(broker, wiped, "an operator changed the write permission of a broker");
        return Ok(own.shard.ask(|engine, _| engine.topic_names().len())?.await?);
    }
    Ok(names.brokers.set_writable(broker, !wiped))
}

pub(crate) async fn wipe_write(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("wipeTopicCount", set(request, true).await?))
}

pub(crate) async fn add_write(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("addTopicCount", set(request, false).await?))
}

/// Removes a topic of registered brokers from the routes. Topics of this broker stay as long as they exist.
pub(crate) fn forget_topic(request: &Request) -> Result<Answer, Refusal> {
    request.context.node.name_service.brokers.forget_topic(request.required("topic")?);
    Ok(Answer::ok())
}

/// Adds a topic to registered brokers.
pub(crate) fn register_topic(request: &Request) -> Result<Answer, Refusal> {
    let topic = request.required("topic")?;
    let route: TopicRoute = request.json()?;
    request.context.node.name_service.brokers.add_topic(topic, &route.queue_datas);
    Ok(Answer::ok())
}

/// Units (isolated sets of topics) do not exist here, so that no topic belongs to one.
pub(crate) fn no_topics() -> Result<Answer, Refusal> {
    Ok(Answer::json(&TopicList::default()))
}

/// The brokers of one name, by number.
pub(crate) fn broker_members(request: &Request) -> Result<Answer, Refusal> {
    let (cluster, name) = (request.required("clusterName")?, request.required("brokerName")?);
    let found = super::routes::brokers(request).into_iter().find(|broker| broker.broker_name == name);
    let found = found.filter(|broker| broker.cluster == cluster);
    let found = found.ok_or_else(|| {
        Refusal::new(code::SYSTEM_ERROR, format!("there is no broker {name} in cluster {cluster}"))
    })?;
    let broker_member_group = BrokerMemberGroup {
        cluster: found.cluster,
        broker_name: found.broker_name,
        broker_addrs: found.broker_addrs,
    };
    Ok(Answer::json(&BrokerMembers { broker_member_group }))
}
