//! Opening what a crash left behind.
//!
//! Sealed segments are known by their header and trailer; only the segments after the last trailer are
//! scanned. That is the active one, and the one before it if the crash came before its trailer did. Every step is
//! safe to repeat: files behind a cut go first, newest first, and the cut itself is one change of a file's length.

use std::{collections::BTreeSet, io, sync::Arc};

use crate::{
    Error, Index, Position, checkpoint,
    error::io_error,
    frame::Fault,
    manifest::{self, Manifest},
    names::{self, Kind},
    options::{Options, planted},
    scan::{self, Break, Checks, Scan, Until, Window},
    segment::{End, Segment, SegmentMap},
    segment_file::{self, HEADER_BYTES, TRAILER_BYTES, Trailer},
    sidecar,
    storage::{Storage, StorageFile, read_part},
};

pub(crate) const HEADER_DAMAGED: &str = "segment header is damaged";
const LOST_CHECKPOINT: &str = "frames that a checkpoint was taken of are missing";

/// What opening a log has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the directory held no log, so that a new one was begun.
    pub created: bool,
    /// Segments in the log now.
    pub segments: usize,
    /// Segments whose frames had to be read, and how many bytes of frames they hold.
    pub scanned_segments: usize,
    pub scanned_bytes: u64,
    /// The last frame of the log.
    pub last: Index,
    /// What was cut from the tail.
    pub cut: Option<Cut>,
    /// Leftovers of interrupted work that were removed, and the segments behind a cut.
    pub removed: Vec<String>,
    /// Stored indexes that were damaged. They are removed; the engine builds them again from their segments.
    pub damaged_indexes: Vec<String>,
    /// Whether the manifest was unreadable and was made again: data that went missing before is not noticed.
    pub damaged_manifest: bool,
}

/// A torn tail: frames that were being written when the crash came. None of them had been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    /// The end of the log now.
    pub position: Position,
    /// How many bytes behind it were not zero.
    pub bytes: u64,
    /// What was wrong with the first frame that was cut.
    pub what: &'static str,
}

/// A log ready for its owner.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub segments: SegmentMap,
    pub active: Arc<Segment>,
    pub active_file: Arc<dyn StorageFile>,
    /// How much of the active file is known to have room on the disk.
    pub allocated: u64,
    pub manifest: Manifest,
    pub report: Recovery,
}

pub(crate) fn recover(storage: &Arc<dyn Storage>, options: &Options) -> Result<Recovered, Error> {
    let listing = Listing::read(storage.as_ref())?;
    let checkpoint = checkpoint::newest(storage.as_ref(), &listing.checkpoints)?;
    let manifest = manifest::read(storage.as_ref())?;
    let report = Recovery { damaged_manifest: manifest == manifest::Found::Damaged, ..Recovery::default() };
    Recoverer { storage: storage.as_ref(), options, checkpoint, manifest, report }.run(&listing)
}

/// The files of a directory, by kind.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub segments: BTreeSet<u64>,
    pub indexes: BTreeSet<u64>,
    pub checkpoints: BTreeSet<u64>,
    pub temporaries: Vec<String>,
}

impl Listing {
    pub(crate) fn read(storage: &dyn Storage) -> Result<Self, Error> {
        let names = storage.list().map_err(|err| io_error("listing the directory", err))?;
        let mut listing = Self::default();
        for name in names {
            match Kind::of(&name) {
                Kind::Segment(base) => drop(listing.segments.insert(base)),
                Kind::Index(base) => drop(listing.indexes.insert(base)),
                Kind::Checkpoint(at) => drop(listing.checkpoints.insert(at)),
                Kind::Temporary => listing.temporaries.push(name),
                // What is in a spare was never promised; it is emptied before it is used.
                Kind::Lock | Kind::Manifest | Kind::Spare | Kind::Foreign => {}
            }
        }
        listing.temporaries.sort();
        Ok(listing)
    }
}

/// A segment whose header is good.
pub(crate) struct Found {
    pub header: segment_file::Header,
    pub file: Arc<dyn StorageFile>,
}

/// The segment that takes appends, with its file.
type Active = (Arc<Segment>, Arc<dyn StorageFile>);

