//! What the log's frames hold.
//!
//! A frame's payload is a run of records, facts and decisions in the order in which they were made. Each record carries
//! its own checksum, so that one message can be read and checked without its frame. A record has no version: a new layout
//! is a new kind, and a kind that is not known means a newer version, not damage.
//!
//! | field | size | |
//! |---|---|---|
//! | length | u32 | of the whole record |
//! | crc | u32 | CRC-32C of everything after this field |
//! | kind | u8 | below 64 a decision, from 64 on a fact |
//! | body | | by kind |
//!
//! A replicated log puts frames of its own between those of the engine: one without records when a node begins to lead, and
//! one with a record of the kind [`REPLICATION`] when the members change. They change no state here.

mod decision;
mod fact;
mod loss;
#[cfg(test)]
pub(crate) mod tests;

use bytes::Bytes;
use redstart_log::{Block, Position, ReadError, Reader};

pub(crate) use decision::{
    Cause, Decision, KeyHashes, Link, Placement, Stored, StoredRecord, TransactionEnd, dedup_hash, key_hash,
    put_message, put_queue, put_timer_key, take_queue, take_timer_key,
};
pub(crate) use fact::{AckReason, Blocked, Delivered, Fact, PopFact};
pub use loss::{FetchError, Loss, Proof};

use crate::{
    codec::{Malformed, Put, Take},
    message::{LITE_TOPIC, MessageView},
    topic::MessageType,
};

const HEADER_LEN: usize = 9;
const FIRST_FACT_KIND: u8 = 64;
/// Made and read by the replicated log; skipped here.
const REPLICATION: u8 = 63;

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

/// Decodes a frame's payload. The frame's checksum has been verified, so an error means a writer's bug or a kind of record
/// that this version does not know; it is still only an error.
pub(crate) fn decode_payload(
    payload: &[u8],
    base: Position,
) -> impl Iterator<Item = Result<Located, Malformed>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some((REPLICATION, _, len)) = payload.get(at..).and_then(|rest| split(rest).ok()) {
            at += len as usize;
        }
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

fn is_known_kind(kind: u8) -> bool {
    decision::KINDS.contains(&kind) || fact::KINDS.contains(&kind)
}

