//! Queue assignment by the broker, for clients that ask for it, with the mode of each topic and group: pull or pop.

use std::collections::BTreeMap;

use redstart_engine::{GroupName, TopicName};
use redstart_wire::remoting::{
    body::{Assignment, Assignments, QueryAssignment, Queue, RequestMode},
    code,
};

use super::{
    refusal::Refusal,
    request::{Answer, Request},
};

/// Where the modes are kept: with the name service's values, under topic and group.
const MODES: &str = "MESSAGE_REQUEST_MODE";
const PULL: &str = "PULL";
const POP: &str = "POP";

pub(super) async fn assignment(request: &Request) -> Result<Answer, Refusal> {
    let query: QueryAssignment = request.json()?;
    let (topic, group) = (TopicName::new(&query.topic)?, GroupName::new(&query.consumer_group)?);
    let queues = readable(request, &topic).await?.ok_or_else(|| Refusal::unknown_topic(topic.as_str()))?;
    let (mode, share) = match request.context.node.name_service.mode(MODES, &key(&topic, &group)) {
        Some(mode) if !topic.is_retry() => mode,
        _ => (PULL.to_owned(), 0),
    };
    let mut clients = request.context.members.consumer_ids(group.as_str()).unwrap_or_default();
    clients.sort_unstable();
    let assigned = if query.message_model.as_deref() == Some("BROADCASTING") {
        Some(queues)
    } else if mode == POP && (share <= 0 || share as usize >= clients.len().saturating_sub(1)) {
        // Messages, not queues, are shared out.
        let mut brokers: Vec<Queue> =
            queues.into_iter().map(|queue| Queue { queue_id: -1, ..queue }).collect();
        brokers.dedup();
        Some(brokers)
    } else {
        let at = clients.iter().position(|client| *client == query.client_id);
        at.and_then(|at| shared(query.strategy_name.as_deref(), &queues, &clients, at, share))
    };
    let assigned = assigned.map(|queues| {
        let one =
            |message_queue| Assignment { message_queue, mode: mode.clone(), attachments: Default::default() };
        queues.into_iter().map(one).collect()
    });
    Ok(Answer::json(&Assignments { message_queue_assignments: assigned }))
}

/// The queues of a topic that can be read, of all brokers of this process; `None` if there is no such topic.
async fn readable(request: &Request, topic: &TopicName) -> Result<Option<Vec<Queue>>, Refusal> {
    let mut found = None;
    for broker in &request.context.node.brokers {
        let name = topic.clone();
        let Some(view) = broker.shard.ask(move |engine, _| engine.topic(&name))?.await? else { continue };
        let count = if view.config.permission.read { view.queues.len() } else { 0 };
        found.get_or_insert_with(Vec::new).extend((0..count as i32).map(|queue_id| Queue {
            broker_name: broker.name.clone(),
            queue_id,
            topic: topic.to_string(),
        }));
    }
    Ok(found)
}

fn key(topic: &TopicName, group: &GroupName) -> String {
    format!("{topic}@{group}")
}

/// The queues of the client at `at`, and of as many clients after it as `share` says. `None` for strategies that are not
/// known: the client goes on with its own.
fn shared(
    strategy: Option<&str>,
    queues: &[Queue],
    clients: &[String],
    at: usize,
    share: i32,
) -> Option<Vec<Queue>> {
    let n = clients.len();
    let circle = match strategy {
        None | Some("AVG") => false,
        Some("AVG_BY_CIRCLE") => true,
        Some(_) => return None,
    };
    let own = |at: usize| -> Vec<Queue> {
        if circle {
            return queues.iter().skip(at).step_by(n).cloned().collect();
        }
        let (size, rest) = (queues.len() / n, queues.len() % n);
        let (start, len) = if at < rest { (at * (size + 1), size + 1) } else { (at * size + rest, size) };
        queues.iter().skip(start).take(len).cloned().collect()
    };
    let sharing = usize::try_from(share).unwrap_or(0).min(n - 1);
    let mut all: Vec<Queue> = (0..=sharing).flat_map(|step| own((at + step) % n)).collect();
    all.sort_unstable();
    Some(all)
}

/// All modes that were set, by topic and group.
pub(super) fn modes(request: &Request) -> Result<Answer, Refusal> {
    let mut all: BTreeMap<String, BTreeMap<String, RequestMode>> = BTreeMap::new();
    for (key, mode, pop_share_queue_num) in request.context.node.name_service.modes(MODES) {
        let Some((topic, group)) = key.split_once('@') else { continue };
        let (topic, consumer_group) = (topic.to_owned(), group.to_owned());
        let mode = RequestMode {
            topic: topic.clone(),
            consumer_group: consumer_group.clone(),
            mode,
            pop_share_queue_num,
        };
        all.entry(topic).or_default().insert(consumer_group, mode);
    }
    Ok(Answer::json(&serde_json::json!({ "messageRequestModeMap": all })))
}

pub(super) async fn set_mode(request: &Request) -> Result<Answer, Refusal> {
    let RequestMode { topic, consumer_group, mode, pop_share_queue_num } = request.json()?;
    let (topic, group) = (TopicName::new(&topic)?, GroupName::new(&consumer_group)?);
    if topic.is_retry() {
        return Err(Refusal::new(code::NO_PERMISSION, "retry topic is not allowed to set mode"));
    }
    if mode != PULL && mode != POP {
        return Err(Refusal::invalid(format!("the mode {mode:?} is neither {PULL} nor {POP}")));
    }
    let name = topic.clone();
    match request.ask(move |engine, _| engine.topic_id(&name)).await? {
        None => Err(Refusal::unknown_topic(topic.as_str())),
        Some(_) => {
            request.ensure_group(&group).await?;
            request
                .context
                .node
                .name_service
                .set_mode(request, MODES, key(&topic, &group), mode, pop_share_queue_num)
                .await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(strategy: &str, queues: i32, clients: usize, at: usize, share: i32) -> Vec<i32> {
        let queue = |id| Queue { broker_name: "b".to_owned(), queue_id: id, topic: "t".to_owned() };
        let queues: Vec<Queue> = (0..queues).map(queue).collect();
        let clients: Vec<String> = (0..clients).map(|n| n.to_string()).collect();
        let shared = shared(Some(strategy), &queues, &clients, at, share).unwrap();
        shared.iter().map(|queue| queue.queue_id).collect()
    }

    #[test]
    fn every_queue_has_one_reader_and_shares_overlap() {
        assert_eq!(ids("AVG", 8, 3, 0, 0), [0, 1, 2]);
        assert_eq!(ids("AVG", 8, 3, 1, 0), [3, 4, 5]);
        assert_eq!(ids("AVG", 8, 3, 2, 0), [6, 7]);
        assert_eq!(ids("AVG", 2, 3, 2, 0), [0; 0]);
        assert_eq!(ids("AVG_BY_CIRCLE", 5, 2, 1, 0), [1, 3]);
        assert_eq!(ids("AVG", 8, 3, 2, 1), [0, 1, 2, 6, 7], "its own and the next one's");
        assert!(shared(Some("OTHER"), &[], &["a".to_owned()], 0, 0).is_none());
    }
}
