//! The log in a directory.

mod blocks;
mod checkpoints;
mod flusher;
mod index_writer;
mod origin;
mod reader;
mod shared;
mod spare;

use std::{io, sync::Arc};

use crate::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, Options, Position, Reader,
    Recovery, Scrubber, SegmentId, SegmentInfo, Sizes, SpareMaker, Usage, checkpoint,
    error::io_error,
    frame::{self, Place, Stamp},
    manifest::Durable,
    names,
    recovery::{self, Listing, Recovered},
    scan::{self, Checks, Scan, Until, Window},
    segment::{End, Part, Segment},
    segment_file::{self, HEADER_BYTES, TRAILER_BYTES},
    storage::{Storage, StorageFile},
};

pub use origin::Origin;
pub(crate) use shared::hold;
use shared::{Shared, Tail, Writing};
use spare::Reserve;
pub use spare::Spare;

/// A write buffer that grew beyond this for one large frame is freed instead of kept.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// Written where the next frames will be, see [`DiskLog::fill_ahead`].
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Behind a frame of this size nothing is written ahead: its own bytes weigh more than what that would save.
const LARGE_FRAME_BYTES: u64 = 64 << 10;

/// [`Log`] in a directory, held by one owner at a time. Dropping it waits for jobs that write, then gives the
/// directory free; it does not flush. Readers taken before stay usable.
#[derive(Debug)]
pub struct DiskLog {
    shared: Arc<Shared>,
    /// The rest of its [`Sizes`] is shared.
    payload_bytes_max: usize,
    active: Writing,
    term: u64,
    appended: u64,
    /// How much of the active file is known to have room on the disk.
    allocated: u64,
    /// How much of the active file has been written, with frames or with zeros.
    filled: u64,
    buffer: Vec<u8>,
    spare: Reserve,
}

impl DiskLog {
    /// Opens the log of a directory, and begins one where there is none. All frames that are found are durable
    /// when this returns.
    pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<(Self, Recovery), Error> {
        let lock = storage.lock()?;
        let options = options.sanitized();
        let recovered = recovery::recover(&storage, &options)?;
        let Recovered { segments, active, active_file, allocated, manifest, report } = recovered;
        let term = active.trailer().last_term;
        let active = Writing { segment: active, file: active_file };
        let tail = Tail {
            appended: active.segment.last(),
            end: active.segment.end(),
            active: active.clone(),
            rolled: Vec::new(),
        };
        let payload_bytes_max = options.payload_bytes_max;
        let shared = Arc::new(Shared::new(storage, options, segments, tail, manifest, lock));
        let appended = active.segment.last();
        let (filled, buffer, spare) = (0, Vec::new(), Reserve::default());
        let log =
            Self { shared, payload_bytes_max, active, term, appended, allocated, filled, buffer, spare };
        Ok((log, report))
    }

    /// Makes room for bytes up to this offset of the active file.
    fn reserve(&mut self, end: u64) -> Result<(), Error> {
        if end <= self.allocated {
            return Ok(());
        }
        let wanted = self.shared.segment_bytes().max(end);
        self.active.file.allocate(wanted).map_err(|err| self.writing(err))?;
        self.allocated = wanted;
        Ok(())
    }

    /// Makes room for a frame of this size in the active segment, or begins the next one.
    fn make_room(&mut self, stored: u64) -> Result<(), Error> {
        let used = self.active.segment.end() - self.active.segment.base();
        if used == HEADER_BYTES || used + stored + TRAILER_BYTES <= self.shared.segment_bytes() {
            // The trailer too: once the frames are written, sealing must not run out of room.
            match self.reserve(used + stored + TRAILER_BYTES) {
                // A file that had to be cut has lost its room. The spare has its own.
                Err(Error::NoSpace(_)) if self.spare.bytes() > 0 && used > HEADER_BYTES => {
                    self.active.file.allocate(used + TRAILER_BYTES).map_err(|err| self.writing(err))?;
                }
                reserved => return reserved,
            }
        }
        self.start_segment()?;
        self.reserve(HEADER_BYTES + stored + TRAILER_BYTES)
    }

