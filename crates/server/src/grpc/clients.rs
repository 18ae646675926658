//! The clients that are or were lately connected. What is known of a client outlives its telemetry stream, which some clients
//! open again only after minutes.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redstart_engine::{GroupName, TopicName};
use rustc_hash::FxHashMap;

use super::command_stream::CommandStream;
use crate::{
    access::Identity,
    statistics::{ClientCounts, ClientLabels},
};

/// A client is forgotten when it has made no call for this long.
const EXPIRY: Duration = Duration::from_secs(120);
/// Clients known at a time; past it new ones are refused.
const CLIENTS_MAX: usize = 100_000;
/// Bytes of the ids and settings of all clients.
const CLIENTS_BYTES_MAX: usize = 256 << 20;
/// Bytes that are counted for a client beside its id and its settings.
const CLIENT_BYTES: usize = 256;
/// Topics that a client has sent half messages to; the newest are kept.
const HALVES_MAX: usize = 16;

/// What a client's settings say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientKind {
    /// The client has sent no settings, or none of a known type.
    #[default]
    Unknown,
    Producer,
    PushConsumer,
    SimpleConsumer,
    PullConsumer,
    LitePushConsumer,
    LiteSimpleConsumer,
}

impl ClientKind {
    /// RocketMQ's word for how messages come to a consumer.
    fn mode(self) -> &'static str {
        match self {
            ClientKind::Unknown | ClientKind::Producer => "",
            ClientKind::PushConsumer | ClientKind::LitePushConsumer => "push",
            ClientKind::SimpleConsumer | ClientKind::PullConsumer | ClientKind::LiteSimpleConsumer => "pull",
        }
    }

    pub(super) fn is_lite(self) -> bool {
        matches!(self, ClientKind::LitePushConsumer | ClientKind::LiteSimpleConsumer)
    }
}

/// What a client consumes: a topic, and the text of its filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSubscription {
    pub topic: TopicName,
    pub expression: String,
    /// The expression is SQL92, not a list of tags.
    pub sql: bool,
}

/// How long a client waits, as its settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Polling {
    /// For a message, when the request does not say.
    pub long_poll: Option<Duration>,
    /// For an answer, in addition.
    pub request_timeout: Option<Duration>,
}

/// A client's settings, as far as the server uses them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientSettings {
    pub kind: ClientKind,
    pub group: Option<GroupName>,
    pub publishes: Vec<TopicName>,
    pub subscriptions: Vec<ClientSubscription>,
    pub language: String,
    pub version: String,
    pub polling: Polling,
}

impl ClientSettings {
    fn bytes(&self) -> usize {
        const EACH: usize = 32;
        let published = self.publishes.iter().map(|topic| topic.as_str().len() + EACH);
        let subscribed = self
            .subscriptions
            .iter()
            .map(|subscription| subscription.topic.as_str().len() + subscription.expression.len() + EACH);
        self.language.len() + self.version.len() + published.chain(subscribed).sum::<usize>()
    }
}

/// A client that is or was lately connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientView {
    pub id: String,
    pub settings: ClientSettings,
    pub remote: Option<SocketAddr>,
    /// Time since its last call.
    pub silent_for: Duration,
}

#[derive(Debug)]
struct Client {
    /// `None` for a client that has made calls and sent no settings yet.
    settings: Option<ClientSettings>,
    remote: Option<SocketAddr>,
    stream: Option<CommandStream>,
    seen: Instant,
    /// Topics of its half messages, newest last. Its settings may name them later, or not at all.
    halves: Vec<TopicName>,
    /// Its user: nobody else may use its id.
    identity: Option<Identity>,
}

impl Client {
    fn bytes(&self, id: &str) -> usize {
        let halves: usize = self.halves.iter().map(|topic| topic.as_str().len()).sum();
        id.len() + CLIENT_BYTES + halves + self.settings.as_ref().map_or(0, ClientSettings::bytes)
    }

    fn publishes(&self, topic: &TopicName) -> bool {
        self.halves.contains(topic)
            || self.settings.as_ref().is_some_and(|settings| settings.publishes.contains(topic))
    }
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<String, Client>,
    /// Sum of [`Client::bytes`].
    bytes: usize,
}

