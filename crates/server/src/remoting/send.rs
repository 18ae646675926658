//! Sends of producers: one message, a batch, a half message.

use std::time::Instant;

use redstart_engine::{
    InvalidMessage, QueueId, RETRY_PREFIX, SendError, SendOptions, SendReceipt, TopicConfig, TopicName,
    Visibility,
};
use redstart_wire::remoting::{
    BatchEntry, PROPERTIES_BYTES_MAX, SendHeader, code, decode_batch, offset_message_id, read_properties,
};

use super::{
    AUTO_CREATE_TOPIC,
    auto_create::{TRACE_TOPIC, ensure_topic},
    convert::{Accepted, Incoming},
    members::Sender,
    property as p, recall,
    refusal::Refusal,
    request::{Answer, Request},
    send_back,
};
use crate::shard::{Clock, SendFailure, SystemClock};

/// Messages of one batch. The engine has a lower limit, with a better error.
const BATCH_MAX: usize = 10_000;
const AUTO_CREATE_QUEUES_MAX: i32 = 8;

pub(super) async fn send(request: &Request) -> Result<Answer, Refusal> {
    let header = SendHeader::read(request)?;
    let topic = TopicName::new(header.topic)?;
    if header.topic.starts_with(RETRY_PREFIX) {
        if header.batch {
            return Err(Refusal::new(
                code::MESSAGE_ILLEGAL,
                format!("batch request does not support retry group {topic}"),
            ));
        }
        return send_back::send(request, header, topic).await;
    }
    if topic.is_reserved() && header.topic != TRACE_TOPIC {
        let why = format!("Sending message to topic[{topic}] is forbidden. It is reserved for the broker");
        return Err(Refusal::new(code::NO_PERMISSION, why));
    }
    let accepted =
        if header.batch { accept_batch(request, &header)? } else { vec![accept(request, &header)?] };
    let [first, ..] = &accepted[..] else {
        return Err(Refusal::new(code::MESSAGE_ILLEGAL, "the batch is empty"));
    };
    let options = SendOptions {
        queue: u32::try_from(header.queue_id).ok().map(QueueId),
        half: first.half,
        untyped: !request.context.node.config.check_types,
    };
    let (id, timed) = (first.message.id.clone(), first.timed);
    let named = first.message.properties.iter().find(|(name, _)| name == p::PRODUCER_GROUP);
    let producers = named.filter(|_| first.half.is_some()).map(|(_, group)| group.clone());
    let receipts = store(request, &header, &topic, accepted, options).await?;
    if let Some(group) = producers {
        let from = Sender { peer: &request.peer, language: request.language, version: request.version };
        request.context.members.sent_half(&group, &from, Instant::now());
    }
    let answer = sent(request, &receipts).and("transactionId", &id);
    Ok(match &receipts[..] {
        [SendReceipt { visibility: Visibility::Delayed(key), .. }] if timed => {
            answer.with("recallHandle", recall::handle(header.topic, &request.context.name, *key, &id))
        }
        _ => answer,
    })
}

/// The message of a send.
pub(super) fn accept(request: &Request, header: &SendHeader<'_>) -> Result<Accepted, Refusal> {
    fits(header.properties)?;
    incoming(request, header, header.properties, header.flag, request.body.clone()).accept()
}

/// Refuses properties that are too long for the encoding that consumers get.
fn fits(properties: &str) -> Result<(), Refusal> {
    if properties.len() > PROPERTIES_BYTES_MAX {
        let size = properties.len();
        return Err(InvalidMessage::PropertiesTooLarge { size, limit: PROPERTIES_BYTES_MAX }.into());
    }
    Ok(())
}

fn accept_batch(request: &Request, header: &SendHeader<'_>) -> Result<Vec<Accepted>, Refusal> {
    let entries = decode_batch(request.body.clone(), BATCH_MAX)?;
    let accepted = entries.into_iter().map(|BatchEntry { flag, properties, body }| {
        fits(&properties)?;
        incoming(request, header, &properties, flag, body).accept()
    });
    let accepted = accepted.collect::<Result<Vec<_>, _>>()?;
    if accepted.iter().any(|accepted| accepted.half.is_some()) {
        return Err(Refusal::new(code::MESSAGE_ILLEGAL, "a batch cannot hold half messages"));
    }
    Ok(accepted)
}

fn incoming<'a>(
    request: &'a Request,
    header: &SendHeader<'_>,
    properties: &'a str,
    flag: i32,
    body: bytes::Bytes,
) -> Incoming<'a> {
    Incoming {
        properties: read_properties(properties),
        flag,
        system_flag: header.system_flag,
        born_at: header.born_at,
        born_host: &request.peer.remote_text,
        body,
        delay_levels: &request.context.node.config.delay_levels,
        now: SystemClock.now(),
    }
}

/// Stores messages. An unknown topic is created first, if the settings and the request allow it.
async fn store(
    request: &Request,
    header: &SendHeader<'_>,
    topic: &TopicName,
    accepted: Vec<Accepted>,
    options: SendOptions,
) -> Result<Vec<SendReceipt>, Refusal> {
    let messages: Vec<_> = accepted.into_iter().map(|accepted| accepted.message).collect();
    let create = if header.topic == TRACE_TOPIC {
        Some(1)
    } else {
        let wanted = header.default_topic_queues.clamp(1, AUTO_CREATE_QUEUES_MAX) as u32;
        (request.context.settings.auto_create_topics() && header.default_topic == AUTO_CREATE_TOPIC)
            .then_some(wanted)
    };
    let shard = &request.context.shard;
    let Some(queues) = create else { return Ok(shard.send(topic.clone(), messages, options)?.await??) };
    // Cloning is cheap: bodies are shared.
    match shard.send(topic.clone(), messages.clone(), options)?.await? {
        Err(SendFailure::Refused(SendError::UnknownTopic { .. })) => {}
        other => return Ok(other?),
    }
    let new = TopicConfig { read_queues: queues, write_queues: queues, ..TopicConfig::default() };
    ensure_topic(request, topic.clone(), new).await?;
    // The client chose a queue before the topic existed, perhaps one that it does not have.
    let options = SendOptions { queue: options.queue.filter(|queue| queue.0 < queues), ..options };
    Ok(shard.send(topic.clone(), messages, options)?.await??)
}

/// The answer to a send that was stored.
pub(super) fn sent(request: &Request, receipts: &[SendReceipt]) -> Answer {
    let host = request.broker_address();
    let id = |receipt: &SendReceipt| offset_message_id(host, receipt.position.0 as i64);
    let ids = match receipts {
        [one] => id(one),
        several => several.iter().map(id).collect::<Vec<_>>().join(","),
    };
    let (queue, offset) = receipts.first().map_or((0, 0), |receipt| {
        let offset = match receipt.visibility {
            Visibility::Visible(offset) => offset.0,
            // It has no queue offset yet. Clients only send the number back.
            Visibility::Delayed(_) | Visibility::Half => receipt.position.0,
        };
        (receipt.queue.queue.0, offset)
    });
    Answer::ok()
        .and("msgId", ids)
        .and("queueId", queue)
        .and("queueOffset", offset)
        .and(p::MSG_REGION, p::REGION)
        .and(p::TRACE_ON, "true")
}