struct Recoverer<'a> {
    storage: &'a dyn Storage,
    options: &'a Options,
    /// The frame of the newest checkpoint, 0 without one.
    checkpoint: u64,
    manifest: manifest::Found,
    report: Recovery,
}

impl Recoverer<'_> {
    fn run(mut self, listing: &Listing) -> Result<Recovered, Error> {
        for name in &listing.temporaries {
            self.remove(name)?;
        }
        if let Some(promised) = self.manifest.record() {
            check_oldest(&promised, listing.segments.first().copied())?;
        }
        let found = self.find_segments(listing)?;
        let mut segments = SegmentMap::new();
        let (segment, file) = match self.walk(&found, &mut segments)? {
            Some(tail) => tail,
            None => self.begin(listing)?,
        };
        segment.set_active(true);
        segments.insert(segment.base(), Arc::clone(&segment));
        self.match_indexes(listing, &segments)?;
        // Everything that was found is durable by now, and the manifest may say so.
        let record = manifest::Record {
            oldest: segments.keys().next().copied().unwrap_or_default(),
            tail: segment.base(),
            end: segment.end(),
            last: segment.last(),
            number: 0,
        };
        let manifest = Manifest::create(self.storage, self.manifest, record)?;
        self.sync_dir()?;
        let allocated = self.reserve(&segment, file.as_ref())?;
        file.set_read_ahead(true);
        segment.keep_open(Arc::clone(&file));
        self.report.segments = segments.len();
        self.report.last = Index(segment.last());
        Ok(Recovered {
            segments,
            active: segment,
            active_file: file,
            allocated,
            manifest,
            report: self.report,
        })
    }

    /// Reads all headers. Only the newest file may lack one: its creation was not finished.
    fn find_segments(&mut self, listing: &Listing) -> Result<Vec<Found>, Error> {
        let newest = listing.segments.last().copied();
        let mut found = Vec::with_capacity(listing.segments.len());
        for base in listing.segments.iter().copied() {
            let name = names::segment(base);
            let read = |err| io_error(format!("reading {name}"), err);
            let file = self.storage.open(&name).map_err(read)?;
            // Room that was never written counts as written when it is in memory, and is then looked at (`look_beyond`).
            file.set_read_ahead(false);
            let bytes = read_part(file.as_ref(), 0, HEADER_BYTES as usize).map_err(read)?;
            match segment_file::Header::parse(&bytes) {
                Ok(header) if header.base == base => found.push(Found { header, file }),
                Ok(_) => return Err(corrupt(&name, base, base, "segment header names another position")),
                Err(segment_file::Fault::Version(version)) => {
                    return Err(Error::UnknownVersion {
                        file: name,
                        found: version,
                        known: segment_file::VERSION,
                    });
                }
                Err(segment_file::Fault::Damaged) => {
                    let promised = self.manifest.record();
                    if let Some(promised) = &promised {
                        check_promised_header(promised, base, file.len().map_err(read)?)?;
                    }
                    let unfinished = Some(base) == newest
                        && (base == 0 || !found.is_empty())
                        && is_unfinished(promised.as_ref(), base, file.as_ref()).map_err(read)?;
                    if !unfinished {
                        return Err(corrupt(&name, base, base, HEADER_DAMAGED));
                    }
                    self.remove(&name)?;
                }
            }
        }
        Ok(found)
    }

    /// Learns where each segment ends; scans those without a trailer. Returns the last one with its file.
    fn walk(&mut self, found: &[Found], segments: &mut SegmentMap) -> Result<Option<Active>, Error> {
        let mut previous: Option<(u64, u64)> = None;
        for (at, this) in found.iter().enumerate() {
            let base = this.header.base;
            if let Some((end, last)) = previous
                && (end + TRAILER_BYTES != base || last + 1 != this.header.first)
            {
                return Err(missing_between(end + TRAILER_BYTES, last, &this.header));
            }
            let rest = &found[at + 1..];
            let sealed = match rest.first() {
                Some(next) => self.sealed_end(this, next)?,
                None => None,
            };
            let (end, whole) = match sealed {
                Some(end) => (end, true),
                None => self.scan(this, rest)?,
            };
            let segment = Arc::new(Segment::new(this.header, end));
            if rest.is_empty() || !whole {
                return Ok(Some((segment, Arc::clone(&this.file))));
            }
            if sealed.is_none() {
                let seal = |err| io_error(format!("sealing {}", segment.log_name()), err);
                write_trailer(this.file.as_ref(), &segment.trailer()).map_err(seal)?;
            }
            previous = Some((end.position, end.last));
            segments.insert(base, segment);
        }
        Ok(None)
    }

    /// What the trailer says, if there is a good one just before the next segment.
    fn sealed_end(&self, this: &Found, next: &Found) -> Result<Option<End>, Error> {
        let base = this.header.base;
        let name = names::segment(base);
        let end = next.header.base.saturating_sub(TRAILER_BYTES);
        if end < base + HEADER_BYTES {
            return Err(corrupt(&name, base, base, "the next segment begins inside this one"));
        }
        let bytes = read_part(this.file.as_ref(), end - base, TRAILER_BYTES as usize)
            .map_err(|err| io_error(format!("reading {name}"), err))?;
        match Trailer::parse(&bytes) {
            Ok(trailer)
                if trailer.base == base && trailer.end == end && trailer.last + 1 >= this.header.first =>
            {
                Ok(Some(End {
                    position: end,
                    last: trailer.last,
                    last_timestamp_ms: trailer.last_timestamp_ms,
                    last_term: trailer.last_term,
                }))
            }
            Ok(_) => Err(corrupt(&name, base, end, "segment trailer contradicts the segment")),
            Err(segment_file::Fault::Damaged) => self.ended_before(this, end),
            Err(segment_file::Fault::Version(found)) => {
                Err(Error::UnknownVersion { file: name, found, known: segment_file::VERSION })
            }
        }
    }

    /// What the trailer says if the segment ends before the next one begins: another is missing between them.
    fn ended_before(&self, this: &Found, end: u64) -> Result<Option<End>, Error> {
        let trailer = trailer_at_end(this)?.filter(|trailer| trailer.end < end);
        Ok(trailer.map(|trailer| End {
            position: trailer.end,
            last: trailer.last,
            last_timestamp_ms: trailer.last_timestamp_ms,
            last_term: trailer.last_term,
        }))
    }

    /// Scans a segment without a trailer, cuts it where its good frames end, and makes the rest durable.
    /// Says whether it reaches up to the segment that follows.
    fn scan(&mut self, this: &Found, rest: &[Found]) -> Result<(End, bool), Error> {
        let base = this.header.base;
        let name = names::segment(base);
        let read = |err| io_error(format!("reading {name}"), err);
        let checks = if planted!(self.options, IgnoreTornTail) { Checks::None } else { Checks::Full };
        let goal = rest.first().map(|next| next.header.base - TRAILER_BYTES);
        let until = goal.map_or(Until::END, |position| Until { position, index: u64::MAX });
        let mut window = Window::new(this.file.as_ref()).map_err(read)?;
        let scan = scan::scan(&mut window, &this.header, until, checks).map_err(read)?;
        self.report.scanned_segments += 1;
        self.report.scanned_bytes += scan.end - base - HEADER_BYTES;
        if let Some(Fault::Version(found)) = scan.stop {
            return Err(Error::UnknownVersion { file: name, found, known: crate::frame::VERSION });
        }
        let whole = goal == Some(scan.end);
        if !whole {
            self.cut(this, rest, &scan, &mut window)?;
        }
        self.make_durable(this, &scan)?;
        let end = End {
            position: scan.end,
            last: scan.last,
            last_timestamp_ms: scan.last_timestamp_ms,
            last_term: scan.last_term,
        };
        Ok((end, whole))
    }

    /// Cuts a torn tail, after making sure that it is one.
    fn cut(
        &mut self,
        this: &Found,
        rest: &[Found],
        scan: &Scan,
        window: &mut Window<'_>,
    ) -> Result<(), Error> {
        let base = this.header.base;
        let name = names::segment(base);
        let what = scan.stop.unwrap_or(Fault::Damaged("frames run into the next segment")).what();
        let broken = Break { position: scan.end, index: scan.last + 1 };
        let beyond = scan::look_beyond(window, &this.header, scan.end - base, broken)
            .map_err(|err| io_error(format!("reading {name}"), err))?;
        if beyond.witness.is_some() || has_trailer_after(this, broken)? {
            return Err(corrupt(&name, base, scan.end, what));
        }
        for later in rest {
            if is_witness(later, broken)? {
                return Err(corrupt(&name, base, scan.end, what));
            }
        }
        if let Some(promised) = self.manifest.record() {
            check_tail(&promised, this, rest, scan)?;
        }
        // A checkpoint is taken only of durable frames, so their loss is no torn tail.
        if self.checkpoint > scan.last {
            return Err(corrupt(&name, base, scan.end, LOST_CHECKPOINT));
        }
        for later in rest.iter().rev() {
            self.remove(&names::segment(later.header.base))?;
            // One by one: a newer segment must never outlive an older one.
            self.sync_dir()?;
        }
        if beyond.bytes > 0 && !planted!(self.options, KeepTailGarbage) {
            let cut = |err| io_error(format!("cutting {name}"), err);
            // Shorter, not overwritten: the change of a length is one step, so a crash leaves all or nothing.
            this.file.set_len(scan.end - base).map_err(cut)?;
            this.file.sync_data().map_err(cut)?;
        }
        if beyond.bytes > 0 || !rest.is_empty() {
            let position = Position(scan.end);
            self.report.cut = Some(Cut { file: name, position, bytes: beyond.bytes, what });
        }
        Ok(())
    }

    /// Makes sure that the frames that were found are on the disk, and not only in memory. To sync is not enough:
    /// after a failed sync the kernel counts pages as clean that never reached the disk. So whatever was
    /// not known to be durable when the last frame was written is written again.
    fn make_durable(&self, this: &Found, scan: &Scan) -> Result<(), Error> {
        let base = this.header.base;
        let result = (|| {
            let mut from = scan.durable.clamp(base + HEADER_BYTES, scan.end) - base;
            let end = scan.end - base;
            let mut chunk = vec![0; (1 << 20).min(end - from) as usize];
            while from < end {
                let len = (end - from).min(chunk.len() as u64) as usize;
                let read = this.file.read_at(from, &mut chunk[..len])?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                this.file.write_at(from, &chunk[..read])?;
                from += read as u64;
            }
            this.file.sync_data()
        })();
        result.map_err(|err| io_error(format!("making {} durable", names::segment(base)), err))
    }

    /// Begins a log in a directory that holds none.
    fn begin(&mut self, listing: &Listing) -> Result<Active, Error> {
        if let Some(promised) = self.manifest.record().filter(|promised| promised.last > 0) {
            return Err(missing_file(&promised, promised.tail, promised.end, 0));
        }
        if self.checkpoint > 0 {
            return Err(corrupt(&names::segment(0), 0, 0, LOST_CHECKPOINT));
        }
        self.report.created = listing.segments.is_empty();
        let header = segment_file::Header { base: 0, first: 1, previous_term: 0, salt: self.storage.salt() };
        let file = create_segment(self.storage, &header, self.options.segment_bytes)?;
        Ok((Arc::new(Segment::new(header, End::of_empty(&header))), file))
    }

    /// Keeps the indexes that are whole and have a sealed segment; removes all others.
    fn match_indexes(&mut self, listing: &Listing, segments: &SegmentMap) -> Result<(), Error> {
        for base in listing.indexes.iter().copied() {
            let name = names::index(base);
            let segment = segments.get(&base).filter(|segment| !segment.is_active());
            let Some(segment) = segment else {
                self.remove(&name)?;
                continue;
            };
            if index_is_whole(self.storage, base)? {
                segment.set_has_index(true);
            } else {
                self.remove(&name)?;
                self.report.damaged_indexes.push(name);
            }
        }
        Ok(())
    }

    /// Reserves room for the rest of the active segment. Without room the log still opens: it can be read, and
    /// retention can make room.
    fn reserve(&self, segment: &Segment, file: &dyn StorageFile) -> Result<u64, Error> {
        let used = segment.end() - segment.base();
        match file.allocate(self.options.segment_bytes) {
            Ok(()) => Ok(self.options.segment_bytes.max(used)),
            Err(err) => match io_error(format!("allocating {}", segment.log_name()), err) {
                Error::NoSpace(_) => Ok(used),
                other => Err(other),
            },
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.storage.remove(name).map_err(|err| io_error(format!("removing {name}"), err))?;
        self.report.removed.push(name.to_owned());
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), Error> {
        if planted!(self.options, SkipDirSync) {
            return Ok(());
        }
        self.storage.sync_dir().map_err(|err| io_error("syncing the directory", err))
    }
}

