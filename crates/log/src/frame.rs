//! The frame: the unit that is recovered whole or not at all.

use crate::field::{u8_at, u32_at, u64_at};

/// Bytes of a frame before its payload.
pub(crate) const HEADER_BYTES: usize = 48;
/// Frames begin at multiples of this, which bounds the places where a lost one must be searched.
pub(crate) const ALIGNMENT: u64 = 8;
pub(crate) const VERSION: u8 = 1;
const MAGIC: [u8; 3] = *b"rsf";

/// The place of a frame. It enters the checksum of the header, so that a frame written to the wrong place, or
/// the copy of a frame inside a payload, is never taken for a frame of this log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// From the header of the segment.
    pub salt: u64,
    pub position: u64,
}

/// What a frame says about itself. All integers are little endian.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 4 | length of header and payload, without the padding; 0 means that no frame begins here |
/// | 4 | 4 | CRC-32C of the bytes from 8 to the end of the payload |
/// | 8 | 4 | CRC-32C of the segment's salt, the frame's position, the length, and the bytes 12 to 47 |
/// | 12 | 1 | version, 1 |
/// | 13 | 3 | `rsf` |
/// | 16 | 8 | term |
/// | 24 | 8 | index |
/// | 32 | 8 | timestamp, milliseconds |
/// | 40 | 8 | durable: the log was known to be durable up to this position when the frame was written |
/// | 48 | n | payload |
/// |  | 0–7 | zeros up to the next multiple of 8 |
///
/// The header has a checksum of its own for two reasons: a damaged length is noticed before it is used, and
/// a search for frames behind a damaged one costs the same for every payload that a client may have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub length: u32,
    pub crc: u32,
    pub term: u64,
    pub index: u64,
    pub timestamp_ms: u64,
    pub durable: u64,
}

/// What the writer decides about a frame; the rest follows from the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub term: u64,
    pub index: u64,
    pub timestamp_ms: u64,
    pub durable: u64,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The length is zero: nothing was written here.
    Empty,
    /// The bytes end before the frame does.
    Short,
    Damaged(&'static str),
    /// A frame of a format that this build does not know.
    Version(u8),
}

impl Fault {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Empty => "no frame where one is expected",
            Self::Short => "the file ends inside a frame",
            Self::Damaged(what) => what,
            Self::Version(_) => "frame of an unknown format version",
        }
    }
}

/// Bytes that a frame with this much payload takes in its segment.
pub(crate) fn stored_bytes(payload: usize) -> u64 {
    padded((HEADER_BYTES + payload) as u64)
}

pub(crate) fn padded(length: u64) -> u64 {
    length.next_multiple_of(ALIGNMENT)
}

/// The header for `payload` at `place`. The payload must be shorter than 4 GiB less a header.
pub(crate) fn encode_header(stamp: Stamp, payload: &[u8], place: Place) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let length = (HEADER_BYTES + payload.len()) as u32;
    header[0..4].copy_from_slice(&length.to_le_bytes());
    header[12] = VERSION;
    header[13..16].copy_from_slice(&MAGIC);
    header[16..24].copy_from_slice(&stamp.term.to_le_bytes());
    header[24..32].copy_from_slice(&stamp.index.to_le_bytes());
    header[32..40].copy_from_slice(&stamp.timestamp_ms.to_le_bytes());
    header[40..48].copy_from_slice(&stamp.durable.to_le_bytes());
    let header_crc = header_crc(&header, place);
    header[8..12].copy_from_slice(&header_crc.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[8..]), payload);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Appends a whole frame, with its padding, to `out`.
pub(crate) fn encode(out: &mut Vec<u8>, stamp: Stamp, payload: &[u8], place: Place) {
    out.reserve(stored_bytes(payload.len()) as usize);
    out.extend_from_slice(&encode_header(stamp, payload, place));
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
}

fn header_crc(header: &[u8; HEADER_BYTES], place: Place) -> u32 {
    let mut covered = [0; 56];
    covered[0..8].copy_from_slice(&place.salt.to_le_bytes());
    covered[8..16].copy_from_slice(&place.position.to_le_bytes());
    covered[16..20].copy_from_slice(&header[0..4]);
    covered[20..56].copy_from_slice(&header[12..48]);
    crc32c::crc32c(&covered)
}

impl Header {
    /// Reads the header of a frame that should begin at the first of `bytes`.
    pub(crate) fn parse(bytes: &[u8], place: Place) -> Result<Self, Fault> {
        let header = Self::parse_unchecked(bytes)?;
        let raw = bytes.first_chunk::<HEADER_BYTES>().ok_or(Fault::Short)?;
        if u32_at(raw, 8) != Some(header_crc(raw, place)) {
            return Err(Fault::Damaged("frame header does not match its checksum"));
        }
        match u8_at(raw, 12) {
            Some(VERSION) => Ok(header),
            version => Err(Fault::Version(version.unwrap_or(0))),
        }
    }

    /// Reads the fields without looking at the checksum.
    pub(crate) fn parse_unchecked(bytes: &[u8]) -> Result<Self, Fault> {
        let length = u32_at(bytes, 0).ok_or(Fault::Short)?;
        if length == 0 {
            return Err(Fault::Empty);
        }
        if bytes.get(13..16).ok_or(Fault::Short)? != MAGIC {
            return Err(Fault::Damaged("no frame marker where a frame is expected"));
        }
        if (length as usize) < HEADER_BYTES {
            return Err(Fault::Damaged("frame length is below that of a header"));
        }
        let header = || {
            Some(Self {
                length,
                crc: u32_at(bytes, 4)?,
                term: u64_at(bytes, 16)?,
                index: u64_at(bytes, 24)?,
                timestamp_ms: u64_at(bytes, 32)?,
                durable: u64_at(bytes, 40)?,
            })
        };
        header().ok_or(Fault::Short)
    }

    /// Bytes that the frame takes in its segment, padding included.
    pub(crate) fn stored_bytes(&self) -> u64 {
        padded(u64::from(self.length))
    }

    /// Checks payload and padding of a frame whose header was parsed from the same bytes.
    pub(crate) fn verify(&self, frame: &[u8]) -> Result<(), Fault> {
        let length = self.length as usize;
        let covered = frame.get(8..length).ok_or(Fault::Short)?;
        let padding = frame.get(length..self.stored_bytes() as usize).ok_or(Fault::Short)?;
        if crc32c::crc32c(covered) != self.crc {
            return Err(Fault::Damaged("frame does not match its checksum"));
        }
        // Padding is zero before the frame is written and after, so anything else is damage.
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Fault::Damaged("padding of the frame is not zero"));
        }
        Ok(())
    }
}

/// Cheap test that rules out nearly every place where no frame begins.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.get(13..16) == Some(&MAGIC[..])
}

#[cfg(test)]
mod tests;
