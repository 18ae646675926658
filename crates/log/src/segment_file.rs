//! What a segment file holds besides frames: a header before the first one, a trailer after the last.

use crate::{
    field::{Fields, is_sealed, u8_at, u64_at},
    frame,
};

pub(crate) const HEADER_BYTES: u64 = 64;
pub(crate) const TRAILER_BYTES: u64 = 64;
pub(crate) const VERSION: u8 = 1;
const MAGIC: &[u8; 7] = b"rsseg\r\n";
/// The first four bytes are zero, so that the trailer reads as "no frame begins here".
const TRAILER_MAGIC: &[u8; 7] = b"\0\0\0\0rst";

/// No log grows this far.
const LIMIT: u64 = 1 << 62;

/// Largest payload that fits in a segment of this size, if it is alone there.
pub(crate) fn payload_bytes_max(segment_bytes: u64) -> usize {
    let around = HEADER_BYTES + TRAILER_BYTES + frame::HEADER_BYTES as u64 + frame::ALIGNMENT;
    segment_bytes.saturating_sub(around).min(u64::from(u32::MAX) / 2) as usize
}

/// The first bytes of every segment. Written and synced before any frame.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 7 | `rsseg` CR LF |
/// | 7 | 1 | version, 1 |
/// | 8 | 8 | position of the segment's first byte, which is the first of this header |
/// | 16 | 8 | index of the first frame |
/// | 24 | 8 | term of the last frame before this segment |
/// | 32 | 8 | salt, random, part of the checksum of each frame header |
/// | 40 | 20 | zeros |
/// | 60 | 4 | CRC-32C of the bytes before it |
///
/// The first index is stored because an empty segment must know it after retention took the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub base: u64,
    pub first: u64,
    pub previous_term: u64,
    pub salt: u64,
}

/// The last bytes of a sealed segment, directly after its last frame. It is written only when all frames of
/// the segment, and those of all segments before it, have been synced: a trailer is proof that they were durable.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 4 | 0, the length of a frame that is not there |
/// | 4 | 3 | `rst` |
/// | 7 | 1 | version, 1 |
/// | 8 | 8 | position of the segment's first byte |
/// | 16 | 8 | position of this trailer, the end of the last frame |
/// | 24 | 8 | index of the last frame |
/// | 32 | 8 | timestamp of the last frame |
/// | 40 | 8 | term of the last frame |
/// | 48 | 12 | zeros |
/// | 60 | 4 | CRC-32C of the bytes before it |
///
/// The trailer belongs to the address space: the next segment begins where the trailer ends. So the end of
/// one segment and the beginning of the next are different positions, and a reader can be at either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub base: u64,
    pub end: u64,
    pub last: u64,
    pub last_timestamp_ms: u64,
    pub last_term: u64,
}

/// Why bytes are not a header or a trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Damaged,
    Version(u8),
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        Fields::new()
            .put(MAGIC)
            .u8(VERSION)
            .u64(self.base)
            .u64(self.first)
            .u64(self.previous_term)
            .u64(self.salt)
            .sealed()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        check::<{ HEADER_BYTES as usize }>(bytes, MAGIC)?;
        let header = || {
            Some(Self {
                base: u64_at(bytes, 8)?,
                first: u64_at(bytes, 16)?,
                previous_term: u64_at(bytes, 24)?,
                salt: u64_at(bytes, 32)?,
            })
        };
        // Sums of positions inside a file must not overflow, whatever a file claims.
        header().filter(|header| header.base < LIMIT && header.first < LIMIT).ok_or(Fault::Damaged)
    }
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_BYTES as usize] {
        Fields::new()
            .put(TRAILER_MAGIC)
            .u8(VERSION)
            .u64(self.base)
            .u64(self.end)
            .u64(self.last)
            .u64(self.last_timestamp_ms)
            .u64(self.last_term)
            .sealed()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        check::<{ TRAILER_BYTES as usize }>(bytes, TRAILER_MAGIC)?;
        let trailer = || {
            Some(Self {
                base: u64_at(bytes, 8)?,
                end: u64_at(bytes, 16)?,
                last: u64_at(bytes, 24)?,
                last_timestamp_ms: u64_at(bytes, 32)?,
                last_term: u64_at(bytes, 40)?,
            })
        };
        trailer().filter(|trailer| trailer.end < LIMIT && trailer.last < LIMIT).ok_or(Fault::Damaged)
    }
}

/// Version before checksum: another version may keep its checksum elsewhere. Version 0 was never written, it is
/// what a torn write leaves behind.
fn check<const N: usize>(bytes: &[u8], magic: &[u8; 7]) -> Result<(), Fault> {
    if bytes.get(..7) != Some(&magic[..]) {
        return Err(Fault::Damaged);
    }
    match u8_at(bytes, 7) {
        Some(VERSION) if is_sealed::<N>(bytes) => Ok(()),
        Some(VERSION) | Some(0) | None => Err(Fault::Damaged),
        Some(version) => Err(Fault::Version(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { base: 4096, first: 17, previous_term: 3, salt: 99 };
    const TRAILER: Trailer =
        Trailer { base: 4096, end: 9000, last: 21, last_timestamp_ms: 1_700_000_000_000, last_term: 4 };

    #[test]
    fn header_and_trailer_read_back_as_written() {
        assert_eq!(Header::parse(&HEADER.encode()), Ok(HEADER));
        assert_eq!(Trailer::parse(&TRAILER.encode()), Ok(TRAILER));
    }

    #[test]
    fn unknown_version_is_told_from_damage() {
        let mut bytes = HEADER.encode();
        bytes[7] = 2;
        assert_eq!(Header::parse(&bytes), Err(Fault::Version(2)));
        let mut bytes = HEADER.encode();
        bytes[20] ^= 1;
        assert_eq!(Header::parse(&bytes), Err(Fault::Damaged));
        assert_eq!(Header::parse(&HEADER.encode()[..63]), Err(Fault::Damaged));
    }

    #[test]
    fn trailer_reads_as_the_end_of_the_frames() {
        let place = frame::Place { salt: 0, position: 0 };
        assert_eq!(frame::Header::parse(&TRAILER.encode(), place), Err(frame::Fault::Empty));
    }
}