fn unknown_kind(kind: u8) -> Malformed {
    Malformed::Newer { what: "record kind", found: kind }
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

/// The bytes of a message record, checked. Call [`Fetched::message`] to look inside.
#[derive(Debug, Clone)]
pub struct Fetched<B = Bytes> {
    record: B,
    position: Position,
}

/// Reads and checks the message record at `position`. May be called from any thread.
pub fn fetch(reader: &dyn Reader, position: Position, size: u32) -> Result<Fetched, FetchError> {
    let record = reader.read(position, size as usize).map_err(FetchError::read)?;
    checked(record, position, size)
}

/// The same without waiting for the disk: `None` when the record is not in memory.
pub fn fetch_if_cached(
    reader: &dyn Reader,
    position: Position,
    size: u32,
) -> Result<Option<Fetched>, FetchError> {
    let bytes = reader.read_if_cached(position, size as usize).map_err(FetchError::read)?;
    bytes.map(|bytes| checked(bytes, position, size)).transpose()
}

/// Bytes between two records that are read along rather than with a call of their own.
const NEIGHBOUR_GAP: u64 = 1 << 10;
const NEIGHBOURS_BYTES_MAX: u64 = 256 << 10;
/// With so many records, not further from each other than this on average, the bytes between them are likely to be read
/// soon, too.
const MANY: usize = 8;
const SPREAD_MAX: u64 = 16 << 10;

/// Reads and checks many records, in their order: neighbours with one read. `see` gets each with its number.
pub fn fetch_each(
    reader: &dyn Reader,
    places: &[(Position, u32)],
    see: impl FnMut(usize, Result<Fetched<&[u8]>, FetchError>),
) {
    fetch_run(&Access::Waiting(reader), places, see);
}

/// The same without waiting for the disk. Returns how many records were seen: all of them, or those before the first
/// that is not in memory. A thread that may wait goes on there with [`fetch_each`].
pub fn fetch_each_if_cached(
    reader: &dyn Reader,
    places: &[(Position, u32)],
    see: impl FnMut(usize, Result<Fetched<&[u8]>, FetchError>),
) -> usize {
    fetch_run(&Access::Cached(reader), places, see)
}

/// How bytes are asked for.
enum Access<'a> {
    Waiting(&'a dyn Reader),
    /// Only what is in memory.
    Cached(&'a dyn Reader),
}

impl Access<'_> {
    fn read(&self, position: Position, len: usize) -> Result<Option<Bytes>, ReadError> {
        match self {
            Access::Waiting(reader) => reader.read(position, len).map(Some),
            Access::Cached(reader) => reader.read_if_cached(position, len),
        }
    }

    fn read_near(&self, position: Position, len: usize) -> Result<Option<Block>, ReadError> {
        match self {
            Access::Waiting(reader) => reader.read_near(position, len).map(Some),
            Access::Cached(reader) => reader.read_near_if_cached(position, len),
        }
    }
}

fn fetch_run(
    access: &Access<'_>,
    places: &[(Position, u32)],
    mut see: impl FnMut(usize, Result<Fetched<&[u8]>, FetchError>),
) -> usize {
    let dense = is_dense(places);
    let mut block = Block::default();
    let mut begun = 0;
    while let Some((count, len)) = neighbours(&places[begun..]) {
        let run = begun..begun + count;
        begun = run.end;
        if count > 1
            && let Ok(Some(bytes)) = access.read(places[run.start].0, len)
        {
            let beside = Block { at: places[run.start].0, bytes };
            for n in run {
                let (position, size) = places[n];
                let record = beside.get(position, size as usize).unwrap_or_default();
                if let Ok(fetched) = checked(record, position, size) {
                    see(n, Ok(fetched));
                // Damage is proven by a read of the record alone.
                } else if !fetch_alone(access, position, size, |fetched| see(n, fetched)) {
                    return n;
                }
            }
            continue;
        }
        // Single, or not readable together: the log may have been cut between them, or only some are in memory.
        for n in run {
            let (position, size) = places[n];
            let len = size as usize;
            if dense && block.get(position, len).is_none() {
                block = access.read_near(position, len).ok().flatten().unwrap_or_default();
            }
            if let Some(Ok(fetched)) = block.get(position, len).map(|record| checked(record, position, size))
            {
                see(n, Ok(fetched));
            } else if !fetch_alone(access, position, size, |fetched| see(n, fetched)) {
                return n;
            }
        }
    }
    places.len()
}

/// Reads one record; `false` when it is not in memory.
fn fetch_alone(
    access: &Access<'_>,
    position: Position,
    size: u32,
    see: impl FnOnce(Result<Fetched<&[u8]>, FetchError>),
) -> bool {
    match access.read(position, size as usize) {
        Ok(None) => return false,
        Ok(Some(record)) => see(checked(&record[..], position, size)),
        Err(error) => see(Err(FetchError::read(error))),
    }
    true
}

fn is_dense(places: &[(Position, u32)]) -> bool {
    let positions = || places.iter().map(|(position, _)| position.0);
    // They may come out of several queues, one after the other.
    let spread = positions().max().unwrap_or(0) - positions().min().unwrap_or(0);
    places.len() >= MANY && spread <= places.len() as u64 * SPREAD_MAX
}

/// How many of the first places can be read at once, and how many bytes that are.
fn neighbours(places: &[(Position, u32)]) -> Option<(usize, usize)> {
    let (first, size) = places.first()?;
    let mut end = first.0.saturating_add((*size).into());
    let mut count = 1;
    for (position, size) in &places[1..] {
        let next_end = position.0.saturating_add((*size).into());
        let near = (end..=end.saturating_add(NEIGHBOUR_GAP)).contains(&position.0);
        if !near || next_end - first.0 > NEIGHBOURS_BYTES_MAX {
            break;
        }
        (count, end) = (count + 1, next_end);
    }
    Some((count, (end - first.0) as usize))
}

pub(crate) fn checked<B: AsRef<[u8]>>(
    record: B,
    position: Position,
    size: u32,
) -> Result<Fetched<B>, FetchError> {
    let bytes = record.as_ref();
    let intact = bytes.len() > HEADER_LEN
        && bytes[..4] == size.to_le_bytes()
        && bytes[4..8] == crc32c::crc32c(&bytes[8..]).to_le_bytes();
    if !intact {
        return Err(FetchError::Checksum { position });
    }
    Ok(Fetched { record, position })
}

/// Reads the message record at `position` whose length is not known, only as much as it says.
pub fn fetch_at(reader: &dyn Reader, position: Position, size_max: u32) -> Result<Fetched, FetchError> {
    let head = reader.read(position, 4).map_err(FetchError::read)?;
    fetch(reader, position, size_of_record(&head, position, size_max)?)
}

/// The size that the first four bytes of a record tell.
pub(crate) fn size_of_record(head: &[u8], position: Position, size_max: u32) -> Result<u32, FetchError> {
    let size = head.first_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    if (size as usize) < HEADER_LEN || size > size_max {
        return Err(FetchError::Checksum { position });
    }
    Ok(size)
}

/// A fetched record, read.
#[derive(Debug, Clone)]
pub struct Opened<'a> {
    /// The queue that the message was stored for. A retry topic lists it as well.
    pub home: crate::QueueKey,
    /// The type it was sent as.
    pub message_type: MessageType,
    pub message: MessageView<'a>,
}

