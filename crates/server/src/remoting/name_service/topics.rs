use redstart_engine::{DLQ_PREFIX, RETRY_PREFIX};
use redstart_wire::remoting::body::TopicList;

use crate::remoting::{
    AUTO_CREATE_TOPIC,
    refusal::Refusal,
    request::{Answer, Request},
};

pub(crate) async fn topics(request: &Request) -> Result<Answer, Refusal> {
    let mut all = own(request).await?;
    all.extend(request.context.name_service.brokers.topics());
    Ok(list(all, None))
}

pub(crate) async fn topics_of_cluster(request: &Request) -> Result<Answer, Refusal> {
    let cluster = request.required("cluster")?;
    let all = if cluster == request.context.config.cluster { own(request).await? } else { Vec::new() };
    Ok(list(all, None))
}

/// Topics of the broker itself. The names of the cluster and the broker count, because tools send to topics of those names.
pub(crate) async fn system_topics(request: &Request) -> Result<Answer, Refusal> {
    let config = &request.context.config;
    let users = |name: &String| name.starts_with(RETRY_PREFIX) || name.starts_with(DLQ_PREFIX);
    let reserved = request
        .ask(|engine, _| {
            let names = engine.topic_names();
            names
                .into_iter()
                .filter(|name| name.is_reserved())
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        })
        .await?;
    let mut all: Vec<String> = reserved.into_iter().filter(|name| !users(name)).collect();
    all.extend([config.cluster.clone(), config.broker.clone(), config.reply_topic()]);
    if request.context.settings.auto_create_topics() {
        all.push(AUTO_CREATE_TOPIC.to_owned());
    }
    Ok(list(all, Some(request.broker_address().to_string())))
}

async fn own(request: &Request) -> Result<Vec<String>, Refusal> {
    let names = request.ask(|engine, _| engine.topic_names()).await?;
    Ok(names.into_iter().map(|name| name.to_string()).collect())
}

fn list(mut topics: Vec<String>, broker: Option<String>) -> Answer {
    topics.sort_unstable();
    topics.dedup();
    Answer::json(&TopicList { broker_addr: broker, topic_list: topics })
}
