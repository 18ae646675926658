//! The connected clients of both protocols, with their topics and groups.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use redstart_engine::TopicName;
use redstart_wire::remoting::{
    body::{
        ClientSubscription, Connection, ConsumerConnection, GroupList, ProducerConnection, ProducerInfo,
        Producers, Subscription, TopicList,
    },
    code,
};

use crate::shard::{Clock, SystemClock};

use crate::remoting::{
    members::Member,
    other_protocol::{DeliveryMode, OtherClient, OtherSubscription, Role},
    refusal::Refusal,
    request::{Answer, Request},
};

const CLUSTERING: &str = "CLUSTERING";
const FROM_LAST: &str = "CONSUME_FROM_LAST_OFFSET";
const PASSIVELY: &str = "CONSUME_PASSIVELY";
const ACTIVELY: &str = "CONSUME_ACTIVELY";

fn connection(member: &Member) -> Connection {
    Connection {
        client_id: member.client_id.clone(),
        client_addr: member.peer.remote.to_string(),
        language: member.language.to_string(),
        version: member.version,
    }
}

fn other_connection(client: &OtherClient) -> Connection {
    Connection {
        client_id: client.id.clone(),
        client_addr: client.address(),
        language: client.language.clone(),
        version: client.version_number(),
    }
}

/// The subscription of a gRPC client in the form of this protocol.
pub(super) fn other_subscription(wanted: &OtherSubscription) -> Subscription {
    let tags: Vec<String> = match wanted.expression.as_str() {
        "*" | "" => Vec::new(),
        _ if wanted.sql => Vec::new(),
        tags => tags.split("||").map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect(),
    };
    Subscription {
        topic: wanted.topic.clone(),
        sub_string: wanted.expression.clone(),
        code_set: tags.iter().map(|tag| redstart_engine::filter::tag_hash(tag)).collect(),
        tags_set: tags,
        expression_type: Some(if wanted.sql { "SQL92" } else { "TAG" }.to_owned()),
        ..Subscription::default()
    }
}

/// The gRPC consumers of a group.
pub(super) fn other_consumers(request: &Request, group: &str) -> Vec<OtherClient> {
    let consumes =
        |client: &OtherClient| matches!(&client.role, Role::Consumer { group: own, .. } if own == group);
    request.context.other_clients().into_iter().filter(consumes).collect()
}

/// The subscriptions of a group by topic. If members differ, the newest version counts.
fn subscriptions(request: &Request, group: &str) -> BTreeMap<String, Subscription> {
    let mut all: BTreeMap<String, Subscription> = BTreeMap::new();
    for client in other_consumers(request, group) {
        if let Role::Consumer { subscriptions, .. } = &client.role {
            all.extend(subscriptions.iter().map(|wanted| (wanted.topic.clone(), other_subscription(wanted))));
        }
    }
    let members = request.context.members.consumers(group).map(|group| group.members).unwrap_or_default();
    for wanted in members.into_values().flat_map(|member| member.subscriptions.into_values()) {
        let subscription = wanted.subscription;
        let newer = |known: &Subscription| known.sub_version < subscription.sub_version;
        if all.get(&subscription.topic).is_none_or(newer) {
            all.insert(subscription.topic.clone(), subscription);
        }
    }
    all
}

pub(crate) fn consumer_connections(request: &Request) -> Result<Answer, Refusal> {
    let group = request.required("consumerGroup")?;
    let own = request.context.members.consumers(group);
    let others = other_consumers(request, group);
    let mut body =
        ConsumerConnection { subscription_table: subscriptions(request, group), ..Default::default() };
    body.connection_set = others.iter().map(other_connection).collect();
    if let Some(OtherClient { role: Role::Consumer { delivery, .. }, .. }) = others.first() {
        body.consume_type = if *delivery == DeliveryMode::Push { PASSIVELY } else { ACTIVELY }.to_owned();
        body.message_model = CLUSTERING.to_owned();
        body.consume_from_where = FROM_LAST.to_owned();
    }
    if let Some(group) = own {
        body.connection_set.extend(group.members.values().map(connection));
        body.consume_type = group.consume_type;
        body.message_model = group.message_model;
        body.consume_from_where = group.consume_from_where;
    }
    if body.connection_set.is_empty() {
        let why = format!("the consumer group[{group}] not online");
        return Err(Refusal::new(code::CONSUMER_NOT_ONLINE, why));
    }
    Ok(Answer::json(&body))
}

