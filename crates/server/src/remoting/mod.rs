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
mod followers;
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
    net::{TcpListener, TcpSocket},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    Resources, Serving,
    drain::Drained,
    grpc::ShardCheck,
    handover::GiveBackQueue,
    listen::{self, Accepted, Activity, Listener, Port, PortLimits},
    shard::{Clock, ShardHandle, SystemClock, Unavailable},
    shards::{ServedShard, ShardNumber, Shards},
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
pub use followers::Followers;
pub use monitor::Monitor;
pub use name_service::NamesError;
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
/// Between the ports of two brokers: each has a VIP port below its own.
pub const PORT_STEP: u16 = 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// What older clients call the VIP channel is at the broker's port less this.
const VIP_DISTANCE: u16 = 2;

/// Settings of the Remoting front end.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the cluster.
    pub cluster: String,
    /// Where the name service and the first broker listen. Every further broker has its port [`PORT_STEP`] above the one before.
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
    /// The nodes that follow, by which routes show them as slaves.
    pub followers: Followers,
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
    Names(#[from] NamesError),
    #[error("cannot read the settings: {0}")]
    Settings(#[from] Unavailable),
}

/// What all brokers of the process share.
#[derive(Debug)]
struct Node {
    shards: Shards,
    /// By the number of their shard.
    brokers: Box<[Broker]>,
    config: Config,
    /// The IP address of `advertise`, which may be a host name.
    advertised_ip: Option<IpAddr>,
    /// The port of the name service as it was bound.
    names_at: u16,
    started: Timestamp,
    /// The gRPC front end; empty if it is not running.
    other_protocol: OnceLock<Arc<dyn OtherProtocolClients>>,
    name_service: NameService,
    names_port: Port,
    broker_port: Port,
}

/// A shard as 4.x clients see it. Its port tells it from the others, because their requests do not name a broker.
#[derive(Debug)]
struct Broker {
    number: ShardNumber,
    name: String,
    shard: ShardHandle,
    /// Returns deliveries that did not reach a client to their queues.
    give_back_queue: GiveBackQueue,
    drained: Drained,
    /// The port as it was bound.
    port: u16,
    settings: Settings,
    resets: Resets,
    members: Members,
    queue_locks: QueueLocks,
}

impl Broker {
    fn new(shard: &ServedShard, port: u16, config: &Config) -> Broker {
        Broker {
            number: shard.number,
            name: shard.broker.clone(),
            shard: shard.handle.clone(),
            give_back_queue: shard.give_back_queue.clone(),
            drained: shard.drained.clone(),
            port,
            settings: Settings::new(config),
            resets: Resets::default(),
            members: Members::default(),
            queue_locks: QueueLocks::default(),
        }
    }
}

/// What a connection is served with: the broker of its port. The name service is served with the first.
#[derive(Debug)]
struct Context {
    node: Arc<Node>,
    number: ShardNumber,
}

impl std::ops::Deref for Context {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.node.brokers[usize::from(self.number.0)]
    }
}

impl Context {
    /// The shard as the table of all shards has it.
    fn served(&self) -> &ServedShard {
        &self.node.shards.all()[usize::from(self.number.0)]
    }

    /// The broker's address in messages and offset ids, for a client that dialled `local`. It has to be an IP address.
    fn broker_address(&self, local: SocketAddr) -> SocketAddr {
        self.node.address_of(self, local)
    }

    fn other_clients(&self) -> Vec<OtherClient> {
        self.node.other_protocol.get().map(|other_protocol| other_protocol.clients()).unwrap_or_default()
    }

    fn disconnected(&self, peer: &Peer) {
        self.members.disconnected(peer);
    }
}

impl Node {
    /// A broker's address for a client that dialled `local`.
    fn address_of(&self, broker: &Broker, local: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.advertised_ip.unwrap_or_else(|| local.ip().to_canonical()), broker.port)
    }

    fn broker_named(&self, name: &str) -> Option<&Broker> {
        self.brokers.iter().find(|broker| broker.name == name)
    }
}

/// The ports of the front end: reserved, and not listening yet. So a port that is taken is known before a shard is opened.
#[derive(Debug)]
pub struct Ports {
    names: TcpSocket,
    brokers: Vec<TcpSocket>,
}

