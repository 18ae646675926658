//! Walking through the bytes of a segment file, trusting none of them.

use std::io;

use crate::{
    frame::{self, Fault, Place},
    segment_file,
    storage::StorageFile,
};

const WINDOW_BYTES: usize = 1 << 20;
const SEARCH_BYTES: usize = 16 << 10;

/// A file seen through a buffer that moves forward with its reader.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    file: &'a dyn StorageFile,
    len: u64,
    /// Where reads end.
    until: u64,
    buffer: Vec<u8>,
    start: u64,
}

impl<'a> Window<'a> {
    pub(crate) fn new(file: &'a dyn StorageFile) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, until: len, buffer: Vec::new(), start: 0 })
    }

    /// Goes on with what another window of the same file has read.
    pub(crate) fn with_buffer(file: &'a dyn StorageFile, buffer: Vec<u8>, start: u64) -> io::Result<Self> {
        Ok(Self { buffer, start, ..Self::new(file)? })
    }

    /// What it has read, and from which offset on.
    pub(crate) fn into_buffer(self) -> (Vec<u8>, u64) {
        (self.buffer, self.start)
    }

    pub(crate) fn file_len(&self) -> u64 {
        self.len
    }

    /// Goes to the next place that may have been written, and does not read beyond where that ends. See [`StorageFile::next_written`].
    fn skip_unwritten(&mut self, offset: u64) -> io::Result<u64> {
        let written = self.file.next_written(offset)?;
        self.until = written.end;
        Ok(written.start)
    }

    /// `len` bytes from `offset` on; fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let left = self.until.saturating_sub(offset);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffered = offset
            .checked_sub(self.start)
            .and_then(|skip| usize::try_from(skip).ok())
            .filter(|skip| skip.checked_add(len).is_some_and(|end| end <= self.buffer.len()));
        let skip = match buffered {
            Some(skip) => skip,
            None => {
                self.fill(offset, len, left)?;
                0
            }
        };
        let end = (skip + len).min(self.buffer.len());
        Ok(&self.buffer[skip..end])
    }

    fn fill(&mut self, offset: u64, len: usize, left: u64) -> io::Result<()> {
        let ahead = len.max(WINDOW_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
        self.buffer.resize(ahead, 0);
        let read = self.file.read_at(offset, &mut self.buffer)?;
        self.buffer.truncate(read);
        self.start = offset;
        Ok(())
    }
}

/// Whether checksums count. They always do, unless a simulation plants the bug that they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    Full,
    None,
}

/// How far to walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub position: u64,
    pub index: u64,
}

impl Until {
    pub(crate) const END: Self = Self { position: u64::MAX, index: u64::MAX };
}

/// What a walk from the first frame on has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// Position after the last good frame.
    pub end: u64,
    /// Index of the last good frame; the one before the segment's first if there is none.
    pub last: u64,
    pub last_timestamp_ms: u64,
    pub last_term: u64,
    /// The greatest durable position that any good frame names.
    pub durable: u64,
    /// Why the walk ended; `None` where it was told to end.
    pub stop: Option<Fault>,
}

impl Scan {
    /// Before the first frame.
    pub(crate) fn of_empty(segment: &segment_file::Header) -> Self {
        Self {
            end: segment.base + segment_file::HEADER_BYTES,
            last: segment.first.saturating_sub(1),
            last_timestamp_ms: 0,
            last_term: segment.previous_term,
            durable: 0,
            stop: None,
        }
    }
}

/// Walks over frames in sequence until the first that is not good.
pub(crate) fn scan(
    window: &mut Window<'_>,
    segment: &segment_file::Header,
    until: Until,
    checks: Checks,
) -> io::Result<Scan> {
    resume(window, segment, Scan::of_empty(segment), until, checks)
}

/// Goes on where another walk has ended.
pub(crate) fn resume(
    window: &mut Window<'_>,
    segment: &segment_file::Header,
    mut scan: Scan,
    until: Until,
    checks: Checks,
) -> io::Result<Scan> {
    while scan.end < until.position && scan.last < until.index {
        let header = match next(window, segment, &scan, checks)? {
            Ok(header) => header,
            Err(fault) => {
                scan.stop = Some(fault);
                break;
            }
        };
        scan.end += header.stored_bytes();
        scan.last = header.index;
        scan.last_timestamp_ms = header.timestamp_ms;
        scan.last_term = header.term;
        scan.durable = scan.durable.max(header.durable);
    }
    Ok(scan)
}

