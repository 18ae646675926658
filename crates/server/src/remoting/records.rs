//! Reads stored messages for an answer's body.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use bytes::Bytes;
use redstart_engine::{
    Delivery, FetchError, Fetched, Filter, Found, Proof, PulledMessage, QueueId, QueueOffset, Timestamp,
    TopicId, TopicName, fetch_each, fetch_each_if_cached,
};
use redstart_log::{Position, Reader};

use super::{
    convert::{Envelope, Scratch, to_wire},
    refusal::Refusal,
    request::Request,
};
use crate::{byte_budget::Grant, throttle::Throttle};

/// Stored bytes of the messages in one answer; a larger message comes alone. The 4.x clients refuse frames over 16 MiB.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// Bytes by which an encoded message is usually larger than the stored one: mostly properties that the broker adds.
const ADDED_USUAL: usize = 160;

/// Where a message is stored, and its place in its queue.
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

/// The body of an answer, and the grant for it until it is written. Places are named by their index.
#[derive(Debug)]
pub(super) struct Records {
    pub body: Bytes,
    pub grant: Grant,
    /// Places whose messages are in the body.
    pub written: Vec<usize>,
    /// Places whose messages are proven to be lost.
    pub lost: Vec<(usize, Proof)>,
    /// Places whose messages are intact but cannot be encoded for this protocol.
    pub unencodable: Vec<usize>,
    /// Places from this index on were not read, or their read failed.
    pub end: usize,
    /// Why the message at `end` was not read. Another read may succeed.
    pub failed: Option<FetchError>,
}

impl Records {
    /// For an answer that must be complete: a failed read is an error, because it proves nothing context the message.
    pub fn whole(self) -> Result<Records, Refusal> {
        match &self.failed {
            None => Ok(self),
            Some(error) => Err(Refusal::unread(error)),
        }
    }
}

/// Reads the messages at `places` that pass the filter, as many as fit into one answer.
pub(super) async fn read(
    request: &Request,
    topic: &TopicName,
    places: &[Place],
    filter: &Filter,
) -> Result<Records, Refusal> {
    let places = within(places, BYTES_MAX);
    let bytes: usize = places.iter().map(|place| place.size as usize).sum();
    let grant = request.peer.account.grant(bytes).await?;
    let bodies = request.context.shard.bodies();
    let wanted: Vec<_> = places.iter().map(|place| (place.position, place.size)).collect();
    let origins = if topic.is_retry() { origins(request, &wanted).await? } else { HashMap::new() };
    let store_host = request.broker_address();
    let context = AnswerContext { topic, filter, places, origins: &origins, store_host };
    let mut writer = BodyWriter::new(&request.context.node.config.cluster, bytes, places.len());
    let seen =
        fetch_each_if_cached(bodies.reader(), &wanted, |n, fetched| writer.accept(&context, n, fetched));
    if seen < wanted.len() && writer.failed.is_none() {
        // The rest has to be read from disk.
        let (topic, filter, places) = (topic.clone(), filter.clone(), places.to_vec());
        let read = move |reader: &dyn Reader| {
            let context = AnswerContext {
                topic: &topic,
                filter: &filter,
                places: &places,
                origins: &origins,
                store_host,
            };
            fetch_each(reader, &wanted[seen..], |n, fetched| writer.accept(&context, seen + n, fetched));
            writer
        };
        writer = bodies.cold(read).await;
    }
    let BodyWriter { body, written, lost, unencodable, failed, .. } = writer;
    let (end, failed) = match failed {
        Some((end, error)) => {
            bodies.failed(&error);
            (end, Some(error))
        }
        None => (places.len(), None),
    };
    Ok(Records { body: body.into(), grant, written, lost, unencodable, end, failed })
}

/// The first places whose messages fit into `bytes_max`, at least one.
fn within(places: &[Place], bytes_max: usize) -> &[Place] {
    let mut bytes = 0;
    let fits = |place: &&Place| {
        bytes += place.size as usize + ADDED_USUAL;
        bytes <= bytes_max
    };
    let count = places.iter().take_while(fits).count().max(1).min(places.len());
    &places[..count]
}