/// gRPC producers have no group; they are listed under the topics that they publish to.
fn other_producers(request: &Request) -> impl Iterator<Item = (String, OtherClient)> {
    request.context.other_clients().into_iter().flat_map(|client| {
        let topics = match &client.role {
            Role::Producer { topics } => topics.clone(),
            Role::Consumer { .. } => Vec::new(),
        };
        topics.into_iter().map(move |topic| (topic, client.clone()))
    })
}

pub(crate) fn producer_connections(request: &Request) -> Result<Answer, Refusal> {
    let group = request.required("producerGroup")?;
    let own = request.context.members.producers(group);
    let others = other_producers(request).filter(|(topic, _)| topic == group);
    let all: Vec<Connection> =
        own.iter().map(connection).chain(others.map(|(_, client)| other_connection(&client))).collect();
    if all.is_empty() {
        return Err(Refusal::new(code::SYSTEM_ERROR, format!("the producer group[{group}] not exist")));
    }
    Ok(Answer::json(&ProducerConnection { connection_set: all }))
}

pub(crate) fn all_producers(request: &Request) -> Result<Answer, Refusal> {
    let (now, clock) = (Instant::now(), Duration::from_millis(SystemClock.now().0));
    let seen = |silent| clock.saturating_sub(silent).as_millis() as i64;
    let mut data: BTreeMap<String, Vec<ProducerInfo>> = BTreeMap::new();
    for (group, members) in request.context.members.all_producers() {
        let info = |member: &Member| ProducerInfo {
            client_id: member.client_id.clone(),
            remote_ip: member.peer.remote.to_string(),
            language: member.language.to_string(),
            version: member.version,
            last_update_timestamp: seen(now.saturating_duration_since(member.seen)),
        };
        data.insert(group, members.values().map(info).collect());
    }
    for (topic, client) in other_producers(request) {
        data.entry(topic).or_default().push(ProducerInfo {
            client_id: client.id.clone(),
            remote_ip: client.address(),
            language: client.language.clone(),
            version: client.version_number(),
            last_update_timestamp: seen(client.silent_for),
        });
    }
    Ok(Answer::json(&Producers { data }))
}

/// Groups that have consumed a topic or subscribe to it.
pub(crate) async fn groups_of_topic(request: &Request) -> Result<Answer, Refusal> {
    let topic = TopicName::new(request.required("topic")?)?;
    let name = topic.clone();
    let stored = request.ask(move |engine, _| engine.groups_of(&name)).await?;
    let mut groups: BTreeSet<String> = stored.into_iter().map(|group| group.to_string()).collect();
    groups.extend(request.context.members.groups_of(topic.as_str()));
    for client in request.context.other_clients() {
        if let Role::Consumer { group, subscriptions, .. } = client.role
            && subscriptions.iter().any(|wanted| wanted.topic == topic.as_str())
        {
            groups.insert(group);
        }
    }
    Ok(Answer::json(&GroupList { group_list: groups.into_iter().collect() }))
}

/// Topics that a group has consumed or subscribes to.
pub(crate) async fn topics_of_group(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("group")?;
    let name = group.clone();
    let stored = request.ask(move |engine, _| engine.topics_of(&name)).await?;
    let mut topics: BTreeSet<String> = stored.into_iter().map(|topic| topic.to_string()).collect();
    topics.extend(subscriptions(request, group.as_str()).into_keys());
    let broker_addr = Some(request.broker_address().to_string());
    Ok(Answer::json(&TopicList { broker_addr, topic_list: topics.into_iter().collect() }))
}

pub(crate) fn subscription(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.required("group")?, request.required("topic")?);
    let subscription = subscriptions(request, group).remove(topic);
    let body = ClientSubscription {
        group: group.to_owned(),
        topic: topic.to_owned(),
        subscription_data: subscription,
    };
    Ok(Answer::json(&body))
}
