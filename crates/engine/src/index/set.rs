//! The indexes of all segments: which are in memory, which on disk, and how their parts are read.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, Deref},
    sync::Arc,
};

use bytes::Bytes;
use redstart_log::{Position, ReadError, Reader, SegmentId};

use super::{
    LiveIndex,
    cache::BlockCache,
    cold::{Access, ColdPart, Failed, Warmed},
    file::{self, Header, Part, RunItem},
};
use crate::{
    Entry, QueueKey, QueueOffset, Timestamp,
    codec::Malformed,
    message_ref::MessageRef,
    queue::Queue,
    record::{FetchError, Fetched, Proof, checked, size_of_record},
    timer::TimerKey,
};

/// 1,024 blocks of 128 entries: 4 MiB.
const CACHED_BLOCKS_MAX: usize = 1024;

/// An index that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the index of segment {segment}: {source}")]
    Malformed { segment: SegmentId, source: Malformed },
    /// Only where the caller asked not to wait for the disk.
    #[error("{0} is not in memory")]
    Cold(ColdPart),
}

/// A message record that was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Only where the caller asked not to wait for the disk.
    #[error("{0} is not in memory")]
    Cold(ColdPart),
}

impl Unread {
    /// What the error proves about the message; `None` when another read may succeed.
    pub fn proof(&self) -> Option<Proof> {
        match self {
            Unread::Fetch(error) => error.proof(),
            Unread::Cold(_) => None,
        }
    }
}

impl From<Failed> for Unread {
    fn from(error: Failed) -> Unread {
        match error {
            Failed::Cold(part) => Unread::Cold(part),
            Failed::Read(error) => Unread::Fetch(FetchError::read(error)),
        }
    }
}

impl From<Failed> for IndexError {
    fn from(error: Failed) -> IndexError {
        match error {
            Failed::Cold(part) => IndexError::Cold(part),
            Failed::Read(error) => IndexError::Read(error),
        }
    }
}

type TimerList = Vec<(TimerKey, MessageRef)>;

/// The indexes of all segments, in memory or on disk.
pub(crate) struct Indexes {
    reader: Arc<dyn Reader>,
    live: BTreeMap<SegmentId, Arc<LiveIndex>>,
    sealed: BTreeMap<SegmentId, Header>,
    cache: RefCell<BlockCache>,
    /// Segments whose stored index was found damaged.
    damaged: RefCell<BTreeSet<SegmentId>>,
    /// Those of them that cannot be built again: their segment is damaged, too.
    lost: BTreeSet<SegmentId>,
    /// The segment whose index is being built again.
    rebuilding: Option<SegmentId>,
    access: Access,
}

impl std::fmt::Debug for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexes").field("live", &self.live.len()).field("sealed", &self.sealed.len()).finish()
    }
}

/// Consecutive entries of one queue.
#[derive(Debug)]
pub(crate) enum Chunk<'a> {
    Live(&'a [Entry]),
    Sealed { block: Arc<Vec<Entry>>, start: usize },
}

impl Deref for Chunk<'_> {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        match self {
            Chunk::Live(entries) => entries,
            Chunk::Sealed { block, start } => block.get(*start..).unwrap_or(&[]),
        }
    }
}

/// The keys of a segment's messages.
#[derive(Debug)]
pub(crate) enum KeyIndex<'a> {
    /// In memory, in the order they came.
    Live(&'a [(u64, Position)]),
    /// On disk, sorted.
    Stored { blocks: u64 },
}

impl Indexes {
    pub fn new(reader: Arc<dyn Reader>) -> Indexes {
        let cache = RefCell::new(BlockCache::new(CACHED_BLOCKS_MAX));
        let damaged = RefCell::default();
        Indexes {
            reader,
            live: BTreeMap::new(),
            sealed: BTreeMap::new(),
            cache,
            damaged,
            lost: BTreeSet::new(),
            rebuilding: None,
            access: Access::default(),
        }
    }

    /// How parts of the log are read.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Reads and checks a message record.
    pub fn record(&self, position: Position, size: u32) -> Result<Fetched, Unread> {
        let part = ColdPart::Record { position, len: size as usize };
        let bytes = self.access.read(&*self.reader, part)?;
        Ok(checked(bytes, position, size)?)
    }

    /// The same for a record whose length is not known.
    pub fn record_at(&self, position: Position, size_max: u32) -> Result<Fetched, Unread> {
        let head = ColdPart::Record { position, len: 4 };
        let head = self.access.read(&*self.reader, head)?;
        let size = size_of_record(&head, position, size_max)?;
        self.record(position, size)
    }

    /// Caches a part that a job has read. Parts other than entries stay in the system's page cache only, and damaged ones are
    /// left for the next read to report.
    pub fn warm(&self, warmed: &Warmed) {
        if let (ColdPart::Index { segment, at, .. }, Ok(bytes)) = (warmed.part, &warmed.result)
            && let Ok(entries) = file::decode_entries(bytes)
            && self.sealed.contains_key(&segment)
        {
            self.cache.borrow_mut().insert((segment, at), Arc::new(entries));
        }
    }

