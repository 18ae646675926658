use std::fmt;

use bytes::Bytes;

/// Byte address in the log. Segments follow each other without gaps in this address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// Number of a frame: consecutive, the first one is 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Index(pub u64);

/// The position at which a segment begins, which is also its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SegmentId(pub u64);

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub index: Index,
    /// Where the payload's first byte is.
    pub payload: Position,
    pub segment: SegmentId,
}

/// One frame read back and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub term: u64,
    pub index: Index,
    pub timestamp_ms: u64,
    /// Where `payload` begins.
    pub position: Position,
    pub payload: Bytes,
    /// Where the next frame of this segment begins.
    pub next: Position,
}

/// Bytes of the log from a position on.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub at: Position,
    pub bytes: Bytes,
}

impl Block {
    /// So many bytes from a position on, if they are in it.
    pub fn get(&self, position: Position, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(position.0.checked_sub(self.at.0)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

/// A segment as the owner needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub id: SegmentId,
    /// Position after the last frame.
    pub end: Position,
    /// Index of the first and the last frame; `first > last` while the segment is empty.
    pub first: Index,
    pub last: Index,
    /// Timestamp of the last frame, 0 while the segment is empty.
    pub last_timestamp_ms: u64,
    /// Whether the segment takes appends.
    pub active: bool,
    pub has_index: bool,
}

/// Size and free space of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub total: u64,
    pub free: u64,
}

macro_rules! display_as_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}({})", stringify!($name), self.0) }
        }
    )*};
}

display_as_number!(Position, Index, SegmentId);
