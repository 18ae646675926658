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
use crate::statistics::{Here, Live};

/// For a connection that gives way to be gone. It is idle, so its task has nothing to finish.
const LEAVE_TIME: Duration = Duration::from_millis(500);
/// A place that another port's connection took is looked for again.
const TRIES: usize = 4;

/// The connections of all ports. Clones are one.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A connection has gone.
    left: Notify,
    origin: Instant,
}

#[derive(Debug)]
struct State {
    register: Register,
    /// The tasks that serve connections, by the connection's number.
    tasks: HashMap<u64, AbortHandle>,
}

impl Default for Connections {
    /// Without a common limit.
    fn default() -> Self {
        Connections::new(usize::MAX)
    }
}

impl Connections {
    /// At most `max`, on all ports together.
    pub fn new(max: usize) -> Connections {
        Connections(Arc::new(Shared {
            state: Mutex::new(State { register: Register::new(max), tasks: HashMap::new() }),
            left: Notify::new(),
            origin: Instant::now(),
        }))
    }

    pub(crate) fn port(&self, name: &'static str, limits: PortLimits) -> Port {
        let silent = Arc::new(AtomicUsize::new(0));
        let PortLimits { connections_max, silent_max } = limits;
        let index = self.0.state.lock().register.add_port(connections_max, silent_max, silent.clone());
        Port { shared: self.0.clone(), index, name, limits, silent, open: Live::default() }
    }
}

/// How many connections a port may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortLimits {
    pub connections_max: usize,
    /// Of those that have made no request.
    pub silent_max: usize,
}

/// A kind of connections with limits of its own; several listeners can share it.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    shared: Arc<Shared>,
    index: usize,
    pub name: &'static str,
    pub limits: PortLimits,
    silent: Arc<AtomicUsize>,
    pub open: Live,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub id: u64,
    shared: Arc<Shared>,
    pub activity: Arc<Activity>,
    _here: Here,
}

impl Port {
    /// A place for a new connection; if need be, an idle connection gives way to it. `None` when all are busy.
    pub async fn place(&self) -> Option<Place> {
        for _ in 0..TRIES {
            let left = self.shared.left.notified();
            tokio::pin!(left);
            // From here on no end of a connection is missed.
            left.as_mut().enable();
            match self.try_place() {
                Ok(place) => return Some(place),
                Err(Verdict::After(id)) => self.shared.close(id),
                Err(_) => return None,
            }
            if tokio::time::timeout(LEAVE_TIME, left).await.is_err() {
                return None;
            }
        }
        None
    }

    fn try_place(&self) -> Result<Place, Verdict> {
        let register = &mut self.shared.state.lock().register;
        match register.verdict(self.index, Instant::now()) {
            Verdict::Admit => {}
            verdict => return Err(verdict),
        }
        let activity = Arc::new(Activity::new(self.shared.origin, self.silent.clone()));
        let id = register.enter(self.index, activity.clone());
        Ok(Place { id, shared: self.shared.clone(), activity, _here: self.open.enter() })
    }

    /// The process is out of files: an idle connection of any port makes room.
    pub fn make_room(&self) {
        let first = self.shared.state.lock().register.first_to_go(Scope::All(self.index), Instant::now());
        if let Some(id) = first {
            self.shared.close(id);
        }
    }

    /// Names the task that serves a connection, so that it can be ended.
    pub fn serving(&self, id: u64, task: AbortHandle) {
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

impl Drop for Place {
    fn drop(&mut self) {
        {
            let state = &mut *self.shared.state.lock();
            state.tasks.remove(&self.id);
            state.register.leave(self.id);
        }
        self.shared.left.notify_waiters();
    }
}
