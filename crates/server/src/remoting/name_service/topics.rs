use redstart_engine::{DLQ_PREFIX, RETRY_PREFIX};
use redstart_wire::remoting::body::TopicList;

use crate::remoting::{
    AUTO_CREATE_TOPIC,
    refusal::Refusal,
    request::{Answer, Request},
};

pub(crate) async fn topics(request: &Request) -> Result<Answer, Refusal> {
    let mut all = own(request).await?;
    all.extend(request.context.node.name_service.brokers.topics());
    Ok(list(all, None))
}

pub(crate) async fn topics_of_cluster(request: &Request) -> Result<Answer, Refusal> {
    let cluster = request.required("cluster")?;
    let all = if cluster == request.context.node.config.cluster { own(request).await? } else { Vec::new() };
    Ok(list(all, None))
}

/// Topics of the broker itself. The names of the cluster and the broker count, because tools send to topics of those names.
pub(crate) async fn system_topics(request: &Request) -> Result<Answer, Refusal> {
    let config = &request.context.node.config;
    let users = |name: &String| name.starts_with(RETRY_PREFIX) || name.starts_with(DLQ_PREFIX);
    let mut all = Vec::new();
    for broker in &request.context.node.brokers {
        let reserved = broker.shard.ask(|engine, _| {
            let names = engine.topic_names().into_iter().filter(|name| name.is_reserved());
            names.map(|name| name.to_string()).collect::<Vec<_>>()
        })?;
        all.extend(reserved.await?.into_iter().filter(|name| !users(name)));
    }
    all.extend([config.cluster.clone(), config.reply_topic()]);
    all.extend(request.context.node.brokers.iter().map(|broker| broker.name.clone()));
    if request.context.settings.auto_create_topics() {
        all.push(AUTO_CREATE_TOPIC.to_owned());
    }
    Ok(list(all, Some(request.broker_address().to_string())))
}

async fn own(request: &Request) -> Result<Vec<String>, Refusal> {
    let mut all = Vec::new();
    for broker in &request.context.node.brokers {
        let names = broker.shard.ask(|engine, _| engine.topic_names())?.await?;
        all.extend(names.into_iter().map(|name| name.to_string()));
    }
    Ok(all)
}

fn list(mut topics: Vec<String>, broker: Option<String>) -> Answer {
    topics.sort_unstable();
    topics.dedup();
    Answer::json(&TopicList { broker_addr: broker, topic_list: topics })
}
