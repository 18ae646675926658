use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU64, Ordering},
};

use super::blocks::Blocks;
use crate::{
    Error, Index, LockGuard, Options,
    error::io_error,
    manifest::{Durable, Manifest},
    options::planted,
    segment::{End, Segment, SegmentMap, Segments},
    storage::{Storage, StorageFile},
};

/// What the owner, the flusher, the readers and the jobs of one log share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub storage: Arc<dyn Storage>,
    pub options: Options,
    /// Size of the next segments. The other thread that reads it makes the spare.
    segment_bytes: AtomicU64,
    pub segments: Segments,
    /// What has been appended. Held for a few instructions by each append and each flush.
    pub tail: Mutex<Tail>,
    /// Held while a flush runs.
    pub flushing: Mutex<()>,
    committed: AtomicU64,
    /// The position up to which the log is durable; the newest frames carry it.
    durable: AtomicU64,
    poison: OnceLock<String>,
    pub blocks: Blocks,
    pub manifest: Manifest,
    /// The hold on the directory; `None` once the owner is gone. Writers keep it from going.
    lock: RwLock<Option<LockGuard>>,
}

/// A segment that has bytes to sync, with the handle they were written through: the kernel reports a lost
/// write to the handles that were open at the time.
#[derive(Clone, Debug)]
pub(crate) struct Writing {
    pub segment: Arc<Segment>,
    pub file: Arc<dyn StorageFile>,
}

/// The end of the log, as one consistent picture.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub appended: u64,
    pub end: u64,
    pub active: Writing,
    /// Segments that take no more frames, but are not sealed yet; oldest first.
    pub rolled: Vec<Writing>,
}

impl Tail {
    /// Where the appended frames end.
    pub(crate) fn durable(&self) -> Durable {
        let holds_end = |writing: &&Writing| writing.segment.base() < self.end;
        let segment = [&self.active].into_iter().chain(self.rolled.iter().rev()).find(holds_end);
        let segment = segment.map_or(0, |writing| writing.segment.base());
        Durable { segment, end: self.end, last: self.appended }
    }
}

/// Locks, also after a panic of another holder: what is guarded here is never left half changed.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        options: Options,
        segments: SegmentMap,
        tail: Tail,
        manifest: Manifest,
        lock: LockGuard,
    ) -> Self {
        Self {
            segments: Segments::new(Arc::clone(&storage), segments, options.open_files_max),
            segment_bytes: AtomicU64::new(options.segment_bytes),
            storage,
            options,
            committed: AtomicU64::new(tail.appended),
            durable: AtomicU64::new(tail.end),
            tail: Mutex::new(tail),
            flushing: Mutex::new(()),
            poison: OnceLock::new(),
            blocks: Blocks::default(),
            manifest,
            lock: RwLock::new(Some(lock)),
        }
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_segment_bytes(&self, bytes: u64) {
        self.segment_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) -> Index {
        Index(self.committed.load(Ordering::Acquire))
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Called only with `flushing` held.
    pub(crate) fn publish(&self, appended: u64, end: u64) {
        self.durable.store(end, Ordering::Release);
        self.committed.store(appended, Ordering::Release);
    }

    /// Takes back what a truncation has cut. Called only with `flushing` held.
    pub(crate) fn retract(&self, end: End) {
        self.blocks.forget();
        self.committed.fetch_min(end.last, Ordering::AcqRel);
        self.durable.fetch_min(end.position, Ordering::AcqRel);
    }

    /// Refuses all changes from now on, and tells why.
    pub(crate) fn poison(&self, cause: Error) -> Error {
        let _ = self.poison.set(cause.to_string());
        cause
    }

    pub(crate) fn refuse_if_poisoned(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Entered by everything that writes apart from the owner, so that the owner's end waits for it.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, Option<LockGuard>>, Error> {
        let held = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            return Err(Error::Poisoned { cause: "the log was closed".to_owned() });
        }
        Ok(held)
    }

    pub(crate) fn close(&self) {
        *self.lock.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes changes of the directory durable. If that fails, it is unknown which of them are durable, and the log is
    /// poisoned.
    pub(crate) fn sync_dir(&self) -> Result<(), Error> {
        if planted!(self.options, SkipDirSync) {
            return Ok(());
        }
        self.storage.sync_dir().map_err(|err| self.poison(io_error("syncing the directory", err)))
    }
}
