//! Requests of operators to a client, which the broker passes on.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use redstart_auth::signature::remoting::{ACCESS_KEY, SECURITY_TOKEN, SIGNATURE};
use redstart_engine::{Filter, Found, QueryError, Timestamp, TopicName};
use redstart_wire::remoting::{
    Command, Fields,
    body::{ConsumerStatus, Queue},
    code, from_slice, read_offset_message_id,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connections::{other_consumers, other_subscription};
use crate::{
    access::Needs,
    remoting::{
        convert::read_physical_offset,
        other_protocol::{DeliveryMode, NoReply, OtherClient, OtherMessage, Role},
        peer::{AskError, Peer},
        records::{self, Place},
        refusal::Refusal,
        request::{Answer, Request},
        rights::SUB,
    },
    shard::WantedKey,
};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// Queues that one client may name.
const QUEUES_MAX: usize = 65_536;

/// A connected consumer, by its protocol.
enum Consumer {
    Remoting(Arc<Peer>),
    Grpc(OtherClient),
}

fn consumer(request: &Request, group: &str, client: &str) -> Result<Consumer, Refusal> {
    let member = request.context.members.consumers(group).and_then(|mut group| group.members.remove(client));
    if let Some(member) = member {
        return Ok(Consumer::Remoting(member.peer));
    }
    let other = other_consumers(request, group).into_iter().find(|other| other.id == client);
    other.map(Consumer::Grpc).ok_or_else(|| {
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

impl From<NoReply> for Refusal {
    fn from(error: NoReply) -> Self {
        let code = match error {
            NoReply::Timeout => code::CONSUME_MSG_TIMEOUT,
            NoReply::Failed(_) => code::SYSTEM_ERROR,
        };
        Refusal::new(code, error.to_string())
    }
}

/// Sends a request to a 4.x client and passes its answer on unchanged.
async fn pass_on(peer: &Peer, command: Command) -> Result<Answer, Refusal> {
    let answer = peer.ask(command, ANSWER_TIMEOUT).await?;
    Ok(Answer {
        remark: answer.remark,
        fields: answer.fields,
        ..Answer::new(answer.code).with_body(answer.body)
    })
}

pub(crate) async fn running_info(request: &Request) -> Result<Answer, Refusal> {
    let (group, client) = (request.required("consumerGroup")?, request.required("clientId")?);
    match consumer(request, group, client)? {
        Consumer::Remoting(peer) => {
            let command = Command::question(code::GET_CONSUMER_RUNNING_INFO);
            pass_on(&peer, Command { fields: passed_on(request), ..command }).await
        }
        Consumer::Grpc(other) => {
            let threads = match (request.truth("jstackEnable"), request.context.node.other_protocol.get()) {
                (Some(true), Some(other_protocol)) => Some(other_protocol.thread_dump(client).await?),
                _ => None,
            };
            Ok(Answer::json(&other_running_info(&other, threads)))
        }
    }
}

/// The running info of a gRPC client, as far as the server knows it: those clients have no such report.
fn other_running_info(client: &OtherClient, threads: Option<String>) -> Value {
    let (delivery, subscriptions) = match &client.role {
        Role::Consumer { delivery, subscriptions, .. } => (*delivery, &subscriptions[..]),
        Role::Producer { .. } => (DeliveryMode::Pull, &[][..]),
    };
    let mut info = json!({
        "properties": {
            "PROP_CLIENT_VERSION": client.version,
            "PROP_CONSUME_TYPE": if delivery == DeliveryMode::Push { "CONSUME_PASSIVELY" } else { "CONSUME_ACTIVELY" },
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

/// Gives a stored message to one consumer to try. Offsets and deliveries do not change.
pub(crate) async fn consume_directly(request: &Request) -> Result<Answer, Refusal> {
    let (group, client) = (request.required("consumerGroup")?, request.required("clientId")?);
    let consumer = consumer(request, group, client)?;
    let (topic, place) = named_message(request).await?;
    // Any position can be named.
    request.check(&Needs::nothing().topic(topic.as_str(), SUB)).map_err(|_| no_message(request))?;
    match consumer {
        Consumer::Remoting(peer) => {
            let records = records::read(request, &topic, &[place], &Filter::All).await?.whole()?;
            if records.written.is_empty() {
                return Err(Refusal::new(code::SYSTEM_ERROR, "the message cannot be read"));
            }
            let command = Command::question(code::CONSUME_MESSAGE_DIRECTLY);
            let command = Command { fields: passed_on(request), body: records.body, ..command }
                .with_field("brokerName", &request.context.name)
                .with_field("topicSysFlag", 0)
                .with_field("groupSysFlag", 0);
            pass_on(&peer, command).await
        }
        Consumer::Grpc(_) => {
            let other_protocol = request.context.node.other_protocol.get();
            let other_protocol = other_protocol.ok_or_else(|| Refusal::from(NoReply::Timeout))?;
            let started = Instant::now();
            let shard = request.context.number;
            let message = OtherMessage { shard, topic, position: place.position, size: place.size };
            let tried = other_protocol.try_message(client, message).await?;
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

fn no_message(request: &Request) -> Refusal {
    let id = request.field("msgId").unwrap_or_default();
    Refusal::new(code::SYSTEM_ERROR, format!("there is no message {id}"))
}

/// The operator's fields, for its question to a client. A signature must not reach it: the client could use it again.
fn passed_on(request: &Request) -> Fields {
    let mut fields = request.fields.clone();
    for name in [ACCESS_KEY, SIGNATURE, SECURITY_TOKEN] {
        fields.remove(name);
    }
    fields
}

/// The message that a request names, by its offset id or by the client's message id.
async fn named_message(request: &Request) -> Result<(TopicName, Place), Refusal> {
    let id = request.required("msgId")?.to_owned();
    let topic = request.field("topic").filter(|topic| !topic.is_empty()).map(TopicName::new).transpose()?;
    let address = read_offset_message_id(&id).and_then(|(_, offset)| read_physical_offset(offset));
    let unknown = no_message(request);
    let at = match address {
        Some((position, attempt)) => {
            let found = request.look(move |engine, _| engine.message_by_position(position)).await?;
            match found {
                // A failed read does not prove that there is no such message.
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

/// The offsets of a group's consumers, as the consumers themselves report them.
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
            let answer = member.peer.ask(command, STATUS_TIMEOUT).await;
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
