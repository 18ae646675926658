//! Messages between the crate and the protocol.

use std::time::{Duration, SystemTime};

use redstart_wire::{
    remoting::flag,
    v2::{Encoding, FilterExpression, FilterType, Message as WireMessage, MessageType, SystemProperties},
};

use super::{resource, wire_duration, wire_time};
use crate::{
    Filter, Message, Queue, Received,
    body::unpack,
    received::{DEAD_LETTER_REASON, DeadLetterOrigin},
    transport::{Outgoing, Purpose},
};

pub(super) fn filter_expression(filter: &Filter) -> FilterExpression {
    let kind = match filter {
        Filter::Sql(_) => FilterType::Sql,
        _ => FilterType::Tag,
    };
    FilterExpression { r#type: kind.into(), expression: filter.fields().1.to_owned() }
}

pub(super) fn to_wire(outgoing: &Outgoing, queue: i32) -> WireMessage {
    let Message { topic, tag, keys, group, delivery, priority, properties, .. } = &outgoing.message;
    let check_after = match outgoing.purpose {
        Purpose::Half { check_after } => Some(check_after),
        _ => None,
    };
    let message_type = match (group, delivery, priority) {
        _ if check_after.is_some() => MessageType::Transaction,
        (Some(_), _, _) => MessageType::Fifo,
        (None, Some(_), _) => MessageType::Delay,
        (None, None, Some(_)) => MessageType::Priority,
        (None, None, None) => MessageType::Normal,
    };
    let encoding = if outgoing.packed { Encoding::Gzip } else { Encoding::Identity };
    let system = SystemProperties {
        tag: tag.clone(),
        keys: keys.clone(),
        message_id: outgoing.id.clone(),
        body_encoding: encoding.into(),
        message_type: message_type.into(),
        born_timestamp: Some(wire_time(outgoing.born_at)),
        delivery_timestamp: delivery.map(|delivery| wire_time(delivery.to_ms(outgoing.born_at))),
        queue_id: queue,
        message_group: group.clone(),
        priority: priority.map(i32::from),
        orphaned_transaction_recovery_duration: check_after.flatten().map(wire_duration),
        ..SystemProperties::default()
    };
    WireMessage {
        topic: Some(resource(topic)),
        user_properties: properties.iter().cloned().collect(),
        system_properties: Some(system),
        body: outgoing.body.clone(),
    }
}

fn time(at: Option<&prost_types::Timestamp>) -> SystemTime {
    let at = at.copied().unwrap_or_default();
    let since = Duration::new(
        u64::try_from(at.seconds).unwrap_or(0),
        u32::try_from(at.nanos).unwrap_or(0).min(999_999_999),
    );
    SystemTime::UNIX_EPOCH + since
}

/// A message of the server, and the handle of its delivery.
pub(super) fn received(topic: &str, broker: &str, message: WireMessage) -> (Received, String) {
    let system = message.system_properties.unwrap_or_default();
    let packed = system.body_encoding == i32::from(Encoding::Gzip);
    let mut properties: Vec<(String, String)> = message.user_properties.into_iter().collect();
    properties.sort_unstable();
    let reason =
        properties.iter().find(|(name, _)| name == DEAD_LETTER_REASON).map(|(_, reason)| reason.clone());
    let received = Received {
        queue: Queue::new(topic, broker, system.queue_id),
        offset: system.queue_offset.unwrap_or_default(),
        attempt: u32::try_from(system.delivery_attempt.unwrap_or(1)).unwrap_or(1).max(1),
        body: unpack(&message.body, if packed { flag::COMPRESSED } else { 0 }),
        tag: system.tag,
        keys: system.keys,
        group: system.message_group,
        priority: system.priority.and_then(|priority| u8::try_from(priority).ok()),
        properties,
        born_at: time(system.born_timestamp.as_ref()),
        stored_at: time(system.store_timestamp.as_ref()),
        deliver_at: system.delivery_timestamp.as_ref().map(|at| time(Some(at))),
        born_host: system.born_host,
        dead_letter: system.dead_letter_queue.map(|origin| DeadLetterOrigin {
            topic: origin.topic,
            id: origin.message_id,
            reason,
        }),
        reply_to: None,
        id: system.message_id,
    };
    (received, system.receipt_handle.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_all_it_has_on_its_way() {
        let message = Message::new("t", "body").tag("a").key("k").property("p", "v").group("g");
        let outgoing = Outgoing {
            id: "ID".to_owned(),
            body: message.body().clone(),
            message,
            packed: false,
            born_at: 1500,
            purpose: Purpose::Plain,
        };
        let mut wire = to_wire(&outgoing, 3);
        let system = wire.system_properties.as_mut().expect("they are set");
        assert_eq!(system.message_type(), MessageType::Fifo);
        system.receipt_handle = Some("handle".to_owned());
        system.delivery_attempt = Some(2);
        let (received, handle) = received("t", "b", wire);
        assert_eq!((handle.as_str(), received.id(), received.attempt()), ("handle", "ID", 2));
        assert_eq!(
            (received.tag(), received.group(), received.property("p")),
            (Some("a"), Some("g"), Some("v"))
        );
        assert_eq!((&received.body()[..], received.keys()), (&b"body"[..], &["k".to_owned()][..]));
        assert_eq!(received.born_at(), SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(received.queue(), &Queue::new("t", "b", 3));
    }

    #[test]
    fn the_type_follows_from_what_is_set() {
        let kind = |message: Message| {
            let outgoing = Outgoing {
                id: String::new(),
                body: message.body().clone(),
                message,
                packed: true,
                born_at: 0,
                purpose: Purpose::Plain,
            };
            let system = to_wire(&outgoing, 0).system_properties.expect("set");
            assert_eq!(system.body_encoding(), Encoding::Gzip);
            system.message_type()
        };
        assert_eq!(kind(Message::new("t", "x")), MessageType::Normal);
        assert_eq!(kind(Message::new("t", "x").after(Duration::ZERO)), MessageType::Delay);
        assert_eq!(kind(Message::new("t", "x").priority(1)), MessageType::Priority);
    }
}