fn next(
    window: &mut Window<'_>,
    segment: &segment_file::Header,
    scan: &Scan,
    checks: Checks,
) -> io::Result<Result<frame::Header, Fault>> {
    let offset = scan.end - segment.base;
    let bytes = window.at(offset, frame::HEADER_BYTES)?;
    let header = match checks {
        Checks::Full => frame::Header::parse(bytes, Place { salt: segment.salt, position: scan.end }),
        Checks::None => frame::Header::parse_unchecked(bytes),
    };
    let header = match header {
        Ok(header) => header,
        Err(fault) => return Ok(Err(fault)),
    };
    if header.index != scan.last + 1 {
        return Ok(Err(Fault::Damaged("frame index is out of sequence")));
    }
    // Before the buffer grows to the frame's length: the length may be wrong even if a planted bug hides it.
    if window.file_len().saturating_sub(offset) < header.stored_bytes() {
        return Ok(Err(Fault::Short));
    }
    if checks == Checks::Full {
        let bytes = window.at(offset, header.stored_bytes() as usize)?;
        if let Err(fault) = header.verify(bytes) {
            return Ok(Err(fault));
        }
    }
    Ok(Ok(header))
}

/// What was found behind the place where a walk ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// Bytes up to the last one that is not zero.
    pub bytes: u64,
    /// Position of a frame whose *durable* field is beyond the bad place.
    pub witness: Option<u64>,
}

/// The place where the good frames of a log end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub position: u64,
    /// The index that the next frame would have had.
    pub index: u64,
}

/// Searches for frames that were written when the log was already durable beyond the break. After a crash,
/// later frames may be there and earlier ones not: that is a torn tail. A frame that was written *after* the
/// broken place had been synced proves that the place was good once and is damaged now.
pub(crate) fn look_beyond(
    window: &mut Window<'_>,
    segment: &segment_file::Header,
    from: u64,
    broken: Break,
) -> io::Result<Beyond> {
    let beyond = look_at_written(window, segment, from, broken);
    window.until = window.len;
    beyond
}

fn look_at_written(
    window: &mut Window<'_>,
    segment: &segment_file::Header,
    from: u64,
    broken: Break,
) -> io::Result<Beyond> {
    let mut beyond = Beyond::default();
    let mut offset = from;
    while offset < window.file_len() {
        // Most of a segment is room for frames to come. To read it would take longer than everything else at the start.
        offset = window.skip_unwritten(offset)?;
        let block = window.at(offset, SEARCH_BYTES + frame::HEADER_BYTES)?;
        let searched = block.len().min(SEARCH_BYTES);
        if searched == 0 {
            break;
        }
        // A frame begins with a length, so none begins in zeros.
        if !is_zero(&block[..searched])
            && let Some(last) = block[..searched].iter().rposition(|byte| *byte != 0)
        {
            beyond.bytes = offset - from + last as u64 + 1;
            let place = Place { salt: segment.salt, position: segment.base + offset };
            let found = witness(block, last, place, broken);
            if found.is_some() {
                beyond.witness = found;
                break;
            }
        }
        offset += searched as u64;
    }
    Ok(beyond)
}

/// Whether all bytes are zero; without an exit in the inner loop, so that it runs at the speed of memory.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(512).all(|chunk| chunk.iter().fold(0, |seen, byte| seen | byte) == 0)
}

fn witness(block: &[u8], last: usize, start: Place, broken: Break) -> Option<u64> {
    (0..=last).step_by(frame::ALIGNMENT as usize).find_map(|skip| {
        let bytes = &block[skip..];
        if !frame::may_begin(bytes) {
            return None;
        }
        let place = Place { position: start.position + skip as u64, ..start };
        let header = frame::Header::parse(bytes, place).ok()?;
        let knew = header.index > broken.index && header.durable > broken.position;
        knew.then_some(place.position)
    })
}