/// The oldest segment that was not removed by retention must be there.
pub(crate) fn check_oldest(promised: &manifest::Record, oldest: Option<u64>) -> Result<(), Error> {
    match oldest {
        // Older ones are left over from a removal that a crash interrupted.
        Some(oldest) if oldest > promised.oldest => Err(missing_file(promised, promised.oldest, oldest, 0)),
        _ => Ok(()),
    }
}

/// A segment without a good header may be one that was being made, but not if it held durable frames.
pub(crate) fn check_promised_header(promised: &manifest::Record, base: u64, len: u64) -> Result<(), Error> {
    if promised.tail != base || promised.end <= base + HEADER_BYTES {
        return Ok(());
    }
    if base + len >= promised.end {
        return Err(corrupt(&names::segment(base), base, base, HEADER_DAMAGED));
    }
    Err(Error::Missing {
        file: names::segment(base),
        offset: 0,
        position: Position(base),
        until: Position(promised.end),
        what: format!("the file has {len} bytes, but frames up to {} had been durable", promised.last),
    })
}

/// The last frame that was durable must be there, and whole.
pub(crate) fn check_tail(
    promised: &manifest::Record,
    this: &Found,
    rest: &[Found],
    scan: &Scan,
) -> Result<(), Error> {
    if promised.end <= scan.end && promised.last <= scan.last {
        return Ok(());
    }
    let base = this.header.base;
    if promised.tail > base && rest.iter().all(|later| later.header.base != promised.tail) {
        return Err(missing_file(promised, promised.tail, promised.end, scan.last));
    }
    let stop = match scan.stop {
        // The bytes are there, but not as they were written.
        Some(Fault::Damaged(what)) => return Err(corrupt(&names::segment(base), base, scan.end, what)),
        stop => stop.map_or("the frames end", Fault::what),
    };
    Err(Error::Missing {
        file: names::segment(base),
        offset: scan.end - base,
        position: Position(scan.end),
        until: Position(promised.end),
        what: format!(
            "{stop}, but frames up to {} had been durable; the last good one is {}",
            promised.last, scan.last
        ),
    })
}

