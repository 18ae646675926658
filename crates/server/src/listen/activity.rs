use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Bits of the state beside its time.
const REQUESTED: u64 = 1 << 63;
const BUSY: u64 = 1 << 62;

/// What a connection is doing, as far as it matters when there are too many. Its task writes it, the accept loops read
/// it. A change costs one store; to say the same again costs one load.
#[derive(Debug)]
pub(crate) struct Activity {
    /// [`REQUESTED`], [`BUSY`], and the milliseconds from `origin` to the last change between busy and idle.
    state: AtomicU64,
    origin: Instant,
    /// Connections of the port that have made no request yet.
    silent: Arc<AtomicUsize>,
}

/// Whether a connection can give way, and which goes first: the lesser does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has not made any request. Since when it is open.
    Silent(u64),
    /// Nothing is under way. Since when.
    Idle(u64),
    /// Its first request has begun and is not there whole. Since when.
    Unfinished(u64),
    /// A request of it is under way.
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

    /// A whole request has come.
    pub fn requested(&self) {
        if self.state.load(Ordering::Relaxed) & REQUESTED == 0
            && self.state.fetch_or(REQUESTED, Ordering::Relaxed) & REQUESTED == 0
        {
            self.silent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a request is under way, or a part of one has come.
    pub fn set_busy(&self, busy: bool) {
        let state = self.state.load(Ordering::Relaxed);
        if (state & BUSY != 0) == busy {
            return;
        }
        let state = state & REQUESTED | if busy { BUSY } else { 0 } | millis_since(self.origin);
        self.state.store(state, Ordering::Relaxed);
    }

    pub(super) fn standing(&self) -> Standing {
        let state = self.state.load(Ordering::Relaxed);
        let since = state & !(REQUESTED | BUSY);
        match (state & REQUESTED != 0, state & BUSY != 0) {
            (false, false) => Standing::Silent(since),
            (true, false) => Standing::Idle(since),
            (false, true) => Standing::Unfinished(since),
            (true, true) => Standing::Busy,
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // Counts it out if it never made one.
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
        assert!(matches!(activity.standing(), Standing::Silent(_)));
        activity.set_busy(true);
        assert!(matches!(activity.standing(), Standing::Unfinished(_)));
        activity.requested();
        activity.requested();
        assert_eq!((activity.standing(), silent.load(Ordering::Relaxed)), (Standing::Busy, 1));
        activity.set_busy(false);
        assert!(matches!(activity.standing(), Standing::Idle(_)));
        drop((activity, other));
        assert_eq!(silent.load(Ordering::Relaxed), 0);
    }
}
