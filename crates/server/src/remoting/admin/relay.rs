//! What an operator asks of a client goes through the broker.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use redstart_engine::{Filter, Found, QueryError, Timestamp, TopicName};
use redstart_wire::remoting::{
    Command,
    body::{ConsumerStatus, Queue},
    code, from_slice, read_offset_message_id,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connections::{other_consumers, other_subscription};
use crate::{
    remoting::{
        convert::read_physical_offset,
        elsewhere::{OtherClient, OtherMessage, Role, Takes, Unanswered},
        peer::{AskError, Peer},
        records::{self, Place},
        refusal::Refusal,
        request::{Answer, Request},
    },
    shard::WantedKey,
};

const PATIENCE: Duration = Duration::from_secs(10);
const STATUS_PATIENCE: Duration = Duration::from_secs(5);
/// Queues that one client may name.
const QUEUES_MAX: usize = 65_536;

/// Where a consumer is to be found.
enum Consumer {
    Here(Arc<Peer>),
    Elsewhere(OtherClient),
}

fn consumer(request: &Request, group: &str, client: &str) -> Result<Consumer, Refusal> {
    let member = request.context.members.consumers(group).and_then(|mut group| group.members.remove(client));
    if let Some(member) = member {
        return Ok(Consumer::Here(member.peer));
    }
    let other = other_consumers(request, group).into_iter().find(|other| other.id == client);
    other.map(Consumer::Elsewhere).ok_or_else(|| {
        Refusal::new(code::SYSTEM_ERROR, format!("The Consumer <{group}> <{client}> not online"))
    })
}

impl From<AskError> for Refusal {
    fn from(error: AskError) -> Self {
        let code = match error {
            AskError::Timeout => code::CONSUME_MSG_TIMEOUT,
            AskError::Full | AskError::Gone => code::SYSTEM_ERROR,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<Unanswered> for Refusal {
    fn from(error: Unanswered) -> Self {
        let code = match error {
            Unanswered::Timeout => code::CONSUME_MSG_TIMEOUT,
            Unanswered::Failed(_) => code::SYSTEM_ERROR,
        };
        Refusal::new(code, error.to_string())
    }
}

/// Asks a client of this protocol and passes its answer on as it is.
async fn pass_on(peer: &Peer, command: Command) -> Result<Answer, Refusal> {
    let answer = peer.ask(command, PATIENCE).await?;
    Ok(Answer {
        remark: answer.remark,
        fields: answer.fields,
        ..Answer::new(answer.code).with_body(answer.body)
    })
}

pub(crate) async fn running_info(request: &Request) -> Result<Answer, Refusal> {
    let (group, client) = (request.required("consumerGroup")?, request.required("clientId")?);
    match consumer(request, group, client)? {
        Consumer::Here(peer) => {
            let command = Command::question(code::GET_CONSUMER_RUNNING_INFO);
            pass_on(&peer, Command { fields: request.fields.clone(), ..command }).await
        }
        Consumer::Elsewhere(other) => {
            let threads = match (request.truth("jstackEnable"), request.context.elsewhere.get()) {
                (Some(true), Some(elsewhere)) => Some(elsewhere.thread_dump(client).await?),
                _ => None,
            };
            Ok(Answer::json(&other_running_info(&other, threads)))
        }
    }
}

/// What is known of a client that has no such report of its own.
fn other_running_info(client: &OtherClient, threads: Option<String>) -> Value {
    let (takes, subscriptions) = match &client.role {
        Role::Consumer { takes, subscriptions, .. } => (*takes, &subscriptions[..]),
        Role::Producer { .. } => (Takes::Fetched, &[][..]),
    };
    let mut info = json!({
        "properties": {
            "PROP_CLIENT_VERSION": client.version,
            "PROP_CONSUME_TYPE": if takes == Takes::Pushed { "CONSUME_PASSIVELY" } else { "CONSUME_ACTIVELY" },
            "PROP_CONSUMEORDERLY": "false",
            "PROP_CONSUMER_START_TIMESTAMP": "0",
            "PROP_NAMESERVER_ADDR": "",
            "PROP_THREADPOOL_CORE_SIZE": "0",
        },
        "subscriptionSet": subscriptions.iter().map(other_subscription).collect::<Vec<_>>(),
        "mqTable": {},
        "mqPopTable": {},
        "statusTable": {},
        "userConsumerInfo": {},
    });
    if let Some(threads) = threads {
        info["jstack"] = threads.into();
    }
    info
}

/// Gives a stored message to one consumer, outside of all queues.
pub(crate) async fn consume_directly(request: &Request) -> Result<Answer, Refusal> {
    let (group, client) = (request.required("consumerGroup")?, request.required("clientId")?);
    let consumer = consumer(request, group, client)?;
    let (topic, place) = named_message(request).await?;
    match consumer {
        Consumer::Here(peer) => {
            let records = records::read(request, &topic, &[place], &Filter::All).await?.whole()?;
            if records.written.is_empty() {
                return Err(Refusal::new(code::SYSTEM_ERROR, "the message cannot be read"));
            }
            let command = Command::question(code::CONSUME_MESSAGE_DIRECTLY);
            let command = Command { fields: request.fields.clone(), body: records.body, ..command }
                .with_field("brokerName", &request.context.config.broker)
                .with_field("topicSysFlag", 0)
                .with_field("groupSysFlag", 0);
            pass_on(&peer, command).await
        }
        Consumer::Elsewhere(_) => {
            let elsewhere = request.context.elsewhere.get();
            let elsewhere = elsewhere.ok_or_else(|| Refusal::from(Unanswered::Timeout))?;
            let started = Instant::now();
            let message = OtherMessage { topic, position: place.position, size: place.size };
            let tried = elsewhere.try_message(client, message).await?;
            Ok(Answer::json(&json!({
                "order": false,
                "autoCommit": true,
                "consumeResult": if tried.is_ok() { "CR_SUCCESS" } else { "CR_LATER" },
                "remark": tried.err(),
                "spentTimeMills": started.elapsed().as_millis() as u64,
            })))
        }
    }
}

/// The message that a request names, by its address or by its own id.
async fn named_message(request: &Request) -> Result<(TopicName, Place), Refusal> {
    let id = request.required("msgId")?.to_owned();
    let topic = request.field("topic").filter(|topic| !topic.is_empty()).map(TopicName::new).transpose()?;
    let address = read_offset_message_id(&id).and_then(|(_, offset)| read_physical_offset(offset));
    let unknown = Refusal::new(code::SYSTEM_ERROR, format!("there is no message {id}"));
    let at = match address {
        Some((position, attempt)) => {
            let found = request.look(move |engine, _| engine.message_by_position(position)).await?;
            match found {
                // It may be there: a failed read must not be taken for an answer.
                Err(QueryError::Fetch(error)) if error.is_io() => return Err(QueryError::from(error).into()),
                Err(error @ QueryError::Index(_)) => return Err(error.into()),
                found => found.ok().map(|found| (found, attempt)),
            }
        }
        None => None,
    };
    let found: Option<(Found, u16)> = match (at, topic) {
        (None, Some(topic)) => {
            let wanted = WantedKey { topic, key: id, from: Timestamp(0), to: Timestamp::MAX, max: 1 };
            let by_id = request.context.shard.find_by_key(wanted).await??;
            by_id.found.first().map(|found| (*found, 0))
        }
        (at, _) => at,
    };
    let (found, attempt) = found.ok_or_else(|| unknown.clone())?;
    let name = request.ask(move |engine, _| engine.topic_name_of(found.queue.topic)).await?;
    Ok((name.ok_or(unknown)?, Place { attempt, ..Place::found(&found) }))
}

/// Where the consumers of a group stand, by their own word.
pub(crate) async fn consumer_status(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.required("group")?, request.required("topic")?);
    let only = request.field("clientAddr").filter(|client| !client.is_empty());
    let members = request.context.members.consumers(group).map(|group| group.members).unwrap_or_default();
    let asked = members.into_values().filter(|member| only.is_none_or(|only| member.client_id == only));
    let asked: Vec<_> = asked
        .map(|member| async move {
            let command = Command::question(code::GET_CONSUMER_STATUS_FROM_CLIENT)
                .with_field("topic", topic)
                .with_field("group", group);
            let answer = member.peer.ask(command, STATUS_PATIENCE).await;
            (member.client_id, answer.ok().map(|answer| offsets(&answer.body)))
        })
        .collect();
    if asked.is_empty() {
        let why = format!("no consumer of {group} is online that keeps offsets of its own");
        return Err(Refusal::new(code::CONSUMER_NOT_ONLINE, why));
    }
    let by_client = join_all(asked).await;
    let by_client = by_client.into_iter().filter_map(|(client, offsets)| Some((client, offsets?)));
    Ok(Answer::ok().with_body(ConsumerStatus { by_client: by_client.collect() }.to_text()))
}

/// The offsets in a client's answer, whose keys are objects.
fn offsets(body: &[u8]) -> BTreeMap<Queue, i64> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Offsets {
        message_queue_table: BTreeMap<String, i64>,
    }
    let Offsets { message_queue_table } = from_slice(body).unwrap_or_default();
    let row = |(key, offset): (String, i64)| Some((from_slice(key.as_bytes()).ok()?, offset));
    message_queue_table.into_iter().filter_map(row).take(QUEUES_MAX).collect()
}