pub(crate) fn missing_file(promised: &manifest::Record, base: u64, until: u64, last: u64) -> Error {
    let what = match last {
        0 => "the file is missing".to_owned(),
        last => {
            format!("the file is missing: the log had frames up to {}, and ends at {last} now", promised.last)
        }
    };
    let (position, until) = (Position(base), Position(until));
    Error::Missing { file: names::segment(base), offset: 0, position, until, what }
}

/// There are segments on both sides, but nothing in between.
pub(crate) fn missing_between(from: u64, last: u64, next: &segment_file::Header) -> Error {
    Error::Missing {
        file: names::segment(from),
        offset: 0,
        position: Position(from),
        until: Position(next.base),
        what: format!("the file is missing, with the frames after {last} and before {}", next.first),
    }
}

/// Whether a later segment proves that everything up to the break had been durable.
pub(crate) fn is_witness(later: &Found, broken: Break) -> Result<bool, Error> {
    let read = |err| io_error(format!("reading {}", names::segment(later.header.base)), err);
    if has_trailer_after(later, broken)? {
        return Ok(true);
    }
    let mut window = Window::new(later.file.as_ref()).map_err(read)?;
    let beyond = scan::look_beyond(&mut window, &later.header, HEADER_BYTES, broken).map_err(read)?;
    Ok(beyond.witness.is_some())
}

