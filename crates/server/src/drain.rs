use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether an operator has taken the permission to write out of all routes, so that the broker can be stopped with nothing
/// to be sent any more. Not kept: a broker that starts is there to be used. Clones are one.
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
