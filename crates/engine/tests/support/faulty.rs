//! A log in memory whose reads fail as a test wants it.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use redstart_log::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, MemoryLog, Options, Position,
    ReadError, Reader, SegmentId, SegmentInfo, Sizes, Usage,
};

/// What goes wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// Reads of messages fail: the disk does, or no file can be opened.
    pub messages: bool,
    /// Reads of stored indexes fail.
    pub indexes: bool,
    /// Reads of frames fail.
    pub frames: bool,
    /// Messages whose bytes are not what was written.
    pub damaged: BTreeSet<Position>,
    /// Messages whose segment is gone.
    pub removed: BTreeSet<Position>,
    /// Reads of messages that were tried.
    pub reads: usize,
}

/// A handle of the faults of one log.
#[derive(Debug, Clone, Default)]
pub struct Switches(Arc<Mutex<Faults>>);

impl Switches {
    pub fn lock(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct FaultyLog {
    inner: MemoryLog,
    switches: Switches,
}

impl FaultyLog {
    pub fn new(options: Options, switches: Switches) -> FaultyLog {
        FaultyLog { inner: MemoryLog::with_options(options), switches }
    }
}

struct FaultyReader {
    inner: Arc<dyn Reader>,
    switches: Switches,
}

fn failure(what: &str) -> ReadError {
    ReadError::Io { what: what.to_owned(), source: io::Error::other("too many open files") }
}

impl Reader for FaultyReader {
    fn read(&self, position: Position, len: usize) -> Result<Bytes, ReadError> {
        let mut faults = self.switches.lock();
        faults.reads += 1;
        if faults.messages {
            return Err(failure("reading a message"));
        }
        if faults.removed.contains(&position) {
            return Err(ReadError::Removed(position));
        }
        let bytes = self.inner.read(position, len)?;
        if !faults.damaged.contains(&position) {
            return Ok(bytes);
        }
        let mut bytes = bytes.to_vec();
        bytes.iter_mut().skip(9).for_each(|byte| *byte ^= 1);
        Ok(bytes.into())
    }

    fn frame(&self, position: Position) -> Result<Option<Frame>, ReadError> {
        if self.switches.lock().frames {
            return Err(failure("reading a frame"));
        }
        self.inner.frame(position)
    }

    fn index_len(&self, segment: SegmentId) -> Result<Option<u64>, ReadError> {
        self.inner.index_len(segment)
    }

    fn index_read(&self, segment: SegmentId, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        if self.switches.lock().indexes {
            return Err(failure("reading an index"));
        }
        self.inner.index_read(segment, offset, len)
    }
}

impl Log for FaultyLog {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        self.inner.append(timestamp_ms, payload)
    }

    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        self.inner.copy(frame)
    }

    fn appended(&self) -> Index {
        self.inner.appended()
    }

    fn committed(&self) -> Index {
        self.inner.committed()
    }

    fn term(&self) -> u64 {
        self.inner.term()
    }

    fn set_term(&mut self, term: u64) {
        self.inner.set_term(term);
    }

    fn previous_term(&self) -> u64 {
        self.inner.previous_term()
    }

    fn sizes(&self) -> Sizes {
        self.inner.sizes()
    }

    fn set_sizes(&mut self, sizes: Sizes) {
        self.inner.set_sizes(sizes);
    }

    fn flusher(&self) -> Arc<dyn Flusher> {
        self.inner.flusher()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(FaultyReader { inner: self.inner.reader(), switches: self.switches.clone() })
    }

    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        self.inner.truncate(last)
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.inner.segments()
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.inner.roll()
    }

    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        self.inner.index_writer()
    }

    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.inner.remove_oldest(segment)
    }

    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        self.inner.checkpoints()
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage()
    }
}