    pub fn live_mut(&mut self, segment: SegmentId) -> &mut LiveIndex {
        // Shared only once the segment takes no more entries, to be written: never copied in practice.
        Arc::make_mut(self.live.entry(segment).or_default())
    }

    pub fn live(&self, segment: SegmentId) -> Option<&Arc<LiveIndex>> {
        self.live.get(&segment)
    }

    /// Segments whose index is in memory, oldest first.
    pub fn live_segments(&self) -> Vec<SegmentId> {
        self.live.keys().copied().collect()
    }

    /// Loads a stored index: its runs and timers. An error means it must be built again.
    pub fn load(&mut self, segment: SegmentId) -> Result<(Vec<RunItem>, TimerList), IndexError> {
        let header = self.reader.index_read(segment, 0, file::HEADER_LEN)?;
        let malformed = |source| IndexError::Malformed { segment, source };
        let header = Header::decode(&header, segment).map_err(malformed)?;
        let runs = file::decode_directory(&self.read(segment, header.directory())?).map_err(malformed)?;
        let timers = file::decode_timers(&self.read(segment, header.timers())?).map_err(malformed)?;
        self.sealed.insert(segment, header);
        Ok((runs, timers))
    }

    pub fn timers(&self, segment: SegmentId) -> Result<Vec<(TimerKey, MessageRef)>, IndexError> {
        if let Some(live) = self.live.get(&segment) {
            return Ok(live.timers.clone());
        }
        let Some(header) = self.sealed.get(&segment) else { return Ok(Vec::new()) };
        // A file that the disk cannot read can be built again from its segment, as a damaged one can: retention must not stop
        // behind it.
        let bytes = self.read(segment, header.timers()).inspect_err(|_| self.note_damage(segment))?;
        file::decode_timers(&bytes).map_err(|source| self.malformed(segment, source))
    }

    /// Whether the index cannot be read, nor built again.
    pub fn is_lost(&self, segment: SegmentId) -> bool {
        self.lost.contains(&segment)
    }

    fn note_damage(&self, segment: SegmentId) {
        if !self.lost.contains(&segment) && self.rebuilding != Some(segment) {
            self.damaged.borrow_mut().insert(segment);
        }
    }

    fn malformed(&self, segment: SegmentId, source: Malformed) -> IndexError {
        self.note_damage(segment);
        IndexError::Malformed { segment, source }
    }

    /// The next segment whose damaged index is to be built again; none while one is being built.
    pub fn begin_rebuild(&mut self) -> Option<SegmentId> {
        if self.rebuilding.is_some() {
            return None;
        }
        let damaged = self.damaged.get_mut();
        damaged.retain(|segment| self.sealed.contains_key(segment));
        self.rebuilding = damaged.pop_first();
        self.rebuilding
    }

    /// Puts an index that was built again in the place of the stored one, until that is written anew.
    pub fn rebuilt(&mut self, segment: SegmentId, index: Arc<LiveIndex>) {
        self.end_rebuild(segment);
        // The segment may have been removed since.
        if self.sealed.remove(&segment).is_some() {
            self.live.insert(segment, index);
        }
    }

    pub fn end_rebuild(&mut self, segment: SegmentId) {
        self.rebuilding = self.rebuilding.filter(|rebuilding| *rebuilding != segment);
    }

    /// The index could not be built now.
    pub fn postpone_rebuild(&mut self, segment: SegmentId) {
        self.end_rebuild(segment);
        self.damaged.get_mut().insert(segment);
    }

    /// The index cannot be built again.
    pub fn give_up(&mut self, segment: SegmentId) {
        self.end_rebuild(segment);
        if self.sealed.contains_key(&segment) {
            self.lost.insert(segment);
        }
    }

    pub fn damaged(&self) -> usize {
        self.damaged.borrow().len()
    }

    /// Segments whose index cannot be read, nor built again.
    pub fn lost(&self) -> impl Iterator<Item = SegmentId> {
        self.lost.iter().copied()
    }

    /// Takes an index out of memory.
    pub fn take_live(&mut self, segment: SegmentId) -> Option<LiveIndex> {
        self.live.remove(&segment).map(Arc::unwrap_or_clone)
    }

