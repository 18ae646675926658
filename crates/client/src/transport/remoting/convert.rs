//! A stored message as the application sees it.

use std::sync::Arc;

use redstart_wire::remoting::{StoredMessage, offset_message_id, read_properties};

use crate::{
    Queue, Received,
    body::unpack,
    message::is_reserved,
    received::{DEAD_LETTER_REASON, DeadLetterOrigin, ReplyTo, time_of_ms},
};

/// A message of a broker. A message that comes again through a retry topic has the topic that it was sent to.
pub(super) fn received(address: &Arc<str>, broker: &str, stored: &StoredMessage<'_>) -> Received {
    let all = read_properties(&stored.properties);
    let find = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let owned = |name: &str| find(name).map(str::to_owned);
    let topic = find("RETRY_TOPIC").filter(|_| stored.topic.starts_with("%RETRY%")).unwrap_or(&stored.topic);
    let number = |name: &str| find(name).and_then(|text| text.parse::<i64>().ok());
    let user = all.iter().filter(|(name, _)| !is_reserved(name));
    Received {
        id: owned("UNIQ_KEY").unwrap_or_else(|| offset_message_id(stored.store_host, stored.physical_offset)),
        queue: Queue::new(topic, broker, stored.queue_id),
        offset: stored.queue_offset,
        attempt: u32::try_from(stored.reconsume_times).unwrap_or(0).saturating_add(1),
        body: unpack(&stored.body, stored.system_flag),
        tag: owned("TAGS"),
        keys: find("KEYS").into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect(),
        group: owned("__SHARDINGKEY"),
        priority: number("_SYS_MSG_PRIORITY_").and_then(|priority| u8::try_from(priority).ok()),
        properties: user.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        born_at: time_of_ms(stored.born_at),
        stored_at: time_of_ms(stored.stored_at),
        deliver_at: number("TIMER_DELIVER_MS").or_else(|| number("TIMER_OUT_MS")).map(time_of_ms),
        born_host: stored.born_host.to_string(),
        dead_letter: find("DLQ_ORIGIN_TOPIC").map(|topic| DeadLetterOrigin {
            topic: topic.to_owned(),
            id: find("DLQ_ORIGIN_MESSAGE_ID").unwrap_or_default().to_owned(),
            reason: owned(DEAD_LETTER_REASON),
        }),
        reply_to: find("REPLY_TO_CLIENT").zip(find("CORRELATION_ID")).map(|(client, correlation)| ReplyTo {
            address: address.clone(),
            broker: broker.to_owned(),
            cluster: find("CLUSTER").unwrap_or("DefaultCluster").to_owned(),
            client: client.to_owned(),
            correlation: correlation.to_owned(),
            ttl: owned("TTL"),
        }),
    }
}