fn type_of(stored: &StoredRecord<'_>) -> MessageType {
    match &stored.message {
        _ if matches!(stored.placement, Placement::Half { .. }) => MessageType::Transaction,
        MessageView { deliver_at: Some(_), .. } => MessageType::Delay,
        MessageView { group: Some(_), .. } => MessageType::Fifo,
        MessageView { priority: Some(_), .. } => MessageType::Priority,
        view if view.property(LITE_TOPIC).is_some() => MessageType::Lite,
        _ => MessageType::Normal,
    }
}

impl<B: AsRef<[u8]>> Fetched<B> {
    pub fn position(&self) -> Position {
        self.position
    }

    pub fn size(&self) -> u32 {
        self.record.as_ref().len() as u32
    }

    /// Decodes the whole record once, for a caller that needs more than one part of it.
    pub fn open(&self) -> Result<Opened<'_>, FetchError> {
        let stored = self.stored()?;
        Ok(Opened { home: stored.queue, message_type: type_of(&stored), message: stored.message })
    }

    /// The record's parts, borrowed from the bytes read.
    pub fn message(&self) -> Result<MessageView<'_>, FetchError> {
        Ok(self.stored()?.message)
    }

    /// Where and when it was stored, with the message.
    pub(crate) fn stored(&self) -> Result<StoredRecord<'_>, FetchError> {
        let malformed = |source| FetchError::Malformed { position: self.position, source };
        let record = self.record.as_ref();
        let mut take = Take::new(&record[HEADER_LEN..], "message record");
        StoredRecord::decode(record[8], &mut take).map_err(malformed)
    }

    /// The queue that the message was stored for. A retry topic lists it as well.
    pub fn home(&self) -> Result<crate::QueueKey, FetchError> {
        Ok(self.stored()?.queue)
    }

    /// The type it was sent as.
    pub fn message_type(&self) -> Result<MessageType, FetchError> {
        Ok(type_of(&self.stored()?))
    }
}

impl Fetched {
    /// The body without copying it.
    pub fn body(&self) -> Result<Bytes, FetchError> {
        let view = self.message()?;
        Ok(crate::codec::share(&self.record, view.body))
    }
}
