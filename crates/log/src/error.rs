use std::io;

use crate::{Index, Position, SegmentId};

/// Why the log refused to change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no space left for the log: {0}")]
    NoSpace(io::Error),
    #[error("frame of {size} bytes is over the limit of {limit}")]
    FrameTooLarge { size: usize, limit: usize },
    #[error("the log refuses writes until it is opened again, because a write or a flush failed: {cause}")]
    Poisoned { cause: String },
    #[error("segment {0} is active and cannot be removed")]
    SegmentActive(SegmentId),
    #[error("segment {0} is not the oldest of the log")]
    NotOldest(SegmentId),
    #[error("cannot truncate to frame {last}: the log holds frames {first} to {end}")]
    TruncateOutOfRange { last: Index, first: Index, end: Index },
    #[error(
        "frame {index} of another replica begins at {position}, where this log, which ends at {end}, has no place for it"
    )]
    Misplaced { index: Index, position: Position, end: Position },
    #[error("this node does not lead the replicated log")]
    NotLeading,
    #[error("{file}: corrupt at byte {offset} (log position {position}): {what}")]
    Corrupt { file: String, offset: u64, position: Position, what: &'static str },
    #[error(
        "{file}: data that was stored is missing from byte {offset} on (log position {position}, up to {until}): {what}"
    )]
    Missing { file: String, offset: u64, position: Position, until: Position, what: String },
    #[error("{file}: format version {found} is not known here (this build knows {known})")]
    UnknownVersion { file: String, found: u8, known: u8 },
    #[error("{dir} is in use by another process: {holder}")]
    Locked { dir: String, holder: String },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("position {0} is no longer stored: its segment has been removed")]
    Removed(Position),
    #[error("position {position} with {len} bytes lies beyond the end of the log")]
    OutOfRange { position: Position, len: usize },
    #[error("{file}: corrupt at byte {offset} (log position {position}): {what}")]
    Corrupt { file: String, offset: u64, position: Position, what: &'static str },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// An IO error with what was being done; a full disk has a variant of its own.
pub(crate) fn io_error(what: impl Into<String>, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace(source),
        _ => Error::Io { what: what.into(), source },
    }
}

/// The same for reads, which never run out of space.
pub(crate) fn read_error(what: impl Into<String>, source: io::Error) -> ReadError {
    ReadError::Io { what: what.into(), source }
}
