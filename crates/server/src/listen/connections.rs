//! The connections of all ports, and the tasks that serve them.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, task::AbortHandle};

use super::{
    activity::Activity,
    register::{Register, Scope, Verdict},
};
use crate::statistics::{LiveCount, LiveGuard};

/// How long the end of an idle connection's task may take after it was aborted; it has nothing to finish.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
/// Attempts to get a slot: a new connection of another port may take the one that became free.
const ATTEMPTS: usize = 4;

/// The connections of all ports. Clones share them.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A connection was closed.
    closed: Notify,
    origin: Instant,
}

#[derive(Debug)]
struct State {
    register: Register,
    /// The tasks that serve connections, by the connection's number.
    tasks: HashMap<u64, AbortHandle>,
}

impl Default for Connections {
    /// Without a limit over all ports.
    fn default() -> Self {
        Connections::new(usize::MAX)
    }
}

impl Connections {
    /// At most `max` connections, on all ports together.
    pub fn new(max: usize) -> Connections {
        Connections(Arc::new(Shared {
            state: Mutex::new(State { register: Register::new(max), tasks: HashMap::new() }),
            closed: Notify::new(),
            origin: Instant::now(),
        }))
    }

    pub(crate) fn port(&self, name: &'static str, limits: PortLimits) -> Port {
        let silent = Arc::new(AtomicUsize::new(0));
        let PortLimits { connections_max, silent_max } = limits;
        let index = self.0.state.lock().register.add_port(connections_max, silent_max, silent.clone());
        Port { shared: self.0.clone(), index, name, limits, silent, open: LiveCount::default() }
    }
}

/// How many connections a port may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortLimits {
    pub connections_max: usize,
    /// Connections that have made no request.
    pub silent_max: usize,
}

/// A kind of connections with its own limits; several listeners can share it.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    shared: Arc<Shared>,
    index: usize,
    pub name: &'static str,
    pub limits: PortLimits,
    silent: Arc<AtomicUsize>,
    pub open: LiveCount,
}

/// An open connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    pub id: u64,
    shared: Arc<Shared>,
    pub activity: Arc<Activity>,
    _live: LiveGuard,
}

impl Port {
    /// A slot for a new connection; at the limit an idle connection is closed for it. `None` when all are busy.
    pub async fn slot(&self) -> Option<ConnectionSlot> {
        for _ in 0..ATTEMPTS {
            let closed = self.shared.closed.notified();
            tokio::pin!(closed);
            // Enabled before the attempt, so that no end of a connection is missed.
            closed.as_mut().enable();
            match self.try_slot() {
                Ok(slot) => return Some(slot),
                Err(Verdict::AfterClosing(id)) => self.shared.close(id),
                Err(_) => return None,
            }
            if tokio::time::timeout(CLOSE_TIME_MAX, closed).await.is_err() {
                return None;
            }
        }
        None
    }

    fn try_slot(&self) -> Result<ConnectionSlot, Verdict> {
        let register = &mut self.shared.state.lock().register;
        match register.verdict(self.index, Instant::now()) {
            Verdict::Admit => {}
            verdict => return Err(verdict),
        }
        let activity = Arc::new(Activity::new(self.shared.origin, self.silent.clone()));
        let id = register.add(self.index, activity.clone());
        Ok(ConnectionSlot { id, shared: self.shared.clone(), activity, _live: self.open.enter() })
    }

    /// The process has no file descriptor left: closes an idle connection of any port.
    pub fn close_one_idle(&self) {
        let idle = self.shared.state.lock().register.first_to_close(Scope::All(self.index), Instant::now());
        if let Some(id) = idle {
            self.shared.close(id);
        }
    }

    /// Records the task that serves a connection, so that it can be aborted.
    pub fn set_task(&self, id: u64, task: AbortHandle) {
        let state = &mut *self.shared.state.lock();
        if state.register.is_open(id) {
            state.tasks.insert(id, task);
        }
    }
}

impl Shared {
    fn close(&self, id: u64) {
        let task = self.state.lock().tasks.get(&id).cloned();
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        {
            let state = &mut *self.shared.state.lock();
            state.tasks.remove(&self.id);
            state.register.remove(self.id);
        }
        self.shared.closed.notify_waiters();
    }
}