    /// Makes room for a frame at the position that it has in another replica: behind the last frame, or in the next segment.
    fn make_room_at(&mut self, frame: &Frame) -> Result<(), Error> {
        let at = frame.position.0.checked_sub(frame::HEADER_BYTES as u64);
        let end = self.active.segment.end();
        if at == Some(end + TRAILER_BYTES + HEADER_BYTES) && !self.active.segment.is_empty() {
            self.start_segment()?;
        }
        let active = &self.active.segment;
        if at != Some(active.end()) || frame.index.0 != self.appended + 1 {
            let (index, position) = (frame.index, frame.position);
            return Err(Error::Misplaced { index, position, end: Position(end) });
        }
        let used = active.end() - active.base();
        self.reserve(used + frame::stored_bytes(frame.payload.len()) + TRAILER_BYTES)
    }

    /// Writes a frame at the end of the active segment, where there is room for it; returns where it begins.
    fn write_frame(&mut self, stamp: Stamp, payload: &[u8]) -> Result<u64, Error> {
        let segment = Arc::clone(&self.active.segment);
        let stored = frame::stored_bytes(payload.len());
        let position = segment.end();
        let offset = position - segment.base();
        self.buffer.clear();
        frame::encode(&mut self.buffer, stamp, payload, Place { salt: segment.header.salt, position });
        let written = self.active.file.write_at(offset, &self.buffer);
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        written.map_err(|err| self.undo_write(offset, err))?;

        self.fill_ahead(offset + stored, stored);

        let end = position + stored;
        self.appended = stamp.index;
        segment.advance(End {
            position: end,
            last: stamp.index,
            last_timestamp_ms: stamp.timestamp_ms,
            last_term: stamp.term,
        });
        let mut tail = hold(&self.shared.tail);
        tail.appended = stamp.index;
        tail.end = end;
        Ok(position)
    }

    /// Writes zeros where the next frames will be. Where room was only reserved, every sync makes the file system note
    /// in its journal that the blocks are in use now; where zeros are already, a sync takes about half as long. Nothing
    /// depends on it: what is behind the last frame reads as zeros either way.
    fn fill_ahead(&mut self, end: u64, frame: u64) {
        if end <= self.filled || frame >= LARGE_FRAME_BYTES {
            return;
        }
        let until = self.allocated.min(end + self.shared.options.ahead_bytes);
        for at in (end..until).step_by(ZEROS.len()) {
            let len = (until - at).min(ZEROS.len() as u64) as usize;
            if self.active.file.write_at(at, &ZEROS[..len]).is_err() {
                // A disk that is broken says so when frames are written or synced.
                break;
            }
        }
        self.filled = until.max(end);
    }

    fn writing(&self, err: io::Error) -> Error {
        io_error(format!("writing {}", self.active.segment.log_name()), err)
    }

    /// After a write that failed midway: leaves the log as it was before, or poisoned.
    fn undo_write(&mut self, offset: u64, err: io::Error) -> Error {
        let err = self.writing(err);
        if !matches!(err, Error::NoSpace(_)) {
            // It is not known what the device has done with the bytes.
            return self.shared.poison(err);
        }
        // A shorter file needs no room, and the part of the frame that was written is gone with it.
        match self.active.file.set_len(offset) {
            Ok(()) => {
                self.allocated = offset;
                self.filled = 0;
                err
            }
            Err(undo) => self.shared.poison(self.writing(undo)),
        }
    }

