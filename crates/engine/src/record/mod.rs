//! What the log's frames hold.
//!
//! A frame's payload is a run of records: first the delivery facts, then the decisions. Each record carries its own
//! checksum, so that one message can be read and checked without its frame.
//!
//! | field | size | |
//! |---|---|---|
//! | length | u32 | of the whole record |
//! | crc | u32 | CRC-32C of everything after this field |
//! | kind | u8 | below 64 a decision, from 64 on a fact |
//! | body | | by kind |

mod decision;
mod fact;
#[cfg(test)]
pub(crate) mod tests;

use bytes::Bytes;
use redstart_log::{Position, ReadError, Reader};

pub(crate) use decision::{
    Cause, Decision, KeyHashes, Link, Placement, Stored, StoredRecord, TransactionEnd, dedup_hash, key_hash,
    put_message, put_queue, put_timer_key, take_queue, take_timer_key,
};
pub(crate) use fact::{AckReason, Blocked, Delivered, Fact, PopFact};

use crate::{
    codec::{Malformed, Put, Take},
    message::{LITE_TOPIC, MessageView},
    topic::MessageType,
};

const HEADER_LEN: usize = 9;
const FIRST_FACT_KIND: u8 = 64;

/// Appends one record to `out`; returns where it begins and how long it is.
pub(crate) fn put_record(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) -> (usize, u32) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN - 1]);
    out.put_u8(kind);
    body(out);
    let len = (out.len() - start) as u32;
    let crc = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    (start, len)
}

/// A record of a frame, decoded.
#[derive(Debug)]
pub(crate) enum Record {
    Decision(Decision),
    Fact(Fact),
}

/// One record of a payload, and its offset within it.
#[derive(Debug)]
pub(crate) struct Located {
    pub at: usize,
    pub record: Record,
}

/// Decodes a frame's payload. The frame's checksum has been verified, so an error means a writer's bug or a format
/// this build does not know; it is still only an error.
pub(crate) fn decode_payload(
    payload: &[u8],
    base: Position,
) -> impl Iterator<Item = Result<Located, Malformed>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = payload.get(at..)?;
        if rest.is_empty() {
            return None;
        }
        let start = at;
        let located = split(rest).and_then(|(kind, body, len)| {
            at += len as usize;
            let mut take = Take::new(body, "record");
            let record = if kind < FIRST_FACT_KIND {
                Record::Decision(Decision::decode(kind, &mut take, Position(base.0 + start as u64), len)?)
            } else {
                Record::Fact(Fact::decode(kind, &mut take)?)
            };
            Ok(Located { at: start, record })
        });
        if located.is_err() {
            at = payload.len();
        }
        Some(located)
    })
}

/// Splits off the first record: kind, body, whole length.
fn split(bytes: &[u8]) -> Result<(u8, &[u8], u32), Malformed> {
    let mut take = Take::new(bytes, "record header");
    let len = take.u32()?;
    take.u32()?;
    let kind = take.u8()?;
    let body_len = (len as usize).checked_sub(HEADER_LEN).ok_or(take.malformed())?;
    Ok((kind, take.slice(body_len)?, len))
}

/// Why a stored message cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the message at log position {position} fails its checksum")]
    Checksum { position: Position },
    #[error("the message at log position {position}: {source}")]
    Malformed { position: Position, source: Malformed },
}

/// The bytes of a message record, checked. Call [`Fetched::message`] to look inside.
#[derive(Debug, Clone)]
pub struct Fetched {
    record: Bytes,
    position: Position,
}

/// Reads and checks the message record at `position`. May be called from any thread.
pub fn fetch(reader: &dyn Reader, position: Position, size: u32) -> Result<Fetched, FetchError> {
    let record = reader.read(position, size as usize)?;
    let intact = record.len() > HEADER_LEN
        && record[..4] == size.to_le_bytes()
        && record[4..8] == crc32c::crc32c(&record[8..]).to_le_bytes();
    if !intact {
        return Err(FetchError::Checksum { position });
    }
    Ok(Fetched { record, position })
}

/// Reads the message record at `position` whose length is not known, only as much as it says.
pub fn fetch_at(reader: &dyn Reader, position: Position, size_max: u32) -> Result<Fetched, FetchError> {
    let head = reader.read(position, 4)?;
    let size = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if (size as usize) < HEADER_LEN || size > size_max {
        return Err(FetchError::Checksum { position });
    }
    fetch(reader, position, size)
}

impl Fetched {
    pub fn position(&self) -> Position {
        self.position
    }

    pub fn size(&self) -> u32 {
        self.record.len() as u32
    }

    /// The record's parts, borrowed from the bytes read.
    pub fn message(&self) -> Result<MessageView<'_>, FetchError> {
        Ok(self.stored()?.message)
    }

    /// Where and when it was stored, with the message.
    pub(crate) fn stored(&self) -> Result<StoredRecord<'_>, FetchError> {
        let malformed = |source| FetchError::Malformed { position: self.position, source };
        let mut take = Take::new(&self.record[HEADER_LEN..], "message record");
        StoredRecord::decode(self.record[8], &mut take).map_err(malformed)
    }

    /// The queue that the message was stored for. A retry topic lists it as well.
    pub fn home(&self) -> Result<crate::QueueKey, FetchError> {
        Ok(self.stored()?.queue)
    }

    /// The type it was sent as.
    pub fn message_type(&self) -> Result<MessageType, FetchError> {
        let stored = self.stored()?;
        Ok(match stored.message {
            _ if matches!(stored.placement, Placement::Half { .. }) => MessageType::Transaction,
            MessageView { deliver_at: Some(_), .. } => MessageType::Delay,
            MessageView { group: Some(_), .. } => MessageType::Fifo,
            MessageView { priority: Some(_), .. } => MessageType::Priority,
            view if view.property(LITE_TOPIC).is_some() => MessageType::Lite,
            _ => MessageType::Normal,
        })
    }

    /// The body without copying it.
    pub fn body(&self) -> Result<Bytes, FetchError> {
        let view = self.message()?;
        Ok(crate::codec::share(&self.record, view.body))
    }
}
