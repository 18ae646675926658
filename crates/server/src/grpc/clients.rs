//! Who is connected. What is known of a client outlives its telemetry stream: some do not open it again for minutes.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redstart_engine::{GroupName, TopicName};
use rustc_hash::FxHashMap;

use super::command_stream::CommandStream;
use crate::statistics::{Alike, Crowd};

/// Without a sign of life for this long a client is forgotten.
const EXPIRY: Duration = Duration::from_secs(120);
/// Clients known at a time; past it new ones are refused.
const CLIENTS_MAX: usize = 100_000;
/// Bytes of all that clients have said about themselves, their ids included.
const TOLD_BYTES_MAX: usize = 256 << 20;
/// What is kept of a client beside that.
const CLIENT_BYTES: usize = 256;
/// Topics of half messages that are remembered of a client.
const HALVES_MAX: usize = 16;

/// What kind of client somebody says to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientKind {
    /// It has not said.
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

/// What a client has said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    pub kind: ClientKind,
    pub group: Option<GroupName>,
    pub publishes: Vec<TopicName>,
    pub subscriptions: Vec<ClientSubscription>,
    pub language: String,
    pub version: String,
    pub polling: Polling,
}

impl Told {
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
    pub told: Told,
    pub remote: Option<SocketAddr>,
    /// How long ago it was last heard of.
    pub silent_for: Duration,
}

#[derive(Debug)]
struct Client {
    /// Its settings; others are known by their requests alone.
    told: Option<Told>,
    remote: Option<SocketAddr>,
    stream: Option<CommandStream>,
    seen: Instant,
    /// Topics of its half messages, newest last: its settings may tell of them later, or not at all.
    halves: Vec<TopicName>,
}

impl Client {
    fn bytes(&self, id: &str) -> usize {
        let halves: usize = self.halves.iter().map(|topic| topic.as_str().len()).sum();
        id.len() + CLIENT_BYTES + halves + self.told.as_ref().map_or(0, Told::bytes)
    }

    fn publishes(&self, topic: &TopicName) -> bool {
        self.halves.contains(topic) || self.told.as_ref().is_some_and(|told| told.publishes.contains(topic))
    }
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<String, Client>,
    told_bytes: usize,
}

impl Known {
    fn forget(&mut self, id: &str) {
        if let Some(client) = self.by_id.remove(id) {
            self.told_bytes -= client.bytes(id);
        }
    }

    /// Knows a client from now on, or what it says anew.
    fn put(&mut self, id: &str, client: Client) -> Result<(), Full> {
        let before = self.by_id.get(id).map(|client| client.bytes(id));
        let told_bytes = self.told_bytes - before.unwrap_or(0) + client.bytes(id);
        if (before.is_none() && self.by_id.len() >= CLIENTS_MAX) || told_bytes > TOLD_BYTES_MAX {
            return Err(Full);
        }
        self.told_bytes = told_bytes;
        self.by_id.insert(id.to_owned(), client);
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    known: Mutex<Known>,
}

/// There are too many clients, or they have said too much.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a client or what it says anew; its stream is where commands for it go.
    pub fn register(
        &self,
        id: &str,
        told: Told,
        remote: Option<SocketAddr>,
        stream: CommandStream,
    ) -> Result<(), Full> {
        let mut known = self.lock();
        let halves = known.by_id.get(id).map(|client| client.halves.clone()).unwrap_or_default();
        let client = Client { told: Some(told), remote, stream: Some(stream), seen: Instant::now(), halves };
        known.put(id, client)
    }

    /// A sign of life. `false` when the client has not told its settings.
    pub fn seen(&self, id: &str) -> bool {
        self.lock().by_id.get_mut(id).is_some_and(|client| {
            client.seen = Instant::now();
            client.told.is_some()
        })
    }

    /// A sign of life of a client that may not have told its settings, after a restart of the server for one.
    pub fn touch(&self, id: &str) {
        let mut known = self.lock();
        if !known.by_id.contains_key(id) {
            let client =
                Client { told: None, remote: None, stream: None, seen: Instant::now(), halves: Vec::new() };
            // One for which there is no place is served all the same.
            let _ = known.put(id, client);
        }
    }

    pub fn is_alive(&self, id: &str) -> bool {
        self.lock().by_id.get(id).is_some_and(|client| client.seen.elapsed() < EXPIRY)
    }

    pub fn remove(&self, id: &str) {
        self.lock().forget(id);
    }

    /// The client has ended its stream: nothing goes there any more. What is known of the client stays.
    pub fn stream_ended(&self, id: &str, stream: &CommandStream) {
        if let Some(client) = self.lock().by_id.get_mut(id) {
            client.stream.take_if(|current| current.is_same(stream));
        }
    }

    /// The client has sent a half message to the topic: it can be asked about that one.
    pub fn sent_half(&self, id: &str, topic: &TopicName) {
        let mut known = self.lock();
        let Known { by_id, told_bytes } = &mut *known;
        let Some(client) = by_id.get_mut(id).filter(|client| !client.publishes(topic)) else { return };
        *told_bytes -= client.bytes(id);
        if client.halves.len() == HALVES_MAX {
            client.halves.remove(0);
        }
        if *told_bytes + client.bytes(id) + topic.as_str().len() <= TOLD_BYTES_MAX {
            client.halves.push(topic.clone());
        }
        *told_bytes += client.bytes(id);
    }

