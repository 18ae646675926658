//! A log that can be set to refuse its next frame.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use redstart_log::*;

pub struct Gate {
    pub log: Box<dyn Log>,
    pub refuse: Arc<AtomicBool>,
}

impl Log for Gate {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        if self.refuse.swap(false, Ordering::Relaxed) {
            return Err(Error::FrameTooLarge { size: payload.len(), limit: 0 });
        }
        self.log.append(timestamp_ms, payload)
    }
    fn appended(&self) -> Index {
        self.log.appended()
    }
    fn committed(&self) -> Index {
        self.log.committed()
    }
    fn term(&self) -> u64 {
        self.log.term()
    }
    fn set_term(&mut self, term: u64) {
        self.log.set_term(term);
    }
    fn flusher(&self) -> Arc<dyn Flusher> {
        self.log.flusher()
    }
    fn reader(&self) -> Arc<dyn Reader> {
        self.log.reader()
    }
    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        self.log.truncate(last)
    }
    fn segments(&self) -> Vec<SegmentInfo> {
        self.log.segments()
    }
    fn roll(&mut self) -> Result<(), Error> {
        self.log.roll()
    }
    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        self.log.index_writer()
    }
    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.log.remove_oldest(segment)
    }
    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        self.log.checkpoints()
    }
    fn usage(&self) -> Result<Usage, Error> {
        self.log.usage()
    }
}
