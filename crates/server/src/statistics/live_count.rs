//! A gauge that follows the lifetime of what it counts.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of [`LiveGuard`]s that exist. Clones share one number.
#[derive(Debug, Clone, Default)]
pub struct LiveCount(Arc<AtomicUsize>);

/// Counts as one in its [`LiveCount`] until it is dropped.
#[derive(Debug)]
pub struct LiveGuard(LiveCount);

impl LiveCount {
    pub fn enter(&self) -> LiveGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        LiveGuard(self.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