impl Ports {
    /// Reserves the port of the name service and one for each broker.
    pub fn reserve(namesrv: SocketAddr, listen: SocketAddr, brokers: usize) -> Result<Ports, StartError> {
        let names = reserve("the name service", namesrv)?;
        let brokers = (0..brokers).map(|number| reserve("the broker", broker_at(listen, number)));
        Ok(Ports { names, brokers: brokers.collect::<Result<_, _>>()? })
    }
}

/// Where a broker listens. Without a port, the system chooses one for each.
fn broker_at(first: SocketAddr, number: usize) -> SocketAddr {
    let step = if first.port() == 0 { 0 } else { number * usize::from(PORT_STEP) };
    let port = u16::try_from(usize::from(first.port()) + step).unwrap_or(u16::MAX);
    SocketAddr::new(first.ip(), port)
}

/// The name service and the brokers, listening.
#[derive(Debug)]
pub struct Remoting {
    names: Listener,
    brokers: Vec<Listening>,
    node: Arc<Node>,
}

/// A broker's listeners.
#[derive(Debug)]
struct Listening {
    broker: Listener,
    vip: Option<Listener>,
    context: Arc<Context>,
}

impl Remoting {
    /// Listens. Values of the name service that an earlier release left in `data_dir` are taken over.
    pub async fn bind(config: Config, shards: Shards, data_dir: &Path) -> Result<Remoting, StartError> {
        let ports = Ports::reserve(config.namesrv, config.listen, shards.all().len())?;
        Remoting::listen(config, ports, shards, data_dir).await
    }

    /// The same on ports that were reserved.
    pub async fn listen(
        config: Config,
        ports: Ports,
        shards: Shards,
        data_dir: &Path,
    ) -> Result<Remoting, StartError> {
        let failed = |what, address| move |source| StartError::Listen { what, address, source };
        let of_names = failed("the name service", config.namesrv);
        let names = ports.names.listen(BACKLOG).map_err(of_names)?;
        let mut brokers = Vec::new();
        for (number, socket) in ports.brokers.into_iter().enumerate() {
            let of_broker = failed("the broker", broker_at(config.listen, number));
            let listener = socket.listen(BACKLOG).map_err(of_broker)?;
            let at = listener.local_addr().map_err(of_broker)?;
            brokers.push((listener.into(), vip(at).await.map(Listener::from)));
        }
        Remoting::start(config, names.into(), brokers, shards, data_dir).await
    }

    /// The same for connections that come from elsewhere: those of the name service, and for each broker its own and those of its
    /// VIP port.
    pub async fn start(
        config: Config,
        names: Listener,
        listeners: Vec<(Listener, Option<Listener>)>,
        shards: Shards,
        data_dir: &Path,
    ) -> Result<Remoting, StartError> {
        let mut brokers = Vec::new();
        for (shard, (listener, _)) in shards.all().iter().zip(&listeners) {
            let address = broker_at(config.listen, shard.number.0.into());
            let failed = |source| StartError::Listen { what: "the broker", address, source };
            brokers.push(Broker::new(shard, listener.local_addr().map_err(failed)?.port(), &config));
        }
        let node = Node {
            brokers: brokers.into(),
            advertised_ip: match config.advertised_host() {
                Some(host) => ip_of(host).await,
                None => None,
            },
            names_at: names.local_addr().map_or(config.namesrv.port(), |at| at.port()),
            started: SystemClock.now(),
            other_protocol: OnceLock::new(),
            name_service: NameService::open(&shards.first().handle, data_dir).await?,
            names_port: config.resources.connections.port("name service", PORT_LIMITS),
            broker_port: config.resources.connections.port("broker", PORT_LIMITS),
            config,
            shards,
        };
        let node = Arc::new(node);
        for shard in node.shards.all() {
            let context = Arc::new(Context { node: node.clone(), number: shard.number });
            context.restore_settings().await?;
        }
        node.config.resources.access.load(&node.shards.first().handle).await?;
        let brokers = (0..).zip(listeners).map(|(number, (broker, vip))| Listening {
            broker,
            vip,
            context: Arc::new(Context { node: node.clone(), number: ShardNumber(number) }),
        });
        Ok(Remoting { names, brokers: brokers.collect(), node })
    }

