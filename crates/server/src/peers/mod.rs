//! Links between the nodes of a cluster: a full mesh over TCP, with one port on each node.
//!
//! A node dials every other one and sends on the connections that it has dialled; it reads on those that it has accepted. Both ends
//! prove that they know the secret of the cluster before anything else is read ([`handshake`]). A connection then carries either
//! messages of replicas as bounded frames ([`frame`]), or the bytes of one client that the dialling node relays ([`crate::relay`]).
//!
//! | part | what it does |
//! |---|---|
//! | [`identity`] | who this node is, and which data directories its peers have |
//! | [`handshake`] | the proof of the secret, and what is refused |
//! | [`frame`] | the length-bounded frames of a link |
//! | [`outgoing`] | dials a peer again and again, and sends what there is |
//! | [`incoming`] | accepts peers, and hands on what they send |

pub mod frame;
pub mod handshake;
pub mod identity;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use redstart_raft::{Member, Message, message};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use crate::shard::ReplicaInputs;
pub use handshake::{Secret, SecretError};
pub use identity::{Identity, IdentityError, KnownPeers};
use outgoing::Outgoing;

/// Where the other nodes are, and what this node says of itself.
#[derive(Debug, Clone)]
pub struct Config {
    pub identity: Identity,
    pub secret: Secret,
    /// The peer ports of the other nodes by their numbers, as `host:port`.
    pub peers: BTreeMap<u32, String>,
    /// Where clients reach this node.
    pub face: Face,
}

/// Where clients reach a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Face {
    /// The host that its operator advertises; empty for the one that peers dial.
    pub host: String,
    pub broker_port: u16,
}

/// A connection on which a peer relays a client.
#[derive(Debug)]
pub struct Relayed {
    pub stream: TcpStream,
    pub open: handshake::RelayOpen,
}

/// What the links hand on: messages for the replica, and connections of clients that peers relay.
#[derive(Debug, Clone)]
pub struct Sinks {
    pub replica: ReplicaInputs,
    pub relayed: mpsc::Sender<Relayed>,
}

/// A peer, as metrics and commands show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    pub node: u32,
    pub address: String,
    /// This node has a connection to it.
    pub connected: bool,
    /// Why it has none.
    pub trouble: Option<String>,
    /// Messages that were not sent because the link was down or full.
    pub dropped: u64,
    pub sent_bytes: u64,
}

/// The running links. Dropping this closes them.
#[derive(Debug)]
pub struct Peers {
    shared: Arc<Shared>,
    outgoing: BTreeMap<u32, Outgoing>,
    _tasks: JoinSet<()>,
}

/// What all links of a node share.
#[derive(Debug)]
struct Shared {
    config: Config,
    known: KnownPeers,
    sinks: Sinks,
    /// What peers have said of themselves.
    faces: Mutex<BTreeMap<u32, Face>>,
}

impl Peers {
    /// Begins to accept and to dial. To be called in a runtime.
    pub fn start(listener: TcpListener, config: Config, known: KnownPeers, sinks: Sinks) -> Peers {
        let shared = Arc::new(Shared { config, known, sinks, faces: Mutex::default() });
        let mut tasks = JoinSet::new();
        let mut outgoing = BTreeMap::new();
        for node in shared.config.peers.keys() {
            let (link, work) = Outgoing::new(*node, shared.clone());
            tasks.spawn(work);
            outgoing.insert(*node, link);
        }
        tasks.spawn(incoming::accept(listener, shared.clone()));
        Peers { shared, outgoing, _tasks: tasks }
    }

    /// What sends the messages of a replica. It never waits: a message for which there is no connection or no room is dropped, and
    /// the protocol of the replicas makes up for it.
    pub fn sender(&self) -> MessageSender {
        MessageSender(self.outgoing.clone())
    }

    pub fn views(&self) -> Vec<PeerView> {
        self.outgoing.values().map(Outgoing::view).collect()
    }

    /// What relays clients to other nodes.
    pub fn dialler(&self) -> Dialler {
        Dialler(self.shared.clone())
    }
}

/// Sends the messages of a replica to its peers.
#[derive(Debug, Clone)]
pub struct MessageSender(BTreeMap<u32, Outgoing>);

impl MessageSender {
    pub fn send(&self, message: &Message) {
        if let Some(link) = self.0.get(&message::recipient(message).node)
            && link.takes()
        {
            link.send(frame::of_message(&message::encode(message)));
        }
    }
}

/// Opens connections to other nodes on which clients are relayed.
#[derive(Debug, Clone)]
pub struct Dialler(Arc<Shared>);

impl Dialler {
    /// Connects to a node and says which client it is for.
    pub async fn relay(
        &self,
        node: u32,
        open: &handshake::RelayOpen,
    ) -> Result<TcpStream, handshake::Failure> {
        outgoing::relay(&self.0, node, open).await
    }

    /// The nodes of the cluster and where clients reach them: `host` and port of the broker. Nodes that were never heard of are left
    /// out.
    pub fn faces(&self) -> BTreeMap<u32, Face> {
        let faces = self.0.faces.lock();
        let with_host = |(node, face): (&u32, &Face)| {
            let mut face = face.clone();
            if face.host.is_empty() {
                let address = self.0.config.peers.get(node)?;
                address
                    .rsplit_once(':')
                    .map_or(address.as_str(), |(host, _)| host)
                    .clone_into(&mut face.host);
            }
            Some((*node, face))
        };
        faces.iter().filter_map(with_host).collect()
    }
}

/// The member that a node is. A node that lost its data has to be given another incarnation.
fn member_of(hello: &handshake::Hello) -> Member {
    Member { node: hello.node, incarnation: hello.incarnation }
}

/// Reads a message of a peer, which must be the one that sent it.
fn read_message(payload: Bytes, from: Member) -> Result<Message, &'static str> {
    let message = message::decode(payload).map_err(|malformed| malformed.0)?;
    if message::sender(&message) != from {
        return Err("the message claims to be of another member");
    }
    Ok(message)
}
