//! The Remoting front end: the name service and the broker as RocketMQ's 4.x clients and `mqadmin` know them.
//!
//! A request is read in [`connection`], finds its handler in [`dispatch`] and is answered by a module named for what it is
//! about. It translates, and holds no delivery state; what it does hold is who is connected ([`members`]) and which queues
//! ordered consumers have locked.

mod admin;
mod appetite;
mod assignment;
mod client;
mod connection;
mod convert;
mod dispatch;
mod elsewhere;
mod ensure;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod locks;
mod members;
mod names;
mod offsets;
mod outbox;
mod peer;
mod polling;
mod pop;
mod property;
mod pull;
mod query;
mod recall;
mod records;
mod refusal;
mod reply;
mod request;
mod retry;
mod send;
mod text;
mod transactions;
mod unreadable;
mod view;

use std::{
    future::Future,
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
use tokio_rustls::TlsAcceptor;

use crate::{
    Resources,
    handover::Returns,
    listen::{self, Activity, Port, PortLimits},
    shard::{Clock, ShardHandle, SystemClock, Unavailable},
    stream::Stream,
    tls::{self, CertificateFiles, TlsError},
};
use admin::{Resets, Settings};
use locks::Locks;
use members::Members;
use names::Names;
use peer::Peer;

pub(crate) use connection::is_poll;
pub use elsewhere::{
    Asked, Elsewhere, OtherClient, OtherMessage, OtherSubscription, Role, Takes, Unanswered,
};
pub use view::View;

/// The pattern for topics that are made when they are first sent to.
const AUTO_CREATE_TOPIC: &str = "TBW102";
pub(crate) const AUTO_CREATE_QUEUES: u32 = 8;
/// Connections of the name service and of the broker.
const PORT_LIMITS: PortLimits = PortLimits { connections_max: 10_000, silent_max: 2048 };
/// Clients connect to the name service before they use it.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(120);
/// How often held polls are ended while connections finish.
const END_POLLS_INTERVAL: Duration = Duration::from_millis(100);
/// How often members and other brokers are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
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
    /// Address that routes carry instead of the one the client dialled; of its port only gRPC makes use.
    pub advertise: Option<String>,
    /// The operator's certificate; without it the self-signed one in the data directory.
    pub certificate: Option<CertificateFiles>,
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
    /// What it shares with the other ports.
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
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot read the name service's values: {0}")]
    Names(IoError),
    #[error("cannot read the settings: {0}")]
    Settings(#[from] Unavailable),
}

/// What every connection needs.
#[derive(Debug)]
struct Context {
    shard: ShardHandle,
    /// Deliveries that did not reach a client.
    returns: Returns,
    config: Config,
    /// The ports as they were bound.
    port: u16,
    names_at: u16,
    started: Timestamp,
    settings: Settings,
    resets: Resets,
    /// Who knows the clients of the other protocol; nobody, when it is not spoken.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
    members: Members,
    locks: Locks,
    names: Names,
    names_port: Port,
    broker_port: Port,
}

impl Context {
    /// The broker's address for a client that dialled `local`, whatever the port. Messages carry it, so it is a number.
    fn broker_address(&self, local: SocketAddr) -> SocketAddr {
        let advertised = self.config.advertised_host();
        let advertised = advertised.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
        SocketAddr::new(advertised.unwrap_or_else(|| local.ip().to_canonical()), self.port)
    }

    fn others(&self) -> Vec<OtherClient> {
        self.elsewhere.get().map(|elsewhere| elsewhere.clients()).unwrap_or_default()
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
    tls: Tls,
    context: Arc<Context>,
}

struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Remoting {
    /// Listens; the certificate and the name service's values are kept in `data_dir`.
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
        let tls = Tls(tls::acceptor(config.certificate.as_ref(), data_dir)?);
        let context = Context {
            returns: Returns::new(shard.clone()),
            shard,
            port: at.port(),
            names_at: names.local_addr().map_or(config.namesrv.port(), |at| at.port()),
            started: SystemClock.now(),
            settings: Settings::new(&config),
            resets: Resets::default(),
            elsewhere: OnceLock::new(),
            members: Members::default(),
            locks: Locks::default(),
            names: Names::open(data_dir).map_err(StartError::Names)?,
            names_port: config.resources.connections.port("name service", PORT_LIMITS),
            broker_port: config.resources.connections.port("broker", PORT_LIMITS),
            config,
        };
        let context = Arc::new(context);
        Context::restore_settings(&context).await?;
        Ok(Remoting { names, broker, vip, tls, context })
    }

    /// Where the name service and the broker listen.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.names.local_addr()?, self.broker.local_addr()?))
    }

    /// For those who look at the front end while it works.
    pub fn view(&self) -> View {
        View::new(self.context.clone())
    }

    /// Lets operators see and ask the clients of the other protocol too. The first call counts.
    pub fn look_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _ = self.context.elsewhere.set(elsewhere);
    }

    /// Asks the producers of this protocol what became of their transactions, and hands the other questions on.
    pub fn route_checks(
        &self,
        mut checks: mpsc::Receiver<TransactionCheck>,
        others: mpsc::Sender<TransactionCheck>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let context = self.context.clone();
        async move {
            while let Some(check) = checks.recv().await {
                // When the other protocol is slow to take them, checks wait here and then in the shard, where one that is not
                // handed over does not count.
                if !context.check_transaction(check).await && others.send(check).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Serves until `stopped` says so, and then until what is under way has been answered, for a few seconds at most.
    pub async fn serve(self, mut stopped: watch::Receiver<bool>) {
        let Remoting { names, broker, vip, tls: Tls(tls), context } = self;
        let (names_port, broker_port) = (&context.names_port, &context.broker_port);
        let listeners =
            [Some((names, names_port)), Some((broker, broker_port)), vip.map(|vip| (vip, broker_port))];
        let accepting: Vec<_> = listeners
            .into_iter()
            .flatten()
            .map(|(listener, port)| {
                let (tls, context, port) = (tls.clone(), context.clone(), port.clone());
                tokio::spawn(accept(listener, tls, context, port, stopped.clone()))
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
                // It ends with `stopped`, or has panicked and said so.
                drop(task.await);
            }
        });
        // A poll that begins while its connection learns of the stop would be held.
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
        self.locks.expire(now);
        self.names.expire(now);
        self.resets.expire(now);
        self.shard.counters().statistics().sample(SystemClock.now());
    }
}

/// Serves the connections of a listener until `stopped`.
async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    context: Arc<Context>,
    port: Port,
    stopped: watch::Receiver<bool>,
) {
    let until = |mut stopped: watch::Receiver<bool>| async move {
        // The sender is gone only when the broker is.
        drop(stopped.wait_for(|stopped| *stopped).await);
    };
    let mut open = listen::accept(listener, &port, until(stopped.clone()), move |stream, activity| {
        let (tls, context, stopped) = (tls.clone(), context.clone(), stopped.clone());
        async move {
            if let Err(error) = serve(stream, tls, context, activity, stopped).await {
                tracing::debug!(%error, "a Remoting connection ended");
            }
        }
    })
    .await;
    while open.join_next().await.is_some() {}
}

async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    context: Arc<Context>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let stream = tokio::select! {
        opened = tokio::time::timeout(FIRST_BYTE_MAX, Stream::open(stream, tls)) => opened??,
        // The sender is gone only when the broker is.
        _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
    };
    connection::serve(stream, context, activity, stopped).await
}

async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { what, address, source })
}

/// Only clients older than 4.5.1 use it: without it, the others work.
async fn vip(broker: SocketAddr) -> Option<TcpListener> {
    let address = SocketAddr::new(broker.ip(), broker.port().checked_sub(VIP_DISTANCE)?);
    match TcpListener::bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(%address, %error, "no VIP channel for clients older than 4.5.1");
            None
        }
    }
}
