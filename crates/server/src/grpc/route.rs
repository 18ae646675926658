//! QueryRoute and QueryAssignment: the queues of a topic, and the address of this broker.

use std::{collections::HashSet, net::IpAddr};

use prost::Message as _;
use redstart_engine::{MessageType, SendError, TopicConfig, TopicName};
use redstart_wire::v2::{
    Address, AddressScheme, Assignment, Broker, Code, Endpoints, MessageQueue, MessageType as WireType,
    Permission, QueryAssignmentRequest, QueryRouteRequest, Resource,
};

use super::{connection::Peer, convert::wire_type, refusal::Refusal, service::Service};
use crate::shards::ServedShard;

const DEFAULT_PORT: i32 = 8081;
/// Addresses of a client's endpoints, and bytes of a host in them.
const ADDRESSES_MAX: usize = 16;
const HOST_BYTES_MAX: usize = 255;

/// A topic on one shard.
struct OnShard<'a> {
    shard: &'a ServedShard,
    config: TopicConfig,
    readable: u32,
}

impl Service {
    pub(super) async fn route(
        &self,
        request: QueryRouteRequest,
        peer: &Peer,
    ) -> Result<Vec<MessageQueue>, Refusal> {
        let resource = named(request.topic)?;
        let name = self.topic_name(Some(&resource))?;
        let mut found = self.on_shards(&name).await?;
        if found.is_empty() {
            // The route that the topic will have once the first message has created it.
            let config = Some(auto_created()).filter(|_| self.creates_topic(&name));
            let config = config.ok_or_else(|| SendError::UnknownTopic { topic: name.clone() })?;
            let readable = config.read_queues;
            let on = |shard| OnShard { shard, config: config.clone(), readable };
            found = self.shards.of_topic(&name).into_iter().map(on).collect();
        }
        self.queues(&found, &resource, request.endpoints, peer)
    }

