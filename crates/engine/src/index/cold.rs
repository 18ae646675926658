//! Parts of the log that a request needs and that are not in memory.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use redstart_log::{Position, ReadError, Reader, SegmentId};

/// A part of a stored index, or a record, that has to be read from the disk first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColdPart {
    #[non_exhaustive]
    Index { segment: SegmentId, at: u64, len: usize },
    #[non_exhaustive]
    Record { position: Position, len: usize },
}

impl ColdPart {
    /// Reads the part. Waits for the disk, so never on the owner thread.
    pub(crate) fn read(self, reader: &dyn Reader) -> Warmed {
        let result = match self {
            ColdPart::Index { segment, at, len } => reader.index_read(segment, at, len),
            ColdPart::Record { position, len } => reader.read(position, len),
        };
        Warmed { part: self, result }
    }

    pub fn bytes(&self) -> usize {
        match self {
            ColdPart::Index { len, .. } | ColdPart::Record { len, .. } => *len,
        }
    }

    fn read_if_cached(self, reader: &dyn Reader) -> Result<Option<Bytes>, ReadError> {
        match self {
            ColdPart::Index { segment, at, len } => reader.index_read_if_cached(segment, at, len),
            ColdPart::Record { position, len } => reader.read_if_cached(position, len),
        }
    }
}

impl std::fmt::Display for ColdPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColdPart::Index { segment, .. } => write!(f, "a part of the index of segment {segment}"),
            ColdPart::Record { position, .. } => write!(f, "the record at log position {position}"),
        }
    }
}

/// A part that was read for a request, or could not be.
#[derive(Debug)]
pub struct Warmed {
    pub(crate) part: ColdPart,
    pub(crate) result: Result<Bytes, ReadError>,
}

impl Warmed {
    pub fn part(&self) -> ColdPart {
        self.part
    }

    pub fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, |bytes| bytes.len())
    }

    /// Another holder of the same part.
    pub fn share(&self) -> Warmed {
        Warmed { part: self.part, result: self.again() }
    }

    fn again(&self) -> Result<Bytes, ReadError> {
        match &self.result {
            Ok(bytes) => Ok(bytes.clone()),
            Err(ReadError::Removed(position)) => Err(ReadError::Removed(*position)),
            Err(ReadError::OutOfRange { position, len }) => {
                Err(ReadError::OutOfRange { position: *position, len: *len })
            }
            Err(ReadError::Corrupt { file, offset, position, what }) => {
                Err(ReadError::Corrupt { file: file.clone(), offset: *offset, position: *position, what })
            }
            Err(ReadError::Io { what, source }) => {
                let source = std::io::Error::new(source.kind(), source.to_string());
                Err(ReadError::Io { what: what.clone(), source })
            }
        }
    }
}

/// A part that was not read.
#[derive(Debug)]
pub(crate) enum Failed {
    Read(ReadError),
    /// Only where the caller asked not to wait for the disk.
    Cold(ColdPart),
}

impl From<ReadError> for Failed {
    fn from(error: ReadError) -> Failed {
        Failed::Read(error)
    }
}

/// How parts were read before a piece of work that must not wait for the disk, and may be part of a request.
#[derive(Debug)]
pub(crate) struct Inside {
    cached_only: bool,
    parts: Vec<Warmed>,
    missed: Option<ColdPart>,
}

/// How parts of the log are read: with waiting for the disk, or only if they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Whether a part that is not in memory is reported instead of being read.
    cached_only: Cell<bool>,
    /// Parts that were read for the request which runs now. They are there for it whatever caches have forgotten since.
    parts: RefCell<Vec<Warmed>>,
    /// The first part that the request missed.
    missed: Cell<Option<ColdPart>>,
}

impl Access {
    /// From now on only what is in memory is read, with these parts.
    pub fn begin_cached(&self, parts: Vec<Warmed>) {
        self.cached_only.set(true);
        self.missed.set(None);
        self.parts.replace(parts);
    }

    /// Reads may wait again. Gives the parts back, with the first one that was missed.
    pub fn end_cached(&self) -> (Vec<Warmed>, Option<ColdPart>) {
        self.cached_only.set(false);
        (self.parts.take(), self.missed.take())
    }

    /// The same for work inside of a request, or beside all of them.
    pub fn enter(&self, parts: Vec<Warmed>, cached_only: bool) -> Inside {
        let cached_only = self.cached_only.replace(cached_only || self.cached_only.get());
        Inside { cached_only, parts: self.parts.replace(parts), missed: self.missed.take() }
    }

    /// Goes on as before the work. Gives the parts back.
    pub fn leave(&self, inside: Inside) -> Vec<Warmed> {
        self.cached_only.set(inside.cached_only);
        self.missed.set(inside.missed);
        self.parts.replace(inside.parts)
    }

    /// The request has a result without the part that it missed.
    pub fn forget_missed(&self) {
        self.missed.set(None);
    }

    pub fn read(&self, reader: &dyn Reader, part: ColdPart) -> Result<Bytes, Failed> {
        if !self.cached_only.get() {
            return Ok(part.read(reader).result?);
        }
        if let Some(warmed) = self.parts.borrow().iter().find(|warmed| warmed.part == part) {
            return Ok(warmed.again()?);
        }
        if let Some(bytes) = part.read_if_cached(reader)? {
            return Ok(bytes);
        }
        if self.missed.get().is_none() {
            self.missed.set(Some(part));
        }
        Err(Failed::Cold(part))
    }
}
