//! Reads of the log on disk: bytes by position, frames, stored indexes, and the scrubber's pieces.

use std::{io, sync::Arc};

use bytes::Bytes;

use crate::{
    Block, Frame, Index, IndexScrub, Position, ReadError, Reader, Scrubber, SegmentId, SegmentScrub,
    error::read_error,
    frame::{self, Fault, Place},
    segment::{Part, Segment},
    segment_file, sidecar,
    storage::StorageFile,
};

use super::{
    blocks::BLOCK_BYTES,
    shared::{Shared, Writing, hold},
};

/// Read with the header: enough for most frames in one call.
const FIRST_READ_BYTES: u64 = 4096;

impl Reader for Shared {
    fn read(&self, position: Position, len: usize) -> Result<Bytes, ReadError> {
        let segment = self.segment_with(position, len)?;
        let file = self.log_file(&segment, position)?;
        let bytes = file.read(position.0 - segment.base(), len).map_err(|err| reading(&segment, err))?;
        if bytes.len() < len {
            return Err(damaged(&segment, position, len, "the file is shorter than the log"));
        }
        Ok(bytes.into())
    }

    fn read_near(&self, position: Position, len: usize) -> Result<Block, ReadError> {
        let segment = self.segment_at(position)?;
        let at = position.0 - (position.0 - segment.base()) % BLOCK_BYTES;
        if position.0.checked_add(len as u64).is_none_or(|end| end - at > BLOCK_BYTES) {
            // Across two blocks, or larger than one.
            return Ok(Block { at: position, bytes: self.read(position, len)? });
        }
        let mut block = self.blocks.slot(at);
        if block.get(position, len).is_none() {
            let available = segment.end().saturating_sub(at).min(BLOCK_BYTES);
            *block = Block { at: Position(at), bytes: self.read(Position(at), available as usize)? };
        }
        block.get(position, len).ok_or(ReadError::OutOfRange { position, len })?;
        Ok(block.clone())
    }

    fn read_if_cached(&self, position: Position, len: usize) -> Result<Option<Bytes>, ReadError> {
        let segment = self.segment_with(position, len)?;
        let Some(file) = self.segments.open_file(&segment, Part::Log) else {
            return Ok(None);
        };
        let bytes = file.read_cached(position.0 - segment.base(), len);
        Ok(bytes.map_err(|err| reading(&segment, err))?.map(Bytes::from))
    }

    fn read_near_if_cached(&self, position: Position, len: usize) -> Result<Option<Block>, ReadError> {
        let segment = self.segment_with(position, len)?;
        let at = position.0 - (position.0 - segment.base()) % BLOCK_BYTES;
        if position.0 + len as u64 - at > BLOCK_BYTES {
            let bytes = self.read_if_cached(position, len)?;
            return Ok(bytes.map(|bytes| Block { at: position, bytes }));
        }
        // A block that another thread holds may be one that it is reading from the disk.
        let Some(mut block) = self.blocks.try_slot(at) else {
            return Ok(None);
        };
        if block.get(position, len).is_none() {
            let available = segment.end().saturating_sub(at).min(BLOCK_BYTES);
            let Some(bytes) = self.read_if_cached(Position(at), available as usize)? else {
                return Ok(None);
            };
            *block = Block { at: Position(at), bytes };
        }
        Ok(block.get(position, len).is_some().then(|| block.clone()))
    }

