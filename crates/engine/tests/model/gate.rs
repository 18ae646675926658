//! A log that can be set to refuse its next frame.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use redstart_log::*;

/// Reads of which every one waits for the disk, so that the engine never has to come back to something later.
struct Waiting(Arc<dyn Reader>);

impl Reader for Waiting {
    fn read(&self, position: Position, len: usize) -> Result<bytes::Bytes, ReadError> {
        self.0.read(position, len)
    }
    fn frame(&self, position: Position) -> Result<Option<Frame>, ReadError> {
        self.0.frame(position)
    }
    fn index_len(&self, segment: SegmentId) -> Result<Option<u64>, ReadError> {
        self.0.index_len(segment)
    }
    fn index_read(&self, segment: SegmentId, offset: u64, len: usize) -> Result<bytes::Bytes, ReadError> {
        self.0.index_read(segment, offset, len)
    }
}

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
    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        self.log.copy(frame)
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
    fn previous_term(&self) -> u64 {
        self.log.previous_term()
    }
    fn sizes(&self) -> Sizes {
        self.log.sizes()
    }
    fn set_sizes(&mut self, sizes: Sizes) {
        self.log.set_sizes(sizes);
    }
    fn flusher(&self) -> Arc<dyn Flusher> {
        self.log.flusher()
    }
    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(Waiting(self.log.reader()))
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
