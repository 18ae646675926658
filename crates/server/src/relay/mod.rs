//! Serves every client of a node of a cluster, whichever node leads.
//!
//! A node listens on its ports for as long as it runs. A connection is served here while this node leads. Otherwise its bytes are passed
//! on to the leader, over a connection between the nodes that names the client ([`crate::peers`]); the leader serves it as if the client had
//! dialled there. While there is no leader a connection is held, with what the client has sent still in the sockets' buffers.
//!
//! When another node begins to lead, the connections of clients are closed, and clients dial again: what a front end knows of a client is
//! known to the node that leads only. See docs/architecture/0012-connections-are-relayed.md.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use crate::{
    Serving,
    listen::{Accepted, Ends, FileLimits},
    peers::{
        Dialler, Relayed,
        handshake::{RelayOpen, RelayedPort},
    },
    shard::Standing,
    throttle::Throttle,
};

/// How long a connection is held while there is no leader.
const HOLD_MAX: Duration = Duration::from_millis(2500);
/// After a failed attempt to reach the leader, the next one follows at least this much later.
const RETRY: Duration = Duration::from_millis(25);
/// The most connections that are relayed or held, where the process may open files enough.
const CONNECTIONS_MAX: usize = 20_000;
/// Files of a relayed connection: the client's socket and that to the leader.
const FILES_OF_RELAYED: usize = 2;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

static FULL: Throttle = Throttle::new();

/// The front ends of this node, while they serve: by port, what hands connections to them.
pub type FrontEnds = HashMap<RelayedPort, mpsc::Sender<Accepted>>;

/// What the gate does, for metrics.
#[derive(Debug, Default)]
pub struct RelayCounts {
    /// Connections that are relayed now, and since the start.
    pub relayed_now: AtomicUsize,
    pub relayed: AtomicU64,
    /// Connections that wait for a leader now.
    pub held_now: AtomicUsize,
    /// Connections that were closed because there was no leader for too long.
    pub given_up: AtomicU64,
    open: AtomicUsize,
}

/// Decides where connections are served. Clones share it.
#[derive(Debug, Clone)]
pub struct Gate {
    own: u32,
    standing: watch::Receiver<Standing>,
    front_ends: watch::Receiver<Option<Arc<FrontEnds>>>,
    dialler: Dialler,
    connections_max: usize,
    pub counts: Arc<RelayCounts>,
}

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Here,
    To(u32),
    /// Nobody leads, or this node is about to.
    Nowhere,
}

impl Way {
    fn of(standing: Standing, own: u32, front_ends: bool) -> Way {
        match standing {
            Standing { serves: Some(_), .. } if front_ends => Way::Here,
            Standing { serves: None, leader: Some(leader) } if leader != own => Way::To(leader),
            _ => Way::Nowhere,
        }
    }
}

impl Gate {
    pub fn new(
        own: u32,
        standing: watch::Receiver<Standing>,
        front_ends: watch::Receiver<Option<Arc<FrontEnds>>>,
        dialler: Dialler,
        files: FileLimits,
    ) -> Gate {
        // Connections never get the files that the log needs.
        let connections_max = CONNECTIONS_MAX.min(files.connections / FILES_OF_RELAYED);
        Gate { own, standing, front_ends, dialler, connections_max, counts: Arc::default() }
    }

    /// Takes the connections of a port for as long as the returned future is polled.
    pub fn listen(&self, listener: TcpListener, port: RelayedPort) -> Serving {
        Box::pin(self.clone().accept(listener, port))
    }

    /// Takes the connections that other nodes relay, for as long as the returned future is polled.
    pub fn take_relayed(&self, relayed: mpsc::Receiver<Relayed>) -> Serving {
        Box::pin(self.clone().take_all(relayed))
    }

