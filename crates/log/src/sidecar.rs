//! Layouts of the files beside the segments: stored indexes and checkpoints.

use crate::field::{Fields, is_sealed, u8_at, u32_at, u64_at};

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const VERSION: u8 = 1;

/// What a sidecar belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The index of the segment with this base. The body carries its own checksums.
    Index,
    /// The state derived from the log up to the frame with this index.
    Checkpoint,
}

/// The first bytes of an index (`<base>.idx`) and of a checkpoint (`checkpoint-<index>`); the body follows.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 7 | `rsindex` or `rscheck` |
/// | 7 | 1 | version, 1 |
/// | 8 | 8 | base of the segment, or index of the frame |
/// | 16 | 8 | length of the body |
/// | 24 | 4 | CRC-32C of the body for a checkpoint, 0 for an index |
/// | 28 | 4 | CRC-32C of the bytes before it |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    pub of: u64,
    pub body_bytes: u64,
    pub body_crc: u32,
}

/// Why bytes are not the header of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Damaged,
    Version(u8),
}

impl Kind {
    fn magic(self) -> &'static [u8; 7] {
        match self {
            Self::Index => b"rsindex",
            Self::Checkpoint => b"rscheck",
        }
    }
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        Fields::new()
            .put(self.kind.magic())
            .u8(VERSION)
            .u64(self.of)
            .u64(self.body_bytes)
            .u32(self.body_crc)
            .sealed()
    }

    pub(crate) fn parse(bytes: &[u8], kind: Kind) -> Result<Self, Fault> {
        if bytes.get(..7) != Some(&kind.magic()[..]) {
            return Err(Fault::Damaged);
        }
        match u8_at(bytes, 7) {
            Some(VERSION) if is_sealed::<HEADER_BYTES>(bytes) => {}
            Some(VERSION) | Some(0) | None => return Err(Fault::Damaged),
            Some(version) => return Err(Fault::Version(version)),
        }
        let header = || {
            Some(Self {
                kind,
                of: u64_at(bytes, 8)?,
                body_bytes: u64_at(bytes, 16)?,
                body_crc: u32_at(bytes, 24)?,
            })
        };
        header().ok_or(Fault::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_header_reads_back_as_written() {
        let header = Header { kind: Kind::Checkpoint, of: 42, body_bytes: 7, body_crc: 0xdead_beef };
        let bytes = header.encode();
        assert_eq!(Header::parse(&bytes, Kind::Checkpoint), Ok(header));
        assert_eq!(Header::parse(&bytes, Kind::Index), Err(Fault::Damaged));
        assert_eq!(Header::parse(&bytes[..31], Kind::Checkpoint), Err(Fault::Damaged));
        let mut newer = bytes;
        newer[7] = 3;
        assert_eq!(Header::parse(&newer, Kind::Checkpoint), Err(Fault::Version(3)));
    }
}