/// What the messages of an answer have in common.
struct AnswerContext<'a> {
    topic: &'a TopicName,
    filter: &'a Filter,
    places: &'a [Place],
    /// Topics that retried messages were sent to.
    origins: &'a HashMap<TopicId, TopicName>,
    store_host: SocketAddr,
}

/// Writes messages into the body of an answer.
struct BodyWriter {
    scratch: Scratch,
    body: Vec<u8>,
    written: Vec<usize>,
    lost: Vec<(usize, Proof)>,
    unencodable: Vec<usize>,
    failed: Option<(usize, FetchError)>,
}

impl BodyWriter {
    fn new(cluster: &str, bytes: usize, count: usize) -> BodyWriter {
        BodyWriter {
            scratch: Scratch::new(cluster),
            body: Vec::with_capacity(bytes + count * ADDED_USUAL),
            written: Vec::with_capacity(count),
            lost: Vec::new(),
            unencodable: Vec::new(),
            failed: None,
        }
    }

    /// Nothing is written after a failed read: a gap in the answer would look like lost messages.
    fn accept(&mut self, context: &AnswerContext<'_>, n: usize, fetched: Result<Fetched<&[u8]>, FetchError>) {
        if self.failed.is_some() {
            return;
        }
        match fetched.and_then(|fetched| self.put(context, n, &fetched)) {
            Ok(()) => {}
            Err(error) => match error.proof() {
                Some(proof) => self.lost.push((n, proof)),
                None => self.failed = Some((n, error)),
            },
        }
    }

    fn put(
        &mut self,
        context: &AnswerContext<'_>,
        n: usize,
        fetched: &Fetched<&[u8]>,
    ) -> Result<(), FetchError> {
        static UNENCODABLE: Throttle = Throttle::new();
        if !matches!(context.filter, Filter::All) && !context.filter.matches(&fetched.message()?) {
            return Ok(());
        }
        let (topic, place) = (context.topic, &context.places[n]);
        let home = if context.origins.is_empty() { None } else { fetched.home().ok() };
        let origin = home.and_then(|home| context.origins.get(&home.topic));
        let envelope = Envelope {
            topic: topic.as_str(),
            queue_id: place.queue.0,
            queue_offset: place.offset.0,
            stored_at: place.stored_at,
            attempt: place.attempt,
            origin: origin.map(TopicName::as_str).filter(|origin| *origin != topic.as_str()),
            store_host: context.store_host,
        };
        let before = self.body.len();
        match to_wire(fetched, &envelope, &mut self.scratch)?.encode(&mut self.body) {
            Ok(()) => self.written.push(n),
            Err(error) => {
                self.body.truncate(before);
                self.unencodable.push(n);
                if let Some(repeated) = UNENCODABLE.permit() {
                    let offset = place.offset;
                    tracing::error!(%error, %topic, %offset, repeated, "a message cannot be encoded for a 4.x client");
                }
            }
        }
        Ok(())
    }
}

/// Names of the topics that retried messages were sent to.
async fn origins(
    request: &Request,
    wanted: &[(Position, u32)],
) -> Result<HashMap<TopicId, TopicName>, Refusal> {
    let bodies = request.context.shard.bodies();
    let mut ids = HashSet::new();
    let note = |ids: &mut HashSet<TopicId>, fetched: Result<Fetched<&[u8]>, FetchError>| {
        // A failed read shows again when the message is read for the body.
        ids.extend(fetched.and_then(|fetched| fetched.home()).map(|home| home.topic));
    };
    let seen = fetch_each_if_cached(bodies.reader(), wanted, |_, fetched| note(&mut ids, fetched));
    if seen < wanted.len() {
        let wanted = wanted[seen..].to_vec();
        let read = move |reader: &dyn Reader| {
            fetch_each(reader, &wanted, |_, fetched| note(&mut ids, fetched));
            ids
        };
        ids = bodies.cold(read).await;
    }
    request
        .ask(move |engine, _| {
            ids.into_iter().filter_map(|id| Some((id, engine.topic_name_of(id)?))).collect()
        })
        .await
}
