//! A log with two owners: an engine, and what would replicate its frames.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redstart_log::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, Reader, Scrubber, SegmentId,
    SegmentInfo, Sizes, Spare, SpareMaker, Usage,
};

/// A log that an engine has, and that grows or is cut off without it.
#[derive(Debug)]
pub struct SharedLog<L>(Arc<Mutex<L>>);

impl<L> Clone for SharedLog<L> {
    fn clone(&self) -> Self {
        SharedLog(Arc::clone(&self.0))
    }
}

impl<L> SharedLog<L> {
    pub fn new(log: L) -> Self {
        SharedLog(Arc::new(Mutex::new(log)))
    }

    pub fn lock(&self) -> MutexGuard<'_, L> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Log> Log for SharedLog<L> {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        self.lock().append(timestamp_ms, payload)
    }

    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        self.lock().copy(frame)
    }

    fn appended(&self) -> Index {
        self.lock().appended()
    }

    fn committed(&self) -> Index {
        self.lock().committed()
    }

    fn term(&self) -> u64 {
        self.lock().term()
    }

    fn set_term(&mut self, term: u64) {
        self.lock().set_term(term);
    }

    fn previous_term(&self) -> u64 {
        self.lock().previous_term()
    }

    fn sizes(&self) -> Sizes {
        self.lock().sizes()
    }

    fn set_sizes(&mut self, sizes: Sizes) {
        self.lock().set_sizes(sizes);
    }

    fn flusher(&self) -> Arc<dyn Flusher> {
        self.lock().flusher()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.lock().reader()
    }

    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        self.lock().truncate(last)
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.lock().segments()
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.lock().roll()
    }

    fn spare_maker(&mut self) -> Option<Arc<dyn SpareMaker>> {
        self.lock().spare_maker()
    }

    fn put_spare(&mut self, made: Result<Spare, Error>) -> Result<(), Error> {
        self.lock().put_spare(made)
    }

    // Texts cannot be lent out of the lock; runs do not depend on this one.
    fn scarcity(&self) -> Option<&str> {
        self.lock().scarcity().map(|_| "no room for another segment")
    }

    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        self.lock().index_writer()
    }

    fn scrubber(&self) -> Option<Arc<dyn Scrubber>> {
        self.lock().scrubber()
    }

    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.lock().remove_oldest(segment)
    }

    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        self.lock().checkpoints()
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.lock().usage()
    }
}
