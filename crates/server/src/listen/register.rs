//! Which connections are open, and which one is to be closed for a new one. Decides only: it closes nothing.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::activity::{Activity, CloseRank};

/// Candidates that one scan of all connections collects, for this new connection and the next ones.
const CANDIDATES_MAX: usize = 64;
/// After a scan that found no candidate, the next one for the same scope follows after this time.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Connections that each port can have whatever the others use.
const RESERVED_MAX: usize = 16;

/// All open connections.
#[derive(Debug)]
pub(super) struct Register {
    max: usize,
    ports: Vec<PortState>,
    open: HashMap<u64, Entry>,
    next_id: u64,
    /// Connections that the last scan found closable, the first to close at the front, and its scope.
    candidates: VecDeque<(CloseRank, u64)>,
    scanned: Scope,
    /// Set if the last scan found none: when the next one for the same scope may follow.
    scan_after: Option<Instant>,
}

#[derive(Debug)]
struct PortState {
    max: usize,
    silent_max: usize,
    silent: Arc<AtomicUsize>,
    open: usize,
}

#[derive(Debug)]
struct Entry {
    port: usize,
    activity: Arc<Activity>,
}

/// The connections among which one to close is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of this port, and of all ports that use more than their reserve.
    All(usize),
    Port(usize),
    /// Those of a port that have made no request.
    Silent(usize),
}

/// What is to be done with a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit,
    /// Admit it once this connection was closed.
    AfterClosing(u64),
    Refuse,
}

impl Register {
    pub fn new(max: usize) -> Register {
        Register {
            max,
            ports: Vec::new(),
            open: HashMap::new(),
            next_id: 0,
            candidates: VecDeque::new(),
            scanned: Scope::Port(0),
            scan_after: None,
        }
    }

    pub fn add_port(&mut self, max: usize, silent_max: usize, silent: Arc<AtomicUsize>) -> usize {
        self.ports.push(PortState { max, silent_max, silent, open: 0 });
        self.ports.len() - 1
    }

    /// Whether a new connection of the port is admitted.
    pub fn verdict(&mut self, port: usize, now: Instant) -> Verdict {
        let state = &self.ports[port];
        let scope = if state.open >= state.max {
            Scope::Port(port)
        } else if self.is_full_for(port) {
            Scope::All(port)
        } else if state.silent.load(Ordering::Relaxed) >= state.silent_max {
            Scope::Silent(port)
        } else {
            return Verdict::Admit;
        };
        match self.first_to_close(scope, now) {
            Some(id) => Verdict::AfterClosing(id),
            // All silent ones have begun a request by now.
            None if matches!(scope, Scope::Silent(_)) => Verdict::Admit,
            None => Verdict::Refuse,
        }
    }

    /// Adds a connection; only after [`Verdict::Admit`].
    pub fn add(&mut self, port: usize, activity: Arc<Activity>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.ports[port].open += 1;
        self.open.insert(id, Entry { port, activity });
        id
    }

    pub fn remove(&mut self, id: u64) {
        if let Some(entry) = self.open.remove(&id) {
            self.ports[entry.port].open -= 1;
        }
    }

    /// The connection that is to be closed.
    pub fn first_to_close(&mut self, scope: Scope, now: Instant) -> Option<u64> {
        if self.scanned == scope {
            if let Some(id) = self.next_candidate() {
                return Some(id);
            }
            if self.scan_after.is_some_and(|at| now < at) {
                return None;
            }
        }
        self.scan(scope);
        self.scan_after = self.candidates.is_empty().then(|| now + SCAN_INTERVAL);
        self.next_candidate()
    }

    pub fn is_open(&self, id: u64) -> bool {
        self.open.contains_key(&id)
    }

    /// A candidate whose state has not changed since the scan.
    fn next_candidate(&mut self) -> Option<u64> {
        while let Some((rank, id)) = self.candidates.pop_front() {
            if self.open.get(&id).is_some_and(|entry| entry.activity.close_rank() == rank) {
                return Some(id);
            }
        }
        None
    }

    fn scan(&mut self, scope: Scope) {
        let found = self.open.iter().filter(|(_, entry)| self.is_in(scope, entry.port));
        let found = found.map(|(id, entry)| (entry.activity.close_rank(), *id));
        let mut found: Vec<_> = match scope {
            Scope::Silent(_) => found
                .filter(|(rank, _)| matches!(rank, CloseRank::Silent(_) | CloseRank::Unfinished(_)))
                .collect(),
            _ => found.filter(|(rank, _)| *rank != CloseRank::Busy).collect(),
        };
        if found.len() > CANDIDATES_MAX {
            found.select_nth_unstable(CANDIDATES_MAX);
            found.truncate(CANDIDATES_MAX);
        }
        found.sort_unstable();
        self.candidates = found.into();
        self.scanned = scope;
    }

    fn is_in(&self, scope: Scope, port: usize) -> bool {
        match scope {
            Scope::All(own) => port == own || self.ports[port].open > self.reserved(port),
            Scope::Port(own) | Scope::Silent(own) => port == own,
        }
    }