    /// The shards that have a topic.
    async fn on_shards(&self, name: &TopicName) -> Result<Vec<OnShard<'_>>, Refusal> {
        let mut found = Vec::new();
        for shard in self.shards.of_topic(name) {
            let asked = name.clone();
            if let Some(topic) = self.ask(shard, move |engine, _| engine.topic(&asked)).await? {
                found.push(OnShard { shard, readable: topic.queues.len() as u32, config: topic.config });
            }
        }
        Ok(found)
    }

    /// The queues of a topic on all its shards. The shards take turns, so that a client that goes through them does not stay with one.
    fn queues(
        &self,
        found: &[OnShard<'_>],
        resource: &Resource,
        dialled: Option<Endpoints>,
        peer: &Peer,
    ) -> Result<Vec<MessageQueue>, Refusal> {
        let endpoints = self.endpoints(dialled, peer)?;
        let mut parts = Vec::with_capacity(found.len());
        for OnShard { shard, config, readable } in found {
            let broker = Broker { name: shard.broker.clone(), id: 0, endpoints: Some(endpoints.clone()) };
            // A small request can have a large answer, which is counted before it is built.
            peer.account.try_grant(route_bytes(config, *readable, resource, &broker))?;
            parts.push(queues(config, *readable, resource, &broker, shard.drained.get()).into_iter());
        }
        let mut all = Vec::with_capacity(parts.iter().map(ExactSizeIterator::len).sum());
        while all.len() < all.capacity() {
            let before = all.len();
            all.extend(parts.iter_mut().filter_map(Iterator::next));
            if all.len() == before {
                break;
            }
        }
        Ok(all)
    }

    /// Whether the first message to a topic of this name creates it.
    pub(super) fn creates_topic(&self, name: &TopicName) -> bool {
        !name.is_reserved() && self.pull_consumers.get().is_some_and(|other| other.creates_topics())
    }

    /// Creates a topic for its first message, unless it exists.
    pub(super) async fn ensure_topic(&self, shard: &ServedShard, name: &TopicName) -> Result<(), Refusal> {
        Ok(self.shards.ensure_topic(shard, name, auto_created()).await?)
    }

    /// Every consumer of a group gets the same assignment: consumers share messages, not queues.
    pub(super) async fn assignment(
        &self,
        request: QueryAssignmentRequest,
        peer: &Peer,
    ) -> Result<Vec<Assignment>, Refusal> {
        let resource = named(request.topic)?;
        let name = self.topic_name(Some(&resource))?;
        let found = self.on_shards(&name).await?;
        let Some(first) = found.first() else { return Err(SendError::UnknownTopic { topic: name }.into()) };
        let group = self.group_name(request.group.as_ref())?;
        let ordered = {
            let group = group.clone();
            let config = self.ask(self.shards.first(), move |engine, _| engine.group(&group)).await?;
            config.is_some_and(|group| group.config.ordered)
        };
        // One receive of a lite consumer covers all its lite topics.
        let by_queue = ordered && first.config.message_type != MessageType::Lite;
        let mut queues = self.queues(&found, &resource, request.endpoints, peer)?;
        queues.retain(|queue| matches!(queue.permission(), Permission::Read | Permission::ReadWrite));
        if queues.is_empty() {
            let why = format!("topic {name} is not readable");
            return Err(Refusal::new(Code::Forbidden, why));
        }
        if !by_queue {
            // One for each shard: a receive covers all queues of the shard it goes to.
            let mut seen = HashSet::new();
            queues
                .retain(|queue| queue.broker.as_ref().is_some_and(|broker| seen.insert(broker.name.clone())));
            queues.iter_mut().for_each(|queue| queue.id = -1);
        }
        Ok(queues.into_iter().map(|queue| Assignment { message_queue: Some(queue) }).collect())
    }

    /// Where clients reach this server: the advertised address, or the one that the client dialled.
    fn endpoints(&self, dialled: Option<Endpoints>, peer: &Peer) -> Result<Endpoints, Refusal> {
        Ok(match (&self.config.advertise, dialled) {
            (Some(address), _) => advertised(address),
            (None, Some(dialled)) if !dialled.addresses.is_empty() && dialled.scheme != 0 => {
                bounded(dialled)?
            }
            (None, _) => {
                let local = peer.local;
                endpoints(&local.ip().to_string(), i32::from(local.port()))
            }
        })
    }
}

/// The configuration of a topic that its first message creates, as for 4.x clients.
pub(crate) fn auto_created() -> TopicConfig {
    let queues = crate::remoting::AUTO_CREATE_QUEUES;
    TopicConfig { read_queues: queues, write_queues: queues, ..TopicConfig::default() }
}

/// The topic as the client names it. Every queue of the answer repeats it, so that it must be short.
fn named(topic: Option<Resource>) -> Result<Resource, Refusal> {
    let resource = topic.unwrap_or_default();
    if resource.resource_namespace.len() > HOST_BYTES_MAX {
        let len = resource.resource_namespace.len();
        let why = format!("the namespace has {len} bytes; the limit is {HOST_BYTES_MAX}");
        return Err(Refusal::new(Code::IllegalTopic, why));
    }
    Ok(resource)
}

/// The endpoints as the client names them. Every queue of the answer repeats them, so that they must be short.
fn bounded(dialled: Endpoints) -> Result<Endpoints, Refusal> {
    let count = dialled.addresses.len();
    let longest = dialled.addresses.iter().map(|address| address.host.len()).max().unwrap_or(0);
    if count > ADDRESSES_MAX || longest > HOST_BYTES_MAX {
        let why = format!(
            "endpoints of {count} addresses with hosts of up to {longest} bytes; the limits are {ADDRESSES_MAX} and {HOST_BYTES_MAX}"
        );
        return Err(Refusal::new(Code::IllegalAccessPoint, why));
    }
    Ok(dialled)
}

fn advertised(address: &str) -> Endpoints {
    // An IPv6 address without a port is full of colons itself.
    if address.parse::<IpAddr>().is_ok() {
        return endpoints(address, DEFAULT_PORT);
    }
    match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => {
            endpoints(host.trim_matches(['[', ']']), port.parse().unwrap_or(DEFAULT_PORT))
        }
        _ => endpoints(address.trim_matches(['[', ']']), DEFAULT_PORT),
    }
}