    async fn accept(self, listener: TcpListener, port: RelayedPort) {
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) if self.has_room() => {
                    tasks.spawn(self.clone().take_client(stream, port));
                }
                Ok(_) => self.log_full(),
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn take_all(self, mut relayed: mpsc::Receiver<Relayed>) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = tasks.join_next() => {}
                next = relayed.recv() => match next {
                    Some(next) if self.has_room() => drop(tasks.spawn(self.clone().take_peer(next))),
                    Some(_) => self.log_full(),
                    None => return,
                },
            }
        }
    }

    fn has_room(&self) -> bool {
        self.counts.open.load(Ordering::Relaxed) < self.connections_max
    }

    fn log_full(&self) {
        if let Some(repeated) = FULL.permit() {
            let limit = self.connections_max;
            tracing::warn!(limit, repeated, "closed a connection: too many are relayed or held");
        }
    }

    /// A client of this node.
    async fn take_client(self, mut stream: TcpStream, port: RelayedPort) {
        let _open = Live::enter(&self.counts.open);
        let (Ok(local), Ok(remote)) = (stream.local_addr(), stream.peer_addr()) else { return };
        let open = RelayOpen { port, local, remote };
        let until = Instant::now() + HOLD_MAX;
        let mut gate = self.clone();
        loop {
            match gate.way() {
                Way::Here => match gate.hand_over(stream, port, None) {
                    Ok(()) => return,
                    Err(back) => stream = back,
                },
                Way::To(leader) => {
                    let dialled = tokio::select! {
                        dialled = gate.dialler.relay(leader, &open) => dialled.ok(),
                        _ = gate.standing.changed() => None,
                    };
                    if let Some(upstream) = dialled {
                        return gate.relay(stream, upstream, leader).await;
                    }
                }
                Way::Nowhere => {}
            }
            if !gate.hold(until).await {
                return;
            }
        }
    }

    /// A client of another node, which takes this one for the leader.
    async fn take_peer(self, relayed: Relayed) {
        let _open = Live::enter(&self.counts.open);
        let Relayed { mut stream, open: RelayOpen { port, local, remote } } = relayed;
        let until = Instant::now() + HOLD_MAX;
        let mut gate = self.clone();
        loop {
            match gate.way() {
                Way::Here => match gate.hand_over(stream, port, Some(Ends { local, remote })) {
                    Ok(()) => return,
                    Err(back) => stream = back,
                },
                // It learns who leads as this node does. A connection is relayed once.
                Way::To(_) => return,
                Way::Nowhere => {}
            }
            if !gate.hold(until).await {
                return;
            }
        }
    }

    fn way(&mut self) -> Way {
        let front_ends = self.front_ends.borrow_and_update().is_some();
        Way::of(*self.standing.borrow_and_update(), self.own, front_ends)
    }

    /// Gives a connection to the front end of its port, which counts it from then on.
    fn hand_over(
        &self,
        stream: TcpStream,
        port: RelayedPort,
        relayed: Option<Ends>,
    ) -> Result<(), TcpStream> {
        let Some(front_ends) = self.front_ends.borrow().clone() else { return Err(stream) };
        let Some(front_end) = front_ends.get(&port) else { return Ok(()) };
        let accepted = Accepted { stream, relayed };
        front_end.try_send(accepted).map_err(|back| back.into_inner().stream)
    }

    /// Waits until there may be another way. `false` when it has taken too long.
    async fn hold(&mut self, until: Instant) -> bool {
        let _held = Live::enter(&self.counts.held_now);
        let news = async {
            tokio::select! {
                changed = self.standing.changed() => changed.is_ok(),
                changed = self.front_ends.changed() => changed.is_ok(),
                () = tokio::time::sleep(RETRY) => true,
            }
        };
        match tokio::time::timeout_at(until, news).await {
            Ok(goes_on) => goes_on,
            Err(_) => {
                self.counts.given_up.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Passes bytes on in both directions until one end closes or another node leads.
    async fn relay(mut self, mut client: TcpStream, mut leader: TcpStream, node: u32) {
        let _live = Live::enter(&self.counts.relayed_now);
        self.counts.relayed.fetch_add(1, Ordering::Relaxed);
        // Not being served for a moment is no news: the leader may only be out of touch.
        let moved = self.standing.wait_for(|now| now.leader.is_some_and(|leader| leader != node));
        tokio::select! {
            // How it ended is the client's to notice.
            _ = tokio::io::copy_bidirectional(&mut client, &mut leader) => {}
            _ = moved => {}
        }
    }
}

/// Counts something while it lasts.
struct Live<'a>(&'a AtomicUsize);

impl<'a> Live<'a> {
    fn enter(count: &'a AtomicUsize) -> Live<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Live(count)
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_to_the_leader_or_waits() {
        let standing = |leader, serves| Standing { leader, serves };
        for (standing, front_ends, way) in [
            (standing(None, None), false, Way::Nowhere),
            (standing(Some(2), None), false, Way::To(2)),
            // It follows from here on, and its front ends are ending.
            (standing(Some(2), None), true, Way::To(2)),
            // It has won the election and has nothing committed yet.
            (standing(Some(1), None), false, Way::Nowhere),
            (standing(Some(1), Some(7)), false, Way::Nowhere),
            (standing(Some(1), Some(7)), true, Way::Here),
        ] {
            assert_eq!(Way::of(standing, 1, front_ends), way, "{standing:?} {front_ends}");
        }
    }
}
