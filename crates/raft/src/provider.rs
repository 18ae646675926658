//! The log that an engine has: its appends are proposals, and *committed* is what the group says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redstart_log::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, Reader, Scrubber, SegmentId,
    SegmentInfo, Sizes, Spare, SpareMaker, StoredCheckpoints, Usage,
};

use crate::replica::{Replica, poisoned};

/// [`Log`] over a replica. Clones are handles of one replica: its engine has one, and what drives it another.
///
/// Appends are refused with [`Error::NotLeading`] while this member does not lead. The tail is cut by the leader only, so
/// [`Log::truncate`] and [`Log::copy`] are refused.
///
/// What drives the replica must look at [`Replica::leads`] after each of its inputs. An engine that led in a term in which the
/// replica leads no longer drops its speculation *before* it learns of commits: other frames may be committed at the indexes
/// that it has proposed.
#[derive(Clone, Debug)]
pub struct ReplicatedLog(Arc<Mutex<Replica>>);

impl ReplicatedLog {
    pub fn new(replica: Replica) -> Self {
        Self(Arc::new(Mutex::new(replica)))
    }

    /// The replica. Held for one call at a time.
    pub fn replica(&self) -> MutexGuard<'_, Replica> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for ReplicatedLog {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        self.replica().append(timestamp_ms, payload)
    }

    fn copy(&mut self, _: &Frame) -> Result<(), Error> {
        Err(Error::NotLeading)
    }

    fn appended(&self) -> Index {
        self.replica().appended()
    }

    fn committed(&self) -> Index {
        self.replica().committed()
    }

    fn term(&self) -> u64 {
        self.replica().term()
    }

    /// The term is what the group has agreed on.
    fn set_term(&mut self, term: u64) {
        debug_assert_eq!(term, self.term(), "an engine leads in the term of its replica");
    }

    fn previous_term(&self) -> u64 {
        self.replica().log().previous_term()
    }

    fn sizes(&self) -> Sizes {
        self.replica().log().sizes()
    }

    fn set_sizes(&mut self, sizes: Sizes) {
        self.replica().log_mut().set_sizes(sizes);
    }

    fn flusher(&self) -> Arc<dyn Flusher> {
        let local = self.replica().log().flusher();
        Arc::new(ReplicatedFlusher { local, replica: self.clone() })
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.replica().log().reader()
    }

    fn truncate(&mut self, _: Index) -> Result<(), Error> {
        Err(Error::NotLeading)
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.replica().log().segments()
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.replica().roll()
    }

    fn spare_maker(&mut self) -> Option<Arc<dyn SpareMaker>> {
        self.replica().log_mut().spare_maker()
    }

    fn put_spare(&mut self, made: Result<Spare, Error>) -> Result<(), Error> {
        self.replica().log_mut().put_spare(made)
    }

    fn scarcity(&self) -> Option<&str> {
        self.replica().log().scarcity().map(|_| "no room for another segment on this node")
    }

    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        self.replica().log().index_writer()
    }

    fn scrubber(&self) -> Option<Arc<dyn Scrubber>> {
        self.replica().log().scrubber()
    }

    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.replica().remove_oldest(segment)
    }

    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        let local = self.replica().log().checkpoints();
        Arc::new(ReplicatedCheckpoints { local, replica: self.clone() })
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.replica().log().usage()
    }
}

/// Flushes the local log, and tells the replica.
struct ReplicatedFlusher {
    local: Arc<dyn Flusher>,
    replica: ReplicatedLog,
}

impl Flusher for ReplicatedFlusher {
    /// The replica is not held while the disk works. Returns what is committed by then, which others have a part in.
    fn flush(&self) -> Result<Index, Error> {
        self.local.flush()?;
        let mut replica = self.replica.replica();
        replica.flushed().map_err(poisoned)?;
        Ok(replica.committed())
    }

    fn sync_manifest(&self) -> Result<(), Error> {
        self.local.sync_manifest()
    }
}

/// Checkpoints of the local log. To save one may flush frames, which the replica has to learn.
struct ReplicatedCheckpoints {
    local: Arc<dyn Checkpoints>,
    replica: ReplicatedLog,
}

impl Checkpoints for ReplicatedCheckpoints {
    fn save(&self, at: Index, state: &[u8]) -> Result<(), Error> {
        self.local.save(at, state)?;
        self.replica.replica().flushed().map_err(poisoned)
    }

    fn load(&self) -> Result<StoredCheckpoints, Error> {
        self.local.load()
    }
}
