//! `redstart serve` as a member of a cluster: a replica of the shard, links to the other nodes, and front ends while this node leads.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use redstart_commands::blocking::block_on;
use redstart_engine::TransactionCheck;
use redstart_server::{
    Resources,
    http::ClusterPage,
    listen::{FileLimits, Listener},
    peers::{self, Dialler, Face, Identity, Peers, Secret, Sinks, handshake::RelayedPort},
    relay::{self, Gate},
    remoting::Followers,
    shard::{ReplicaInputs, Replication, Shard, SharedView, Standing},
};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    administrator,
    config::{Config, FlushMode, SECRETS_KEY_VARIABLE},
    front_ends::{Doors, FrontEnds, Setting},
    node::{CHECKS_MAX, Plan},
    pages::Pages,
    secrets,
    serve::{Signals, WATCH_INTERVAL, audit_log},
    startup,
    transport::Transports,
};

/// Clients that peers relay and that wait to be taken.
const RELAYED_MAX: usize = 1024;
/// For another node to begin to lead when this one stops.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(3);
/// What old clients call the VIP channel is at the broker's port less this.
const VIP_DISTANCE: u16 = 2;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Pause before front ends that could not start are started again.
const START_PAUSE: Duration = Duration::from_millis(100);

/// The settings that make a node a member of a cluster.
pub struct Membership {
    node: u32,
    /// All nodes, this one too.
    nodes: BTreeMap<u32, String>,
    secret: Secret,
}

impl Membership {
    /// `None` for a node that is alone.
    pub fn of(config: &Config) -> anyhow::Result<Option<Membership>> {
        let ways = startup::ways;
        let (node, nodes) = match (config.node_id, &config.peers) {
            (None, None) => return Ok(None),
            (Some(node), Some(peers)) => (node, peers.0.clone()),
            _ => bail!("a node of a cluster needs both {} and {}", ways("node_id"), ways("peers")),
        };
        if !nodes.contains_key(&node) {
            bail!("node {node} is not among the nodes of {}: list all of them, this one too", ways("peers"));
        }
        let Some(file) = &config.cluster_secret_file else {
            bail!(
                "the nodes of a cluster prove to each other that they know its secret: set {}",
                ways("cluster_secret_file")
            );
        };
        let secret = Secret::read(file).with_context(|| file.display().to_string())?;
        if config.shards != 1 {
            bail!("a cluster has one shard for now: set {} to 1", ways("shards"));
        }
        if config.flush == FlushMode::Async {
            bail!("a cluster acknowledges what a majority has made durable: set {} to sync", ways("flush"));
        }
        let has_key = config.secrets_key_file.is_some() || std::env::var_os(SECRETS_KEY_VARIABLE).is_some();
        if config.auth && !has_key {
            bail!(
                "all nodes of a cluster seal the secrets of users with the same key: set {}",
                ways("secrets_key_file")
            );
        }
        Ok(Some(Membership { node, nodes, secret }))
    }

    fn own_address(&self) -> &str {
        self.nodes.get(&self.node).map(String::as_str).unwrap_or_default()
    }

    fn own_host(&self) -> &str {
        self.own_address().rsplit_once(':').map_or(self.own_address(), |(host, _)| host)
    }
}

/// A member of a cluster, before it runs.
pub struct Member<'a> {
    pub config: &'a Config,
    pub resources: &'a Resources,
    pub files: FileLimits,
    pub membership: Membership,
    pub started: Instant,
}

/// Why a session ended.
enum Ended {
    Stopped,
    /// The node was too far behind, and has what it needs to begin anew.
    StartAgain,
}

/// The listening sockets of a node.
struct Sockets {
    peers: TcpListener,
    /// Reserved, and not listening before the replica is open: clients that would have to wait go elsewhere.
    clients: Vec<(RelayedPort, TcpSocket)>,
    grpc: SocketAddr,
    names: SocketAddr,
    broker: SocketAddr,
}

