//! Why a stored message cannot be read, and when that is proof that it never can be.

use redstart_log::{Position, ReadError};

use crate::codec::Malformed;

/// Why a stored message was not read. Made by this crate only: what it says of a message was seen in the log.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    #[non_exhaustive]
    Read(ReadError),
    #[error("the message at log position {position} fails its checksum")]
    #[non_exhaustive]
    Checksum { position: Position },
    #[error("the message at log position {position}: {source}")]
    #[non_exhaustive]
    Malformed { position: Position, source: Malformed },
}

/// What became of a message that can never be served again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Its bytes are not those that were stored.
    Damaged,
    /// Its segment has been removed.
    Removed,
}

/// Proof that the message at a log position can never be served. Only [`FetchError::proof`] makes one, and never from an
/// IO error: a disk that fails, or a process without file descriptors, says nothing about the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    position: Position,
    loss: Loss,
}

impl Proof {
    pub fn loss(&self) -> Loss {
        self.loss
    }

    pub fn position(&self) -> Position {
        self.position
    }
}

impl FetchError {
    pub(crate) fn read(error: ReadError) -> FetchError {
        FetchError::Read(error)
    }

    /// Whether the read itself failed: the message may be sound, and another read may succeed.
    pub fn is_io(&self) -> bool {
        matches!(self, FetchError::Read(ReadError::Io { .. }))
    }

    /// What the error proves about the message; `None` when another read may succeed.
    pub fn proof(&self) -> Option<Proof> {
        let (position, loss) = match self {
            FetchError::Read(ReadError::Io { .. }) => return None,
            // The message is sound; a version that knows its kind can serve it.
            FetchError::Malformed { source, .. } if source.is_newer() => return None,
            FetchError::Read(ReadError::Removed(position)) => (position, Loss::Removed),
            // Only what is durable is ever read, so a position beyond the end belongs to bytes that the log has lost.
            FetchError::Read(
                ReadError::OutOfRange { position, .. } | ReadError::Corrupt { position, .. },
            )
            | FetchError::Checksum { position }
            | FetchError::Malformed { position, .. } => (position, Loss::Damaged),
        };
        Some(Proof { position: *position, loss })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_io_error_proves_nothing_about_a_message() {
        for kind in [io::ErrorKind::Other, io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof] {
            let error = FetchError::Read(ReadError::Io { what: "reading".into(), source: kind.into() });
            assert!(error.is_io() && error.proof().is_none(), "{kind}");
        }
        // No descriptors are left; the disk fails.
        for code in [24, 5] {
            let source = io::Error::from_raw_os_error(code);
            assert!(FetchError::Read(ReadError::Io { what: "opening".into(), source }).proof().is_none());
        }
    }

    #[test]
    fn a_record_of_a_newer_version_is_not_taken_for_a_damaged_one() {
        let source = Malformed::Newer { what: "record kind", found: 63 };
        let error = FetchError::Malformed { position: Position(7), source };
        assert_eq!(error.proof(), None, "{error}");
    }

    #[test]
    fn damage_and_removal_are_proven_by_their_errors() {
        let position = Position(7);
        let malformed = Malformed::Damaged { what: "record" };
        let cases = [
            (FetchError::Read(ReadError::Removed(position)), Loss::Removed),
            (FetchError::Read(ReadError::OutOfRange { position, len: 9 }), Loss::Damaged),
            (
                FetchError::Read(ReadError::Corrupt { file: "f".into(), offset: 1, position, what: "short" }),
                Loss::Damaged,
            ),
            (FetchError::Checksum { position }, Loss::Damaged),
            (FetchError::Malformed { position, source: malformed }, Loss::Damaged),
        ];
        for (error, loss) in cases {
            assert_eq!(error.proof(), Some(Proof { position, loss }), "{error}");
            assert!(!error.is_io(), "{error}");
        }
    }
}
