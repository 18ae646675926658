//! The log as `raft` reads it: frames as entries, the newest of them from memory.
//!
//! A log that began without replication has frames of term 0, which `raft` takes for "no such entry". It sees them as frames
//! of term 1.

use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use raft::{
    Error, GetEntriesContext, RaftState, Storage, StorageError,
    eraftpb::{ConfState, Entry, EntryType, Snapshot, SnapshotMetadata},
};
use redstart_log::{
    Appended, FRAME_HEADER_BYTES, Frame, Index, Log, Origin, Position, ReadError, Reader, SegmentId,
};

use crate::{catch_up, membership, message::Place};

/// Where a frame begins is remembered about once for so many bytes, so that old frames are found without reading all of
/// their segment.
const PLACE_DISTANCE_BYTES: u64 = 256 << 10;
const PLACES_MAX: usize = 16 << 10;

pub(crate) struct FrameStore {
    pub log: Box<dyn Log>,
    reader: Arc<dyn Reader>,
    /// State and members at the start.
    pub initial: RaftState,
    /// Who takes part, by the frame from which on; the first of them before the oldest frame.
    pub memberships: Vec<(u64, ConfState)>,
    /// The newest frames, without gaps up to the last.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    memory_bytes_max: usize,
    /// Where some frames begin, by index.
    places: BTreeMap<u64, u64>,
    /// The frame behind the last one that was read from the log, and where it begins.
    next_read: Cell<Option<(u64, Position)>>,
    first: u64,
    /// The last frame that `raft` has given out. A proposal is written before `raft` hears of it.
    pub last: u64,
    last_timestamp_ms: u64,
    /// The last frame that is committed and durable here.
    pub committed: u64,
}

impl FrameStore {
    /// Takes a log; the last committed frame and all after it are read into memory.
    pub(crate) fn open(
        log: Box<dyn Log>,
        initial: RaftState,
        memberships: Vec<(u64, ConfState)>,
        committed: u64,
        memory_bytes_max: usize,
    ) -> Result<Self, ReadError> {
        let segments = log.segments();
        let mut store = Self {
            reader: log.reader(),
            initial,
            memberships,
            committed,
            recent: VecDeque::new(),
            recent_bytes: 0,
            memory_bytes_max,
            places: BTreeMap::new(),
            next_read: Cell::new(None),
            last: log.appended().0,
            first: segments.first().map_or(1, |oldest| oldest.first.0),
            last_timestamp_ms: segments.iter().map(|segment| segment.last_timestamp_ms).max().unwrap_or(0),
            log,
        };
        let last = store.last;
        let from = committed.max(store.first);
        if from <= last {
            let entries = store.read(from, last + 1, u64::MAX)?;
            entries.into_iter().for_each(|entry| store.remember(entry));
        }
        Ok(store)
    }

    /// The timestamp of the last frame: the one that frames get which nobody proposed.
    pub(crate) fn last_timestamp_ms(&self) -> u64 {
        self.last_timestamp_ms
    }

    /// Writes a frame of this node's own and remembers it.
    pub(crate) fn append(
        &mut self,
        term: u64,
        timestamp_ms: u64,
        entry_type: EntryType,
        data: Bytes,
    ) -> Result<(Appended, Entry), redstart_log::Error> {
        self.log.set_term(term);
        let appended = match entry_type {
            EntryType::EntryNormal => self.log.append(timestamp_ms, &data)?,
            _ => self.log.append(timestamp_ms, &membership::payload(&data))?,
        };
        let place = Place { timestamp_ms, position: appended.payload.0 };
        let (index, context) = (appended.index.0, place.encode());
        let entry = Entry { entry_type, term, index, data, context, ..Entry::default() };
        self.remember(entry.clone());
        Ok((appended, entry))
    }

    /// Writes a frame of the leader's where the leader has it, and remembers it.
    pub(crate) fn copy(&mut self, entry: Entry, place: Place) -> Result<(), redstart_log::Error> {
        let payload = match entry.entry_type {
            EntryType::EntryNormal => entry.data.clone(),
            _ => membership::payload(&entry.data),
        };
        let position = Position(place.position);
        self.log.copy(&Frame {
            term: entry.term,
            index: Index(entry.index),
            timestamp_ms: place.timestamp_ms,
            position,
            payload,
            next: position,
        })?;
        self.remember(entry);
        Ok(())
    }

    fn remember(&mut self, entry: Entry) {
        if let Some(place) = Place::of(&entry) {
            self.last_timestamp_ms = place.timestamp_ms;
            let newest = self.places.last_key_value().map_or(0, |(_, position)| *position);
            if place.position >= newest + PLACE_DISTANCE_BYTES {
                self.places.insert(entry.index, place.position.saturating_sub(FRAME_HEADER_BYTES));
            }
            if self.places.len() > PLACES_MAX {
                self.places.pop_first();
            }
        }
        self.recent_bytes += entry.data.len();
        self.recent.push_back(entry);
    }

    /// Forgets frames that fill the memory; those after `applied` are kept.
    pub(crate) fn forget(&mut self, applied: u64) {
        while self.recent_bytes > self.memory_bytes_max
            && let Some(oldest) = self.recent.front().filter(|oldest| oldest.index < applied)
        {
            self.recent_bytes -= oldest.data.len();
            self.recent.pop_front();
        }
    }

