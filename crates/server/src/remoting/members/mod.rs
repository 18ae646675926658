//! The connected 4.x clients: producers and consumers by group, with the subscriptions of the consumers.
//!
//! A client is known by its id. When it comes back on another connection, the newer connection replaces the older.

mod consumer_group;
mod member;
mod subscription;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use redstart_wire::remoting::{Language, body::Heartbeat, code};
use tokio::sync::watch;

use super::{peer::Peer, peer_text, refusal::Refusal, version::version_text};
use crate::{
    access::Identity,
    statistics::{ClientCounts, ClientLabels},
};
use member::MemberBytes;

pub(super) use consumer_group::ConsumerGroup;
pub(super) use member::Member;
pub(super) use subscription::{ParsedSubscription, filter};

/// A client is forgotten when it has sent no heartbeat for this long.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Groups that one client may be in.
pub(super) const GROUPS_MAX: usize = 1024;
/// Bytes that are counted for a member and for a subscription beside their texts.
const MEMBER_BYTES: usize = 512;
const SUBSCRIPTION_BYTES: usize = 256;

type Producers = HashMap<String, BTreeMap<String, Member>>;

#[derive(Debug, Default)]
struct State {
    consumers: HashMap<String, ConsumerGroup>,
    producers: Producers,
}

impl State {
    /// Whether a client of another user has the id of this heartbeat, in whatever group: replies and questions find a client by
    /// its id alone. The groups are searched only when the client is new in one of its own.
    fn is_of_another_user(&self, heartbeat: &Heartbeat, peer: &Peer) -> bool {
        let id = &heartbeat.client_id;
        if peer.identity().and_then(Identity::user).is_none() {
            return false;
        }
        let is_here = |member: Option<&Member>| member.is_some_and(|member| member.peer.id == peer.id);
        let producers = heartbeat.producer_data_set.iter();
        let consumers = heartbeat.consumer_data_set.iter();
        let is_known = producers.take(GROUPS_MAX).all(|data| is_here(self.producer(&data.group_name, id)))
            && consumers.take(GROUPS_MAX).all(|data| is_here(self.consumer(&data.group_name, id)));
        let other = |member: Option<&Member>| member.is_some_and(|member| !member.peer.is_of_user_of(peer));
        !is_known
            && (self.producers.keys().any(|group| other(self.producer(group, id)))
                || self.consumers.keys().any(|group| other(self.consumer(group, id))))
    }

    fn producer(&self, group: &str, client_id: &str) -> Option<&Member> {
        self.producers.get(group)?.get(client_id)
    }

    fn consumer(&self, group: &str, client_id: &str) -> Option<&Member> {
        self.consumers.get(group)?.members.get(client_id)
    }
}

#[derive(Debug, Default)]
pub(super) struct Members {
    state: Mutex<State>,
    bytes: Arc<AtomicUsize>,
    /// Notified by every heartbeat.
    heartbeats: watch::Sender<()>,
}

/// The connection of a client, and what the request says about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    pub peer: &'a Arc<Peer>,
    pub language: Language,
    pub version: i32,
}

/// Why a group has no subscription to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSubscription {
    /// No consumer of the group is connected.
    NoConsumers,
    /// Its consumers subscribe to other topics.
    OtherTopics,
}

/// What a heartbeat changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeartbeatOutcome {
    /// The broker did not know the consumer's subscriptions by the heartbeat's fingerprint: a client that sent only the
    /// fingerprint has to send everything.
    pub changed: bool,
}