impl Known {
    fn forget(&mut self, id: &str) {
        if let Some(client) = self.by_id.remove(id) {
            self.bytes -= client.bytes(id);
        }
    }

    /// Adds a client, or replaces what is known of it.
    fn put(&mut self, id: &str, client: Client) -> Result<(), Unregistered> {
        let before = self.by_id.get(id).map(|client| client.bytes(id));
        let bytes = self.bytes - before.unwrap_or(0) + client.bytes(id);
        if (before.is_none() && self.by_id.len() >= CLIENTS_MAX) || bytes > CLIENTS_BYTES_MAX {
            return Err(Unregistered::Full);
        }
        self.bytes = bytes;
        self.by_id.insert(id.to_owned(), client);
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    known: Mutex<Known>,
}

/// A client that is not known from now on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unregistered {
    /// There are too many clients, or their settings take too many bytes.
    Full,
    /// Another user has a client of this id.
    Taken,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client or replaces its settings. Commands for it go to `stream`.
    pub fn register(
        &self,
        id: &str,
        identity: &Identity,
        settings: ClientSettings,
        remote: Option<SocketAddr>,
        stream: CommandStream,
    ) -> Result<(), Unregistered> {
        let mut known = self.lock();
        let before = known.by_id.get(id);
        if before
            .and_then(|client| client.identity.as_ref())
            .is_some_and(|owner| !owner.is_same_user(identity))
        {
            return Err(Unregistered::Taken);
        }
        let halves = before.map(|client| client.halves.clone()).unwrap_or_default();
        let identity = Some(identity.clone());
        let (settings, stream, seen) = (Some(settings), Some(stream), Instant::now());
        known.put(id, Client { settings, remote, stream, seen, halves, identity })
    }

    /// Ties a known client to the user that calls with its id and notes that it is alive. Returns whether the server has its
    /// settings; `None` when the client is another user's.
    pub fn called(&self, id: &str, identity: &Identity) -> Option<bool> {
        let mut known = self.lock();
        let Some(client) = known.by_id.get_mut(id) else { return Some(false) };
        let owner = client.identity.get_or_insert_with(|| identity.clone());
        if !owner.is_same_user(identity) {
            return None;
        }
        client.seen = Instant::now();
        Some(client.settings.is_some())
    }

    /// Notes that the client is alive.
    pub fn seen(&self, id: &str) {
        if let Some(client) = self.lock().by_id.get_mut(id) {
            client.seen = Instant::now();
        }
    }

    /// Adds a client that has sent no settings yet, as happens after a restart of the server.
    pub fn touch(&self, id: &str) {
        let mut known = self.lock();
        if !known.by_id.contains_key(id) {
            let client = Client {
                settings: None,
                remote: None,
                stream: None,
                seen: Instant::now(),
                halves: Vec::new(),
                identity: None,
            };
            // Past the limits a client is not tracked, and served all the same.
            let _ = known.put(id, client);
        }
    }

    pub fn is_alive(&self, id: &str) -> bool {
        self.lock().by_id.get(id).is_some_and(|client| client.seen.elapsed() < EXPIRY)
    }

    /// What a client has announced.
    pub fn settings(&self, id: &str) -> Option<ClientSettings> {
        self.lock().by_id.get(id)?.settings.clone()
    }

    pub fn remove(&self, id: &str) {
        self.lock().forget(id);
    }

    /// The client's stream has ended: commands go there no more. What is known of the client stays.
    pub fn stream_ended(&self, id: &str, stream: &CommandStream) {
        if let Some(client) = self.lock().by_id.get_mut(id) {
            client.stream.take_if(|current| current.is_same(stream));
        }
    }

