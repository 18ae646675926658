//! Heartbeats of clients, and their questions about the group that they are in.

use std::time::Instant;

use redstart_engine::GroupName;
use redstart_wire::remoting::{
    body::{CheckClient, ConsumerIds, Heartbeat},
    code,
};

use super::{
    auto_create::ensure_retry_topic,
    members, peer_text,
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::throttle::Throttle;

/// Size of an encoded heartbeat. Decoded it can take many times as much.
pub(super) const HEARTBEAT_BYTES_MAX: usize = 1 << 20;

static BAD_GROUP: Throttle = Throttle::new();

pub(super) async fn heartbeat(request: &Request) -> Result<Answer, Refusal> {
    if request.body.len() > HEARTBEAT_BYTES_MAX {
        let why = format!("a heartbeat of {} bytes; the limit is {HEARTBEAT_BYTES_MAX}", request.body.len());
        return Err(Refusal::invalid(why));
    }
    let mut heartbeat: Heartbeat = request.json()?;
    if heartbeat.client_id.is_empty() {
        return Err(Refusal::invalid("the heartbeat has no clientID"));
    }
    peer_text::check("clientID", &heartbeat.client_id)?;
    // An invalid group is left out; the rest of the heartbeat is used.
    let mut known = Vec::new();
    for data in std::mem::take(&mut heartbeat.consumer_data_set).into_iter().take(members::GROUPS_MAX) {
        match prepare(request, &data.group_name).await {
            Ok(()) => known.push(data),
            Err(refusal) => {
                if let Some(repeated) = BAD_GROUP.permit() {
                    let (group, remark) =
                        (peer_text::shown(&data.group_name), peer_text::shown(&refusal.remark));
                    let remote = request.peer.remote;
                    tracing::warn!(%remote, group, remark, repeated, "a consumer group in a heartbeat is ignored");
                }
            }
        }
    }
    heartbeat.consumer_data_set = known;
    let from = members::Sender { peer: &request.peer, language: request.language, version: request.version };
    let outcome = request.context.members.heartbeat(&heartbeat, &from, Instant::now())?;
    let changed = outcome.changed || heartbeat.heartbeat_fingerprint == 0;
    Ok(Answer::ok().with("IS_SUPPORT_HEART_BEAT_V2", true).with("IS_SUB_CHANGE", changed))
}

/// Creates the group and its retry topic, which its clients pull from.
async fn prepare(request: &Request, group: &str) -> Result<(), Refusal> {
    let group = GroupName::new(group)?;
    request.ensure_group(&group).await?;
    ensure_retry_topic(request, &group).await
}

pub(super) fn unregister(request: &Request) -> Result<Answer, Refusal> {
    let named = |field| request.field(field).filter(|name| !name.is_empty());
    let client_id = request.required("clientID")?;
    request.context.members.leave(&request.peer, client_id, named("producerGroup"), named("consumerGroup"));
    Ok(Answer::ok())
}

pub(super) fn consumer_list(request: &Request) -> Result<Answer, Refusal> {
    let group = request.required("consumerGroup")?;
    let ids =
        request.context.members.consumer_ids(group).ok_or_else(|| {
            Refusal::new(code::SYSTEM_ERROR, format!("no consumer for this group, {group}"))
        })?;
    Ok(Answer::json(&ConsumerIds { consumer_id_list: ids }))
}

/// Checks a filter expression; clients with an invalid one do not start.
pub(super) fn check(request: &Request) -> Result<Answer, Refusal> {
    let check: CheckClient = request.json()?;
    if let Some(subscription) = check.subscription_data {
        members::filter(subscription.expression_type.as_deref(), &subscription.sub_string)
            .map_err(|error| Refusal::subscription(&error))?;
    }
    Ok(Answer::ok())
}