    /// Whether all connections that are left are reserved for other ports.
    fn is_full_for(&self, port: usize) -> bool {
        let others = (0..self.ports.len()).filter(|other| *other != port);
        let reserved: usize =
            others.map(|other| self.reserved(other).saturating_sub(self.ports[other].open)).sum();
        self.open.len() + reserved >= self.max
    }

    fn reserved(&self, port: usize) -> usize {
        (self.max / (4 * self.ports.len().max(1))).min(RESERVED_MAX).min(self.ports[port].max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ports {
        register: Register,
        silent: Vec<Arc<AtomicUsize>>,
        activities: HashMap<u64, Arc<Activity>>,
        opened: u64,
        now: Instant,
    }

    impl Ports {
        fn new(max: usize, ports: &[(usize, usize)]) -> Ports {
            let mut register = Register::new(max);
            let mut silent = Vec::new();
            for (max, silent_max) in ports {
                silent.push(Arc::new(AtomicUsize::new(0)));
                register.add_port(*max, *silent_max, silent.last().unwrap().clone());
            }
            Ports { register, silent, activities: HashMap::new(), opened: 0, now: Instant::now() }
        }

        /// Each opens a second after the one before.
        fn open(&mut self, port: usize) -> Result<u64, Verdict> {
            self.now += SCAN_INTERVAL;
            match self.register.verdict(port, self.now) {
                Verdict::Admit => {}
                verdict => return Err(verdict),
            }
            self.opened += 1;
            let activity = Activity::opened_at(self.opened * 1000, Instant::now(), self.silent[port].clone());
            let activity = Arc::new(activity);
            let id = self.register.add(port, activity.clone());
            self.activities.insert(id, activity);
            Ok(id)
        }

        fn is(&self, id: u64, requested: bool, busy: bool) {
            if requested {
                self.activities[&id].requested();
            }
            self.activities[&id].set_busy(busy);
        }

        fn close(&mut self, id: u64) {
            self.activities.remove(&id);
            self.register.remove(id);
        }
    }

    #[test]
    fn silent_ones_are_closed_first_then_idle_ones_then_those_that_never_finished_a_request() {
        let mut ports = Ports::new(4, &[(4, 100)]);
        let ids: Vec<u64> = (0..4).map(|_| ports.open(0).unwrap()).collect();
        ports.is(ids[0], true, true);
        ports.is(ids[1], true, false);
        ports.is(ids[2], false, true);
        // The fourth has made no request.
        for id in [ids[3], ids[1], ids[2]] {
            assert_eq!(ports.open(0), Err(Verdict::AfterClosing(id)));
            ports.close(id);
            let new = ports.open(0).unwrap();
            ports.is(new, true, true);
        }
        assert_eq!(ports.open(0), Err(Verdict::Refuse), "all are busy");
        ports.is(ids[0], true, false);
        assert_eq!(ports.open(0), Err(Verdict::AfterClosing(ids[0])));
    }

    #[test]
    fn the_oldest_of_a_kind_is_closed_first_and_one_that_became_busy_is_not() {
        let mut ports = Ports::new(100, &[(10, 100)]);
        let ids: Vec<u64> = (0..10).map(|_| ports.open(0).unwrap()).collect();
        assert_eq!(ports.open(0), Err(Verdict::AfterClosing(ids[0])));
        ports.close(ids[0]);
        ports.open(0).unwrap();
        ports.is(ids[1], true, true);
        assert_eq!(ports.open(0), Err(Verdict::AfterClosing(ids[2])));
    }

    #[test]
    fn each_port_keeps_a_reserve_and_at_the_common_limit_a_connection_of_any_port_is_closed() {
        let mut ports = Ports::new(80, &[(1000, 1000), (1000, 1000), (256, 256)]);
        let mut first = Vec::new();
        while let Ok(id) = ports.open(0) {
            ports.is(id, true, true);
            first.push(id);
        }
        let reserve = 80 / 12;
        assert_eq!(first.len(), 80 - 2 * reserve, "all busy, so none is closed");
        let mut others = Vec::new();
        for port in [1, 2] {
            for _ in 0..reserve {
                others.push(ports.open(port).unwrap());
            }
        }
        assert_eq!(ports.open(1), Err(Verdict::AfterClosing(others[0])), "its own silent one");
        ports.is(first[3], true, false);
        for id in &others {
            ports.is(*id, true, true);
        }
        assert_eq!(ports.open(2), Err(Verdict::AfterClosing(first[3])), "an idle one of the other port");
    }

    #[test]
    fn silent_connections_of_a_port_are_bounded_by_themselves() {
        let mut ports = Ports::new(1000, &[(1000, 5)]);
        let ids: Vec<u64> = (0..5).map(|_| ports.open(0).unwrap()).collect();
        assert_eq!(ports.open(0), Err(Verdict::AfterClosing(ids[0])));
        for id in &ids {
            ports.is(*id, true, false);
        }
        assert!(ports.open(0).is_ok());
    }
}
