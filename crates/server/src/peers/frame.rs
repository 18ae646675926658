//! The frames of a link. All integers are little endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | bytes that follow, at most [`BYTES_MAX`] |
//! | 4 | 1 | kind: 1 for a message of a replica |
//! | 5 | 2 | number of the shard |
//! | 7 | n | the message |

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest frame: one that carries a checkpoint.
pub const BYTES_MAX: usize = 1 << 30;
const LENGTH_BYTES: usize = 4;
const HEADER_BYTES: usize = 3;
const MESSAGE: u8 = 1;
const SHARD: u16 = 0;
/// For the rest of a frame that has begun, while nothing at all comes.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Bytes that are asked for at a time. Memory grows with what has come and not with what a length claims.
const READ_BYTES: usize = 256 << 10;

/// Why a link is closed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("it was closed")]
    Closed,
    #[error("a frame claims to have {0} bytes, and {BYTES_MAX} is the most that one can have")]
    TooLong(usize),
    #[error("a frame has only {0} bytes")]
    TooShort(usize),
    #[error("a frame is of a kind or shard that is not known here ({0}, {1})")]
    Unknown(u8, u16),
    #[error("nothing came for {} s in the middle of a frame", STALLED_AFTER.as_secs())]
    Stalled,
}

/// The frame that carries a message.
pub fn of_message(message: &[u8]) -> Bytes {
    let length = HEADER_BYTES + message.len();
    let mut out = Vec::with_capacity(LENGTH_BYTES + length);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.push(MESSAGE);
    out.extend_from_slice(&SHARD.to_le_bytes());
    out.extend_from_slice(message);
    out.into()
}

/// Reads the frames of a link.
#[derive(Debug)]
pub struct FrameReader<R> {
    from: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(from: R) -> FrameReader<R> {
        FrameReader { from, buffer: BytesMut::new() }
    }

    /// The message of the next frame.
    pub async fn next(&mut self) -> Result<Bytes, FrameError> {
        while self.buffer.len() < LENGTH_BYTES {
            if self.buffer.is_empty() { self.read().await? } else { self.read_soon().await? }
        }
        let length = self.buffer.get_u32_le() as usize;
        match length {
            ..HEADER_BYTES => return Err(FrameError::TooShort(length)),
            BYTES_MAX.. => return Err(FrameError::TooLong(length)),
            _ => {}
        }
        while self.buffer.len() < length {
            self.read_soon().await?;
        }
        let mut frame = self.buffer.split_to(length).freeze();
        let (kind, shard) = (frame.get_u8(), frame.get_u16_le());
        if (kind, shard) != (MESSAGE, SHARD) {
            return Err(FrameError::Unknown(kind, shard));
        }
        Ok(frame)
    }

    async fn read(&mut self) -> Result<(), FrameError> {
        self.buffer.reserve(READ_BYTES);
        match self.from.read_buf(&mut self.buffer).await? {
            0 => Err(FrameError::Closed),
            _ => Ok(()),
        }
    }

    async fn read_soon(&mut self) -> Result<(), FrameError> {
        tokio::time::timeout(STALLED_AFTER, self.read()).await.map_err(|_| FrameError::Stalled)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Bytes, FrameError> {
        FrameReader::new(bytes).next().await
    }

    #[tokio::test]
    async fn frames_read_back_one_after_the_other() {
        let bytes = [of_message(b"first"), of_message(b""), of_message(&[7; 1 << 20])].concat();
        let mut reader = FrameReader::new(&bytes[..]);
        assert_eq!(reader.next().await.unwrap(), "first");
        assert_eq!(reader.next().await.unwrap(), "");
        assert_eq!(reader.next().await.unwrap().len(), 1 << 20);
        assert!(matches!(reader.next().await, Err(FrameError::Closed)));
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused_with_a_sentence() {
        let forged = |at: usize, bytes: &[u8]| {
            let mut frame = of_message(b"message").to_vec();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        for (bytes, why) in [
            (forged(0, &u32::MAX.to_le_bytes()), "claims to have 4294967295 bytes"),
            (forged(0, &2u32.to_le_bytes()), "has only 2 bytes"),
            (forged(4, &[9]), "kind or shard that is not known here (9, 0)"),
            (forged(5, &[1]), "kind or shard that is not known here (1, 1)"),
            (of_message(b"message")[..9].to_vec(), "it was closed"),
        ] {
            let error = read(&bytes).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stalls_in_a_frame_is_given_up_and_a_silent_one_is_not() {
        let (mut peer, here) = tokio::io::duplex(64);
        let mut reader = FrameReader::new(here);
        let silent = tokio::time::timeout(STALLED_AFTER * 4, reader.next()).await;
        assert!(silent.is_err(), "there is nothing to send");
        tokio::io::AsyncWriteExt::write_all(&mut peer, &of_message(b"message")[..6]).await.unwrap();
        assert!(matches!(reader.next().await, Err(FrameError::Stalled)));
    }
}