    /// Drops every frame after `last`.
    pub(crate) fn truncate(&mut self, last: u64) -> Result<(), redstart_log::Error> {
        self.log.truncate(Index(last))?;
        self.last = last;
        while let Some(newest) = self.recent.back().filter(|newest| newest.index > last) {
            self.recent_bytes -= newest.data.len();
            self.recent.pop_back();
        }
        self.places.split_off(&(last + 1));
        self.next_read.set(None);
        if let Some(place) = self.recent.back().and_then(Place::of) {
            self.last_timestamp_ms = place.timestamp_ms;
        }
        Ok(())
    }

    pub(crate) fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), redstart_log::Error> {
        self.log.remove_oldest(segment)?;
        self.first = self.log.segments().first().map_or(1, |oldest| oldest.first.0);
        self.places = self.places.split_off(&self.first);
        Ok(())
    }

    /// A frame that is in memory.
    pub(crate) fn recent(&self, index: u64) -> Option<&Entry> {
        let oldest = self.recent.front()?.index;
        self.recent.get(usize::try_from(index.checked_sub(oldest)?).ok()?)
    }

    /// Reads frames from the log: at least one, and no more than fit into `bytes_max`.
    fn read(&self, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>, ReadError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let segments = self.log.segments();
        let holding = segments.iter().skip_while(|segment| segment.last.0 < low);
        for segment in holding.take_while(|segment| segment.first.0 < high) {
            let begin = Position(segment.id.0);
            let mut at = self.start_for(low.max(segment.first.0), segment.first.0).unwrap_or(begin);
            while let Some(frame) = self.reader.frame(at)? {
                at = frame.next;
                if frame.index.0 >= high {
                    return Ok(entries);
                }
                if frame.index.0 < low {
                    continue;
                }
                bytes += frame.payload.len() as u64;
                if bytes > bytes_max && !entries.is_empty() {
                    return Ok(entries);
                }
                self.next_read.set(Some((frame.index.0 + 1, frame.next)));
                entries.push(entry_of(frame));
            }
        }
        Ok(entries)
    }

    /// A position at or before the frame `index`, in the segment that begins with the frame `first`.
    fn start_for(&self, index: u64, first: u64) -> Option<Position> {
        if let Some((next, at)) = self.next_read.get()
            && next == index
            && index > first
        {
            return Some(at);
        }
        let (_, place) = self.places.range(first + 1..=index).next_back()?;
        Some(Position(*place))
    }
}

/// A frame as an entry.
fn entry_of(frame: Frame) -> Entry {
    let (entry_type, data) = match membership::change_of(&frame.payload) {
        Some(change) => (EntryType::EntryConfChangeV2, change),
        None => (EntryType::EntryNormal, frame.payload),
    };
    let place = Place { timestamp_ms: frame.timestamp_ms, position: frame.position.0 };
    Entry {
        entry_type,
        term: frame.term.max(1),
        index: frame.index.0,
        data,
        context: place.encode(),
        ..Entry::default()
    }
}

fn store_error(error: StorageError) -> Error {
    Error::Store(error)
}

impl Storage for FrameStore {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first {
            return Err(store_error(StorageError::Compacted));
        }
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        if self.recent(low).is_none() {
            // What is not committed is in memory, so this is a member that is far behind.
            return self.read(low, high, bytes_max).map_err(|_| {
                let again = context.can_async();
                store_error(if again {
                    StorageError::LogTemporarilyUnavailable
                } else {
                    StorageError::Unavailable
                })
            });
        }
        let mut bytes = 0;
        let within = |entry: &&Entry| {
            bytes += entry.data.len() as u64;
            bytes <= bytes_max || bytes == entry.data.len() as u64
        };
        Ok((low..high).map_while(|index| self.recent(index)).take_while(within).cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == 0 {
            return Ok(0);
        }
        if let Some(entry) = self.recent(index) {
            return Ok(entry.term);
        }
        if index + 1 == self.first {
            return Ok(self.log.previous_term().max(1));
        }
        if index < self.first {
            return Err(store_error(StorageError::Compacted));
        }
        // A frame that cannot be read now is like one that is gone: the member that needs it gets what a new one gets.
        match self.read(index, index + 1, u64::MAX).unwrap_or_default().first() {
            Some(entry) => Ok(entry.term),
            None => Err(store_error(StorageError::Compacted)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last)
    }

    /// What a member needs that has none of the frames that follow. The checkpoint is read from the disk.
    fn snapshot(&self, _: u64, _: u64) -> raft::Result<Snapshot> {
        let newest = self.log.checkpoints().load().ok().and_then(|(stored, _)| stored.into_iter().next());
        let members = self.memberships.iter().take_while(|(from, _)| *from < self.first).last();
        let segment = self.log.segments().first().map(|oldest| oldest.id);
        let parts = newest.zip(members).zip(segment).filter(|_| self.first > 1);
        let Some((((checkpoint, state), (_, members)), segment)) = parts else {
            return Err(store_error(StorageError::SnapshotTemporarilyUnavailable));
        };
        let previous_term = self.log.previous_term();
        let origin = Origin { segment, first: Index(self.first), previous_term };
        let (index, term) = (self.first - 1, previous_term.max(1));
        Ok(Snapshot {
            data: catch_up::snapshot_data(origin, Index(self.committed), checkpoint, &state),
            metadata: SnapshotMetadata { conf_state: members.clone(), index, term },
        })
    }
}
