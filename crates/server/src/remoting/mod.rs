//! The Remoting front end: the name service and the broker as RocketMQ's 4.x clients and `mqadmin` know them.
//!
//! A request is read in [`connection`], admitted in [`admission`], and [`dispatch`] finds its handler, in a module named for
//! its subject. The front end translates between the protocol and the shard and has no delivery state. It knows the connected
//! clients ([`members`]) and the queue locks of orderly consumers ([`queue_locks`]).

mod admin;
mod admission;
mod assignment;
mod audit;
mod auto_create;
mod connection;
mod convert;
mod delay_levels;
mod dispatch;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod heartbeat;
mod members;
mod monitor;
mod name_service;
mod offsets;
mod other_protocol;
mod outbox;
mod peer;
mod peer_text;
mod polling;
mod pop;
mod property;
mod pull;
mod query;
mod queue_locks;
mod read_buffer;
mod recall;
mod records;
mod refusal;
mod reply;
mod request;
mod rights;
mod send;
mod send_back;
mod transactions;
mod unreadable_body;
mod version;

use std::{
    io::Error as IoError,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use redstart_engine::{Timestamp, TransactionCheck};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};

use crate::{
    Resources, Serving,
    handover::GiveBackQueue,
    listen::{self, Activity, Port, PortLimits},
    shard::{Clock, ShardHandle, SystemClock, Unavailable},
    tls::Protocol,
    transport::Transport,
};
use admin::{Resets, Settings};
use members::Members;
use name_service::NameService;
use peer::Peer;
use queue_locks::QueueLocks;

pub use delay_levels::default_delay_levels;
pub use dispatch::SERVED;
pub(crate) use dispatch::{Kind, kind};
pub use monitor::Monitor;
pub use other_protocol::{
    DeliveryMode, NoReply, OtherClient, OtherMessage, OtherProtocolClients, OtherSubscription, ReplyFuture,
    Role,
};

/// The topic that clients name as the template for topics that the first message creates.
const AUTO_CREATE_TOPIC: &str = "TBW102";
pub(crate) const AUTO_CREATE_QUEUES: u32 = 8;
/// Connections of the name service and of the broker.
const PORT_LIMITS: PortLimits = PortLimits { connections_max: 10_000, silent_max: 2048 };
/// Time for the first byte: clients connect to the name service long before they use it.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(120);
/// How often waiting polls are ended while connections finish.
const END_POLLS_INTERVAL: Duration = Duration::from_millis(100);
/// How often members, locks and other brokers that have expired are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// For the advertised host's IP address to be found.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// What older clients call the VIP channel is at the broker's port less this.
const VIP_DISTANCE: u16 = 2;

/// Settings of the Remoting front end.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the cluster and of the broker in it.
    pub cluster: String,
    pub broker: String,
    /// Where the name service and the broker listen.
    pub namesrv: SocketAddr,
    pub listen: SocketAddr,
    /// Address to put into routes instead of the one the client dialled. The port is used by gRPC only.
    pub advertise: Option<String>,
    /// How connections begin, on both ports.
    pub transport: Transport,
    /// Create an unknown consumer group when it first consumes.
    pub auto_create_groups: bool,
    /// Create an unknown topic when it is first sent to.
    pub auto_create_topics: bool,
    /// Delays of the classic delay levels.
    pub delay_levels: Vec<Duration>,
    /// Let other brokers register with the name service. Their addresses go into the routes of every client.
    pub foreign_brokers: bool,
    /// Refuse messages whose type is not their topic's, as gRPC does. 4.x clients know no types.
    pub check_types: bool,
    /// Byte budget and connection limits that all ports share.
    pub resources: Resources,
}

impl Config {
    /// Where consumers send the answers to requests.
    fn reply_topic(&self) -> String {
        format!("{}_REPLY_TOPIC", self.cluster)
    }

    fn advertised_host(&self) -> Option<&str> {
        let address = self.advertise.as_deref()?;
        Some(address.rsplit_once(':').map_or(address, |(host, _)| host))
    }
}