impl Members {
    /// Registers the client of a heartbeat in its groups. Refused past the limits.
    pub fn heartbeat(
        &self,
        heartbeat: &Heartbeat,
        from: &Sender<'_>,
        now: Instant,
    ) -> Result<HeartbeatOutcome, Refusal> {
        let Sender { peer, language, version } = *from;
        let mut state = self.state();
        // A request can outlive its connection for a moment. A heartbeat that is served after the disconnect would add a member
        // whose queues nobody reads until it expires.
        if peer.is_gone() {
            return Ok(HeartbeatOutcome { changed: true });
        }
        if state.is_of_another_user(heartbeat, peer) {
            return Err(Refusal::new(code::NO_PERMISSION, "this client id is used by another user"));
        }
        let member = |subscriptions: BTreeMap<String, ParsedSubscription>, known: Option<&Member>| {
            let replaced =
                known.filter(|known| known.peer.id == peer.id).map_or(0, |known| known.bytes.count);
            let texts =
                subscriptions.iter().map(|(topic, parsed)| SUBSCRIPTION_BYTES + topic.len() + parsed.bytes());
            let bytes = MEMBER_BYTES + heartbeat.client_id.len() + texts.sum::<usize>();
            Ok::<_, Refusal>(Member {
                client_id: heartbeat.client_id.clone(),
                peer: peer.clone(),
                language,
                version,
                seen: now,
                subscriptions,
                fingerprint: heartbeat.heartbeat_fingerprint,
                bytes: MemberBytes::take(&self.bytes, peer, bytes, replaced)?,
            })
        };
        for producer in heartbeat.producer_data_set.iter().take(GROUPS_MAX) {
            peer_text::check("producer group", &producer.group_name)?;
            let known = state.producers.get(&producer.group_name);
            let known = known.and_then(|group| group.get(&heartbeat.client_id));
            let member = member(BTreeMap::new(), known)?;
            let group = state.producers.entry(producer.group_name.clone()).or_default();
            // `sent_half` may have added it under its address; from here on it is known by its id.
            group.remove(&peer.remote_text);
            group.insert(heartbeat.client_id.clone(), member);
        }
        let mut changed = false;
        for data in heartbeat.consumer_data_set.iter().take(GROUPS_MAX) {
            peer_text::check("consumer group", &data.group_name)?;
            if heartbeat.without_sub {
                let group = state.consumers.get_mut(&data.group_name);
                match group.and_then(|group| group.members.get_mut(&heartbeat.client_id)) {
                    Some(known) if known.peer.id == peer.id => {
                        known.seen = now;
                        changed |= known.fingerprint != heartbeat.heartbeat_fingerprint;
                    }
                    // The client has to send its subscriptions again.
                    _ => changed = true,
                }
                continue;
            }
            let known = state.consumers.get(&data.group_name);
            let known = known.and_then(|group| group.members.get(&heartbeat.client_id));
            let member = member(subscription::parsed(data), known)?;
            let group = state.consumers.entry(data.group_name.clone()).or_default();
            changed |= group.put(data, member);
        }
        drop(state);
        self.heartbeats.send_replace(());
        Ok(HeartbeatOutcome { changed })
    }

    /// A half message came over this connection, so that its producer can be asked about the transaction. Its first heartbeat
    /// may come up to 30 s later; until then the producer is known by its address.
    pub fn sent_half(&self, group: &str, from: &Sender<'_>, now: Instant) {
        let Sender { peer, language, version } = *from;
        let mut state = self.state();
        if peer.is_gone() || peer_text::check("producer group", group).is_err() {
            return;
        }
        let members = state.producers.get_mut(group);
        let known = members.and_then(|all| all.values_mut().find(|member| member.peer.id == peer.id));
        if let Some(known) = known {
            known.seen = now;
            return;
        }
        // Past the limits it is not added; its heartbeat is refused as well.
        let bytes = MEMBER_BYTES + peer.remote_text.len() + group.len();
        let Ok(bytes) = MemberBytes::take(&self.bytes, peer, bytes, 0) else { return };
        let member = Member {
            client_id: peer.remote_text.clone(),
            peer: peer.clone(),
            language,
            version,
            seen: now,
            subscriptions: BTreeMap::new(),
            fingerprint: 0,
            bytes,
        };
        state.producers.entry(group.to_owned()).or_default().insert(peer.remote_text.clone(), member);
    }

    /// Changes with every heartbeat.
    pub fn heartbeats(&self) -> watch::Receiver<()> {
        self.heartbeats.subscribe()
    }

    /// A client leaves its groups.
    pub fn leave(
        &self,
        peer: &Peer,
        client_id: &str,
        producer_group: Option<&str>,
        consumer_group: Option<&str>,
    ) {
        let mut state = self.state();
        let leaves = |member: &Member| member.client_id == client_id && member.peer.is_of_user_of(peer);
        if let Some(group) = producer_group.and_then(|name| state.producers.get_mut(name)) {
            group.retain(|_, member| !leaves(member));
        }
        if let Some(name) = consumer_group {
            state.remove_consumers(|group, member| group == name && leaves(member));
        }
        state.producers.retain(|_, group| !group.is_empty());
    }

    /// A connection has ended: its clients leave their groups.
    pub fn disconnected(&self, peer: &Peer) {
        self.state().remove(|member| member.peer.id == peer.id);
    }

    /// Forgets clients whose last heartbeat is too long ago.
    pub fn expire(&self, now: Instant) {
        self.state().remove(|member| now.saturating_duration_since(member.seen) > SILENCE_MAX);
    }

