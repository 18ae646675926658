//! The connections that peers have dialled.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

use super::{
    Relayed, Shared,
    frame::{FrameError, FrameReader},
    handshake::{self, Failure, Purpose, RelayOpen},
    member_of, read_message,
};
use crate::{shard::ReplicaInput, throttle::Throttle};

/// Connections that have not proved anything yet. Further ones are closed at once, and those that are peers dial again.
const STRANGERS_MAX: usize = 64;
/// Bytes of a peer's messages that may wait for the replica. Then nothing more is read of that peer.
const WINDOW_BYTES: usize = 64 << 20;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

static REFUSED: Throttle = Throttle::new();
static NOT_ACCEPTED: Throttle = Throttle::new();

/// Accepts peers for as long as the node runs.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    // The newest link of each node.
    let links = Arc::new(parking_lot::Mutex::new(BTreeMap::<u32, AbortHandle>::new()));
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(repeated) = NOT_ACCEPTED.permit() {
                    tracing::warn!(%error, repeated, "cannot accept a connection of a peer");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(stranger) = strangers.clone().try_acquire_owned() else { continue };
        let (shared, links) = (shared.clone(), links.clone());
        tasks.spawn(async move {
            let met = meet(stream, &shared).await;
            drop(stranger);
            match met {
                Err(failure) => log_refusal(from, &failure),
                Ok(Met::Relay(relayed)) => {
                    // Without room for another client its connection is closed, and it dials again.
                    drop(shared.sinks.relayed.try_send(relayed));
                }
                Ok(Met::Link(stream, hello)) => {
                    let node = hello.node;
                    let work = tokio::spawn(read_link(stream, hello, shared));
                    if let Some(before) = links.lock().insert(node, work.abort_handle()) {
                        before.abort();
                    }
                    let _on_end = AbortOnDrop(work.abort_handle());
                    // It ends by itself, or because a newer one has come.
                    drop(work.await);
                }
            }
        });
    }
}

/// The links end with the listener.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Met {
    Link(TcpStream, handshake::Hello),
    Relay(Relayed),
}

async fn meet(mut stream: TcpStream, shared: &Shared) -> Result<Met, Failure> {
    stream.set_nodelay(true)?;
    let greeting = async {
        let hello = handshake::accept(&mut stream, &shared.config, &shared.known).await?;
        let relayed = match hello.purpose {
            Purpose::Replication => None,
            Purpose::Relay => Some(RelayOpen::receive(&mut stream).await?),
        };
        Ok::<_, Failure>((hello, relayed))
    };
    match tokio::time::timeout(handshake::TIME_MAX, greeting).await?? {
        (_, Some(open)) => Ok(Met::Relay(Relayed { stream, open })),
        (hello, None) => Ok(Met::Link(stream, hello)),
    }
}

fn log_refusal(from: SocketAddr, failure: &Failure) {
    if let Failure::Refused(why) = failure
        && let Some(repeated) = REFUSED.permit()
    {
        tracing::warn!(%from, why, repeated, "refused a peer");
    }
}

/// Hands on the messages of a peer until its connection ends.
async fn read_link(stream: TcpStream, hello: handshake::Hello, shared: Arc<Shared>) {
    let (node, member) = (hello.node, member_of(&hello));
    shared.faces.lock().insert(node, hello.face);
    let mut frames = FrameReader::new(stream);
    let window = Arc::new(Semaphore::new(WINDOW_BYTES));
    let why = loop {
        let payload = match frames.next().await {
            Ok(payload) => payload,
            Err(FrameError::Closed | FrameError::Io(_)) => break None,
            Err(error) => break Some(error.to_string()),
        };
        let bytes = payload.len().clamp(1, WINDOW_BYTES) as u32;
        let message = match read_message(payload, member) {
            Ok(message) => message,
            Err(why) => break Some(why.to_owned()),
        };
        // The semaphore is never closed.
        let Ok(held) = window.clone().acquire_many_owned(bytes).await else { break None };
        let input = ReplicaInput::Message { message: Box::new(message), held: Some(held) };
        if !shared.sinks.replica.give(input) {
            break None;
        }
    };
    if let Some(why) = why {
        tracing::warn!(node, why, "closed the link of a peer");
    }
    // A process that has ended closes both of its connections; the first end is the news.
    shared.sinks.replica.give(ReplicaInput::LinkDown(member));
}
