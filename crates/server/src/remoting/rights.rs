//! What each request needs, from its fields and its body. The table in [`dispatch`](super::dispatch) says which of these
//! functions a request code has.
//!
//! A request that names a message by its position in the log, or a transaction, says nothing about the topic: its handler
//! finds the topic and asks again ([`Request::check`](super::request::Request::check)).

use redstart_auth::{Action, Actions};
use redstart_wire::remoting::{
    SendHeader,
    body::{
        BatchAcks, CheckClient, GroupConfig, GroupConfigs, Heartbeat, LockQueues, QueryAssignment,
        RequestMode, TopicConfigList,
    },
    from_slice,
};
use serde::de::DeserializeOwned;

use super::{heartbeat::HEARTBEAT_BYTES_MAX, refusal::Refusal, request::Received};
use crate::access::Needs;

/// Sets of which one action is enough.
pub(super) const USE: Actions = Actions::of(&[Action::Pub, Action::Sub, Action::Get]);
pub(super) const READ: Actions = Actions::of(&[Action::Sub, Action::Get]);
pub(super) const MOVE: Actions = Actions::of(&[Action::Sub, Action::Update]);
pub(super) const PUB: Actions = Actions::of(&[Action::Pub]);
pub(super) const SUB: Actions = Actions::of(&[Action::Sub]);
pub(super) const GET: Actions = Actions::of(&[Action::Get]);
pub(super) const LIST: Actions = Actions::of(&[Action::List]);
pub(super) const CREATE: Actions = Actions::of(&[Action::Create]);
pub(super) const UPDATE: Actions = Actions::of(&[Action::Update]);
pub(super) const DELETE: Actions = Actions::of(&[Action::Delete]);

type Result<'a> = std::result::Result<Needs<'a>, Refusal>;

/// Every known user may do it.
pub(super) fn known(_: &Received) -> Result<'_> {
    Ok(Needs::nothing())
}

pub(super) fn super_user(_: &Received) -> Result<'_> {
    Ok(Needs::super_user())
}

/// For super users, and changes nothing: what brokers that are registered say every few seconds.
pub(super) fn super_user_asks(_: &Received) -> Result<'_> {
    Ok(Needs::super_user_asks())
}

pub(super) fn cluster(received: &Received, actions: Actions) -> Result<'_> {
    Ok(Needs::nothing().cluster(&received.context.node.config.cluster, actions))
}

pub(super) fn topic<'a>(received: &'a Received, field: &'static str, actions: Actions) -> Result<'a> {
    Ok(Needs::nothing().topic(received.required(field)?, actions))
}

pub(super) fn group<'a>(received: &'a Received, field: &'static str, actions: Actions) -> Result<'a> {
    Ok(Needs::nothing().group(received.required(field)?, actions))
}

/// A topic and the group that consumes it.
pub(super) fn consume(received: &Received, actions: Actions) -> Result<'_> {
    Ok(Needs::nothing().consume(received.required("topic")?, received.required("consumerGroup")?, actions))
}

/// The same where tools call the group `group`.
pub(super) fn topic_and_group(received: &Received, actions: Actions) -> Result<'_> {
    Ok(Needs::nothing().consume(received.required("topic")?, received.required("group")?, actions))
}

pub(super) fn send(received: &Received) -> Result<'_> {
    Ok(Needs::nothing().topic(SendHeader::topic(received)?, PUB))
}

/// The topic is the client's word; that of the half message is asked for by the handler.
pub(super) fn end_transaction(received: &Received) -> Result<'_> {
    let topic = given(received, "topic");
    Ok(topic.into_iter().fold(Needs::nothing(), |needs, topic| needs.topic(topic, PUB)))
}

pub(super) fn batch_ack(received: &Received) -> Result<'_> {
    let BatchAcks { acks, .. } = body(received)?;
    Needs::bounded(acks.len())?;
    Ok(acks.into_iter().fold(Needs::nothing(), |needs, ack| needs.consume(ack.topic, ack.group, SUB)))
}

pub(super) fn lock(received: &Received) -> Result<'_> {
    let LockQueues { consumer_group, mq_set, .. } = body(received)?;
    Needs::bounded(mq_set.len())?;
    let needs = Needs::nothing().group(consumer_group, SUB);
    Ok(mq_set.into_iter().fold(needs, |needs, queue| needs.topic(queue.topic, SUB)))
}