    /// The client has sent a half message to the topic, so that it can be asked about its transactions.
    pub fn sent_half(&self, id: &str, topic: &TopicName) {
        let mut known = self.lock();
        let Known { by_id, bytes } = &mut *known;
        let Some(client) = by_id.get_mut(id).filter(|client| !client.publishes(topic)) else { return };
        *bytes -= client.bytes(id);
        if client.halves.len() == HALVES_MAX {
            client.halves.remove(0);
        }
        if *bytes + client.bytes(id) + topic.as_str().len() <= CLIENTS_BYTES_MAX {
            client.halves.push(topic.clone());
        }
        *bytes += client.bytes(id);
    }

    /// Streams of the clients that publish to a topic, the most recently active first.
    pub fn publishers(
        &self,
        topic: &TopicName,
        may: impl Fn(Option<&Identity>) -> bool,
    ) -> Vec<CommandStream> {
        let known = self.lock();
        let mut found: Vec<(&Client, &CommandStream)> = known
            .by_id
            .values()
            .filter(|client| client.publishes(topic) && may(client.identity.as_ref()))
            .filter_map(|client| Some((client, client.stream.as_ref().filter(|stream| !stream.is_closed())?)))
            .collect();
        found.sort_by_key(|(client, _)| std::cmp::Reverse(client.seen));
        found.into_iter().map(|(_, stream)| stream.clone()).collect()
    }

    /// Whether the client is a lite consumer; `None` without its settings.
    pub fn is_lite(&self, id: &str) -> Option<bool> {
        self.lock().by_id.get(id)?.settings.as_ref().map(|settings| settings.kind.is_lite())
    }

    /// How long the client waits, by its settings.
    pub fn polling(&self, id: &str) -> Polling {
        let known = self.lock();
        known
            .by_id
            .get(id)
            .and_then(|client| client.settings.as_ref())
            .map(|settings| settings.polling)
            .unwrap_or_default()
    }

    /// Where commands for a client go: `None` when it is not known, `Some(None)` when it has no stream now.
    pub fn stream_of(&self, id: &str) -> Option<Option<CommandStream>> {
        let known = self.lock();
        let client = known.by_id.get(id)?;
        Some(client.stream.clone().filter(|stream| !stream.is_closed()))
    }

