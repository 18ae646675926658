//! Reads stored messages for an answer's body.

use std::collections::HashMap;

use bytes::Bytes;
use redstart_engine::{
    Delivery, Fetched, Filter, Found, PulledMessage, QueueId, QueueOffset, Timestamp, TopicId, TopicName,
    fetch_all,
};
use redstart_log::Position;

use super::{
    convert::{Envelope, to_wire},
    refusal::Refusal,
    request::Request,
    room::Room,
};

/// Where a message is and how it comes out of its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub queue: QueueId,
    pub offset: QueueOffset,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
    /// Deliveries before this one.
    pub attempt: u16,
}

impl Place {
    pub fn pulled(queue: QueueId, message: &PulledMessage) -> Place {
        let PulledMessage { offset, position, size, stored_at, attempt } = *message;
        Place { queue, offset, position, size, stored_at, attempt }
    }

    pub fn delivered(delivery: &Delivery) -> Place {
        Place {
            queue: delivery.receipt.queue.queue,
            offset: delivery.receipt.offset,
            position: delivery.position,
            size: delivery.size,
            stored_at: delivery.stored_at,
            attempt: delivery.attempt.saturating_sub(1),
        }
    }

    pub fn found(found: &Found) -> Place {
        let Found { queue, offset, position, size, stored_at } = *found;
        Place { queue: queue.queue, offset, position, size, stored_at, attempt: 0 }
    }
}

/// The body of an answer, and the room it takes until it is written.
#[derive(Debug)]
pub(super) struct Records {
    pub body: Bytes,
    pub room: Room,
    /// Places whose messages are in the body.
    pub written: Vec<Place>,
    /// Places whose messages nobody can read.
    pub unreadable: Vec<Place>,
}

/// Bytes by which a message for a client is larger than the stored one: properties of the broker's, mostly.
const ADDED_USUAL: usize = 160;

/// Reads the messages at `places` that pass the filter.
pub(super) async fn read(
    request: &Request,
    topic: &TopicName,
    places: Vec<Place>,
    filter: &Filter,
) -> Result<Records, Refusal> {
    let bytes: usize = places.iter().map(|place| place.size as usize).sum();
    let busy = || Refusal::busy("bytes on their way to consumers", bytes);
    let own = request.peer.rooms.take(bytes).await.ok_or_else(busy)?;
    let room = own.and(request.context.outgoing.take(bytes).await.ok_or_else(busy)?);
    let reader = request.context.shard.reader();
    let (mut read, mut unreadable) = (Vec::with_capacity(places.len()), Vec::new());
    let wanted: Vec<_> = places.iter().map(|place| (place.position, place.size)).collect();
    for (place, fetched) in places.into_iter().zip(fetch_all(&*reader, &wanted)) {
        match fetched {
            Ok(fetched) => read.push((place, fetched)),
            Err(error) => {
                tracing::error!(%error, %topic, "a message cannot be read and is skipped");
                unreadable.push(place);
            }
        }
    }
    if !matches!(filter, Filter::All) {
        read.retain(|(_, fetched)| fetched.message().is_ok_and(|message| filter.matches(&message)));
    }
    let origins = if topic.is_retry() { origins(request, &read).await? } else { HashMap::new() };
    let mut body = Vec::with_capacity(bytes + read.len() * ADDED_USUAL);
    let store_host = request.broker_address();
    let mut written = Vec::with_capacity(read.len());
    let mut properties = String::new();
    for (place, fetched) in read {
        let home = if origins.is_empty() { None } else { fetched.home().ok() };
        let origin = home.and_then(|home| origins.get(&home.topic));
        let envelope = Envelope {
            topic: topic.as_str(),
            queue_id: place.queue.0,
            queue_offset: place.offset.0,
            stored_at: place.stored_at,
            attempt: place.attempt,
            origin: origin.map(TopicName::as_str).filter(|origin| *origin != topic.as_str()),
            store_host,
            cluster: &request.context.config.cluster,
        };
        let encoded = to_wire(&fetched, &envelope, &mut properties).map_err(|error| error.to_string());
        match encoded.and_then(|message| message.encode(&mut body).map_err(|error| error.to_string())) {
            Ok(()) => written.push(place),
            Err(error) => {
                tracing::error!(error, %topic, "a message cannot be written and is skipped");
                unreadable.push(place);
            }
        }
    }
    Ok(Records { body: body.into(), room, written, unreadable })
}

/// Names of the topics that retried messages were sent to.
async fn origins(
    request: &Request,
    read: &[(Place, Fetched)],
) -> Result<HashMap<TopicId, TopicName>, Refusal> {
    let ids: Vec<TopicId> = read.iter().filter_map(|(_, fetched)| Some(fetched.home().ok()?.topic)).collect();
    request
        .ask(move |engine, _| {
            ids.into_iter().filter_map(|id| Some((id, engine.topic_name_of(id)?))).collect()
        })
        .await
}