impl Member<'_> {
    pub fn run(
        self,
        runtime: &tokio::runtime::Runtime,
        transports: Transports,
        has_transports: bool,
        pages: Pages,
    ) -> anyhow::Result<ExitCode> {
        let audit = audit_log(self.config)?;
        self.resources.access.install_audit(audit.clone());
        let transports = if has_transports { transports } else { Transports::open(self.config)? };
        let ended = block_on(runtime, self.serve(&transports, &pages));
        if ended.is_ok() {
            block_on(runtime, pages.close());
        }
        audit.close();
        ended?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(&self, transports: &Transports, pages: &Pages) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        let reloads = transports.watch()?;
        while let Ended::StartAgain = self.session(transports, pages, &mut signals).await? {
            tracing::info!("starting again from what the leader sent");
        }
        reloads.abort();
        Ok(())
    }

    fn bind(&self) -> anyhow::Result<Sockets> {
        let config = self.config;
        let peer_port =
            self.membership.own_address().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let peer_port = peer_port.context("this node has no port for its links")?;
        let bind = |port: u16| {
            let at = SocketAddr::new(config.listen, port);
            reserve(at).map_err(|error| startup::port(at, &error, config))
        };
        let (grpc, names, broker) =
            (bind(config.grpc_port)?, bind(config.namesrv_port)?, bind(config.broker_port)?);
        let (grpc_at, names_at, broker_at) = (grpc.local_addr()?, names.local_addr()?, broker.local_addr()?);
        // Only clients older than 4.5.1 use it: without it, the others work.
        let vip = broker_at.port().checked_sub(VIP_DISTANCE).and_then(|port| bind(port).ok());
        let mut clients =
            vec![(RelayedPort::Grpc, grpc), (RelayedPort::NameService, names), (RelayedPort::Broker, broker)];
        clients.extend(vip.map(|vip| (RelayedPort::Broker, vip)));
        Ok(Sockets {
            peers: bind(peer_port)?.listen(BACKLOG)?,
            clients,
            grpc: grpc_at,
            names: names_at,
            broker: broker_at,
        })
    }

    /// Takes part from the opening of the log until it is closed.
    async fn session(
        &self,
        transports: &Transports,
        pages: &Pages,
        signals: &mut Signals,
    ) -> anyhow::Result<Ended> {
        let Member { config, membership, .. } = self;
        let (sink, checks) = mpsc::channel(CHECKS_MAX);
        let plan = Plan::new(config, self.files, 0, sink)?;
        secrets::check_data_dir(&config.data_dir);
        let (identity, known) = Identity::open(&config.data_dir, &config.cluster_name, membership.node)?;
        let sockets = self.bind()?;
        let member = identity.member;
        let (inputs, incoming) = ReplicaInputs::new();
        let (relayed_in, relayed) = mpsc::channel(RELAYED_MAX);
        let others = membership.nodes.iter().filter(|(node, _)| **node != membership.node);
        let link_config = peers::Config {
            identity,
            secret: membership.secret.clone(),
            peers: others.map(|(node, address)| (*node, address.clone())).collect(),
            face: Face {
                host: config.advertise.clone().unwrap_or_default(),
                broker_port: sockets.broker.port(),
            },
        };
        let sinks = Sinks { replica: inputs.clone(), relayed: relayed_in };
        let links = Arc::new(Peers::start(sockets.peers, link_config, known, sinks));
        let (standing_tx, standing) = watch::channel(Standing::default());
        let view = SharedView::default();
        let sender = links.sender();
        let replication = Replication {
            member,
            founders: membership.nodes.keys().copied().collect(),
            seed: seed(membership.node),
            inputs: incoming,
            send: Box::new(move |message| sender.send(message)),
            standing: standing_tx,
            view: view.clone(),
        };
        let Plan { dir, storage, log, engine, shard } = plan;
        let opened = Shard::open_replicated(Arc::new(storage), log, engine, shard, replication);
        let (shard, recovery) = opened.map_err(|error| startup::shard(&error, &dir))?;
        tracing::info!(
            node = membership.node,
            segments = recovery.segments,
            frames = recovery.last.0,
            "replica open"
        );
        let (front_ends_tx, front_ends_rx) = watch::channel(None);
        let gate = Gate::new(membership.node, standing.clone(), front_ends_rx, links.dialler(), self.files);
        let mut gates = JoinSet::new();
        for (port, socket) in sockets.clients {
            gates.spawn(gate.listen(socket.listen(BACKLOG)?, port));
        }
        let mut for_peers = JoinSet::new();
        for_peers.spawn(gate.take_relayed(relayed));
        pages.following([shard.handle()]);
        let (transfers, mut wanted) = mpsc::channel(1);
        pages.cluster().attach(ClusterPage {
            links: links.clone(),
            view,
            counts: gate.counts.clone(),
            transfers,
        });
        let (http, millis) = (pages.address(), self.started.elapsed().as_millis() as u64);
        tracing::info!(node = membership.node, grpc = %sockets.grpc, namesrv = %sockets.names, broker = %sockets.broker, %http, millis, "ready");
        println!("redstart {} is ready as node {}", env!("CARGO_PKG_VERSION"), membership.node);
        let mut lead = Leading {
            member: self,
            setting: Setting {
                config,
                resources: self.resources,
                transports,
                http: pages.connections(),
                followers: followers(links.dialler()),
                remoting_host: Some(membership.own_host().to_owned()),
            },
            pages,
            shard: &shard,
            checks: Arc::new(tokio::sync::Mutex::new(checks)),
            ports: [sockets.grpc, sockets.names, sockets.broker],
            doors: front_ends_tx,
            running: None,
        };
        let mut news = standing.clone();
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        let why = loop {
            let now = *news.borrow_and_update();
            if let Err(error) = lead.follow(now).await {
                tracing::warn!(%error, "the front ends cannot start; trying again");
                tokio::time::sleep(START_PAUSE).await;
                continue;
            }
            tokio::select! {
                _ = news.changed() => {}
                signal = signals.next() => break signal,
                Some((to, answer)) = wanted.recv() => {
                    let moved = lead.hand_over(&inputs, &standing, to).await;
                    // Nobody may wait for the answer any more.
                    let _ = answer.send(moved);
                }
                _ = watch.tick() => if shard.has_failed() {
                    break "the shard failed";
                },
            }
        };
        tracing::info!(why, uptime_seconds = self.started.elapsed().as_secs(), "stopping");
        let again = shard.wants_restart();
        if !again {
            pages.stopping();
        }
        // New clients go elsewhere; those that are relayed stay until the end.
        if lead.running.is_some()
            && !shard.has_failed()
            && let Err(error) = lead.hand_over(&inputs, &standing, None).await
        {
            tracing::warn!(error, "no other node has taken over");
        }
        drop(gates);
        lead.end();
        drop(lead);
        drop(for_peers);
        let stopping = Instant::now();
        let stopped = tokio::task::spawn_blocking(move || shard.stop()).await?;
        pages.cluster().detach();
        drop(links);
        match stopped {
            _ if again => Ok(Ended::StartAgain),
            Ok(()) => {
                tracing::info!(millis = stopping.elapsed().as_millis() as u64, "stopped");
                Ok(Ended::Stopped)
            }
            Err(error) => Err(error).context("the shard failed; restart the broker to recover"),
        }
    }
}