/// Whether the file ends with a trailer that covers the break. It is written only after all frames
/// before it were synced.
pub(crate) fn has_trailer_after(found: &Found, broken: Break) -> Result<bool, Error> {
    Ok(trailer_at_end(found)?.is_some_and(|trailer| trailer.end > broken.position))
}

/// The trailer at the end of the file, if that is where it belongs.
fn trailer_at_end(found: &Found) -> Result<Option<Trailer>, Error> {
    let read = || -> io::Result<Vec<u8>> {
        let offset = found.file.len()?.saturating_sub(TRAILER_BYTES);
        read_part(found.file.as_ref(), offset, TRAILER_BYTES as usize)
    };
    let bytes =
        read().map_err(|err| io_error(format!("reading {}", names::segment(found.header.base)), err))?;
    Ok(Trailer::parse(&bytes).ok().filter(|trailer| trailer.base == found.header.base))
}

/// Creates the file of an empty segment, durable but for its name.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    header: &segment_file::Header,
    segment_bytes: u64,
) -> Result<Arc<dyn StorageFile>, Error> {
    let name = names::segment(header.base);
    let create = || {
        let file = storage.create(&name)?;
        // Room for the whole segment now, so that a full disk is met here, where nothing is at stake, and not
        // when frames are synced.
        file.allocate(segment_bytes)?;
        file.write_at(0, &header.encode())?;
        // Before any frame: recovery takes a file without a header, but with other bytes, for damaged.
        file.sync_data()?;
        Ok(file)
    };
    create().map_err(|err| {
        // Removed for good before another segment is begun, which may have another base: an open takes only the newest file
        // for one whose creation was not finished. What cannot be removed now is overwritten by the next try.
        let _ = storage.remove(&name).and_then(|()| storage.sync_dir());
        io_error(format!("creating {name}"), err)
    })
}