/// The front end could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen for {what} on {address}: {source}")]
    Listen { what: &'static str, address: SocketAddr, source: IoError },
    #[error("cannot read the name service's values: {0}")]
    Names(IoError),
    #[error("cannot read the settings: {0}")]
    Settings(#[from] Unavailable),
}

/// What all connections share.
#[derive(Debug)]
struct Context {
    shard: ShardHandle,
    /// Returns deliveries that did not reach a client to their queues.
    give_back_queue: GiveBackQueue,
    config: Config,
    /// The IP address of `advertise`, which may be a host name.
    advertised_ip: Option<IpAddr>,
    /// The ports as they were bound.
    port: u16,
    names_at: u16,
    started: Timestamp,
    settings: Settings,
    resets: Resets,
    /// The gRPC front end; empty if it is not running.
    other_protocol: OnceLock<Arc<dyn OtherProtocolClients>>,
    members: Members,
    queue_locks: QueueLocks,
    name_service: NameService,
    names_port: Port,
    broker_port: Port,
}

impl Context {
    /// The broker's address in messages and offset ids, for a client that dialled `local`. It has to be an IP address.
    fn broker_address(&self, local: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.advertised_ip.unwrap_or_else(|| local.ip().to_canonical()), self.port)
    }

    fn other_clients(&self) -> Vec<OtherClient> {
        self.other_protocol.get().map(|other_protocol| other_protocol.clients()).unwrap_or_default()
    }

    fn disconnected(&self, peer: &Peer) {
        self.members.disconnected(peer);
    }
}

/// The name service and the broker, listening.
#[derive(Debug)]
pub struct Remoting {
    names: TcpListener,
    broker: TcpListener,
    vip: Option<TcpListener>,
    context: Arc<Context>,
}

impl Remoting {
    /// Listens; the name service's values are kept in `data_dir`.
    pub async fn bind(config: Config, shard: ShardHandle, data_dir: &Path) -> Result<Remoting, StartError> {
        let names = bind("the name service", config.namesrv).await?;
        let broker = bind("the broker", config.listen).await?;
        let address = config.listen;
        let at = broker.local_addr().map_err(|source| StartError::Listen {
            what: "the broker",
            address,
            source,
        })?;
        let vip = vip(at).await;
        let context = Context {
            give_back_queue: GiveBackQueue::new(shard.clone()),
            shard,
            advertised_ip: match config.advertised_host() {
                Some(host) => ip_of(host).await,
                None => None,
            },
            port: at.port(),
            names_at: names.local_addr().map_or(config.namesrv.port(), |at| at.port()),
            started: SystemClock.now(),
            settings: Settings::new(&config),
            resets: Resets::default(),
            other_protocol: OnceLock::new(),
            members: Members::default(),
            queue_locks: QueueLocks::default(),
            name_service: NameService::open(data_dir).map_err(StartError::Names)?,
            names_port: config.resources.connections.port("name service", PORT_LIMITS),
            broker_port: config.resources.connections.port("broker", PORT_LIMITS),
            config,
        };
        let context = Arc::new(context);
        Context::restore_settings(&context).await?;
        context.config.resources.access.load(&context.shard).await?;
        Ok(Remoting { names, broker, vip, context })
    }

