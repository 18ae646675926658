//! Request and reply: a consumer's answer is pushed to the producer that asked.

use std::time::Duration;

use redstart_engine::{QueueId, SendOptions, SendReceipt, TopicName};
use redstart_wire::remoting::{Command, SendHeader, code, decode_properties, encode_properties};

use super::{
    auto_create::{ensure_topic, system_topic},
    peer_text, property as p,
    refusal::Refusal,
    request::{Answer, Request},
    send,
};
use crate::shard::{Clock, SystemClock};
use crate::throttle::Throttle;

static NOT_STORED: Throttle = Throttle::new();

const PUSH_MAX: Duration = Duration::from_secs(10);

/// Pushes a reply, and stores it whether or not it arrived, as RocketMQ does, so that operators can look at it. The push comes
/// first, because the producer is waiting for it, and decides the answer.
pub(super) async fn reply(request: &Request) -> Result<Answer, Refusal> {
    let header = SendHeader::read(request)?;
    let topic = TopicName::new(header.topic)?;
    check(request, &topic).await?;
    let pushed = push(request, &header).await;
    let stored = store(request, &header, topic).await;
    if let Err(refusal) = &stored
        && let Some(repeated) = NOT_STORED.permit()
    {
        tracing::warn!(remark = peer_text::shown(&refusal.remark), repeated, "a reply was not stored");
    }
    pushed?;
    Ok(match stored {
        Ok(receipts) => send::sent(request, &receipts),
        // The push has succeeded, which is what counts.
        Err(_) => Answer::ok()
            .with("msgId", "0")
            .with("queueId", header.queue_id)
            .with("queueOffset", 0)
            .with(p::MSG_REGION, p::REGION)
            .with(p::TRACE_ON, "true"),
    })
}

/// A reply goes to the cluster's reply topic, which the first reply creates, or to any other topic that exists.
async fn check(request: &Request, topic: &TopicName) -> Result<(), Refusal> {
    if topic.as_str() == request.context.node.config.reply_topic() {
        return ensure_topic(request, topic.clone(), system_topic()).await;
    }
    if topic.is_reserved() {
        let why = format!("Sending message to topic[{topic}] is forbidden. It is reserved for the broker");
        return Err(Refusal::new(code::NO_PERMISSION, why));
    }
    let name = topic.clone();
    let known = request.ask(move |engine, _| engine.topic_id(&name)).await?;
    known.map(|_| ()).ok_or_else(|| Refusal::unknown_topic(topic.as_str()))
}

async fn push(request: &Request, header: &SendHeader<'_>) -> Result<(), Refusal> {
    let failed = |why: String| Refusal::new(code::SYSTEM_ERROR, why);
    let mut properties = decode_properties(header.properties);
    let to = properties.iter().find(|(name, _)| name == p::REPLY_TO_CLIENT).map(|(_, value)| value.clone());
    let to = to.ok_or_else(|| failed(format!("the reply has no property {}", p::REPLY_TO_CLIENT)))?;
    // It is connected to the broker that it sent its question to, which may be another one.
    let others = request.context.node.brokers.iter();
    let asker = request.context.members.producer(&to);
    let asker = asker.or_else(|| others.map(|broker| broker.members.producer(&to)).find_map(|found| found));
    let asker =
        asker.ok_or_else(|| failed(format!("push reply message to {to} failed: it is not online")))?;
    let now = SystemClock.now();
    properties.push((p::PUSH_REPLY_TIME.to_owned(), now.to_string()));
    let properties = encode_properties(properties.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    let push = Command::question(code::PUSH_REPLY_MESSAGE_TO_CLIENT)
        .with_field("producerGroup", header.producer_group)
        .with_field("topic", header.topic)
        .with_field("defaultTopic", header.default_topic)
        .with_field("defaultTopicQueueNums", header.default_topic_queues)
        .with_field("queueId", header.queue_id)
        .with_field("sysFlag", header.system_flag)
        .with_field("bornTimestamp", header.born_at)
        .with_field("flag", header.flag)
        .with_field("properties", properties)
        .with_field("reconsumeTimes", header.reconsume_times)
        .with_field("unitMode", false)
        .with_field("bornHost", request.peer.remote)
        .with_field("storeHost", request.broker_address())
        .with_field("storeTimestamp", now);
    let pushed = asker.ask(Command { body: request.body.clone(), ..push }, PUSH_MAX).await;
    let answer = pushed.map_err(|error| failed(format!("push reply message to {to} failed: {error}")))?;
    if answer.code != code::SUCCESS {
        let why = answer.remark.unwrap_or_default();
        return Err(failed(format!("push reply message to {to} failed: {} {why}", answer.code)));
    }
    Ok(())
}

async fn store(
    request: &Request,
    header: &SendHeader<'_>,
    topic: TopicName,
) -> Result<Vec<SendReceipt>, Refusal> {
    let message = send::accept(request, header)?.message;
    let queue = u32::try_from(header.queue_id).ok().map(QueueId);
    let options = SendOptions { queue, half: None, untyped: !request.context.node.config.check_types };
    Ok(request.context.shard.send(topic, vec![message], options)?.await??)
}