/// What this node does while it leads.
struct Leading<'a> {
    member: &'a Member<'a>,
    setting: Setting<'a>,
    pages: &'a Pages,
    shard: &'a Shard,
    /// The transactions whose producers are to be asked.
    checks: Arc<tokio::sync::Mutex<mpsc::Receiver<TransactionCheck>>>,
    /// Where the gate listens for gRPC, the name service and the broker.
    ports: [SocketAddr; 3],
    doors: watch::Sender<Option<Arc<relay::FrontEnds>>>,
    running: Option<Running>,
}

/// The front ends of one term.
struct Running {
    term: u64,
    front_ends: FrontEnds,
    _checks: JoinSet<()>,
}

impl Leading<'_> {
    /// Has front ends exactly while this node serves.
    async fn follow(&mut self, standing: Standing) -> anyhow::Result<()> {
        if self.running.as_ref().is_some_and(|running| Some(running.term) != standing.serves) {
            self.end();
        }
        match standing.serves {
            Some(term) if self.running.is_none() => self.begin(term).await,
            _ => Ok(()),
        }
    }

    async fn begin(&mut self, term: u64) -> anyhow::Result<()> {
        let began = Instant::now();
        let (config, resources) = (self.member.config, self.member.resources);
        let handle = self.shard.handle();
        secrets::unlock(config, &resources.access, &handle).await?;
        if config.auth {
            administrator::ensure(config, &resources.access, &handle).await?;
        }
        let ((grpc_tx, grpc), (names_tx, names), (broker_tx, broker)) = (
            Listener::handed(self.ports[0]),
            Listener::handed(self.ports[1]),
            Listener::handed(self.ports[2]),
        );
        // The receiver of checks outlives the terms in which this node leads.
        let (checks_tx, checks_rx) = mpsc::channel(CHECKS_MAX);
        let mut checks = JoinSet::new();
        checks.spawn(pass_on(self.checks.clone(), checks_tx));
        let doors = Doors::Handed { grpc, names, broker };
        let (front_ends, for_pages) =
            FrontEnds::start(&self.setting, vec![handle], vec![checks_rx], doors).await?;
        self.pages.serving(for_pages.sources, for_pages.queues);
        let doors = [
            (RelayedPort::Grpc, grpc_tx),
            (RelayedPort::NameService, names_tx),
            (RelayedPort::Broker, broker_tx),
        ];
        self.doors.send_replace(Some(Arc::new(doors.into_iter().collect())));
        self.running = Some(Running { term, front_ends, _checks: checks });
        tracing::info!(term, millis = began.elapsed().as_millis() as u64, "serving clients");
        Ok(())
    }

    /// Closes the connections of clients at once: they dial again, and are relayed to the node that leads.
    fn end(&mut self) {
        self.doors.send_replace(None);
        if self.running.take().is_some() {
            self.pages.following([self.shard.handle()]);
        }
    }

    /// The front ends answer the requests that they have, then another node is told to lead. Until it does, the gate holds the
    /// connections of clients.
    async fn hand_over(
        &mut self,
        inputs: &ReplicaInputs,
        standing: &watch::Receiver<Standing>,
        to: Option<u32>,
    ) -> Result<u32, String> {
        self.doors.send_replace(None);
        let Some(running) = self.running.take() else { return Err("this node does not lead".to_owned()) };
        running.front_ends.stop().await;
        self.pages.following([self.shard.handle()]);
        let target = inputs.transfer(to).await.map_err(|refused| refused.to_string())?;
        let mut standing = standing.clone();
        let moved = standing.wait_for(|now| now.serves.is_none() && now.leader.is_some());
        match tokio::time::timeout(TRANSFER_TIME_MAX, moved).await {
            Ok(_) => Ok(target),
            Err(_) => {
                Err(format!("node {target} did not begin to lead within {} s", TRANSFER_TIME_MAX.as_secs()))
            }
        }
    }
}

/// Passes checks on to the front ends of one term.
async fn pass_on(
    checks: Arc<tokio::sync::Mutex<mpsc::Receiver<TransactionCheck>>>,
    to: mpsc::Sender<TransactionCheck>,
) {
    let mut checks = checks.lock().await;
    while let Some(check) = checks.recv().await {
        if to.send(check).await.is_err() {
            return;
        }
    }
}

/// The brokers of the nodes that this one leads.
fn followers(dialler: Dialler) -> Followers {
    Followers::new(move || {
        let faces = dialler.faces().into_values();
        faces.map(|face| format!("{}:{}", face.host, face.broker_port)).collect()
    })
}

fn reserve(at: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a process before this one may still be ending.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    Ok(socket)
}

/// Election times of nodes that start together are to differ.
fn seed(node: u32) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(node) << 48 ^ u64::from(std::process::id()) << 32
}
