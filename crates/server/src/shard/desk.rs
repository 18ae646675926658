use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use redstart_engine::Engine;

/// Where the engine lies while its owner sleeps or waits for the disk: whoever has a short question may ask it here,
/// without waking the owner and being woken in turn.
pub(super) struct Desk {
    engine: Mutex<Engine>,
    closed: AtomicBool,
}

impl Desk {
    pub fn new(engine: Engine) -> Desk {
        Desk { engine: Mutex::new(engine), closed: AtomicBool::new(false) }
    }

    /// The owner takes its place.
    pub fn take(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// The engine, if it lies here.
    pub fn try_take(&self) -> Option<MutexGuard<'_, Engine>> {
        self.engine.try_lock().filter(|_| !self.closed.load(Ordering::Acquire))
    }

    /// The owner leaves for good, with the engine still in hand.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
