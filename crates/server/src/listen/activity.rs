//! What a connection is doing, by which the one to be closed at the limit is chosen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Bits of the state; the others hold a time.
const REQUESTED: u64 = 1 << 63;
const BUSY: u64 = 1 << 62;

/// What a connection is doing. Its task writes it, the accept loops read it. A change costs one store, setting the same state again
/// one load.
#[derive(Debug)]
pub(crate) struct Activity {
    /// [`REQUESTED`], [`BUSY`], and the milliseconds from `origin` to the last change between busy and idle.
    state: AtomicU64,
    origin: Instant,
    /// Counts the connections of the port that have made no request yet.
    silent: Arc<AtomicUsize>,
}

/// The order in which connections are closed at the limit, the least first. The numbers are the milliseconds at which the state began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CloseRank {
    /// It is open and has made no request.
    Silent(u64),
    /// It has made a request, and none is under way.
    Idle(u64),
    /// Its first request has begun and is not complete.
    Unfinished(u64),
    /// A request is under way: it is not closed.
    Busy,
}

impl Activity {
    pub fn new(origin: Instant, silent: Arc<AtomicUsize>) -> Activity {
        Activity::opened_at(millis_since(origin), origin, silent)
    }

    pub(super) fn opened_at(millis: u64, origin: Instant, silent: Arc<AtomicUsize>) -> Activity {
        silent.fetch_add(1, Ordering::Relaxed);
        Activity { state: AtomicU64::new(millis), origin, silent }
    }

    /// A complete request has come.
    pub fn requested(&self) {
        if self.state.load(Ordering::Relaxed) & REQUESTED == 0
            && self.state.fetch_or(REQUESTED, Ordering::Relaxed) & REQUESTED == 0
        {
            self.silent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sets whether a request is under way, or a part of one has come.
    pub fn set_busy(&self, busy: bool) {
        let state = self.state.load(Ordering::Relaxed);
        if (state & BUSY != 0) == busy {
            return;
        }
        let state = state & REQUESTED | if busy { BUSY } else { 0 } | millis_since(self.origin);
        self.state.store(state, Ordering::Relaxed);
    }

    pub(super) fn close_rank(&self) -> CloseRank {
        let state = self.state.load(Ordering::Relaxed);
        let since = state & !(REQUESTED | BUSY);
        match (state & REQUESTED != 0, state & BUSY != 0) {
            (false, false) => CloseRank::Silent(since),
            (true, false) => CloseRank::Idle(since),
            (false, true) => CloseRank::Unfinished(since),
            (true, true) => CloseRank::Busy,
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // No longer counted as silent.
        self.requested();
    }
}

fn millis_since(origin: Instant) -> u64 {
    origin.elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_silent_until_its_first_request_and_then_idle_or_busy() {
        let silent = Arc::new(AtomicUsize::new(0));
        let activity = Activity::new(Instant::now(), silent.clone());
        let other = Activity::new(Instant::now(), silent.clone());
        assert!(matches!(activity.close_rank(), CloseRank::Silent(_)));
        activity.set_busy(true);
        assert!(matches!(activity.close_rank(), CloseRank::Unfinished(_)));
        activity.requested();
        activity.requested();
        assert_eq!((activity.close_rank(), silent.load(Ordering::Relaxed)), (CloseRank::Busy, 1));
        activity.set_busy(false);
        assert!(matches!(activity.close_rank(), CloseRank::Idle(_)));
        drop((activity, other));
        assert_eq!(silent.load(Ordering::Relaxed), 0);
    }
}
