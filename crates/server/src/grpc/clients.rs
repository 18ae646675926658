//! Who is connected. What is known of a client outlives its telemetry stream: some do not open it again for minutes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redstart_engine::TopicName;
use redstart_wire::v2::TelemetryCommand;
use tokio::sync::mpsc;
use tonic::Status;

/// Without a sign of life for this long a client is forgotten.
const EXPIRY: Duration = Duration::from_secs(120);
/// Clients known at a time; past it new ones are refused.
const CLIENTS_MAX: usize = 100_000;

pub(super) type Stream = mpsc::Sender<Result<TelemetryCommand, Status>>;

#[derive(Debug)]
struct Client {
    /// It has told its settings; others are known by their requests alone.
    registered: bool,
    /// Its settings said that it is a lite consumer.
    lite: bool,
    publishes: Vec<TopicName>,
    stream: Option<Stream>,
    seen: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    by_id: Mutex<HashMap<String, Client>>,
}

/// There are too many clients.
#[derive(Debug)]
pub(super) struct Full;

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Client>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a client or what it says anew; its stream is where commands for it go.
    pub fn register(
        &self,
        id: &str,
        publishes: Vec<TopicName>,
        lite: bool,
        stream: Stream,
    ) -> Result<(), Full> {
        let mut clients = self.lock();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(id) {
            return Err(Full);
        }
        let client = Client { registered: true, lite, publishes, stream: Some(stream), seen: Instant::now() };
        clients.insert(id.to_owned(), client);
        Ok(())
    }

    /// A sign of life. `false` when the client has not told its settings.
    pub fn seen(&self, id: &str) -> bool {
        self.lock().get_mut(id).is_some_and(|client| {
            client.seen = Instant::now();
            client.registered
        })
    }

    /// A sign of life of a client that may not have told its settings, after a restart of the server for one.
    pub fn touch(&self, id: &str) {
        let mut clients = self.lock();
        if !clients.contains_key(id) && clients.len() < CLIENTS_MAX {
            let client = Client {
                registered: false,
                lite: false,
                publishes: Vec::new(),
                stream: None,
                seen: Instant::now(),
            };
            clients.insert(id.to_owned(), client);
        }
    }

    pub fn is_alive(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.seen.elapsed() < EXPIRY)
    }

    pub fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Streams of clients that publish to a topic, those heard of last first.
    pub fn publishers(&self, topic: &TopicName) -> Vec<Stream> {
        let clients = self.lock();
        let mut found: Vec<(&Client, &Stream)> = clients
            .values()
            .filter(|client| client.publishes.contains(topic))
            .filter_map(|client| Some((client, client.stream.as_ref().filter(|stream| !stream.is_closed())?)))
            .collect();
        found.sort_by_key(|(client, _)| std::cmp::Reverse(client.seen));
        found.into_iter().map(|(_, stream)| stream.clone()).collect()
    }

    /// Whether its settings said that it is a lite consumer; `None` when it has told none.
    pub fn is_lite(&self, id: &str) -> Option<bool> {
        self.lock().get(id).filter(|client| client.registered).map(|client| client.lite)
    }

    /// Where commands for a client go.
    pub fn stream(&self, id: &str) -> Option<Stream> {
        self.lock().get(id)?.stream.clone()
    }

    /// Forgets those that have been silent for too long, and says who they were.
    pub fn expire(&self) -> Vec<String> {
        let mut gone = Vec::new();
        self.lock().retain(|id, client| {
            let alive = client.seen.elapsed() < EXPIRY;
            if !alive {
                gone.push(id.clone());
            }
            alive
        });
        gone
    }

    /// Ends every stream: the server is going down.
    pub fn close(&self) {
        for client in self.lock().values_mut() {
            client.stream = None;
        }
    }
}
