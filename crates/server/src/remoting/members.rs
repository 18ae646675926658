//! Who is connected: producers and consumers by group, and what each consumer wants.
//!
//! Clients share out queues among themselves, so all of them must see the same members: every change of a group is told to
//! its members. A client is known by its id; when it comes back on another connection, that one counts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redstart_engine::Filter;
use redstart_wire::remoting::{
    Command, Language,
    body::{ConsumerData, Heartbeat, Subscription},
    code,
};
use tokio::sync::watch;

use super::{elsewhere::version_text, peer::Peer, refusal::Refusal, text};
use crate::{
    statistics::{Alike, Crowd},
    throttle::Throttle,
};

/// A client that says nothing for this long is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Groups one client may be in, and topics one consumer may want.
pub(super) const GROUPS_MAX: usize = 1024;
const SUBSCRIPTIONS_MAX: usize = 4096;
/// Bytes of what the clients of one connection have said about themselves, and of what all have.
const CONNECTION_BYTES_MAX: usize = 4 << 20;
const ALL_BYTES_MAX: usize = 256 << 20;
/// What a member and a subscription take beside their texts, about.
const MEMBER_BYTES: usize = 512;
const SUBSCRIPTION_BYTES: usize = 256;

static BAD_SUBSCRIPTION: Throttle = Throttle::new();

/// One client in one group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub client_id: String,
    pub peer: Arc<Peer>,
    pub language: Language,
    pub version: i32,
    pub seen: Instant,
    /// By topic; none for producers.
    pub subscriptions: BTreeMap<String, Wanted>,
    fingerprint: i32,
    /// Its bytes among those of its connection and of all members.
    share: Arc<Share>,
}

/// Bytes of a member, counted until this is dropped.
#[derive(Debug)]
struct Share {
    all: Arc<AtomicUsize>,
    peer: Arc<Peer>,
    bytes: usize,
}

impl Share {
    /// `replaced` is what the member takes now: a client that is known is renewed also at the limit.
    fn take(
        all: &Arc<AtomicUsize>,
        peer: &Arc<Peer>,
        bytes: usize,
        replaced: usize,
    ) -> Result<Arc<Share>, Refusal> {
        let share = Share { all: all.clone(), peer: peer.clone(), bytes };
        let of_all = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let of_peer = peer.member_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes > replaced && of_peer - replaced > CONNECTION_BYTES_MAX {
            return Err(Refusal::busy("bytes of the clients on one connection", CONNECTION_BYTES_MAX));
        }
        if bytes > replaced && of_all - replaced > ALL_BYTES_MAX {
            return Err(Refusal::busy("bytes of all clients", ALL_BYTES_MAX));
        }
        Ok(Arc::new(share))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.peer.member_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a consumer wants of a topic.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub subscription: Subscription,
    pub filter: Filter,
}

impl Wanted {
    fn bytes(&self) -> usize {
        let Subscription { topic, sub_string, tags_set, code_set, expression_type, .. } = &self.subscription;
        let tags: usize = tags_set.iter().map(|tag| tag.len() + 24).sum();
        let kind = expression_type.as_ref().map_or(0, String::len);
        topic.len() + 2 * sub_string.len() + tags + 4 * code_set.len() + kind
    }
}

/// A consumer group with its members. Its ways of consuming are those of the last heartbeat.
#[derive(Debug, Clone, Default)]
pub(super) struct ConsumerGroup {
    pub consume_type: String,
    pub message_model: String,
    pub consume_from_where: String,
    pub members: BTreeMap<String, Member>,
}

type Producers = HashMap<String, BTreeMap<String, Member>>;

#[derive(Debug, Default)]
struct State {
    consumers: HashMap<String, ConsumerGroup>,
    producers: Producers,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    state: Mutex<State>,
    bytes: Arc<AtomicUsize>,
    /// Changes with every heartbeat that says what its client wants.
    beats: watch::Sender<()>,
}

/// Who sent a heartbeat, and with what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    pub peer: &'a Arc<Peer>,
    pub language: Language,
    pub version: i32,
}