/// Producers need nothing to be there; what they send does.
pub(super) fn heartbeat(received: &Received) -> Result<'_> {
    // One that is too large is refused by its handler, before it is read.
    if received.body.len() > HEARTBEAT_BYTES_MAX {
        return Ok(Needs::nothing());
    }
    let Heartbeat { consumer_data_set, .. } = body(received)?;
    Needs::bounded(consumer_data_set.iter().map(|consumer| 1 + consumer.subscription_data_set.len()).sum())?;
    let mut needs = Needs::nothing();
    for consumer in consumer_data_set {
        let topics = consumer.subscription_data_set.into_iter().map(|subscription| subscription.topic);
        needs = topics.fold(needs, |needs, topic| needs.topic(topic, SUB)).group(consumer.group_name, SUB);
    }
    Ok(needs)
}

pub(super) fn unregister(received: &Received) -> Result<'_> {
    let group = given(received, "consumerGroup");
    Ok(group.into_iter().fold(Needs::nothing(), |needs, group| needs.group(group, SUB)))
}

pub(super) fn check_client(received: &Received) -> Result<'_> {
    let CheckClient { group, subscription_data, .. } = body(received)?;
    let needs = Needs::nothing().group(group, SUB);
    Ok(subscription_data.into_iter().fold(needs, |needs, wanted| needs.topic(wanted.topic, SUB)))
}

pub(super) fn query_assignment(received: &Received) -> Result<'_> {
    let QueryAssignment { topic, consumer_group, .. } = body(received)?;
    Ok(Needs::nothing().consume(topic, consumer_group, SUB))
}

pub(super) fn request_mode(received: &Received) -> Result<'_> {
    let RequestMode { topic, consumer_group, .. } = body(received)?;
    Ok(Needs::nothing().topic(topic, MOVE).group(consumer_group, UPDATE))
}

pub(super) fn put_topics(received: &Received) -> Result<'_> {
    let TopicConfigList { topic_config_list } = body(received)?;
    Needs::bounded(topic_config_list.len())?;
    Ok(topic_config_list
        .into_iter()
        .fold(Needs::nothing(), |needs, topic| needs.topic(topic.topic_name, CREATE)))
}

pub(super) fn put_group(received: &Received) -> Result<'_> {
    let GroupConfig { group_name, .. } = body(received)?;
    Ok(Needs::nothing().group(group_name, CREATE))
}

pub(super) fn put_groups(received: &Received) -> Result<'_> {
    let GroupConfigs { group_config_list } = body(received)?;
    Needs::bounded(group_config_list.len())?;
    Ok(group_config_list
        .into_iter()
        .fold(Needs::nothing(), |needs, group| needs.group(group.group_name, CREATE)))
}

/// A group, and the topics of it if some are named.
pub(super) fn consume_stats(received: &Received) -> Result<'_> {
    let listed = given(received, "topicList").unwrap_or_default().split(';');
    Needs::bounded(listed.clone().count())?;
    let topics = listed.chain(given(received, "topic")).filter(|topic| !topic.is_empty());
    let needs = Needs::nothing().group(received.required("consumerGroup")?, GET);
    Ok(topics.fold(needs, |needs, topic| needs.topic(topic, READ)))
}

/// A topic, and a group if one is named.
pub(super) fn queue_entries(received: &Received) -> Result<'_> {
    let needs = Needs::nothing().topic(received.required("topic")?, GET);
    Ok(given(received, "consumerGroup").into_iter().fold(needs, |needs, group| needs.group(group, GET)))
}

pub(super) fn clone_offsets(received: &Received) -> Result<'_> {
    let needs = Needs::nothing()
        .group(received.required("srcGroup")?, GET)
        .group(received.required("destGroup")?, UPDATE);
    Ok(given(received, "topic").into_iter().fold(needs, |needs, topic| needs.topic(topic, READ)))
}

pub(super) fn correction(received: &Received) -> Result<'_> {
    let others =
        given(received, "filterGroups").unwrap_or_default().split(',').filter(|group| !group.is_empty());
    Needs::bounded(others.clone().count())?;
    let needs = Needs::nothing()
        .topic(received.required("topic")?, GET)
        .group(received.required("compareGroup")?, GET);
    Ok(others.fold(needs, |needs, group| needs.group(group, GET)))
}

fn given<'a>(received: &'a Received, field: &str) -> Option<&'a str> {
    received.field(field).filter(|value| !value.is_empty())
}

/// A body that cannot be read is refused here as its handler would refuse it.
fn body<T: DeserializeOwned>(received: &Received) -> std::result::Result<T, Refusal> {
    from_slice(&received.body)
        .map_err(|error| Refusal::invalid(format!("the body is not what it should be: {error}")))
}