    /// Streams of clients that publish to a topic, those heard of last first.
    pub fn publishers(&self, topic: &TopicName) -> Vec<CommandStream> {
        let known = self.lock();
        let mut found: Vec<(&Client, &CommandStream)> = known
            .by_id
            .values()
            .filter(|client| client.publishes(topic))
            .filter_map(|client| Some((client, client.stream.as_ref().filter(|stream| !stream.is_closed())?)))
            .collect();
        found.sort_by_key(|(client, _)| std::cmp::Reverse(client.seen));
        found.into_iter().map(|(_, stream)| stream.clone()).collect()
    }

    /// Whether its settings said that it is a lite consumer; `None` when it has told none.
    pub fn is_lite(&self, id: &str) -> Option<bool> {
        self.lock().by_id.get(id)?.told.as_ref().map(|told| told.kind.is_lite())
    }

    /// How long it waits; nothing is known of one that has told no settings.
    pub fn polling(&self, id: &str) -> Polling {
        let known = self.lock();
        known
            .by_id
            .get(id)
            .and_then(|client| client.told.as_ref())
            .map(|told| told.polling)
            .unwrap_or_default()
    }

    /// Where commands for a client go: `None` when it is not known, `Some(None)` when it has no stream now.
    pub fn stream_of(&self, id: &str) -> Option<Option<CommandStream>> {
        let known = self.lock();
        let client = known.by_id.get(id)?;
        Some(client.stream.clone().filter(|stream| !stream.is_closed()))
    }

    /// Everybody, in the order of their ids.
    pub fn all(&self) -> Vec<ClientView> {
        let known = self.lock();
        let mut all: Vec<ClientView> = known
            .by_id
            .iter()
            .map(|(id, client)| ClientView {
                id: id.clone(),
                told: client.told.clone().unwrap_or_default(),
                remote: client.remote,
                silent_for: client.seen.elapsed(),
            })
            .collect();
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Producers and consumers by what they have in common. Counted first and named later: the lock is everybody's.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        let known = self.lock();
        let mut kinds: FxHashMap<(Option<&GroupName>, &'static str, &str, &str), usize> =
            FxHashMap::default();
        for told in known.by_id.values().filter_map(|client| client.told.as_ref()) {
            let kind = (told.group.as_ref(), told.kind.mode(), told.language.as_str(), told.version.as_str());
            *kinds.entry(kind).or_default() += 1;
        }
        let (mut producers, mut consumers) = (Crowd::default(), Crowd::default());
        for ((group, mode, language, version), clients) in kinds {
            let crowd = if group.is_some() { &mut consumers } else { &mut producers };
            let group = group.map(ToString::to_string);
            let alike = Alike { group, mode, language: language.to_owned(), version: version.to_owned() };
            crowd.add(alike, clients);
        }
        (producers, consumers)
    }

    /// Forgets those that have been silent for too long, and says who they were.
    pub fn expire(&self) -> Vec<String> {
        let mut known = self.lock();
        let silent = known.by_id.iter().filter(|(_, client)| client.seen.elapsed() >= EXPIRY);
        let silent: Vec<String> = silent.map(|(id, _)| id.clone()).collect();
        for id in &silent {
            known.forget(id);
        }
        silent
    }

    /// Ends every stream: the server is going down.
    pub fn close(&self) {
        for client in self.lock().by_id.values_mut() {
            client.stream = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: usize) -> Told {
        Told { version: "v".repeat(bytes), ..Told::default() }
    }

    fn stream() -> CommandStream {
        CommandStream::new(crate::ByteBudget::default().account(usize::MAX)).0
    }

    #[test]
    fn what_clients_say_is_counted_once_and_given_back_when_they_go() {
        let clients = Clients::default();
        let register = |id: &str, bytes| clients.register(id, told(bytes), None, stream());
        let most = TOLD_BYTES_MAX - CLIENT_BYTES - 1;
        assert_eq!(register("a", most + 1), Err(Full));
        assert_eq!(register("a", most), Ok(()));
        assert_eq!(register("b", 1), Err(Full));
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
        assert_eq!(clients.lock().told_bytes, 0);
    }

    #[test]
    fn a_client_publishes_to_the_topics_of_its_half_messages_whatever_its_settings_say() {
        let clients = Clients::default();
        let topic = |n: usize| TopicName::new(&format!("t{n}")).unwrap_or_else(|error| panic!("{error}"));
        let account = crate::ByteBudget::default().account(usize::MAX);
        let (stream, _commands) = CommandStream::new(account);
        clients.register("c", told(0), None, stream.clone()).unwrap();
        assert!(clients.publishers(&topic(0)).is_empty());
        clients.sent_half("c", &topic(0));
        assert_eq!(clients.publishers(&topic(0)).len(), 1);
        clients.register("c", told(0), None, stream).unwrap();
        assert_eq!(clients.publishers(&topic(0)).len(), 1, "also after its settings came again");
        (1..=HALVES_MAX).for_each(|n| clients.sent_half("c", &topic(n)));
        assert!(clients.publishers(&topic(0)).is_empty(), "only the newest are remembered");
        assert_eq!(clients.publishers(&topic(HALVES_MAX)).len(), 1);
    }

    #[test]
    fn an_old_stream_that_ends_does_not_take_the_new_one_with_it() {
        let clients = Clients::default();
        let account = crate::ByteBudget::default().account(usize::MAX);
        let ((old, _a), (new, _b)) = (CommandStream::new(account.clone()), CommandStream::new(account));
        clients.register("c", told(0), None, old.clone()).unwrap();
        clients.register("c", told(0), None, new.clone()).unwrap();
        clients.stream_ended("c", &old);
        assert!(clients.stream_of("c").unwrap().is_some_and(|stream| stream.is_same(&new)));
        clients.stream_ended("c", &new);
        assert!(clients.stream_of("c").unwrap().is_none());
        assert!(clients.seen("c"), "it is still known");
    }
}