/// What a heartbeat changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beat {
    /// A consumer's subscriptions are not those that were known under the heartbeat's fingerprint.
    pub changed: bool,
}

/// Reads a subscription's expression.
pub(super) fn filter(kind: Option<&str>, expression: &str) -> Result<Filter, redstart_engine::filter::Error> {
    match kind {
        None | Some("" | "TAG") => Filter::tags(expression),
        Some(_) => Filter::sql(expression),
    }
}

impl Members {
    /// Registers what a heartbeat says of its sender. Refused when it says too much.
    pub fn beat(&self, heartbeat: &Heartbeat, from: &Sender<'_>, now: Instant) -> Result<Beat, Refusal> {
        let Sender { peer, language, version } = *from;
        let mut state = self.state();
        // Requests outlive their connection for a moment. A heartbeat that comes after the farewell would leave a member
        // behind whose queues nobody reads, until its silence is noticed.
        if peer.is_gone() {
            return Ok(Beat { changed: true });
        }
        let member = |subscriptions: BTreeMap<String, Wanted>, known: Option<&Member>| {
            let replaced =
                known.filter(|known| known.peer.id == peer.id).map_or(0, |known| known.share.bytes);
            let texts =
                subscriptions.iter().map(|(topic, wanted)| SUBSCRIPTION_BYTES + topic.len() + wanted.bytes());
            let bytes = MEMBER_BYTES + heartbeat.client_id.len() + texts.sum::<usize>();
            Ok::<_, Refusal>(Member {
                client_id: heartbeat.client_id.clone(),
                peer: peer.clone(),
                language,
                version,
                seen: now,
                subscriptions,
                fingerprint: heartbeat.heartbeat_fingerprint,
                share: Share::take(&self.bytes, peer, bytes, replaced)?,
            })
        };
        for producer in heartbeat.producer_data_set.iter().take(GROUPS_MAX) {
            text::check("producer group", &producer.group_name)?;
            let known = state.producers.get(&producer.group_name);
            let known = known.and_then(|group| group.get(&heartbeat.client_id));
            let member = member(BTreeMap::new(), known)?;
            let group = state.producers.entry(producer.group_name.clone()).or_default();
            // From here on it is known by its id.
            group.remove(&peer.remote_text);
            group.insert(heartbeat.client_id.clone(), member);
        }
        let mut changed = false;
        for data in heartbeat.consumer_data_set.iter().take(GROUPS_MAX) {
            text::check("consumer group", &data.group_name)?;
            if heartbeat.without_sub {
                let group = state.consumers.get_mut(&data.group_name);
                match group.and_then(|group| group.members.get_mut(&heartbeat.client_id)) {
                    Some(known) if known.peer.id == peer.id => {
                        known.seen = now;
                        changed |= known.fingerprint != heartbeat.heartbeat_fingerprint;
                    }
                    // It has to send everything again.
                    _ => changed = true,
                }
                continue;
            }
            let known = state.consumers.get(&data.group_name);
            let known = known.and_then(|group| group.members.get(&heartbeat.client_id));
            let member = member(wanted(data), known)?;
            let group = state.consumers.entry(data.group_name.clone()).or_default();
            changed |= group.put(data, member);
        }
        drop(state);
        self.beats.send_replace(());
        Ok(Beat { changed })
    }

    /// A half message came from this connection: its producer can be asked about it, also before its first heartbeat. The
    /// clients send that when they know the broker, and after it every 30 s. Until then it is known by its address.
    pub fn sent_half(&self, group: &str, from: &Sender<'_>, now: Instant) {
        let Sender { peer, language, version } = *from;
        let mut state = self.state();
        if peer.is_gone() || text::check("producer group", group).is_err() {
            return;
        }
        let members = state.producers.get_mut(group);
        let known = members.and_then(|all| all.values_mut().find(|member| member.peer.id == peer.id));
        if let Some(known) = known {
            known.seen = now;
            return;
        }
        // Past the limits its heartbeat is refused as well.
        let bytes = MEMBER_BYTES + peer.remote_text.len() + group.len();
        let Ok(share) = Share::take(&self.bytes, peer, bytes, 0) else { return };
        let member = Member {
            client_id: peer.remote_text.clone(),
            peer: peer.clone(),
            language,
            version,
            seen: now,
            subscriptions: BTreeMap::new(),
            fingerprint: 0,
            share,
        };
        state.producers.entry(group.to_owned()).or_default().insert(peer.remote_text.clone(), member);
    }