    /// Begins the next segment. On an error the active one stays active.
    fn start_segment(&mut self) -> Result<(), Error> {
        // At most the newest file may lack its header or its name after a power cut.
        self.sync_active_beginning()?;
        let old = &self.active.segment;
        let header = segment_file::Header {
            base: old.end() + TRAILER_BYTES,
            first: self.appended + 1,
            previous_term: old.trailer().last_term,
            salt: self.shared.storage.salt(),
        };
        let segment = Arc::new(Segment::new(header, End::of_empty(&header)));
        let (file, allocated) = match self.spare.take() {
            Some(spare) => {
                self.begin_from(spare.file.as_ref(), &header)?;
                // The next flush sees to it.
                segment.set_beginning_durable(false);
                (spare.file, spare.bytes)
            }
            None => {
                let bytes = self.shared.segment_bytes();
                let file = recovery::create_segment(self.shared.storage.as_ref(), &header, bytes)?;
                // Before any frame can count as durable, the name of its file has to.
                self.shared.sync_dir()?;
                (file, bytes)
            }
        };
        segment.keep_open(Arc::clone(&file));
        segment.set_active(true);
        self.allocated = allocated;
        self.filled = 0;
        self.activate(Writing { segment, file });
        // Without a manifest nothing tells a header that was torn from one that was damaged later.
        if self.shared.manifest.is_kept() { Ok(()) } else { self.sync_active_beginning() }
    }

    /// Makes a segment of the spare. Nothing of it is durable when this returns. After an error the spare is not used
    /// again before it was emptied.
    fn begin_from(&self, spare: &dyn StorageFile, header: &segment_file::Header) -> Result<(), Error> {
        let name = names::segment(header.base);
        let beginning = |err| io_error(format!("beginning {name}"), err);
        spare.write_at(0, &header.encode()).map_err(beginning)?;
        self.shared.storage.rename(names::SPARE, &name).map_err(|err| match beginning(err) {
            full @ Error::NoSpace(_) => full,
            // It may have that name after a restart, and frames of the old segment would reach into it.
            other => self.shared.poison(other),
        })
    }

    /// Makes the header and the name of the active segment durable. Only a log that rolls twice between two flushes
    /// waits for this.
    fn sync_active_beginning(&self) -> Result<(), Error> {
        let Writing { segment, file } = &self.active;
        if !segment.is_beginning_durable() {
            file.sync_data().map_err(|err| self.shared.poison(self.writing(err)))?;
            self.shared.sync_dir()?;
            segment.set_beginning_durable(true);
        }
        Ok(())
    }

    fn activate(&mut self, new: Writing) {
        let old = std::mem::replace(&mut self.active, new.clone());
        old.segment.set_active(false);
        self.shared.segments.insert(Arc::clone(&new.segment));
        let mut tail = hold(&self.shared.tail);
        tail.rolled.push(old);
        tail.active = new;
    }

    /// The segment that `last` is in, or would be next in.
    fn segment_for(&self, last: Index) -> Result<Arc<Segment>, Error> {
        let segments = self.shared.segments.all();
        let first = segments.first().map_or(1, |oldest| oldest.header.first);
        let target = segments.into_iter().rev().find(|segment| segment.header.first <= last.0 + 1);
        match target {
            Some(target) if last.0 <= self.appended => Ok(target),
            _ => Err(Error::TruncateOutOfRange { last, first: Index(first), end: Index(self.appended) }),
        }
    }

    /// Where the frame `last` ends, found by reading the segment from its beginning.
    fn end_of(&self, target: &Segment, last: Index) -> Result<(Arc<dyn StorageFile>, End), Error> {
        let name = target.log_name();
        let find = || -> io::Result<(Arc<dyn StorageFile>, Scan)> {
            let file = self.shared.segments.file(target, Part::Log)?;
            let until = Until { position: target.end(), index: last.0 };
            let scan = scan::scan(&mut Window::new(file.as_ref())?, &target.header, until, Checks::Full)?;
            Ok((file, scan))
        };
        let (file, scan) = find().map_err(|err| io_error(format!("reading {name}"), err))?;
        if let Some(fault) = scan.stop {
            return Err(recovery::corrupt(&name, target.base(), scan.end, fault.what()));
        }
        let end = End {
            position: scan.end,
            last: scan.last,
            last_timestamp_ms: scan.last_timestamp_ms,
            last_term: scan.last_term,
        };
        Ok((file, end))
    }

