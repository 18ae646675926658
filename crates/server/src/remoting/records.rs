//! Reads stored messages for an answer's body.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
};

use bytes::Bytes;
use redstart_engine::{
    Delivery, FetchError, Fetched, Filter, Found, Proof, PulledMessage, QueueId, QueueOffset, Timestamp,
    TopicId, TopicName, fetch_each,
};
use redstart_log::{Position, Reader};

use super::{
    convert::{Envelope, Scratch, to_wire},
    refusal::Refusal,
    request::Request,
    room::Room,
};
use crate::throttle::Throttle;

static UNREADABLE: Throttle = Throttle::new();

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
    /// Places whose messages were not read, with proof of those that nobody can ever read.
    pub unreadable: Vec<(Place, Option<Proof>)>,
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
    let wanted: Vec<_> = places.iter().map(|place| (place.position, place.size)).collect();
    let origins = if topic.is_retry() { origins(request, &*reader, &wanted).await? } else { HashMap::new() };
    let store_host = request.broker_address();
    let mut scratch = Scratch::new(&request.context.config.cluster);
    let mut body = Vec::with_capacity(bytes + places.len() * ADDED_USUAL);
    let (mut written, mut unreadable) = (Vec::with_capacity(places.len()), Vec::new());
    let mut put = |place: &Place, fetched: &Fetched<&[u8]>| -> Result<bool, Box<dyn Error>> {
        if !matches!(filter, Filter::All) && !filter.matches(&fetched.message()?) {
            return Ok(false);
        }
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
        };
        to_wire(fetched, &envelope, &mut scratch)?.encode(&mut body)?;
        Ok(true)
    };
    fetch_each(&*reader, &wanted, |n, fetched| {
        match fetched.map_err(Into::into).and_then(|fetched| put(&places[n], &fetched)) {
            Ok(passed) => written.extend(passed.then_some(places[n])),
            Err(error) => {
                if let Some(repeated) = UNREADABLE.permit() {
                    tracing::error!(%error, %topic, repeated, "a message cannot be handed out");
                }
                // One that does not fit the protocol stays with its consumer until its time is out, and counts.
                let fetch = error.downcast_ref::<FetchError>();
                unreadable.extend(fetch.map(|error| (places[n], error.proof())));
            }
        }
    });
    Ok(Records { body: body.into(), room, written, unreadable })
}

/// Names of the topics that retried messages were sent to.
async fn origins(
    request: &Request,
    reader: &dyn Reader,
    wanted: &[(Position, u32)],
) -> Result<HashMap<TopicId, TopicName>, Refusal> {
    let mut ids = HashSet::new();
    fetch_each(reader, wanted, |_, fetched| {
        ids.extend(fetched.and_then(|fetched| fetched.home()).map(|home| home.topic));
    });
    request
        .ask(move |engine, _| {
            ids.into_iter().filter_map(|id| Some((id, engine.topic_name_of(id)?))).collect()
        })
        .await
}