fn endpoints(host: &str, port: i32) -> Endpoints {
    let scheme = match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => AddressScheme::IPv4,
        Ok(IpAddr::V6(_)) => AddressScheme::IPv6,
        Err(_) => AddressScheme::DomainName,
    };
    Endpoints { scheme: scheme.into(), addresses: vec![Address { host: host.to_owned(), port }] }
}

/// Queues that can be read, written or both, with consecutive ids. A drained broker shows no writable queues, as in its
/// routes for 4.x clients.
fn queues(
    config: &TopicConfig,
    readable: u32,
    resource: &Resource,
    broker: &Broker,
    drained: bool,
) -> Vec<MessageQueue> {
    let readable = if config.permission.read { readable } else { 0 };
    let writable = if config.permission.write && !drained { config.write_queues } else { 0 };
    (0..readable.max(writable))
        .map(|id| MessageQueue {
            topic: Some(resource.clone()),
            id: id as i32,
            permission: match (id < readable, id < writable) {
                (true, true) => Permission::ReadWrite,
                (true, false) => Permission::Read,
                _ => Permission::Write,
            }
            .into(),
            broker: Some(broker.clone()),
            accept_message_types: accepted(config.message_type),
        })
        .collect()
}

/// Bytes of a route in memory, in which every queue repeats the names and addresses.
fn route_bytes(config: &TopicConfig, readable: u32, resource: &Resource, broker: &Broker) -> usize {
    let queues = readable.max(config.write_queues) as usize;
    let each = size_of::<MessageQueue>() + resource.encoded_len() + 2 * broker.encoded_len();
    queues * each
}

fn accepted(topic: MessageType) -> Vec<i32> {
    match topic {
        MessageType::Mixed => {
            [WireType::Normal, WireType::Fifo, WireType::Delay, WireType::Transaction].map(i32::from).to_vec()
        }
        // Some clients send a message without a priority as a normal one.
        MessageType::Priority => [WireType::Priority, WireType::Normal].map(i32::from).to_vec(),
        other => vec![wire_type(other).into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_with_every_queue_is_bounded() {
        let dialled = |count: usize, host: usize| Endpoints {
            scheme: AddressScheme::DomainName.into(),
            addresses: vec![Address { host: "h".repeat(host), port: 1 }; count],
        };
        assert!(bounded(dialled(ADDRESSES_MAX, HOST_BYTES_MAX)).is_ok());
        for (count, host) in [(ADDRESSES_MAX + 1, 1), (1, HOST_BYTES_MAX + 1), (1, 2 << 20)] {
            let refused = bounded(dialled(count, host)).unwrap_err();
            assert_eq!(refused.code, Code::IllegalAccessPoint);
        }
        let resource = Resource { resource_namespace: "n".repeat(2 << 20), name: "t".to_owned() };
        assert!(named(Some(resource)).is_err());
    }

    #[test]
    fn an_advertised_address_is_read_in_every_form() {
        let read = |address| {
            let found = advertised(address);
            (found.scheme(), found.addresses[0].host.clone(), found.addresses[0].port)
        };
        let (v4, v6, name) = (AddressScheme::IPv4, AddressScheme::IPv6, AddressScheme::DomainName);
        assert_eq!(read("10.0.0.1:9000"), (v4, "10.0.0.1".to_owned(), 9000));
        assert_eq!(read("10.0.0.1"), (v4, "10.0.0.1".to_owned(), DEFAULT_PORT));
        assert_eq!(read("[::1]:9000"), (v6, "::1".to_owned(), 9000));
        assert_eq!(read("[::1]"), (v6, "::1".to_owned(), DEFAULT_PORT));
        assert_eq!(read("2001:db8::7"), (v6, "2001:db8::7".to_owned(), DEFAULT_PORT));
        assert_eq!(read("mq.example.org:9000"), (name, "mq.example.org".to_owned(), 9000));
    }
}