    fn frame(&self, position: Position) -> Result<Option<Frame>, ReadError> {
        let segment = self.segment_at(position)?;
        let start = position.0.max(segment.base() + segment_file::HEADER_BYTES);
        let end = segment.end();
        if start >= end {
            let beyond = segment.is_active() && start > end;
            return if beyond { Err(ReadError::OutOfRange { position, len: 0 }) } else { Ok(None) };
        }
        let file = self.log_file(&segment, position)?;
        if start.is_multiple_of(frame::ALIGNMENT)
            && let Some(frame) = begins_at(&segment, file.as_ref(), start)?
        {
            return Ok(Some(frame));
        }
        // Not the beginning of a frame, or of a damaged one: only the walk from the first frame can tell.
        let mut at = segment.base() + segment_file::HEADER_BYTES;
        while at < end {
            let Some(frame) = begins_at(&segment, file.as_ref(), at)? else {
                return Err(damaged(&segment, Position(at), 1, fault_at(&segment, file.as_ref(), at)?));
            };
            if at >= start {
                return Ok(Some(frame));
            }
            at = frame.next.0;
        }
        Ok(None)
    }

    fn index_len(&self, segment: SegmentId) -> Result<Option<u64>, ReadError> {
        let Some(file) = self.index_file(segment)? else {
            return Ok(None);
        };
        let len = file.len().map_err(|err| read_error(format!("reading the index of {segment}"), err))?;
        Ok(Some(len.saturating_sub(sidecar::HEADER_BYTES as u64)))
    }

    fn index_read(&self, segment: SegmentId, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let out_of_range = || ReadError::OutOfRange { position: Position(offset), len };
        let file = self.index_file(segment)?.ok_or_else(out_of_range)?;
        let start = offset.checked_add(sidecar::HEADER_BYTES as u64).ok_or_else(out_of_range)?;
        let reading = |err| read_error(format!("reading the index of {segment}"), err);
        let available = file.len().map_err(reading)?.saturating_sub(start);
        if available < len as u64 {
            return Err(out_of_range());
        }
        let mut bytes = vec![0; len];
        let read = file.read_at(start, &mut bytes).map_err(reading)?;
        if read < len {
            return Err(out_of_range());
        }
        Ok(bytes.into())
    }

    fn index_read_if_cached(
        &self,
        id: SegmentId,
        offset: u64,
        len: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        let segment = self.segments.get(id.0).ok_or(ReadError::Removed(Position(id.0)))?;
        let start = offset.checked_add(sidecar::HEADER_BYTES as u64);
        let start = start.ok_or(ReadError::OutOfRange { position: Position(offset), len })?;
        // A range behind the end of the file counts as cold too: `index_read` tells what is wrong with it.
        let Some(file) = self.segments.open_file(&segment, Part::Index).filter(|_| segment.has_index())
        else {
            return Ok(None);
        };
        let bytes = file.read_cached(start, len);
        let bytes = bytes.map_err(|err| read_error(format!("reading the index of {id}"), err))?;
        Ok(bytes.map(Bytes::from))
    }
}

impl Scrubber for Shared {
    fn segment(&self, id: SegmentId) -> Result<Option<SegmentScrub>, ReadError> {
        let sealed = |segment: &Arc<Segment>| {
            let rolled = |writing: &Writing| writing.segment.base() == segment.base();
            !segment.is_active() && !hold(&self.tail).rolled.iter().any(rolled)
        };
        let Some(segment) = self.segments.get(id.0).filter(sealed) else {
            return Ok(None);
        };
        self.unless_removed(id, SegmentScrub::open(self.storage.as_ref(), segment))
    }

    fn index(&self, id: SegmentId) -> Result<Option<IndexScrub>, ReadError> {
        if !self.segments.get(id.0).is_some_and(|segment| segment.has_index()) {
            return Ok(None);
        }
        self.unless_removed(id, IndexScrub::open(self.storage.as_ref(), id.0))
    }
}

