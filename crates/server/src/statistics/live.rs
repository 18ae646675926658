use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts what is there now.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<AtomicUsize>);

/// One of those that are counted, until it is dropped.
#[derive(Debug)]
pub struct Here(Live);

impl Live {
    pub fn enter(&self) -> Here {
        self.0.fetch_add(1, Ordering::Relaxed);
        Here(self.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