/// Seals a segment whose frames are durable, and gives back the room that it does not need.
pub(crate) fn write_trailer(file: &dyn StorageFile, trailer: &Trailer) -> io::Result<()> {
    let offset = trailer.end - trailer.base;
    file.write_at(offset, &trailer.encode())?;
    file.set_len(offset + TRAILER_BYTES)?;
    file.sync_data()
}

/// Whether a stored index is complete, as far as this crate can tell.
pub(crate) fn index_is_whole(storage: &dyn Storage, base: u64) -> Result<bool, Error> {
    let name = names::index(base);
    let read = || -> io::Result<(Vec<u8>, u64)> {
        let file = storage.open(&name)?;
        Ok((read_part(file.as_ref(), 0, sidecar::HEADER_BYTES)?, file.len()?))
    };
    let (bytes, len) = read().map_err(|err| io_error(format!("reading {name}"), err))?;
    match sidecar::Header::parse(&bytes, sidecar::Kind::Index) {
        Ok(header) => {
            Ok(header.of == base && Some(len) == header.body_bytes.checked_add(sidecar::HEADER_BYTES as u64))
        }
        Err(sidecar::Fault::Damaged) => Ok(false),
        Err(sidecar::Fault::Version(found)) => {
            Err(Error::UnknownVersion { file: name, found, known: sidecar::VERSION })
        }
    }
}

/// Whether a segment without a good header was being made when the crash came: the manifest promises nothing in it or
/// behind it, or no frame was written yet.
pub(crate) fn is_unfinished(
    promised: Option<&manifest::Record>,
    base: u64,
    file: &dyn StorageFile,
) -> io::Result<bool> {
    let unpromised = promised.is_some_and(|promised| promised.end <= base + HEADER_BYTES);
    Ok(unpromised || is_zero_after_header(file)?)
}

fn is_zero_after_header(file: &dyn StorageFile) -> io::Result<bool> {
    let mut window = Window::new(file)?;
    let mut offset = HEADER_BYTES;
    while offset < window.file_len() {
        let block = window.at(offset, 64 << 10)?;
        if block.is_empty() {
            break;
        }
        if !scan::is_zero(block) {
            return Ok(false);
        }
        offset += block.len() as u64;
    }
    Ok(true)
}

pub(crate) fn corrupt(file: &str, base: u64, position: u64, what: &'static str) -> Error {
    let offset = position.saturating_sub(base);
    Error::Corrupt { file: file.to_owned(), offset, position: Position(position), what }
}