impl Shared {
    /// What was opened, or nothing if the segment has gone since.
    fn unless_removed<T>(&self, id: SegmentId, opened: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
        match opened {
            Err(_) if self.segments.get(id.0).is_none() => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn segment_at(&self, position: Position) -> Result<Arc<Segment>, ReadError> {
        self.segments.holding(position.0).ok_or(ReadError::Removed(position))
    }

    /// The segment that holds all of these bytes.
    fn segment_with(&self, position: Position, len: usize) -> Result<Arc<Segment>, ReadError> {
        let segment = self.segment_at(position)?;
        match position.0.checked_add(len as u64) {
            Some(end) if end <= segment.end() => Ok(segment),
            _ => Err(ReadError::OutOfRange { position, len }),
        }
    }

    fn log_file(&self, segment: &Segment, position: Position) -> Result<Arc<dyn StorageFile>, ReadError> {
        self.segments.file(segment, Part::Log).map_err(|err| match err.kind() {
            // Retention was faster.
            io::ErrorKind::NotFound if self.segments.get(segment.base()).is_none() => {
                ReadError::Removed(position)
            }
            _ => reading(segment, err),
        })
    }

    fn index_file(&self, id: SegmentId) -> Result<Option<Arc<dyn StorageFile>>, ReadError> {
        let segment = self.segments.get(id.0).ok_or(ReadError::Removed(Position(id.0)))?;
        if !segment.has_index() {
            return Ok(None);
        }
        match self.segments.file(&segment, Part::Index) {
            Ok(file) => Ok(Some(file)),
            Err(err) if err.kind() == io::ErrorKind::NotFound && self.segments.get(id.0).is_none() => {
                Err(ReadError::Removed(Position(id.0)))
            }
            Err(err) => Err(read_error(format!("opening {}", segment.index_name()), err)),
        }
    }
}

/// The frame that begins exactly here; `None` if no good frame header stands here.
fn begins_at(segment: &Segment, file: &dyn StorageFile, at: u64) -> Result<Option<Frame>, ReadError> {
    let left = segment.end().saturating_sub(at);
    let offset = at - segment.base();
    let mut bytes = vec![0; left.min(FIRST_READ_BYTES) as usize];
    let mut read = file.read_at(offset, &mut bytes).map_err(|err| reading(segment, err))?;
    bytes.truncate(read);
    let place = Place { salt: segment.header.salt, position: at };
    let Ok(header) = frame::Header::parse(&bytes, place) else {
        return Ok(None);
    };
    let stored = header.stored_bytes();
    if stored > left {
        return Err(damaged(segment, Position(at), 1, "frame runs over the end of the segment"));
    }
    bytes.resize(stored as usize, 0);
    if read < bytes.len() {
        let more = file.read_at(offset + read as u64, &mut bytes[read..]);
        read += more.map_err(|err| reading(segment, err))?;
        bytes.truncate(read);
    }
    if let Err(fault) = header.verify(&bytes) {
        return Err(damaged(segment, Position(at), stored as usize, fault.what()));
    }
    let payload = Bytes::from(bytes).slice(frame::HEADER_BYTES..header.length as usize);
    Ok(Some(Frame {
        term: header.term,
        index: Index(header.index),
        timestamp_ms: header.timestamp_ms,
        position: Position(at + frame::HEADER_BYTES as u64),
        payload,
        next: Position(at + stored),
    }))
}

fn fault_at(segment: &Segment, file: &dyn StorageFile, at: u64) -> Result<&'static str, ReadError> {
    let mut bytes = [0; frame::HEADER_BYTES];
    let read = file.read_at(at - segment.base(), &mut bytes).map_err(|err| reading(segment, err))?;
    let place = Place { salt: segment.header.salt, position: at };
    let fault = frame::Header::parse(&bytes[..read], place).err();
    Ok(fault.unwrap_or(Fault::Damaged("frame was being replaced")).what())
}

fn reading(segment: &Segment, err: io::Error) -> ReadError {
    read_error(format!("reading {}", segment.log_name()), err)
}

/// Bad bytes are damage only if they are still part of the log: a truncation may have cut them meanwhile.
fn damaged(segment: &Segment, position: Position, len: usize, what: &'static str) -> ReadError {
    if position.0.saturating_add(len as u64) > segment.end() {
        return ReadError::OutOfRange { position, len };
    }
    let offset = position.0.saturating_sub(segment.base());
    ReadError::Corrupt { file: segment.log_name(), offset, position, what }
}