    /// Where the name service and the first broker listen.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.names.local_addr()?, self.brokers[0].broker.local_addr()?))
    }

    /// Where the brokers listen, by the number of their shard.
    pub fn broker_addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.brokers.iter().map(|listening| listening.broker.local_addr()).collect()
    }

    /// Counts of the running front end, for metrics.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(self.node.clone())
    }

    /// Connects the gRPC front end, so that operators see its clients too. Only the first call has an effect.
    pub fn set_other_protocol(&self, other_protocol: Arc<dyn OtherProtocolClients>) {
        let _ = self.node.other_protocol.set(other_protocol);
    }

    /// Asks 4.x producers about the open transactions of a shard, and passes the checks of other transactions on to `others`.
    pub fn route_checks(
        &self,
        shard: ShardNumber,
        mut checks: mpsc::Receiver<TransactionCheck>,
        others: mpsc::Sender<ShardCheck>,
    ) -> Serving {
        let context = Context { node: self.node.clone(), number: shard };
        Box::pin(async move {
            while let Some(check) = checks.recv().await {
                // If `others` is full, checks wait here and then in the shard, where a check counts only once it was taken.
                if !context.check_transaction(check).await
                    && others.send(ShardCheck { shard, check }).await.is_err()
                {
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
        let Remoting { names, brokers, node } = self;
        let of_names = Arc::new(Context { node: node.clone(), number: ShardNumber::FIRST });
        // They end with this future, also when that is dropped.
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(names, of_names, node.names_port.clone(), stopped.clone()));
        for Listening { broker, vip, context } in brokers {
            let listeners = std::iter::once(broker).chain(vip);
            for listener in listeners {
                accepting.spawn(accept(listener, context.clone(), node.broker_port.clone(), stopped.clone()));
            }
        }
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            tokio::select! {
                now = sweep.tick() => node.sweep(now.into_std()),
                _ = stopped.changed() => break,
            }
        }
        let mut ending = std::pin::pin!(async {
            // An error is a panic of the task, which has been logged.
            while accepting.join_next().await.is_some() {}
        });
        // Repeated, because a poll may begin after `end_polls` and before its connection notices the stop.
        let mut polls = tokio::time::interval(END_POLLS_INTERVAL);
        loop {
            tokio::select! {
                () = &mut ending => return,
                _ = polls.tick() => node.shards.end_polls(),
            }
        }
    }
}

impl Node {
    fn sweep(&self, now: Instant) {
        self.name_service.expire(now);
        for broker in &self.brokers {
            broker.members.expire(now);
            broker.queue_locks.expire(now);
            broker.resets.expire(now);
            broker.shard.counters().statistics().sample(SystemClock.now());
        }
    }
}

/// Serves the connections of a listener until `stopped`.
async fn accept(listener: Listener, context: Arc<Context>, port: Port, stopped: watch::Receiver<bool>) {
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
    stream: Accepted,
    context: Arc<Context>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let opening = context.node.config.transport.open(stream, Protocol::Remoting);
    let stream = tokio::select! {
        opened = tokio::time::timeout(FIRST_BYTE_MAX, opening) => opened??,
        // The sender outlives the connections.
        _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
    };
    connection::serve(stream, context, activity, stopped).await
}

fn reserve(what: &'static str, address: SocketAddr) -> Result<TcpSocket, StartError> {
    let reserve = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of a process before this one may still be ending. Where the system chooses the port, it could choose the
        // same one twice with this option, since nothing listens yet.
        socket.set_reuseaddr(address.port() != 0)?;
        socket.bind(address)?;
        Ok(socket)
    };
    reserve().map_err(|source| StartError::Listen { what, address, source })
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

    #[tokio::test]
    async fn ports_that_the_system_chooses_are_different() {
        // With so many, two would be the same almost surely if one could be chosen twice.
        const MANY: usize = 500;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let ports = Ports::reserve(any, any, MANY).unwrap();
        let at = ports.brokers.iter().map(|socket| socket.local_addr().unwrap().port());
        assert_eq!(at.collect::<std::collections::BTreeSet<u16>>().len(), MANY);
    }
}
