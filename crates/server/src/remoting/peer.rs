use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redstart_wire::remoting::Command;
use tokio::sync::{mpsc, oneshot};

use crate::{
    byte_budget::{Account, Grant},
    handover::Handover,
};

/// Questions of ours that one client may have open.
const ASKED_MAX: usize = 64;

/// A command on its way to the peer.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub command: Command,
    /// Bytes of the connection's account. The outbox makes it as large as the frame.
    pub grant: Grant,
    /// The messages that it delivers.
    pub handover: Option<Handover>,
}

/// The other end of a connection: where answers go, and whom the broker can ask something.
#[derive(Debug)]
pub(super) struct Peer {
    pub id: u64,
    pub remote: SocketAddr,
    /// The same as text: every message of the peer carries it.
    pub remote_text: String,
    /// The address that the peer dialled.
    pub local: SocketAddr,
    /// Bytes of its requests and answers.
    pub account: Arc<Account>,
    outbox: mpsc::Sender<Outgoing>,
    asked: Mutex<HashMap<i32, oneshot::Sender<Command>>>,
    opaque: AtomicI32,
    gone: AtomicBool,
    /// Bytes of what its clients have said about themselves.
    pub member_bytes: AtomicUsize,
    /// A body of this client's that could not be read was logged.
    pub warned: AtomicBool,
}

/// A question that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskError {
    #[error("the client has too many questions open or does not read them")]
    Full,
    #[error("the client did not answer in time")]
    Timeout,
    #[error("the client is gone")]
    Gone,
}

impl Peer {
    pub fn new(
        remote: SocketAddr,
        local: SocketAddr,
        outbox: mpsc::Sender<Outgoing>,
        account: Arc<Account>,
    ) -> Peer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Peer {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            remote,
            remote_text: remote.to_string(),
            local,
            account,
            outbox,
            asked: Mutex::default(),
            opaque: AtomicI32::new(0),
            gone: AtomicBool::new(false),
            member_bytes: AtomicUsize::new(0),
            warned: AtomicBool::new(false),
        }
    }

    /// Tells the client something; `false` when it does not read or is gone.
    pub fn tell(&self, command: Command) -> bool {
        let command = Command { opaque: self.next(), ..command.one_way() };
        self.put(command).is_ok()
    }

    /// Puts a command of the broker's own behind those that wait for the client to read.
    fn put(&self, command: Command) -> Result<(), AskError> {
        let grant = self.account.try_grant(frame_bytes(&command)).map_err(|_| AskError::Full)?;
        let outgoing = Outgoing { command, grant, handover: None };
        self.outbox.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AskError::Full,
            mpsc::error::TrySendError::Closed(_) => AskError::Gone,
        })
    }

    /// Asks the client and waits for its answer.
    pub async fn ask(&self, command: Command, limit: Duration) -> Result<Command, AskError> {
        let opaque = self.next();
        let (answer, answered) = oneshot::channel();
        {
            let mut asked = self.asked();
            asked.retain(|_, answer| !answer.is_closed());
            if asked.len() >= ASKED_MAX {
                return Err(AskError::Full);
            }
            asked.insert(opaque, answer);
        }
        self.put(Command { opaque, ..command })?;
        match tokio::time::timeout(limit, answered).await {
            Ok(answer) => answer.map_err(|_| AskError::Gone),
            Err(_) => Err(AskError::Timeout),
        }
    }

    /// The client's answer to a question of ours; one that nobody waits for is dropped.
    pub fn answered(&self, command: Command) {
        if let Some(answer) = self.asked().remove(&command.opaque) {
            drop(answer.send(command));
        }
    }

    /// The connection is over: nobody will answer.
    pub fn gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.asked().clear();
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn next(&self) -> i32 {
        self.opaque.fetch_add(1, Ordering::Relaxed)
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<i32, oneshot::Sender<Command>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a command in memory, a little more than those of its frame.
pub(super) fn frame_bytes(command: &Command) -> usize {
    const OVERHEAD: usize = 256;
    let remark = command.remark.as_ref().map_or(0, String::len);
    command.body.len() + command.fields.bytes() + remark + OVERHEAD
}
