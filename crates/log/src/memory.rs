//! The log in memory: the same frames at the same positions as on disk, gone with the process.

mod chunks;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytes::Bytes;

use crate::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, Options, Position, ReadError,
    Reader, SegmentId, SegmentInfo, Sizes, StoredCheckpoints, Usage, checkpoint,
    frame::{self, Place, Stamp},
    segment_file::{HEADER_BYTES, TRAILER_BYTES},
};

use chunks::Chunks;

/// A volume of this size is pretended, so that thresholds in percent have something to divide by.
const VOLUME_BYTES: u64 = 1 << 40;

/// [`Log`] in memory. A flush commits at once.
#[derive(Debug)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    options: Options,
    term: u64,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLog {
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    /// Segment and payload sizes count here; the other options are for disks.
    pub fn with_options(options: Options) -> Self {
        let mut state = State::default();
        state.segments.insert(0, Segment::new(0, 1, 0));
        Self { shared: Arc::new(Shared(RwLock::new(state))), options: options.sanitized(), term: 0 }
    }
}

#[derive(Debug)]
struct Shared(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    /// Never empty: the last one is active.
    segments: BTreeMap<u64, Segment>,
    appended: u64,
    committed: u64,
    checkpoints: BTreeMap<u64, Bytes>,
}

#[derive(Debug)]
struct Segment {
    base: u64,
    first: u64,
    /// Everything from the segment's base on; the header is zeros.
    bytes: Chunks,
    last: u64,
    last_timestamp_ms: u64,
    previous_term: u64,
    last_term: u64,
    index: Option<Bytes>,
}

impl Segment {
    fn new(base: u64, first: u64, previous_term: u64) -> Self {
        let mut bytes = Chunks::default();
        bytes.extend(&[0; HEADER_BYTES as usize]);
        let last = first - 1;
        Self {
            base,
            first,
            bytes,
            last,
            last_timestamp_ms: 0,
            previous_term,
            last_term: previous_term,
            index: None,
        }
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len()
    }

    fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// The frame that begins here, or why there is none.
    fn frame(&self, at: u64) -> Result<Frame, frame::Fault> {
        let offset = at - self.base;
        let place = Place { salt: 0, position: at };
        let header = self.bytes.copy(offset, frame::HEADER_BYTES).ok_or(frame::Fault::Short)?;
        let header = frame::Header::parse(&header, place)?;
        let bytes = self.bytes.copy(offset, header.stored_bytes() as usize).ok_or(frame::Fault::Short)?;
        header.verify(&bytes)?;
        Ok(Frame {
            term: header.term,
            index: Index(header.index),
            timestamp_ms: header.timestamp_ms,
            position: Position(at + frame::HEADER_BYTES as u64),
            payload: Bytes::from(bytes).slice(frame::HEADER_BYTES..header.length as usize),
            next: Position(at + header.stored_bytes()),
        })
    }

    fn info(&self, active: bool) -> SegmentInfo {
        SegmentInfo {
            id: SegmentId(self.base),
            end: Position(self.end()),
            first: Index(self.first),
            last: Index(self.last),
            last_timestamp_ms: self.last_timestamp_ms,
            active,
            has_index: self.index.is_some(),
        }
    }

    fn damaged(&self, at: u64, fault: frame::Fault) -> ReadError {
        let (offset, position) = (at - self.base, Position(at));
        ReadError::Corrupt { file: "memory".to_owned(), offset, position, what: fault.what() }
    }