    /// For those who wait for a heartbeat.
    pub fn beats(&self) -> watch::Receiver<()> {
        self.beats.subscribe()
    }

    /// A client leaves its groups.
    pub fn leave(&self, client_id: &str, producer_group: Option<&str>, consumer_group: Option<&str>) {
        let mut state = self.state();
        if let Some(group) = producer_group.and_then(|name| state.producers.get_mut(name)) {
            group.remove(client_id);
        }
        if let Some(name) = consumer_group {
            state.remove_consumers(|group, member| group == name && member.client_id == client_id);
        }
        state.producers.retain(|_, group| !group.is_empty());
    }

    /// A connection has ended: its clients leave.
    pub fn disconnected(&self, peer: &Peer) {
        self.state().remove(|member| member.peer.id == peer.id);
    }

    /// Forgets those who have been silent for too long.
    pub fn expire(&self, now: Instant) {
        self.state().remove(|member| now.saturating_duration_since(member.seen) > SILENCE_MAX);
    }

    /// The ids of a group's consumers; `None` when there is nobody.
    pub fn consumer_ids(&self, group: &str) -> Option<Vec<String>> {
        self.state().consumers.get(group).map(|group| group.members.keys().cloned().collect())
    }

    pub fn consumers(&self, group: &str) -> Option<ConsumerGroup> {
        self.state().consumers.get(group).cloned()
    }

    /// Whether a consumer of the group is on this connection.
    pub fn has_consumer(&self, group: &str, peer: &Peer) -> bool {
        let state = self.state();
        let group = state.consumers.get(group);
        group.is_some_and(|group| group.members.values().any(|member| member.peer.id == peer.id))
    }

    /// Whether a consumer of the group pulls from this topic of retries.
    pub fn take_retries(&self, group: &str, retry_topic: &str) -> bool {
        let subscribes = |group: &ConsumerGroup| {
            group.members.values().any(|member| member.subscriptions.contains_key(retry_topic))
        };
        self.state().consumers.get(group).is_some_and(subscribes)
    }

    /// Groups of which somebody wants a topic.
    pub fn groups_of(&self, topic: &str) -> Vec<String> {
        let wants = |group: &ConsumerGroup| {
            group.members.values().any(|member| member.subscriptions.contains_key(topic))
        };
        let state = self.state();
        state.consumers.iter().filter(|(_, group)| wants(group)).map(|(name, _)| name.clone()).collect()
    }

    pub fn producers(&self, group: &str) -> Vec<Member> {
        self.state().producers.get(group).map(|group| group.values().cloned().collect()).unwrap_or_default()
    }

    /// All producer groups with their members.
    pub fn all_producers(&self) -> Producers {
        self.state().producers.clone()
    }

