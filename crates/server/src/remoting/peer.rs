//! The client at the other end of a connection, as handlers see it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redstart_wire::remoting::{Command, code};
use tokio::sync::{mpsc, oneshot};

use super::refusal::Refusal;
use crate::{
    access::{Access, Identity},
    byte_budget::{Account, Grant},
    handover::Handover,
};

/// Requests of the broker that one client may have unanswered.
const PENDING_MAX: usize = 64;

/// A command on its way to the peer.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub command: Command,
    /// Bytes of the connection's account. The outbox makes it as large as the frame.
    pub grant: Grant,
    /// The messages that it delivers; they go back to their queues unless it is written.
    pub handover: Option<Handover>,
}

/// The other end of a connection: the broker sends it notifications and requests.
#[derive(Debug)]
pub(super) struct Peer {
    pub id: u64,
    pub remote: SocketAddr,
    /// The same as text, which every message of the peer carries as its born host.
    pub remote_text: String,
    /// The address that the peer dialled.
    pub local: SocketAddr,
    /// The user that the client's certificate stands for.
    pub certified_user: Option<Arc<str>>,
    /// Bytes of its requests and answers.
    pub account: Arc<Account>,
    /// The user of the first request. A connection serves one user: what is pushed to its clients is meant for that one.
    identity: OnceLock<Identity>,
    outbox: mpsc::Sender<Outgoing>,
    pending: Mutex<HashMap<i32, oneshot::Sender<Command>>>,
    opaque: AtomicI32,
    gone: AtomicBool,
    /// Bytes of the members that have registered over this connection.
    pub member_bytes: AtomicUsize,
    /// An unreadable body of this client has been logged.
    pub warned: AtomicBool,
}

/// Why a request of the broker was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskError {
    #[error("the client has too many unanswered requests or does not read them")]
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
            certified_user: None,
            account,
            identity: OnceLock::new(),
            outbox,
            pending: Mutex::default(),
            opaque: AtomicI32::new(0),
            gone: AtomicBool::new(false),
            member_bytes: AtomicUsize::new(0),
            warned: AtomicBool::new(false),
        }
    }

    /// Ties the connection to the user of its first request.
    pub fn bind(&self, identity: &Identity, access: &Access) -> Result<(), Refusal> {
        let bound = self.identity.get_or_init(|| {
            access.remember(identity);
            identity.clone()
        });
        if bound.user() == identity.user() {
            return Ok(());
        }
        Err(Refusal::new(code::NO_PERMISSION, "this connection is used by another user"))
    }

    /// The user of this connection; `None` before its first request.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Whether both connections are of one user, or users are not asked for.
    pub fn is_of_user_of(&self, other: &Peer) -> bool {
        self.identity().and_then(Identity::user) == other.identity().and_then(Identity::user)
    }

    /// Sends a one-way command; `false` when the client does not read or is gone.
    pub fn notify(&self, command: Command) -> bool {
        let command = Command { opaque: self.next(), ..command.one_way() };
        self.put(command).is_ok()
    }

    /// Queues a command of the broker for the client.
    fn put(&self, command: Command) -> Result<(), AskError> {
        let grant = self.account.try_grant(frame_bytes(&command)).map_err(|_| AskError::Full)?;
        let outgoing = Outgoing { command, grant, handover: None };
        self.outbox.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AskError::Full,
            mpsc::error::TrySendError::Closed(_) => AskError::Gone,
        })
    }

    /// Sends a request to the client and waits for its answer.
    pub async fn ask(&self, command: Command, limit: Duration) -> Result<Command, AskError> {
        let opaque = self.next();
        let (answer, answered) = oneshot::channel();
        {
            let mut pending = self.pending();
            pending.retain(|_, answer| !answer.is_closed());
            if pending.len() >= PENDING_MAX {
                return Err(AskError::Full);
            }
            pending.insert(opaque, answer);
        }
        self.put(Command { opaque, ..command })?;
        match tokio::time::timeout(limit, answered).await {
            Ok(answer) => answer.map_err(|_| AskError::Gone),
            Err(_) => Err(AskError::Timeout),
        }
    }

    /// Hands the client's answer to the task that waits for it. An answer that no task waits for is dropped.
    pub fn answered(&self, command: Command) {
        if let Some(answer) = self.pending().remove(&command.opaque) {
            drop(answer.send(command));
        }
    }

    /// The connection has ended: requests that wait for an answer fail.
    pub fn disconnected(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.pending().clear();
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn next(&self) -> i32 {
        self.opaque.fetch_add(1, Ordering::Relaxed)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<i32, oneshot::Sender<Command>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a command in memory, a little more than those of its frame.
pub(super) fn frame_bytes(command: &Command) -> usize {
    const OVERHEAD: usize = 256;
    let remark = command.remark.as_ref().map_or(0, String::len);
    command.body.len() + command.fields.bytes() + remark + OVERHEAD
}