    /// Where the name service and the broker listen.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.names.local_addr()?, self.broker.local_addr()?))
    }

    /// Counts of the running front end, for metrics.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(self.context.clone())
    }

    /// Connects the gRPC front end, so that operators see its clients too. Only the first call has an effect.
    pub fn set_other_protocol(&self, other_protocol: Arc<dyn OtherProtocolClients>) {
        let _ = self.context.other_protocol.set(other_protocol);
    }

    /// Asks 4.x producers about their open transactions, and passes the checks of other transactions on to `others`.
    pub fn route_checks(
        &self,
        mut checks: mpsc::Receiver<TransactionCheck>,
        others: mpsc::Sender<TransactionCheck>,
    ) -> Serving {
        let context = self.context.clone();
        Box::pin(async move {
            while let Some(check) = checks.recv().await {
                // If `others` is full, checks wait here and then in the shard, where a check counts only once it was taken.
                if !context.check_transaction(check).await && others.send(check).await.is_err() {
                    return;
                }
            }
        })
    }

    /// Serves until `stopped` turns true, and then until requests under way are answered, for a few seconds at most.
    pub fn serve(self, stopped: watch::Receiver<bool>) -> Serving {
        Box::pin(self.run(stopped))
    }

    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let Remoting { names, broker, vip, context } = self;
        let (names_port, broker_port) = (&context.names_port, &context.broker_port);
        let listeners =
            [Some((names, names_port)), Some((broker, broker_port)), vip.map(|vip| (vip, broker_port))];
        let accepting: Vec<_> = listeners
            .into_iter()
            .flatten()
            .map(|(listener, port)| {
                tokio::spawn(accept(listener, context.clone(), port.clone(), stopped.clone()))
            })
            .collect();
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            tokio::select! {
                now = sweep.tick() => context.sweep(now.into_std()),
                _ = stopped.changed() => break,
            }
        }
        let mut ending = std::pin::pin!(async {
            for task in accepting {
                // An error is a panic of the task, which has been logged.
                drop(task.await);
            }
        });
        // Repeated, because a poll may begin after `end_polls` and before its connection notices the stop.
        let mut polls = tokio::time::interval(END_POLLS_INTERVAL);
        loop {
            tokio::select! {
                () = &mut ending => return,
                _ = polls.tick() => context.shard.end_polls(),
            }
        }
    }
}

impl Context {
    fn sweep(&self, now: Instant) {
        self.members.expire(now);
        self.queue_locks.expire(now);
        self.name_service.expire(now);
        self.resets.expire(now);
        self.shard.counters().statistics().sample(SystemClock.now());
    }
}

/// Serves the connections of a listener until `stopped`.
async fn accept(listener: TcpListener, context: Arc<Context>, port: Port, stopped: watch::Receiver<bool>) {
    let until = |mut stopped: watch::Receiver<bool>| async move {
        // The sender outlives the connections.
        drop(stopped.wait_for(|stopped| *stopped).await);
    };
    let mut open = listen::accept(listener, &port, until(stopped.clone()), move |stream, activity| {
        let (context, stopped) = (context.clone(), stopped.clone());
        async move {
            if let Err(error) = serve(stream, context, activity, stopped).await {
                tracing::debug!(%error, "a Remoting connection ended");
            }
        }
    })
    .await;
    while open.join_next().await.is_some() {}
}

async fn serve(
    stream: TcpStream,
    context: Arc<Context>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let opening = context.config.transport.open(stream, Protocol::Remoting);
    let stream = tokio::select! {
        opened = tokio::time::timeout(FIRST_BYTE_MAX, opening) => opened??,
        // The sender outlives the connections.
        _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
    };
    connection::serve(stream, context, activity, stopped).await
}

async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { what, address, source })
}

/// The IP address of the advertised host. A name is looked up once, as RocketMQ does with `brokerIP1`; offset ids hold what was
/// found until the next start. Without an answer they hold the address that the client dialled.
async fn ip_of(host: &str) -> Option<IpAddr> {
    let host = host.trim_matches(['[', ']']);
    if let Ok(ip) = host.parse() {
        return Some(ip);
    }
    let found = match tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((host, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    // As Java does, IPv4 first.
    let ip = found.iter().find(|ip| ip.is_ipv4()).or(found.first()).copied();
    if ip.is_none() {
        tracing::warn!(
            host,
            "the advertised host has no IP address; offset ids hold the address that clients dialled"
        );
    }
    ip
}

/// Only clients older than 4.5.1 use it: without it, the others work.
async fn vip(broker: SocketAddr) -> Option<TcpListener> {
    let address = SocketAddr::new(broker.ip(), broker.port().checked_sub(VIP_DISTANCE)?);
    match TcpListener::bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(%address, %error, "cannot listen on the VIP port, which clients older than 4.5.1 use");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_advertised_host_has_the_ip_address_of_its_name() {
        let v4 = "127.0.0.1".parse().ok();
        assert_eq!(ip_of("127.0.0.1").await, v4);
        assert_eq!(ip_of("localhost").await, v4);
        assert_eq!(ip_of("[::1]").await, "::1".parse().ok());
        assert_eq!(ip_of("no-such-host.invalid").await, None);
    }
}