    /// Producers and consumers by what they have in common.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        let (mut producers, mut consumers) = (Crowd::default(), Crowd::default());
        let alike = |member: &Member, group: Option<&str>, mode| Alike {
            group: group.map(str::to_owned),
            mode,
            language: member.language.to_string(),
            version: version_text(member.version),
        };
        let state = self.state();
        for member in state.producers.values().flat_map(BTreeMap::values) {
            producers.add(alike(member, None, ""), 1);
        }
        for (name, group) in &state.consumers {
            let mode = mode(&group.consume_type);
            for member in group.members.values() {
                consumers.add(alike(member, Some(name), mode), 1);
            }
        }
        (producers, consumers)
    }

    /// The connection of a client that produces, whatever its group.
    pub fn producer(&self, client_id: &str) -> Option<Arc<Peer>> {
        let state = self.state();
        state.producers.values().find_map(|group| Some(group.get(client_id)?.peer.clone()))
    }

    /// What a consumer on this connection wants of a topic, or else what another member of its group does. `Err` tells
    /// whether the group has members at all.
    pub fn wanted(&self, group: &str, topic: &str, peer: &Peer) -> Result<Wanted, bool> {
        let state = self.state();
        let members = &state.consumers.get(group).ok_or(false)?.members;
        let own = members.values().filter(|member| member.peer.id == peer.id);
        let others = members.values().filter(|member| member.peer.id != peer.id);
        own.chain(others).find_map(|member| member.subscriptions.get(topic)).cloned().ok_or(true)
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

/// The subscriptions of a heartbeat that can be understood.
fn wanted(data: &ConsumerData) -> BTreeMap<String, Wanted> {
    let mut all = BTreeMap::new();
    for subscription in data.subscription_data_set.iter().take(SUBSCRIPTIONS_MAX) {
        if text::check("topic", &subscription.topic).is_err() {
            continue;
        }
        match filter(subscription.expression_type.as_deref(), &subscription.sub_string) {
            Ok(filter) => {
                let wanted = Wanted { subscription: subscription.clone(), filter };
                all.insert(subscription.topic.clone(), wanted);
            }
            Err(error) => {
                if let Some(repeated) = BAD_SUBSCRIPTION.permit() {
                    let (group, topic) = (text::shown(&data.group_name), text::shown(&subscription.topic));
                    tracing::warn!(group, topic, %error, repeated, "a subscription cannot be understood");
                }
            }
        }
    }
    all
}

impl ConsumerGroup {
    /// Adds or renews a member. `true` when its fingerprint is new; the others are told when the group has changed.
    fn put(&mut self, data: &ConsumerData, mut member: Member) -> bool {
        let text = |value: &Option<String>| text::shown(value.as_deref().unwrap_or_default()).to_owned();
        self.consume_type = text(&data.consume_type);
        self.message_model = text(&data.message_model);
        self.consume_from_where = text(&data.consume_from_where);
        let old = self.members.remove(&member.client_id);
        let topics = |member: &Member| member.subscriptions.keys().cloned().collect::<Vec<_>>();
        let moved =
            old.as_ref().is_none_or(|old| old.peer.id != member.peer.id || topics(old) != topics(&member));
        let changed = old.as_ref().is_none_or(|old| old.fingerprint != member.fingerprint);
        for (topic, was) in old.into_iter().flat_map(|old| old.subscriptions) {
            if let Some(is) = member.subscriptions.get_mut(&topic)
                && was.subscription.sub_version > is.subscription.sub_version
            {
                *is = was;
            }
        }
        self.members.insert(member.client_id.clone(), member);
        if moved {
            self.tell(&data.group_name);
        }
        changed
    }

    /// Every member shares out the queues again.
    fn tell(&self, name: &str) {
        if self.message_model == "BROADCASTING" {
            return;
        }
        for member in self.members.values() {
            let changed =
                Command::question(code::NOTIFY_CONSUMER_IDS_CHANGED).with_field("consumerGroup", name);
            // One that does not read finds out at its next regular look.
            member.peer.tell(changed);
        }
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
                group.tell(name);
            }
            !group.members.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use redstart_wire::remoting::body::ProducerData;
    use tokio::sync::mpsc;

    use super::*;
    use crate::remoting::peer::Outgoing;

    fn peer() -> (Arc<Peer>, mpsc::Receiver<Outgoing>) {
        let (outbox, outgoing) = mpsc::channel(16);
        let address = "127.0.0.1:1".parse().unwrap();
        let account = crate::ByteBudget::default().account(usize::MAX);
        (Arc::new(Peer::new(address, address, outbox, account)), outgoing)
    }

    fn beat(client: &str, topics: &[(&str, i64)]) -> Heartbeat {
        let subscription = |(topic, version): &(&str, i64)| Subscription {
            topic: (*topic).to_owned(),
            sub_string: "a".to_owned(),
            sub_version: *version,
            ..Subscription::default()
        };
        Heartbeat {
            client_id: client.to_owned(),
            producer_data_set: vec![ProducerData { group_name: "p".to_owned() }],
            consumer_data_set: vec![ConsumerData {
                group_name: "g".to_owned(),
                subscription_data_set: topics.iter().map(subscription).collect(),
                ..ConsumerData::default()
            }],
            ..Heartbeat::default()
        }
    }

    fn say(members: &Members, heartbeat: &Heartbeat, peer: &Arc<Peer>, now: Instant) -> bool {
        let from = Sender { peer, language: Language::default(), version: 0 };
        members.beat(heartbeat, &from, now).unwrap().changed
    }

    fn told(outgoing: &mut mpsc::Receiver<Outgoing>) -> usize {
        std::iter::from_fn(|| outgoing.try_recv().ok()).count()
    }

    #[test]
    fn a_change_of_members_or_topics_is_told_and_nothing_else() {
        let members = Members::default();
        let ((one, mut to_one), (two, mut to_two)) = (peer(), peer());
        let say = |heartbeat: &Heartbeat, peer| say(&members, heartbeat, peer, Instant::now());
        say(&beat("1", &[("t", 1)]), &one);
        say(&beat("2", &[("t", 1)]), &two);
        assert_eq!((told(&mut to_one), told(&mut to_two)), (2, 1));
        say(&beat("1", &[("t", 2)]), &one);
        assert_eq!(told(&mut to_one), 0, "a newer version of the same topics");
        say(&beat("1", &[("t", 2), ("u", 1)]), &one);
        assert_eq!((told(&mut to_one), told(&mut to_two)), (1, 1));
        assert_eq!(members.consumer_ids("g").unwrap(), ["1", "2"]);
        members.disconnected(&two);
        assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
        assert_eq!((told(&mut to_one), members.producers("p").len()), (1, 1));
        members.leave("1", Some("p"), Some("g"));
        assert_eq!(members.consumer_ids("g"), None);
        assert!(members.producer("1").is_none());
    }

    #[test]
    fn a_producer_is_one_from_its_first_half_message_and_once() {
        let members = Members::default();
        let (one, _outgoing) = peer();
        let from = Sender { peer: &one, language: Language::default(), version: 0 };
        for _ in 0..2 {
            members.sent_half("p", &from, Instant::now());
        }
        let known =
            || -> Vec<String> { members.producers("p").into_iter().map(|member| member.client_id).collect() };
        assert_eq!(known(), ["127.0.0.1:1"]);
        say(&members, &beat("1", &[]), &one, Instant::now());
        members.sent_half("p", &from, Instant::now());
        assert_eq!(known(), ["1"], "its heartbeat tells its id");
        members.disconnected(&one);
        assert!(known().is_empty());
        assert_eq!(members.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let members = Members::default();
        let (one, _outgoing) = peer();
        for version in [5, 3] {
            say(&members, &beat("1", &[("t", version)]), &one, Instant::now());
        }
        assert_eq!(members.wanted("g", "t", &one).unwrap().subscription.sub_version, 5);
        assert!(members.wanted("g", "u", &one).unwrap_err());
        assert!(!members.wanted("x", "u", &one).unwrap_err());
    }

    #[test]
    fn a_short_heartbeat_renews_only_what_is_known_by_its_fingerprint() {
        let members = Members::default();
        let (one, _outgoing) = peer();
        let mut heartbeat = Heartbeat { heartbeat_fingerprint: 7, ..beat("1", &[("t", 1)]) };
        let say = |heartbeat: &Heartbeat| say(&members, heartbeat, &one, Instant::now());
        assert!(say(&heartbeat));
        assert!(!say(&heartbeat), "the broker has it");
        heartbeat.without_sub = true;
        heartbeat.consumer_data_set[0].subscription_data_set.clear();
        assert!(!say(&heartbeat));
        assert!(members.wanted("g", "t", &one).is_ok(), "subscriptions stay");
        heartbeat.heartbeat_fingerprint = 8;
        assert!(say(&heartbeat));
    }

    #[test]
    fn who_comes_back_on_another_connection_is_not_removed_with_the_old_one() {
        let members = Members::default();
        let ((old, _a), (new, _b)) = (peer(), peer());
        say(&members, &beat("1", &[("t", 1)]), &old, Instant::now());
        say(&members, &beat("1", &[("t", 1)]), &new, Instant::now());
        members.disconnected(&old);
        assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
    }

    #[test]
    fn a_heartbeat_that_outlives_its_connection_leaves_nobody_behind() {
        let members = Members::default();
        let ((one, mut to_one), (two, _to_two)) = (peer(), peer());
        say(&members, &beat("1", &[("t", 1)]), &one, Instant::now());
        told(&mut to_one);
        two.gone();
        members.disconnected(&two);
        say(&members, &beat("2", &[("t", 1)]), &two, Instant::now());
        assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
        assert_eq!(members.producers("p").len(), 1);
        assert_eq!(told(&mut to_one), 0);
    }

    #[test]
    fn who_is_silent_for_two_minutes_is_forgotten_and_the_others_are_told() {
        let members = Members::default();
        let ((one, mut to_one), (two, _to_two)) = (peer(), peer());
        let start = Instant::now();
        let later = |millis| start + Duration::from_millis(millis);
        say(&members, &beat("1", &[("t", 1)]), &one, start);
        say(&members, &beat("2", &[("t", 1)]), &two, start);
        say(&members, &beat("1", &[("t", 1)]), &one, later(30_000));
        told(&mut to_one);
        members.expire(later(120_000));
        assert_eq!(members.consumer_ids("g").unwrap(), ["1", "2"], "to the last millisecond");
        assert_eq!(told(&mut to_one), 0);
        members.expire(later(120_001));
        assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
        assert_eq!(told(&mut to_one), 1);
        assert!(members.producer("2").is_none(), "it produces no more either");
        members.expire(later(150_001));
        assert_eq!(members.consumer_ids("g"), None);
    }

    #[test]
    fn what_clients_say_of_themselves_is_bounded_by_connection_and_given_back() {
        let members = Members::default();
        let (one, _outgoing) = peer();
        let from = Sender { peer: &one, language: Language::default(), version: 0 };
        let large = |client: usize| {
            let mut heartbeat = beat(&client.to_string(), &[]);
            let tags = vec!["t".repeat(1000); 500];
            let wanted = Subscription { topic: "t".to_owned(), tags_set: tags, ..Subscription::default() };
            heartbeat.consumer_data_set[0].subscription_data_set = vec![wanted];
            heartbeat
        };
        let taken = (0..300).take_while(|n| members.beat(&large(*n), &from, Instant::now()).is_ok()).count();
        assert!((4..10).contains(&taken), "{taken} clients of half a megabyte each");
        assert!(members.bytes.load(Ordering::Relaxed) <= CONNECTION_BYTES_MAX);
        assert!(members.beat(&large(0), &from, Instant::now()).is_ok(), "one that is known is renewed");
        let (other, _outgoing) = peer();
        let from = Sender { peer: &other, ..from };
        assert!(members.beat(&large(1000), &from, Instant::now()).is_ok(), "another connection has its own");
        let long = Heartbeat {
            producer_data_set: vec![ProducerData { group_name: "p".repeat(300) }],
            ..large(1001)
        };
        assert!(members.beat(&long, &from, Instant::now()).is_err());
        members.disconnected(&one);
        members.disconnected(&other);
        assert_eq!(members.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(one.member_bytes.load(Ordering::Relaxed), 0);
    }

    /// A short heartbeat renews as well as a long one.
    #[test]
    fn a_short_heartbeat_keeps_its_client() {
        let members = Members::default();
        let (one, _outgoing) = peer();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut heartbeat = Heartbeat { heartbeat_fingerprint: 7, ..beat("1", &[("t", 1)]) };
        say(&members, &heartbeat, &one, start);
        heartbeat.without_sub = true;
        say(&members, &heartbeat, &one, later(100));
        members.expire(later(200));
        assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
    }
}
