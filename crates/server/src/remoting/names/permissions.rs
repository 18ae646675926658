//! Taking a broker's permission to write out of all routes, and giving it back: how it is drained before a stop.

use redstart_wire::remoting::{
    body::{BrokerMemberGroup, BrokerMembers, TopicList, TopicRoute},
    code,
};

use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

pub(super) const WRITE: u8 = 2;

/// Changes what routes show of a broker; returns how many topics that is about.
async fn set(request: &Request, wiped: bool) -> Result<usize, Refusal> {
    let broker = request.required("brokerName")?;
    let names = &request.context.names;
    if broker == request.context.config.broker {
        names.drained.set(wiped);
        if let Some(elsewhere) = request.context.elsewhere.get() {
            elsewhere.drain(wiped);
        }
        tracing::info!(wiped, "an operator changed the broker's permission to write");
        return request.ask(|engine, _| engine.topic_names().len()).await;
    }
    Ok(names.brokers.set_writable(broker, !wiped))
}

pub(crate) async fn wipe_write(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("wipeTopicCount", set(request, true).await?))
}

pub(crate) async fn add_write(request: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::ok().with("addTopicCount", set(request, false).await?))
}

/// This broker's topics are in the routes as long as they exist; what others registered is forgotten.
pub(crate) fn forget_topic(request: &Request) -> Result<Answer, Refusal> {
    request.context.names.brokers.forget_topic(request.required("topic")?);
    Ok(Answer::ok())
}

/// Adds a topic to brokers that registered.
pub(crate) fn register_topic(request: &Request) -> Result<Answer, Refusal> {
    let topic = request.required("topic")?;
    let route: TopicRoute = request.json()?;
    request.context.names.brokers.add_topic(topic, &route.queue_datas);
    Ok(Answer::ok())
}

/// There are no units here, so that no topic belongs to one.
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
