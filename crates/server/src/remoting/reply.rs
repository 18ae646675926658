//! Request and reply: a consumer's answer is pushed to the producer that asked.

use std::time::Duration;

use redstart_wire::remoting::{Command, SendHeader, code, decode_properties, encode_properties};

use super::{
    property as p,
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::shard::{Clock, SystemClock};

const PUSH_MAX: Duration = Duration::from_secs(10);

/// Replies are not stored: who waits for one waits now.
pub(super) async fn reply(request: &Request) -> Result<Answer, Refusal> {
    let header = SendHeader::read(request)?;
    let failed = |why: String| Refusal::new(code::SYSTEM_ERROR, why);
    let mut properties = decode_properties(header.properties);
    let to = properties.iter().find(|(name, _)| name == p::REPLY_TO_CLIENT).map(|(_, value)| value.clone());
    let to = to.ok_or_else(|| failed(format!("the reply has no property {}", p::REPLY_TO_CLIENT)))?;
    let asker = request.context.members.producer(&to);
    let asker =
        asker.ok_or_else(|| failed(format!("push reply message to {to} failed: it is not online")))?;
    let now = SystemClock.now();
    properties.push((p::PUSH_REPLY_TIME.to_owned(), now.to_string()));
    let properties = encode_properties(properties.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    let push = Command::request(code::PUSH_REPLY_MESSAGE_TO_CLIENT)
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
    Ok(Answer::ok()
        .with("msgId", "0")
        .with("queueId", header.queue_id)
        .with("queueOffset", 0)
        .with(p::MSG_REGION, p::REGION)
        .with(p::TRACE_ON, "true"))
}
