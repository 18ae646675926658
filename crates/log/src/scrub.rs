//! Checks what is stored while the log is in use: sealed segments and their indexes, read from the disk piece by piece.
//!
//! The reads go through handles of their own and leave the page cache as they found it, so that consumers do not lose to a
//! check what they are going to read.

use std::{io, sync::Arc};

use crate::{
    Position, ReadError, SegmentId,
    error::read_error,
    names, recovery,
    scan::{self, Checks, Scan, Until, Window},
    segment::Segment,
    segment_file::{self, HEADER_BYTES, TRAILER_BYTES, Trailer},
    sidecar,
    storage::{Storage, StorageFile},
};

/// Read and checked in one step, unless a frame is larger.
const PIECE_BYTES: u64 = 1 << 20;

/// Gives access to what is to be checked. `None` where there is nothing: the segment is active or was removed.
pub trait Scrubber: Send + Sync {
    fn segment(&self, id: SegmentId) -> Result<Option<SegmentScrub>, ReadError>;

    fn index(&self, id: SegmentId) -> Result<Option<IndexScrub>, ReadError>;
}

/// A sealed segment that is being checked.
#[derive(Debug)]
pub struct SegmentScrub {
    segment: Arc<Segment>,
    /// Where its frames end.
    end: u64,
    file: Aside,
    buffer: Vec<u8>,
    buffer_at: u64,
    /// How far it was checked; `None` before the header was.
    scan: Option<Scan>,
}

/// What a step has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub bytes: u64,
    /// There is nothing more to check.
    pub last: bool,
}

impl SegmentScrub {
    pub(crate) fn open(storage: &dyn Storage, segment: Arc<Segment>) -> Result<Self, ReadError> {
        let file = open(storage, &segment.log_name())?;
        let end = segment.end();
        Ok(Self { segment, end, file, buffer: Vec::new(), buffer_at: 0, scan: None })
    }

    /// Checks the next piece. Damage is [`ReadError::Corrupt`]; after an error nothing more of the segment is checked.
    pub fn step(&mut self) -> Result<Piece, ReadError> {
        let header = self.segment.header;
        let reading = |err| read_error(format!("reading {}", self.segment.log_name()), err);
        let mut window = Window::with_buffer(&self.file, std::mem::take(&mut self.buffer), self.buffer_at)
            .map_err(reading)?;
        let begun = match self.scan {
            Some(scan) => scan,
            None => {
                let found = window.at(0, HEADER_BYTES as usize).map_err(reading)?;
                if segment_file::Header::parse(found) != Ok(header) {
                    return Err(self.corrupt(header.base, recovery::HEADER_DAMAGED));
                }
                Scan::of_empty(&header)
            }
        };
        let position = (begun.end + PIECE_BYTES).min(self.end);
        let until = Until { position, index: u64::MAX };
        let scan = scan::resume(&mut window, &header, begun, until, Checks::Full).map_err(reading)?;
        if let Some(fault) = scan.stop {
            return Err(self.corrupt(scan.end, fault.what()));
        }
        let last = scan.end >= self.end;
        if last {
            let at = self.end - header.base;
            let found = Trailer::parse(window.at(at, TRAILER_BYTES as usize).map_err(reading)?);
            if !found.is_ok_and(|trailer| trailer.base == header.base && trailer.end == self.end) {
                return Err(self.corrupt(self.end, "segment trailer is damaged"));
            }
        }
        (self.buffer, self.buffer_at) = window.into_buffer();
        self.scan = Some(scan);
        Ok(Piece { bytes: scan.end - begun.end, last })
    }

    fn corrupt(&self, position: u64, what: &'static str) -> ReadError {
        if self.segment.end() != self.end {
            // It was truncated in the meantime.
            return ReadError::Removed(Position(position));
        }
        let (file, offset) = (self.segment.log_name(), position - self.segment.base());
        ReadError::Corrupt { file, offset, position: Position(position), what }
    }
}

/// A stored index that is being checked. What is in it only its writer knows.
#[derive(Debug)]
pub struct IndexScrub {
    name: String,
    file: Aside,
    len: u64,
}

impl IndexScrub {
    pub(crate) fn open(storage: &dyn Storage, base: u64) -> Result<Self, ReadError> {
        let name = names::index(base);
        let file = open(storage, &name)?;
        let reading = |err| read_error(format!("reading {name}"), err);
        let len = file.len().map_err(reading)?.saturating_sub(sidecar::HEADER_BYTES as u64);
        let mut bytes = [0; sidecar::HEADER_BYTES];
        let read = file.read_at(0, &mut bytes).map_err(reading)?;
        let scrub = Self { name: name.clone(), file, len };
        match sidecar::Header::parse(&bytes[..read], sidecar::Kind::Index) {
            Ok(header) if header.of == base && header.body_bytes == len => Ok(scrub),
            _ => Err(scrub.corrupt(0, "header of the index file is damaged")),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the index, without what the log puts around it.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads bytes of the index; fewer where it ends.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len];
        let at = offset.saturating_add(sidecar::HEADER_BYTES as u64);
        let read = self.file.read_at(at, &mut bytes);
        let read = read.map_err(|err| read_error(format!("reading {}", self.name), err))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The error for an index whose content is wrong from this byte on.
    pub fn corrupt(&self, offset: u64, what: &'static str) -> ReadError {
        let offset = offset.saturating_add(sidecar::HEADER_BYTES as u64);
        ReadError::Corrupt { file: self.name.clone(), offset, position: Position(0), what }
    }
}

fn open(storage: &dyn Storage, name: &str) -> Result<Aside, ReadError> {
    let file = storage.open(name).map_err(|err| read_error(format!("opening {name}"), err))?;
    Ok(Aside(file))
}

/// A file whose reads leave the page cache as it is.
#[derive(Debug)]
struct Aside(Arc<dyn StorageFile>);

impl StorageFile for Aside {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_aside(offset, buffer)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
