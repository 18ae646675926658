//! Lets connection tasks use the engine while the owner thread is blocked.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use super::runtime::Runtime;

/// Attempts to take the engine before a task checks whether the owner has it; together some microseconds.
const SPINS: usize = 64;
/// How long a task waits for another task. A task uses the engine for microseconds, unless its thread was preempted. Waiting for it
/// costs less than waking the owner thread, which would have to wait as well.
const TASK_WAIT_MAX: Duration = Duration::from_micros(200);

/// Lets a connection task run a short closure on the engine while the owner thread is blocked, which saves two thread switches.
/// Invariant: at most one thread has the engine, and the owner has it again before it goes on.
pub(super) struct EngineSlot<T = Runtime> {
    engine: Mutex<T>,
    /// The owner has the engine, or is about to take it.
    owned: AtomicBool,
    closed: AtomicBool,
}

impl<T> EngineSlot<T> {
    pub fn new(engine: T) -> EngineSlot<T> {
        EngineSlot {
            engine: Mutex::new(engine),
            owned: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        }
    }

    /// The owner takes the engine.
    pub fn take(&self) -> MutexGuard<'_, T> {
        self.engine.lock()
    }

    /// The owner runs something that blocks and does not need the engine; connection tasks may use the engine during that time.
    pub fn lend<R>(&self, engine: &mut MutexGuard<'_, T>, blocking: impl FnOnce() -> R) -> R {
        MutexGuard::unlocked(engine, || {
            self.owned.store(false, Ordering::Relaxed);
            let result = blocking();
            self.owned.store(true, Ordering::Relaxed);
            result
        })
    }

    /// The engine for a connection task, if it is free or will be in a moment.
    pub fn try_take(&self) -> Option<MutexGuard<'_, T>> {
        let mut tries = 0..SPINS;
        let engine = loop {
            match self.engine.try_lock() {
                Some(engine) => break engine,
                None if tries.next().is_some() => std::hint::spin_loop(),
                // The owner may keep the engine for long.
                None if self.owned.load(Ordering::Relaxed) => return None,
                None => break self.engine.try_lock_for(TASK_WAIT_MAX)?,
            }
        };
        (!self.closed.load(Ordering::Acquire)).then_some(engine)
    }

    /// The owner ends while it has the engine: no connection task gets it again.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn others_get_the_engine_while_the_owner_is_blocked_and_no_other_has_it() {
        let slot = EngineSlot::new(7);
        let taken =
            || thread::scope(|scope| scope.spawn(|| slot.try_take().map(|engine| *engine)).join().unwrap());
        let mut engine = slot.take();
        assert_eq!(taken(), None, "the owner is there");
        slot.lend(&mut engine, || {
            assert_eq!(taken(), Some(7));
            let other = slot.try_take();
            assert_eq!(taken(), None, "another thread has it for long");
            drop(other);
            assert_eq!(taken(), Some(7));
        });
        assert_eq!(taken(), None, "the owner is back");
        slot.close();
        drop(engine);
        assert_eq!(taken(), None, "the owner has left");
    }
}
