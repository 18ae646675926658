use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use redstart_engine::Engine;

/// Some microseconds.
const TRIES: usize = 64;
/// Somebody who asks has it for microseconds, unless the processor was taken from them. To wait then costs less than to wake
/// the owner, who would have to wait as well.
const PATIENCE: Duration = Duration::from_micros(200);

/// Where the engine lies while its owner sleeps or waits for the disk: whoever has a short question may ask it here,
/// without waking the owner and being woken in turn.
pub(super) struct Desk<T = Engine> {
    engine: Mutex<T>,
    /// The owner is here, or comes back.
    owned: AtomicBool,
    closed: AtomicBool,
}

impl<T> Desk<T> {
    pub fn new(engine: T) -> Desk<T> {
        Desk { engine: Mutex::new(engine), owned: AtomicBool::new(true), closed: AtomicBool::new(false) }
    }

    /// The owner takes its place.
    pub fn take(&self) -> MutexGuard<'_, T> {
        self.engine.lock()
    }

    /// The owner does something without the engine, which others may ask meanwhile.
    pub fn leave<R>(&self, engine: &mut MutexGuard<'_, T>, meanwhile: impl FnOnce() -> R) -> R {
        MutexGuard::unlocked(engine, || {
            self.owned.store(false, Ordering::Relaxed);
            let result = meanwhile();
            self.owned.store(true, Ordering::Relaxed);
            result
        })
    }

    /// The engine, if it lies here or will in a moment.
    pub fn try_take(&self) -> Option<MutexGuard<'_, T>> {
        let mut tries = 0..TRIES;
        let engine = loop {
            match self.engine.try_lock() {
                Some(engine) => break engine,
                None if tries.next().is_some() => std::hint::spin_loop(),
                // The owner may have it for long.
                None if self.owned.load(Ordering::Relaxed) => return None,
                None => break self.engine.try_lock_for(PATIENCE)?,
            }
        };
        (!self.closed.load(Ordering::Acquire)).then_some(engine)
    }

    /// The owner leaves for good, with the engine still in hand.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn others_get_the_engine_while_the_owner_is_away_and_nobody_has_it() {
        let desk = Desk::new(7);
        let taken =
            || thread::scope(|scope| scope.spawn(|| desk.try_take().map(|engine| *engine)).join().unwrap());
        let mut engine = desk.take();
        assert_eq!(taken(), None, "the owner is there");
        desk.leave(&mut engine, || {
            assert_eq!(taken(), Some(7));
            let other = desk.try_take();
            assert_eq!(taken(), None, "somebody else has it for long");
            drop(other);
            assert_eq!(taken(), Some(7));
        });
        assert_eq!(taken(), None, "the owner is back");
        desk.close();
        drop(engine);
        assert_eq!(taken(), None, "the owner has left");
    }
}