    /// The ids of a group's consumers; `None` when no consumer is connected.
    pub fn consumer_ids(&self, group: &str) -> Option<Vec<String>> {
        self.state().consumers.get(group).map(|group| group.members.keys().cloned().collect())
    }

    pub fn consumers(&self, group: &str) -> Option<ConsumerGroup> {
        self.state().consumers.get(group).cloned()
    }

    /// Whether the group has a consumer of this id that is of another user.
    pub fn is_of_another_user(&self, group: &str, client_id: &str, peer: &Peer) -> bool {
        let state = self.state();
        let member = state.consumers.get(group).and_then(|group| group.members.get(client_id));
        member.is_some_and(|member| !member.peer.is_of_user_of(peer))
    }

    /// Whether a consumer of the group is on this connection.
    pub fn has_consumer(&self, group: &str, peer: &Peer) -> bool {
        let state = self.state();
        let group = state.consumers.get(group);
        group.is_some_and(|group| group.members.values().any(|member| member.peer.id == peer.id))
    }

    /// Whether a consumer of the group subscribes to its retry topic.
    pub fn consume_retry_topic(&self, group: &str, retry_topic: &str) -> bool {
        let subscribes = |group: &ConsumerGroup| {
            group.members.values().any(|member| member.subscriptions.contains_key(retry_topic))
        };
        self.state().consumers.get(group).is_some_and(subscribes)
    }

    /// Groups with a consumer that subscribes to the topic.
    pub fn groups_of(&self, topic: &str) -> Vec<String> {
        let subscribes = |group: &ConsumerGroup| {
            group.members.values().any(|member| member.subscriptions.contains_key(topic))
        };
        let state = self.state();
        state.consumers.iter().filter(|(_, group)| subscribes(group)).map(|(name, _)| name.clone()).collect()
    }

    pub fn producers(&self, group: &str) -> Vec<Member> {
        self.state().producers.get(group).map(|group| group.values().cloned().collect()).unwrap_or_default()
    }

    /// All producer groups with their members.
    pub fn all_producers(&self) -> Producers {
        self.state().producers.clone()
    }

    /// Producers and consumers by what they have in common.
    pub fn client_counts(&self) -> (ClientCounts, ClientCounts) {
        let (mut producers, mut consumers) = (ClientCounts::default(), ClientCounts::default());
        let labels = |member: &Member, group: Option<&str>, mode| ClientLabels {
            group: group.map(str::to_owned),
            mode,
            language: member.language.to_string(),
            version: version_text(member.version),
        };
        let state = self.state();
        for member in state.producers.values().flat_map(BTreeMap::values) {
            producers.add(labels(member, None, ""), 1);
        }
        for (name, group) in &state.consumers {
            let mode = mode(&group.consume_type);
            for member in group.members.values() {
                consumers.add(labels(member, Some(name), mode), 1);
            }
        }
        (producers, consumers)
    }

    /// The connection of a producer, by its id.
    pub fn producer(&self, client_id: &str) -> Option<Arc<Peer>> {
        let state = self.state();
        state.producers.values().find_map(|group| Some(group.get(client_id)?.peer.clone()))
    }

    /// The subscription to a topic of a consumer on this connection, or else of another member of its group.
    pub fn subscription(
        &self,
        group: &str,
        topic: &str,
        peer: &Peer,
    ) -> Result<ParsedSubscription, NoSubscription> {
        let state = self.state();
        let members = &state.consumers.get(group).ok_or(NoSubscription::NoConsumers)?.members;
        let own = members.values().filter(|member| member.peer.id == peer.id);
        let others = members.values().filter(|member| member.peer.id != peer.id);
        own.chain(others)
            .find_map(|member| member.subscriptions.get(topic))
            .cloned()
            .ok_or(NoSubscription::OtherTopics)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RocketMQ's word for how messages come to a consumer.
fn mode(consume_type: &str) -> &'static str {
    match consume_type {
        "CONSUME_PASSIVELY" => "push",
        "CONSUME_POP" => "pop",
        _ => "pull",
    }
}

impl State {
    fn remove(&mut self, gone: impl Fn(&Member) -> bool) {
        self.producers.retain(|_, group| {
            group.retain(|_, member| !gone(member));
            !group.is_empty()
        });
        self.remove_consumers(|_, member| gone(member));
    }

    fn remove_consumers(&mut self, gone: impl Fn(&str, &Member) -> bool) {
        self.consumers.retain(|name, group| {
            let before = group.members.len();
            group.members.retain(|_, member| !gone(name, member));
            if group.members.len() < before {
                group.notify(name);
            }
            !group.members.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
