//! The connection that this node has dialled to a peer, and on which it sends.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use redstart_raft::Member;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use super::{
    PeerView, Shared,
    handshake::{self, Failure, Purpose, RelayOpen},
    member_of,
};
use crate::shard::ReplicaInput;

/// Bytes that may wait for a peer. A message that would be beyond it is dropped: the replica sends what is needed again.
const WINDOW_BYTES: usize = 64 << 20;
/// Bytes that are written at a time.
const WRITE_BYTES: usize = 512 << 10;
/// A peer that reads nothing for this long is given up.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Times between two attempts to connect.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// What other threads see of the link. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    queue: mpsc::UnboundedSender<Bytes>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    node: u32,
    address: String,
    connected: AtomicBool,
    queued: AtomicUsize,
    dropped: AtomicU64,
    sent_bytes: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Outgoing {
    /// The link to a node, and the work that keeps it up.
    pub fn new(node: u32, shared: Arc<Shared>) -> (Outgoing, impl Future<Output = ()> + Send) {
        let (queue, queued) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            node,
            address: shared.config.peers.get(&node).cloned().unwrap_or_default(),
            connected: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            trouble: Mutex::new(None),
        });
        let work = keep_up(shared, state.clone(), queued);
        (Outgoing { queue, state }, work)
    }

    /// Whether there is a connection and room. Counts what is dropped otherwise.
    pub fn takes(&self) -> bool {
        let takes = self.state.connected.load(Ordering::Relaxed)
            && self.state.queued.load(Ordering::Relaxed) < WINDOW_BYTES;
        if !takes {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }

    pub fn send(&self, frame: Bytes) {
        self.state.queued.fetch_add(frame.len(), Ordering::Relaxed);
        // The work ends with the process only.
        drop(self.queue.send(frame));
    }

    pub fn view(&self) -> PeerView {
        PeerView {
            node: self.state.node,
            address: self.state.address.clone(),
            connected: self.state.connected.load(Ordering::Relaxed),
            trouble: self.state.trouble.lock().clone(),
            dropped: self.state.dropped.load(Ordering::Relaxed),
            sent_bytes: self.state.sent_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Connects, sends until the connection ends, and begins again.
async fn keep_up(shared: Arc<Shared>, state: Arc<State>, mut queue: mpsc::UnboundedReceiver<Bytes>) {
    let mut pause = RETRY_FIRST;
    loop {
        let ended = match connect(&shared, &state).await {
            Ok((stream, member)) => {
                pause = RETRY_FIRST;
                state.up();
                let ended = pump(stream, &state, &mut queue).await;
                state.connected.store(false, Ordering::Relaxed);
                shared.sinks.replica.give(ReplicaInput::LinkDown(member));
                Failure::Io(ended)
            }
            Err(failure) => failure,
        };
        state.down(&ended);
        // What was meant for the connection that is gone is not sent on the next one.
        while let Ok(frame) = queue.try_recv() {
            state.queued.fetch_sub(frame.len(), Ordering::Relaxed);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

impl State {
    fn up(&self) {
        *self.trouble.lock() = None;
        self.connected.store(true, Ordering::Relaxed);
        tracing::info!(node = self.node, address = self.address, "connected to a peer");
    }

    /// Written to the log when it is another trouble than before.
    fn down(&self, failure: &Failure) {
        let (why, mut last) = (failure.to_string(), self.trouble.lock());
        if last.as_ref() != Some(&why) {
            tracing::warn!(node = self.node, address = self.address, %why, "no connection to a peer");
            *last = Some(why);
        }
    }
}

async fn connect(shared: &Shared, state: &State) -> Result<(TcpStream, Member), Failure> {
    let mut stream = open(&state.address).await?;
    let greeting =
        handshake::dial(&mut stream, &shared.config, &shared.known, state.node, Purpose::Replication);
    let hello = tokio::time::timeout(handshake::TIME_MAX, greeting).await??;
    shared.faces.lock().insert(hello.node, hello.face.clone());
    Ok((stream, member_of(&hello)))
}

async fn open(address: &str) -> Result<TcpStream, Failure> {
    let stream = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer"))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Opens a connection on which a client is relayed.
pub(super) async fn relay(shared: &Shared, node: u32, relayed: &RelayOpen) -> Result<TcpStream, Failure> {
    let address = shared.config.peers.get(&node).map(String::as_str).unwrap_or_default();
    let mut stream = open(address).await?;
    let greeting = async {
        handshake::dial(&mut stream, &shared.config, &shared.known, node, Purpose::Relay).await?;
        relayed.send(&mut stream).await
    };
    tokio::time::timeout(handshake::TIME_MAX, greeting).await??;
    Ok(stream)
}

/// Sends until the connection ends, and says why it did.
async fn pump(stream: TcpStream, state: &State, queue: &mut mpsc::UnboundedReceiver<Bytes>) -> io::Error {
    let (mut from, mut to) = stream.into_split();
    let mut frames: Vec<Bytes> = Vec::new();
    let mut nothing = [0; 16];
    loop {
        let first = tokio::select! {
            first = queue.recv() => first,
            // The peer sends nothing on this connection: what can be read is its end.
            read = from.read(&mut nothing) => return match read {
                Ok(0) => io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"),
                Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "it speaks where it has to listen"),
                Err(error) => error,
            },
        };
        let Some(first) = first else { return io::ErrorKind::Interrupted.into() };
        let mut bytes = first.len();
        frames.push(first);
        while bytes < WRITE_BYTES
            && let Ok(next) = queue.try_recv()
        {
            bytes += next.len();
            frames.push(next);
        }
        let out = if frames.len() == 1 { frames.remove(0) } else { frames.concat().into() };
        frames.clear();
        let written = write(&mut to, &out).await;
        state.queued.fetch_sub(out.len(), Ordering::Relaxed);
        state.sent_bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        if let Err(error) = written {
            return error;
        }
    }
}

/// Writes all, unless the peer takes nothing for too long.
async fn write(to: &mut (impl AsyncWriteExt + Unpin), mut out: &[u8]) -> io::Result<()> {
    while !out.is_empty() {
        let stuck = |_| io::Error::new(io::ErrorKind::TimedOut, "it reads nothing");
        let written = tokio::time::timeout(STUCK_AFTER, to.write(out)).await.map_err(stuck)??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        out = &out[written..];
    }
    Ok(())
}