    /// The part of a truncation that changes the disk. Each step leaves a log that opens: first the checkpoints
    /// that would miss their frames, then whole segments, newest first, then the rest in one step.
    fn cut(&self, target: &Segment, file: &dyn StorageFile, end: End) -> Result<(), Error> {
        let storage = self.shared.storage.as_ref();
        let listing = Listing::read(storage)?;
        checkpoint::remove_after(storage, &listing.checkpoints, end.last)?;
        self.shared.sync_dir()?;
        for segment in self.shared.segments.all().iter().rev() {
            if segment.base() == target.base() {
                break;
            }
            segment.retract(segment.base());
            self.shared.segments.remove(segment.base());
            self.remove_files(segment)?;
        }
        target.retract(end.position);
        if target.has_index() {
            target.set_has_index(false);
            let name = target.index_name();
            storage.remove(&name).map_err(|err| io_error(format!("removing {name}"), err))?;
        }
        let truncating = |err| io_error(format!("truncating {}", target.log_name()), err);
        file.set_len(end.position - target.base()).map_err(truncating)?;
        file.sync_data().map_err(truncating)?;
        self.shared.sync_dir()
    }

    /// Removes the files of a segment: the log first, because an index without a segment is only a leftover.
    fn remove_files(&self, segment: &Segment) -> Result<(), Error> {
        let storage = self.shared.storage.as_ref();
        let name = segment.log_name();
        storage.remove(&name).map_err(|err| io_error(format!("removing {name}"), err))?;
        self.shared.sync_dir()?;
        if segment.has_index() {
            let name = segment.index_name();
            storage.remove(&name).map_err(|err| io_error(format!("removing {name}"), err))?;
            self.shared.sync_dir()?;
        }
        Ok(())
    }

    /// Makes a cut segment the active one.
    fn reactivate(&mut self, target: &Segment, file: Arc<dyn StorageFile>, end: End) {
        // A new value, so that jobs begun for the old one notice that it is gone.
        let segment = Arc::new(Segment::new(target.header, end));
        segment.set_active(true);
        segment.keep_open(Arc::clone(&file));
        self.shared.segments.insert(Arc::clone(&segment));
        self.active = Writing { segment, file };
        self.appended = end.last;
        self.allocated = end.position - target.base();
        self.filled = 0;
        // Without room the next append tries again.
        let _ = self.reserve(self.shared.segment_bytes());
        let mut tail = hold(&self.shared.tail);
        tail.rolled.retain(|rolled| rolled.segment.base() < target.base());
        tail.active = self.active.clone();
        tail.appended = end.last;
        tail.end = end.position;
        self.shared.retract(end);
    }
}

