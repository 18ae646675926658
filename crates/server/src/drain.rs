//! The switch that takes a broker out of service before it is stopped.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether routes say that no topic of this broker is writable, which an operator sets so that producers leave before it is stopped.
/// Not stored: a broker that starts is writable. Clones share one switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drained(Arc<AtomicBool>);

impl Drained {
    pub fn set(&self, drained: bool) {
        self.0.store(drained, Ordering::Relaxed);
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
