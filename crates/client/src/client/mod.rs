//! The handle that everything comes from.

mod builder;
mod routes;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use builder::ClientBuilder;
use routes::Routes;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use crate::{
    BroadcastBuilder, BuildError, CallError, ProducerBuilder, Queue, QueueReaderBuilder, ReceiverBuilder,
    RouteError, ShutdownReport, WorkerBuilder,
    producer::Core as ProducerCore,
    route::Route,
    trace::Tracer,
    transport::{Net, Role, Session},
};

pub(crate) type PartFuture = Pin<Box<dyn Future<Output = ShutdownReport> + Send>>;

/// A consumer, as far as the client's own shutdown is concerned.
pub(crate) trait Part: fmt::Debug + Send + Sync {
    fn shut_down(self: Arc<Self>, deadline: Instant) -> PartFuture;
}

const REFRESH: Duration = Duration::from_secs(30);

/// The connections to a cluster: routes, heartbeats, credentials and TLS are its business. Cheap to clone; all clones are the
/// same client, and its background work ends with the last of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redstart_client::{Client, Message};
///
/// let client = Client::connect("127.0.0.1:9876").await?;
/// let producer = client.producer().build().await?;
/// let sent = producer.send(Message::new("orders", "hello")).await?;
/// println!("{} is in {}", sent.id, sent.queue);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub net: Net,
    pub timeout: Duration,
    tracer: Tracer,
    routes: Routes,
    /// A heartbeat is due now: there is a new role or a new broker.
    changed: Notify,
    upkeep: Mutex<Option<AbortHandle>>,
    shut_down: AtomicBool,
    consumers: Mutex<Vec<Weak<dyn Part>>>,
    producers: Mutex<Vec<Weak<ProducerCore>>>,
    /// Tasks of consumers that were shut down, until their last polls are over.
    leaving: Mutex<Vec<JoinSet<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let upkeep = self.upkeep.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(upkeep) = upkeep.take() {
            upkeep.abort();
        }
    }
}

impl Client {
    /// Connects with the defaults: `host:port;host:port` are name servers, `grpc://host:port` is a gRPC server or proxy.
    pub async fn connect(addresses: &str) -> Result<Client, BuildError> {
        Client::builder(addresses).build().await
    }

    /// A client with settings of its own.
    pub fn builder(addresses: &str) -> ClientBuilder {
        ClientBuilder::new(addresses)
    }

    async fn start(net: Net, timeout: Duration, tracer: Tracer) -> Result<Client, CallError> {
        net.probe().await?;
        let inner = Arc::new(Inner {
            net,
            timeout,
            tracer,
            routes: Routes::default(),
            changed: Notify::new(),
            upkeep: Mutex::default(),
            shut_down: AtomicBool::new(false),
            consumers: Mutex::default(),
            producers: Mutex::default(),
            leaving: Mutex::default(),
        });
        let upkeep = tokio::spawn(keep_up(Arc::downgrade(&inner), inner.net.heartbeat_interval()));
        *inner.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = Some(upkeep.abort_handle());
        Ok(Client { inner })
    }

    /// A producer of this client.
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder::new(self)
    }

    /// A consumer that asks for messages when the application wants some.
    pub fn receiver(&self, group: impl Into<String>) -> ReceiverBuilder {
        ReceiverBuilder::new(self, group.into())
    }

    /// A consumer that runs a handler for every message.
    pub fn worker(&self, group: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder::new(self, group.into())
    }

    /// A reader of single queues, whose progress is the group's.
    pub fn queue_reader(&self, group: impl Into<String>) -> QueueReaderBuilder {
        QueueReaderBuilder::new(self, group.into())
    }

    /// A consumer that gets every message. The instance's name must stay the same over restarts, and differ from those of others.
    pub fn broadcast(&self, name: impl Into<String>, instance: impl Into<String>) -> BroadcastBuilder {
        BroadcastBuilder::new(self, name.into(), instance.into())
    }

    /// The queues of a topic that can be read from.
    pub async fn queues(&self, topic: &str) -> Result<Vec<Queue>, RouteError> {
        let route = self.route(topic).await?;
        Ok(route.readable.iter().map(|place| place.queue.clone()).collect())
    }

    /// Shuts down every producer and consumer of this client, each as its own `shutdown` does it, within one time.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        let deadline = Instant::now() + within;
        self.inner.shut_down.store(true, Ordering::Release);
        let mut report = ShutdownReport::default();
        for consumer in living(&self.inner.consumers) {
            report += consumer.shut_down(deadline).await;
        }
        for producer in living(&self.inner.producers) {
            report += producer.shutdown(deadline).await;
        }
        report
    }

    pub(crate) fn net(&self) -> &Net {
        &self.inner.net
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    pub(crate) fn tracer(&self) -> &Tracer {
        &self.inner.tracer
    }

    pub(crate) async fn session(&self, role: Role) -> Result<Session, BuildError> {
        if self.inner.shut_down.load(Ordering::Acquire) {
            return Err(BuildError::ShutDown);
        }
        let session = self.inner.net.session(role).await?;
        self.inner.changed.notify_one();
        Ok(session)
    }

    pub(crate) fn adopt_consumer<P: Part + 'static>(&self, consumer: &Arc<P>) {
        let consumer: Arc<dyn Part> = consumer.clone();
        adopt(&self.inner.consumers, &consumer);
    }

    pub(crate) fn adopt_tasks(&self, tasks: JoinSet<()>) {
        let mut leaving = self.inner.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain_mut(|tasks| {
            while tasks.try_join_next().is_some() {}
            !tasks.is_empty()
        });
        leaving.push(tasks);
    }

    pub(crate) fn adopt_producer(&self, producer: &Arc<ProducerCore>) {
        adopt(&self.inner.producers, producer);
    }

    pub(crate) async fn route(&self, topic: &str) -> Result<Arc<Route>, RouteError> {
        let (route, new) = self.inner.routes.get(&self.inner.net, topic).await?;
        if new {
            self.inner.changed.notify_one();
        }
        Ok(route)
    }

    /// The route if it is known: the usual case, in which nothing waits.
    pub(crate) fn known_route(&self, topic: &str) -> Option<Arc<Route>> {
        self.inner.routes.known(topic)
    }

    /// Asks for a route that has proved wrong.
    pub(crate) async fn refresh_route(&self, topic: &str) -> Result<Arc<Route>, RouteError> {
        self.inner.routes.ask(&self.inner.net, topic).await
    }

    pub(crate) fn forget_route(&self, topic: &str) {
        self.inner.routes.forget(topic);
    }

    pub(crate) fn addresses(&self) -> Vec<Arc<str>> {
        self.inner.routes.addresses()
    }
}

fn adopt<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>, one: &Arc<T>) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(one));
}

fn living<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(Weak::upgrade).collect()
}

/// Refreshes routes and sends heartbeats, until the client is gone.
async fn keep_up(client: Weak<Inner>, heartbeat: Duration) {
    let mut refreshed = Instant::now();
    loop {
        let Some(inner) = client.upgrade() else { return };
        if refreshed.elapsed() >= REFRESH {
            for topic in inner.routes.topics() {
                if let Err(error) = inner.routes.ask(&inner.net, &topic).await {
                    tracing::debug!(%error, "a route was not refreshed");
                }
            }
            refreshed = Instant::now();
        }
        inner.net.heartbeat(&inner.routes.addresses()).await;
        // A role or broker that comes now is told at once; several at a time are told together.
        drop(tokio::time::timeout(heartbeat, inner.changed.notified()).await);
        drop(inner);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
