//! Segments as all threads see them.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{
    Index, Position, SegmentId, SegmentInfo, names, segment_file,
    storage::{Storage, StorageFile},
};

/// One segment. The owner moves its end forward; readers go no further than that.
#[derive(Debug)]
pub(crate) struct Segment {
    pub header: segment_file::Header,
    end: AtomicU64,
    last: AtomicU64,
    last_timestamp_ms: AtomicU64,
    last_term: AtomicU64,
    active: AtomicBool,
    /// Whether the header and the name of the file are durable.
    beginning_durable: AtomicBool,
    has_index: AtomicBool,
    log_file: Slot,
    index_file: Slot,
}

/// Where a segment's frames end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub position: u64,
    pub last: u64,
    pub last_timestamp_ms: u64,
    pub last_term: u64,
}

impl End {
    /// The end of a segment that holds no frame.
    pub(crate) fn of_empty(header: &segment_file::Header) -> Self {
        Self {
            position: header.base + segment_file::HEADER_BYTES,
            last: header.first.saturating_sub(1),
            last_timestamp_ms: 0,
            last_term: header.previous_term,
        }
    }
}

impl Segment {
    pub(crate) fn new(header: segment_file::Header, end: End) -> Self {
        Self {
            header,
            end: AtomicU64::new(end.position),
            last: AtomicU64::new(end.last),
            last_timestamp_ms: AtomicU64::new(end.last_timestamp_ms),
            last_term: AtomicU64::new(end.last_term),
            active: AtomicBool::new(false),
            beginning_durable: AtomicBool::new(true),
            has_index: AtomicBool::new(false),
            log_file: Slot::default(),
            index_file: Slot::default(),
        }
    }

    pub(crate) fn base(&self) -> u64 {
        self.header.base
    }

    pub(crate) fn log_name(&self) -> String {
        names::segment(self.header.base)
    }

    pub(crate) fn index_name(&self) -> String {
        names::index(self.header.base)
    }

    /// Position after the last frame.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end() == self.header.base + segment_file::HEADER_BYTES
    }

    /// Only the owner calls this; readers that see the new end see the frame's bytes too.
    pub(crate) fn advance(&self, end: End) {
        self.last.store(end.last, Ordering::Relaxed);
        self.last_timestamp_ms.store(end.last_timestamp_ms, Ordering::Relaxed);
        self.last_term.store(end.last_term, Ordering::Relaxed);
        self.end.store(end.position, Ordering::Release);
    }

    /// Takes the segment away from readers that still hold it.
    pub(crate) fn retract(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    pub(crate) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    pub(crate) fn is_beginning_durable(&self) -> bool {
        self.beginning_durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_beginning_durable(&self, durable: bool) {
        self.beginning_durable.store(durable, Ordering::Release);
    }

    pub(crate) fn has_index(&self) -> bool {
        self.has_index.load(Ordering::Acquire)
    }

    pub(crate) fn set_has_index(&self, has_index: bool) {
        self.index_file.clear();
        self.has_index.store(has_index, Ordering::Release);
    }

    pub(crate) fn keep_open(&self, file: Arc<dyn StorageFile>) {
        self.log_file.put(file);
    }

    fn slot(&self, part: Part) -> &Slot {
        match part {
            Part::Log => &self.log_file,
            Part::Index => &self.index_file,
        }
    }

    pub(crate) fn trailer(&self) -> segment_file::Trailer {
        segment_file::Trailer {
            base: self.base(),
            end: self.end(),
            last: self.last(),
            last_timestamp_ms: self.last_timestamp_ms.load(Ordering::Relaxed),
            last_term: self.last_term.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn info(&self) -> SegmentInfo {
        SegmentInfo {
            id: SegmentId(self.base()),
            end: Position(self.end()),
            first: Index(self.header.first),
            last: Index(self.last()),
            last_timestamp_ms: self.last_timestamp_ms.load(Ordering::Relaxed),
            active: self.is_active(),
            has_index: self.has_index(),
        }
    }
}

/// A file handle that may be closed when too many are open.
#[derive(Debug, Default)]
struct Slot {
    file: RwLock<Option<Arc<dyn StorageFile>>>,
    used: AtomicU64,
}

impl Slot {
    fn get(&self) -> Option<Arc<dyn StorageFile>> {
        self.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, file: Arc<dyn StorageFile>) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }

    fn clear(&self) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_open(&self) -> bool {
        self.file.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Which of the two files of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Log,
    Index,
}

/// All segments of a log, by the position at which they begin.
#[derive(Debug)]
pub(crate) struct Segments {
    storage: Arc<dyn Storage>,
    by_base: RwLock<BTreeMap<u64, Arc<Segment>>>,
    open_files_max: usize,
    clock: AtomicU64,
}

pub(crate) type SegmentMap = BTreeMap<u64, Arc<Segment>>;

impl Segments {
    pub(crate) fn new(storage: Arc<dyn Storage>, segments: SegmentMap, open_files_max: usize) -> Self {
        Self { storage, by_base: RwLock::new(segments), open_files_max, clock: AtomicU64::new(1) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, SegmentMap> {
        self.by_base.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, segment: Arc<Segment>) {
        self.by_base.write().unwrap_or_else(PoisonError::into_inner).insert(segment.base(), segment);
    }

    pub(crate) fn remove(&self, base: u64) {
        self.by_base.write().unwrap_or_else(PoisonError::into_inner).remove(&base);
    }

    pub(crate) fn get(&self, base: u64) -> Option<Arc<Segment>> {
        self.read().get(&base).cloned()
    }

    /// The segment whose address range holds `position`, or would if it were long enough.
    pub(crate) fn holding(&self, position: u64) -> Option<Arc<Segment>> {
        self.read().range(..=position).next_back().map(|(_, segment)| Arc::clone(segment))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.read().values().cloned().collect()
    }

    /// The handle of a file that is open already; opening one may wait for the disk.
    pub(crate) fn open_file(&self, segment: &Segment, part: Part) -> Option<Arc<dyn StorageFile>> {
        let slot = segment.slot(part);
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot.get()
    }

    /// An open handle. It stays readable after the file is removed or the handle is closed here.
    pub(crate) fn file(&self, segment: &Segment, part: Part) -> io::Result<Arc<dyn StorageFile>> {
        if let Some(file) = self.open_file(segment, part) {
            return Ok(file);
        }
        let slot = segment.slot(part);
        let file = self.storage.open(&match part {
            Part::Log => segment.log_name(),
            Part::Index => segment.index_name(),
        })?;
        slot.put(Arc::clone(&file));
        self.close_unused();
        Ok(file)
    }

    /// Closes the handles that were not used for longest. A walk over all segments, but only when a file
    /// had to be opened, which costs more.
    fn close_unused(&self) {
        let segments = self.read();
        let slots = segments.values().flat_map(|segment| [&segment.log_file, &segment.index_file]);
        let mut open: Vec<&Slot> = slots.filter(|slot| slot.is_open()).collect();
        if open.len() > self.open_files_max {
            open.sort_by_key(|slot| slot.used.load(Ordering::Relaxed));
            for slot in open.iter().take(open.len() - self.open_files_max) {
                slot.clear();
            }
        }
    }
}