    /// The index file of `segment` has been written: its index in memory is dropped.
    pub fn sealed(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<(), IndexError> {
        let header = bytes.get(..file::HEADER_LEN).unwrap_or(&[]);
        let header =
            Header::decode(header, segment).map_err(|source| IndexError::Malformed { segment, source })?;
        self.sealed.insert(segment, header);
        self.live.remove(&segment);
        Ok(())
    }

    /// When the last entry of any queue was stored, as far as entries are kept.
    pub fn newest(&self) -> Timestamp {
        let live = self.live.values().filter_map(|live| live.newest);
        live.chain(self.sealed.values().map(|header| header.newest)).max().unwrap_or_default()
    }

    /// The runs of a sealed segment, and the times of its first and last entry.
    pub fn listing(&self, segment: SegmentId) -> Result<(Vec<RunItem>, Timestamp, Timestamp), IndexError> {
        let Some(header) = self.sealed.get(&segment) else { return Ok(Default::default()) };
        let bytes = self.read(segment, header.directory())?;
        let runs = file::decode_directory(&bytes).map_err(|source| self.malformed(segment, source))?;
        Ok((runs, header.oldest, header.newest))
    }

    /// A segment and everything before it has left the log.
    pub fn forget_until(&mut self, segment: SegmentId) {
        let next = SegmentId(segment.0 + 1);
        self.live = self.live.split_off(&next);
        self.sealed = self.sealed.split_off(&next);
        self.lost = self.lost.split_off(&next);
    }

    /// Entries of `queue` from `offset` on, up to the end of an index block or run; empty when there are none.
    pub fn chunk<'a>(
        &'a self,
        key: QueueKey,
        queue: &Queue,
        offset: QueueOffset,
    ) -> Result<Chunk<'a>, IndexError> {
        let Some((run, end)) = queue.run_of(offset) else { return Ok(Chunk::Live(&[])) };
        let (Some(at), None) = (run.at, self.live.get(&run.segment)) else {
            let entries = self.live.get(&run.segment).map_or(&[][..], |live| live.entries(key, offset));
            return Ok(Chunk::Live(entries));
        };
        let n = offset.0 - run.first.0;
        let (_, part) = file::entry_block(at, n, end.0 - run.first.0);
        let start = (n % file::ENTRIES_PER_BLOCK) as usize;
        if let Some(block) = self.cache.borrow_mut().get((run.segment, part.at)) {
            return Ok(Chunk::Sealed { block, start });
        }
        let entries = file::decode_entries(&self.read(run.segment, part)?)
            .map_err(|source| self.malformed(run.segment, source))?;
        let block = Arc::new(entries);
        self.cache.borrow_mut().insert((run.segment, part.at), block.clone());
        Ok(Chunk::Sealed { block, start })
    }

    pub fn entry(
        &self,
        key: QueueKey,
        queue: &Queue,
        offset: QueueOffset,
    ) -> Result<Option<Entry>, IndexError> {
        Ok(self.chunk(key, queue, offset)?.first().copied())
    }

    /// The first offset whose message became visible at or after `at`; the queue's end when there is none.
    pub fn offset_at(&self, key: QueueKey, queue: &Queue, at: Timestamp) -> Result<QueueOffset, IndexError> {
        let (mut low, mut high) = (queue.min().0, queue.end().0);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(key, queue, QueueOffset(middle))? {
                Some(entry) if entry.stored_at >= at => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(QueueOffset(low))
    }

    /// The newest segment before the given one, or of all, that may hold records of messages which became visible by `to`.
    pub fn segment_before(&self, segment: Option<SegmentId>, to: Timestamp) -> Option<SegmentId> {
        let before = (Bound::Unbounded, segment.map_or(Bound::Unbounded, Bound::Excluded));
        let live = self.live.range(before).next_back().map(|(id, _)| *id);
        let mut sealed = self.sealed.range(before).rev();
        live.max(sealed.find(|(_, header)| header.oldest <= to).map(|(id, _)| *id))
    }

    /// How the keys of a segment can be looked up; `None` when it is gone.
    pub fn keys_of(&self, segment: SegmentId) -> Option<KeyIndex<'_>> {
        match self.live.get(&segment) {
            Some(live) => Some(KeyIndex::Live(&live.keys)),
            None => self.sealed.get(&segment).map(|header| KeyIndex::Stored { blocks: header.key_blocks() }),
        }
    }

    /// A block of a stored index's keys, which are sorted; `None` when there is no such block.
    pub fn key_block(
        &self,
        segment: SegmentId,
        block: u64,
    ) -> Result<Option<Vec<(u64, Position)>>, IndexError> {
        let Some(header) = self.sealed.get(&segment).filter(|header| block < header.key_blocks()) else {
            return Ok(None);
        };
        let keys = file::decode_keys(&self.read(segment, header.key_block(block))?);
        keys.map(Some).map_err(|source| self.malformed(segment, source))
    }

    /// The segment that holds `position`.
    pub fn segment_of(&self, position: Position) -> Option<SegmentId> {
        let range = (Bound::Unbounded, Bound::Included(SegmentId(position.0)));
        let live = self.live.range(range).next_back().map(|(id, _)| *id);
        let sealed = self.sealed.range(range).next_back().map(|(id, _)| *id);
        live.max(sealed)
    }

    fn read(&self, segment: SegmentId, part: Part) -> Result<Bytes, IndexError> {
        let part = ColdPart::Index { segment, at: part.at, len: part.len };
        let read = self.access.read(&*self.reader, part);
        Ok(read.inspect_err(|error| self.note_missing(segment, error))?)
    }

    /// A file that is gone, or shorter than it was, is damaged. Other errors say nothing about it.
    fn note_missing(&self, segment: SegmentId, error: &Failed) {
        let Failed::Read(error) = error else { return };
        let missing = match error {
            ReadError::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            ReadError::OutOfRange { .. } | ReadError::Corrupt { .. } => true,
            ReadError::Removed(_) => false,
        };
        if missing {
            self.note_damage(segment);
        }
    }
}