    /// Drops the frames after `last`.
    fn truncate(&mut self, last: u64) {
        let mut at = self.base + HEADER_BYTES;
        (self.last, self.last_timestamp_ms, self.last_term) = (self.first - 1, 0, self.previous_term);
        while self.last < last
            && let Ok(frame) = self.frame(at)
        {
            at = frame.next.0;
            self.last = frame.index.0;
            self.last_timestamp_ms = frame.timestamp_ms;
            self.last_term = frame.term;
        }
        self.bytes.truncate(at - self.base);
        self.index = None;
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn active_base(&self) -> u64 {
        self.segments.last_key_value().map_or(0, |(base, _)| *base)
    }

    fn end(&self) -> u64 {
        self.segments.last_key_value().map_or(0, |(_, active)| active.end())
    }

    /// Writes a frame at the end; returns its segment and where it begins.
    fn write_frame(&mut self, stamp: Stamp, payload: &[u8]) -> (u64, u64) {
        self.appended = stamp.index;
        let mut active =
            self.segments.last_entry().expect("a log has an active segment from its creation on");
        let active = active.get_mut();
        let position = active.end();
        active.bytes.extend(&frame::encode_header(stamp, payload, Place { salt: 0, position }));
        active.bytes.extend(payload);
        let padding = frame::stored_bytes(payload.len()) as usize - frame::HEADER_BYTES - payload.len();
        active.bytes.extend(&[0; frame::ALIGNMENT as usize][..padding]);
        active.last = stamp.index;
        active.last_timestamp_ms = stamp.timestamp_ms;
        active.last_term = stamp.term;
        (active.base, position)
    }

    fn roll(&mut self) {
        if let Some((_, active)) = self.segments.last_key_value() {
            let new = Segment::new(active.end() + TRAILER_BYTES, self.appended + 1, active.last_term);
            self.segments.insert(new.base, new);
        }
    }

    fn holding(&self, position: Position) -> Result<&Segment, ReadError> {
        let segment = self.segments.range(..=position.0).next_back();
        segment.map(|(_, segment)| segment).ok_or(ReadError::Removed(position))
    }

    fn index(&self, segment: SegmentId) -> Result<Option<&Bytes>, ReadError> {
        let found = self.segments.get(&segment.0).ok_or(ReadError::Removed(Position(segment.0)))?;
        Ok(found.index.as_ref())
    }
}

impl Log for MemoryLog {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        let limit = self.options.payload_bytes_max;
        if payload.len() > limit {
            return Err(Error::FrameTooLarge { size: payload.len(), limit });
        }
        let stored = frame::stored_bytes(payload.len());
        let mut state = self.shared.write();
        let full = state.segments.last_key_value().is_some_and(|(_, active)| {
            !active.is_empty() && active.bytes.len() + stored + TRAILER_BYTES > self.options.segment_bytes
        });
        if full {
            state.roll();
        }
        let index = state.appended + 1;
        let stamp = Stamp { term: self.term, index, timestamp_ms, durable: 0 };
        let (segment, position) = state.write_frame(stamp, payload);
        Ok(Appended {
            index: Index(index),
            payload: Position(position + frame::HEADER_BYTES as u64),
            segment: SegmentId(segment),
        })
    }

    fn sizes(&self) -> Sizes {
        self.options.sizes()
    }

    fn set_sizes(&mut self, sizes: Sizes) {
        let Sizes { segment_bytes, payload_bytes_max } = sizes.sanitized();
        (self.options.segment_bytes, self.options.payload_bytes_max) = (segment_bytes, payload_bytes_max);
    }

    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        let mut state = self.shared.write();
        let at = frame.position.0.checked_sub(frame::HEADER_BYTES as u64);
        let end = state.end();
        if at == Some(end + TRAILER_BYTES + HEADER_BYTES) && end > state.active_base() + HEADER_BYTES {
            state.roll();
        }
        if at != Some(state.end()) || frame.index.0 != state.appended + 1 {
            let (index, position) = (frame.index, frame.position);
            return Err(Error::Misplaced { index, position, end: Position(end) });
        }
        let (index, timestamp_ms) = (frame.index.0, frame.timestamp_ms);
        state.write_frame(Stamp { term: frame.term, index, timestamp_ms, durable: 0 }, &frame.payload);
        Ok(())
    }

    fn appended(&self) -> Index {
        Index(self.shared.read().appended)
    }

    fn committed(&self) -> Index {
        Index(self.shared.read().committed)
    }

    fn term(&self) -> u64 {
        self.term
    }

    fn set_term(&mut self, term: u64) {
        self.term = term;
    }

    fn previous_term(&self) -> u64 {
        self.shared.read().segments.values().next().map_or(0, |oldest| oldest.previous_term)
    }

    fn flusher(&self) -> Arc<dyn Flusher> {
        Arc::clone(&self.shared) as Arc<dyn Flusher>
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.shared) as Arc<dyn Reader>
    }

    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        let mut state = self.shared.write();
        let state = &mut *state;
        let first = state.segments.first_key_value().map_or(1, |(_, oldest)| oldest.first);
        if last.0 > state.appended || last.0 + 1 < first {
            let end = Index(state.appended);
            return Err(Error::TruncateOutOfRange { last, first: Index(first), end });
        }
        if last.0 == state.appended {
            return Ok(());
        }
        state.segments.retain(|_, segment| segment.first <= last.0 + 1);
        if let Some(mut active) = state.segments.last_entry() {
            active.get_mut().truncate(last.0);
        }
        state.checkpoints.retain(|at, _| *at <= last.0);
        state.appended = last.0;
        state.committed = state.committed.min(last.0);
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.shared.read();
        let active = state.active_base();
        state.segments.values().map(|segment| segment.info(segment.base == active)).collect()
    }

    fn roll(&mut self) -> Result<(), Error> {
        let mut state = self.shared.write();
        if state.segments.last_key_value().is_some_and(|(_, active)| !active.is_empty()) {
            state.roll();
        }
        Ok(())
    }

    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        Arc::clone(&self.shared) as Arc<dyn IndexWriter>
    }

    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        let mut state = self.shared.write();
        if segment.0 == state.active_base() {
            return Err(Error::SegmentActive(segment));
        }
        match state.segments.first_entry() {
            Some(oldest) if *oldest.key() == segment.0 => {
                oldest.remove();
                Ok(())
            }
            _ => Err(Error::NotOldest(segment)),
        }
    }

    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        Arc::clone(&self.shared) as Arc<dyn Checkpoints>
    }

    fn usage(&self) -> Result<Usage, Error> {
        let used: u64 = self.shared.read().segments.values().map(|segment| segment.bytes.len()).sum();
        Ok(Usage { total: VOLUME_BYTES, free: VOLUME_BYTES.saturating_sub(used) })
    }
}

