use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use redstart_engine::Engine;

/// Some microseconds.
const TRIES: usize = 64;

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

    /// The engine, if it lies here or will in a moment: others who ask are quick.
    pub fn try_take(&self) -> Option<MutexGuard<'_, Engine>> {
        let mut tries = 0..TRIES;
        let engine = loop {
            match self.engine.try_lock() {
                Some(engine) => break engine,
                None if tries.next().is_some() => std::hint::spin_loop(),
                None => return None,
            }
        };
        (!self.closed.load(Ordering::Acquire)).then_some(engine)
    }

    /// The owner leaves for good, with the engine still in hand.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