    /// All clients, in the order of their ids.
    pub fn all(&self) -> Vec<ClientView> {
        let known = self.lock();
        let mut all: Vec<ClientView> = known
            .by_id
            .iter()
            .map(|(id, client)| ClientView {
                id: id.clone(),
                settings: client.settings.clone().unwrap_or_default(),
                remote: client.remote,
                silent_for: client.seen.elapsed(),
            })
            .collect();
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Producers and consumers by group, language and version. Texts are copied after counting, to hold the lock briefly.
    pub fn client_counts(&self) -> (ClientCounts, ClientCounts) {
        let known = self.lock();
        let mut kinds: FxHashMap<(Option<&GroupName>, &'static str, &str, &str), usize> =
            FxHashMap::default();
        for settings in known.by_id.values().filter_map(|client| client.settings.as_ref()) {
            let kind = (
                settings.group.as_ref(),
                settings.kind.mode(),
                settings.language.as_str(),
                settings.version.as_str(),
            );
            *kinds.entry(kind).or_default() += 1;
        }
        let (mut producers, mut consumers) = (ClientCounts::default(), ClientCounts::default());
        for ((group, mode, language, version), clients) in kinds {
            let counts = if group.is_some() { &mut consumers } else { &mut producers };
            let group = group.map(ToString::to_string);
            let labels =
                ClientLabels { group, mode, language: language.to_owned(), version: version.to_owned() };
            counts.add(labels, clients);
        }
        (producers, consumers)
    }

    /// Forgets clients that have made no call for too long; returns their ids.
    pub fn expire(&self) -> Vec<String> {
        let mut known = self.lock();
        let silent = known.by_id.iter().filter(|(_, client)| client.seen.elapsed() >= EXPIRY);
        let silent: Vec<String> = silent.map(|(id, _)| id.clone()).collect();
        for id in &silent {
            known.forget(id);
        }
        silent
    }

    /// Ends every stream: the server stops.
    pub fn close(&self) {
        for client in self.lock().by_id.values_mut() {
            client.stream = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity::of(name)
    }

    fn settings(bytes: usize) -> ClientSettings {
        ClientSettings { version: "v".repeat(bytes), ..ClientSettings::default() }
    }

    fn stream() -> CommandStream {
        CommandStream::new(crate::ByteBudget::default().account(usize::MAX)).0
    }

    #[test]
    fn a_client_id_is_for_one_user_until_it_is_forgotten() {
        let clients = Clients::default();
        let register = |name: &str| clients.register("c", &user(name), settings(0), None, stream());
        assert_eq!(clients.called("c", &user("a")), Some(false), "of nobody yet");
        assert_eq!(register("a"), Ok(()));
        assert_eq!(clients.called("c", &user("a")), Some(true));
        assert_eq!(clients.called("c", &user("b")), None);
        assert_eq!(register("b"), Err(Unregistered::Taken));
        clients.remove("c");
        assert_eq!(register("b"), Ok(()));
    }

    #[test]
    fn what_clients_say_is_counted_once_and_given_back_when_they_go() {
        let clients = Clients::default();
        let register = |id: &str, bytes| clients.register(id, &user("u"), settings(bytes), None, stream());
        let most = CLIENTS_BYTES_MAX - CLIENT_BYTES - 1;
        assert_eq!(register("a", most + 1), Err(Unregistered::Full));
        assert_eq!(register("a", most), Ok(()));
        assert_eq!(register("b", 1), Err(Unregistered::Full));
        let less = most - CLIENT_BYTES - 2;
        assert_eq!(register("a", less), Ok(()), "what it said before counts no more");
        assert_eq!(register("b", 1), Ok(()));
        clients.remove("a");
        assert_eq!(register("b", most), Ok(()));
    }

    #[test]
    fn ids_of_clients_that_have_said_nothing_are_counted() {
        let clients = Clients::default();
        let long = "i".repeat(32 << 20);
        for n in 0..20 {
            clients.touch(&format!("{long}{n}"));
        }
        assert_eq!(clients.all().len(), 7, "of 256 MiB");
        for client in clients.all() {
            clients.remove(&client.id);
        }
        assert_eq!(clients.lock().bytes, 0);
    }

    #[test]
    fn a_client_publishes_to_the_topics_of_its_half_messages_whatever_its_settings_say() {
        let clients = Clients::default();
        let topic = |n: usize| TopicName::new(&format!("t{n}")).unwrap_or_else(|error| panic!("{error}"));
        let account = crate::ByteBudget::default().account(usize::MAX);
        let (stream, _commands) = CommandStream::new(account);
        clients.register("c", &user("u"), settings(0), None, stream.clone()).unwrap();
        assert!(clients.publishers(&topic(0), |_| true).is_empty());
        clients.sent_half("c", &topic(0));
        assert_eq!(clients.publishers(&topic(0), |_| true).len(), 1);
        clients.register("c", &user("u"), settings(0), None, stream).unwrap();
        assert_eq!(clients.publishers(&topic(0), |_| true).len(), 1, "also after its settings came again");
        (1..=HALVES_MAX).for_each(|n| clients.sent_half("c", &topic(n)));
        assert!(clients.publishers(&topic(0), |_| true).is_empty(), "only the newest are remembered");
        assert_eq!(clients.publishers(&topic(HALVES_MAX), |_| true).len(), 1);
    }

    #[test]
    fn an_old_stream_that_ends_does_not_take_the_new_one_with_it() {
        let clients = Clients::default();
        let account = crate::ByteBudget::default().account(usize::MAX);
        let ((old, _a), (new, _b)) = (CommandStream::new(account.clone()), CommandStream::new(account));
        clients.register("c", &user("u"), settings(0), None, old.clone()).unwrap();
        clients.register("c", &user("u"), settings(0), None, new.clone()).unwrap();
        clients.stream_ended("c", &old);
        assert!(clients.stream_of("c").unwrap().is_some_and(|stream| stream.is_same(&new)));
        clients.stream_ended("c", &new);
        assert!(clients.stream_of("c").unwrap().is_none());
        assert_eq!(clients.called("c", &user("u")), Some(true), "it is still known");
    }
}