impl Flusher for Shared {
    fn flush(&self) -> Result<Index, Error> {
        let mut state = self.write();
        state.committed = state.appended;
        Ok(Index(state.committed))
    }
}

impl Reader for Shared {
    fn read(&self, position: Position, len: usize) -> Result<Bytes, ReadError> {
        let state = self.read();
        let segment = state.holding(position)?;
        let copy = segment.bytes.copy(position.0 - segment.base, len);
        copy.map(Bytes::from).ok_or(ReadError::OutOfRange { position, len })
    }

    fn frame(&self, position: Position) -> Result<Option<Frame>, ReadError> {
        let state = self.read();
        let segment = state.holding(position)?;
        let start = position.0.max(segment.base + HEADER_BYTES);
        if start > segment.end() && segment.base == state.active_base() {
            return Err(ReadError::OutOfRange { position, len: 0 });
        }
        if start.is_multiple_of(frame::ALIGNMENT)
            && start < segment.end()
            && let Ok(frame) = segment.frame(start)
        {
            return Ok(Some(frame));
        }
        let mut at = segment.base + HEADER_BYTES;
        while at < start && at < segment.end() {
            at = segment.frame(at).map_err(|fault| segment.damaged(at, fault))?.next.0;
        }
        if at >= segment.end() {
            return Ok(None);
        }
        segment.frame(at).map(Some).map_err(|fault| segment.damaged(at, fault))
    }

    fn index_len(&self, segment: SegmentId) -> Result<Option<u64>, ReadError> {
        Ok(self.read().index(segment)?.map(|index| index.len() as u64))
    }

    fn index_read(&self, segment: SegmentId, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let state = self.read();
        let out_of_range = || ReadError::OutOfRange { position: Position(offset), len };
        let index = state.index(segment)?.ok_or_else(out_of_range)?;
        let end = offset.checked_add(len as u64).filter(|end| *end <= index.len() as u64);
        end.map(|end| index.slice(offset as usize..end as usize)).ok_or_else(out_of_range)
    }
}

impl IndexWriter for Shared {
    fn write(&self, segment: SegmentId, index: &[u8]) -> Result<(), Error> {
        let mut state = self.write();
        if segment.0 == state.active_base() {
            return Err(Error::SegmentActive(segment));
        }
        if let Some(found) = state.segments.get_mut(&segment.0) {
            found.index = Some(Bytes::copy_from_slice(index));
        }
        Ok(())
    }
}

impl Checkpoints for Shared {
    fn save(&self, at: Index, state: &[u8]) -> Result<(), Error> {
        let mut kept = self.write();
        if at.0 > kept.appended {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the log holds no such frame");
            return Err(Error::Io { what: format!("saving a checkpoint of frame {at}"), source });
        }
        if at.0 > kept.committed {
            kept.committed = kept.appended;
        }
        kept.checkpoints.insert(at.0, Bytes::copy_from_slice(state));
        while kept.checkpoints.len() > checkpoint::KEPT {
            kept.checkpoints.pop_first();
        }
        Ok(())
    }

    fn load(&self) -> Result<StoredCheckpoints, Error> {
        let state = self.read();
        let newest_first = state.checkpoints.iter().rev();
        Ok((newest_first.map(|(at, blob)| (Index(*at), blob.clone())).collect(), Vec::new()))
    }
}