impl Log for DiskLog {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        self.shared.refuse_if_poisoned()?;
        let limit = self.payload_bytes_max;
        if payload.len() > limit {
            return Err(Error::FrameTooLarge { size: payload.len(), limit });
        }
        self.make_room(frame::stored_bytes(payload.len()))?;
        let stamp =
            Stamp { term: self.term, index: self.appended + 1, timestamp_ms, durable: self.shared.durable() };
        let position = self.write_frame(stamp, payload)?;
        Ok(Appended {
            index: Index(stamp.index),
            payload: Position(position + frame::HEADER_BYTES as u64),
            segment: SegmentId(self.active.segment.base()),
        })
    }

    fn sizes(&self) -> Sizes {
        Sizes { segment_bytes: self.shared.segment_bytes(), payload_bytes_max: self.payload_bytes_max }
    }

    fn set_sizes(&mut self, sizes: Sizes) {
        let sizes = sizes.sanitized();
        self.shared.set_segment_bytes(sizes.segment_bytes);
        self.payload_bytes_max = sizes.payload_bytes_max;
    }

    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        self.shared.refuse_if_poisoned()?;
        let limit = u32::MAX as usize - frame::HEADER_BYTES;
        if frame.payload.len() > limit {
            return Err(Error::FrameTooLarge { size: frame.payload.len(), limit });
        }
        self.make_room_at(frame)?;
        let stamp = Stamp {
            term: frame.term,
            index: frame.index.0,
            timestamp_ms: frame.timestamp_ms,
            durable: self.shared.durable(),
        };
        self.write_frame(stamp, &frame.payload)?;
        Ok(())
    }

    fn appended(&self) -> Index {
        Index(self.appended)
    }

    fn committed(&self) -> Index {
        self.shared.committed()
    }

    /// The term of the last frame, or the one set since.
    fn term(&self) -> u64 {
        self.term
    }

    fn set_term(&mut self, term: u64) {
        self.term = term;
    }

    fn previous_term(&self) -> u64 {
        self.shared.segments.read().values().next().map_or(0, |oldest| oldest.header.previous_term)
    }

    fn flusher(&self) -> Arc<dyn Flusher> {
        Arc::clone(&self.shared) as Arc<dyn Flusher>
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.shared) as Arc<dyn Reader>
    }

    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        self.shared.refuse_if_poisoned()?;
        let target = self.segment_for(last)?;
        if last.0 == self.appended {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let _no_flush = hold(&shared.flushing);
        let (file, end) = self.end_of(&target, last)?;
        // Before anything goes: a start after a crash must not look for what is being cut.
        let durable = Durable { segment: target.base(), end: end.position, last: end.last };
        self.shared.manifest.retract(durable).map_err(|err| io_error("writing the manifest", err))?;
        self.cut(&target, file.as_ref(), end).map_err(|err| self.shared.poison(err))?;
        self.reactivate(&target, file, end);
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.segments.read().values().map(|segment| segment.info()).collect()
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.shared.refuse_if_poisoned()?;
        if self.active.segment.is_empty() {
            return Ok(());
        }
        self.start_segment()
    }

    fn spare_maker(&mut self) -> Option<Arc<dyn SpareMaker>> {
        self.spare.order().then(|| Arc::clone(&self.shared) as Arc<dyn SpareMaker>)
    }

    fn put_spare(&mut self, made: Result<Spare, Error>) -> Result<(), Error> {
        self.spare.put(made)
    }

    fn scarcity(&self) -> Option<&str> {
        let (segment, bytes) = (&self.active.segment, self.shared.segment_bytes());
        self.spare.scarcity(bytes.saturating_sub(segment.end() - segment.base()), bytes)
    }

    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        Arc::clone(&self.shared) as Arc<dyn IndexWriter>
    }

    fn scrubber(&self) -> Option<Arc<dyn Scrubber>> {
        Some(Arc::clone(&self.shared) as Arc<dyn Scrubber>)
    }

    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.shared.refuse_if_poisoned()?;
        if segment.0 == self.active.segment.base() {
            return Err(Error::SegmentActive(segment));
        }
        let oldest = self.shared.segments.read().values().next().cloned();
        let Some(oldest) = oldest.filter(|oldest| oldest.base() == segment.0) else {
            return Err(Error::NotOldest(segment));
        };
        let next = self.shared.segments.read().keys().nth(1).copied().unwrap_or_default();
        // Before the file goes: a start after a crash must not miss it. An error here has removed nothing.
        self.shared.manifest.set_oldest(next).map_err(|err| io_error("writing the manifest", err))?;
        // Out of sight before out of the directory: no job may add an index to a segment that is going.
        self.shared.segments.remove(segment.0);
        hold(&self.shared.tail).rolled.retain(|rolled| rolled.segment.base() != segment.0);
        self.remove_files(&oldest).map_err(|err| self.shared.poison(err))
    }

    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        Arc::clone(&self.shared) as Arc<dyn Checkpoints>
    }

    fn usage(&self) -> Result<Usage, Error> {
        let asking = |err| io_error("asking for the size of the volume", err);
        let Usage { total, free } = self.shared.storage.usage().map_err(asking)?;
        Ok(Usage { total, free: free + self.spare.bytes() })
    }
}

impl Drop for DiskLog {
    fn drop(&mut self) {
        self.shared.close();
    }
}
