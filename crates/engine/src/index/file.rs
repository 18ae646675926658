//! A sealed segment's index on disk.
//!
//! | part | content |
//! |---|---|
//! | header, 72 bytes | magic "RSIX", version u8, 3 bytes 0, segment u64, oldest u64, newest u64, queues u32, keys u32, timers u32, directory at u64, keys at u64, timers at u64, crc u32 |
//! | entries | queue by queue, in blocks of up to 128 entries of 32 bytes, each block with its crc u32 |
//! | directory | per queue: topic u32, queue u32, first offset u64, count u32, entries at u64; crc u32 |
//! | keys | (hash u64, position u64) sorted, in blocks of up to 256, each with its crc u32 |
//! | timers | key and timer, sorted; crc u32 |

#[cfg(test)]
mod tests;
mod verify;

pub use verify::{IndexCheck, IndexFault};

use redstart_log::{Position, SegmentId};

use super::{LiveIndex, live::LiveRun};
use crate::{
    Entry, QueueKey, QueueOffset, Timestamp,
    codec::{Malformed, Put, Take},
    message_ref::MessageRef,
    record::{put_queue, put_timer_key, take_queue, take_timer_key},
    timer::TimerKey,
};

const MAGIC: &[u8; 4] = b"RSIX";
const VERSION: u8 = 1;
pub(crate) const HEADER_LEN: usize = 72;
const DIRECTORY_ITEM_LEN: usize = 28;
const KEY_LEN: usize = 16;
const TIMER_LEN: usize = 16 + MessageRef::LEN;

pub(crate) const ENTRIES_PER_BLOCK: u64 = 128;
pub(crate) const ENTRY_BLOCK_LEN: u64 = ENTRIES_PER_BLOCK * Entry::LEN as u64 + 4;
const KEYS_PER_BLOCK: u64 = 256;
const KEY_BLOCK_LEN: u64 = KEYS_PER_BLOCK * KEY_LEN as u64 + 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub segment: SegmentId,
    pub oldest: Timestamp,
    pub newest: Timestamp,
    queues: u32,
    keys: u32,
    timers: u32,
    directory_at: u64,
    keys_at: u64,
    timers_at: u64,
}

/// A queue's run as the directory lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunItem {
    pub queue: QueueKey,
    pub first: QueueOffset,
    pub count: u32,
    pub at: u64,
}

/// A part of the file: where it is and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub at: u64,
    pub len: usize,
}

/// Where each queue's entries are in the file.
pub(crate) fn runs(live: &LiveIndex) -> Vec<RunItem> {
    let mut at = HEADER_LEN as u64;
    let item = |(queue, run): (QueueKey, &LiveRun)| {
        let count = run.entries.len() as u64;
        let item = RunItem { queue, first: run.first, count: count as u32, at };
        at += count * Entry::LEN as u64 + 4 * count.div_ceil(ENTRIES_PER_BLOCK);
        item
    };
    live.runs().into_iter().map(item).collect()
}

/// Builds the file.
pub(crate) fn build(segment: SegmentId, live: &LiveIndex) -> Vec<u8> {
    let items = runs(live);
    let mut out = vec![0; HEADER_LEN];
    for (_, run) in live.runs() {
        put_run(run, &mut out);
    }

    let directory_at = out.len() as u64;
    for item in &items {
        put_queue(item.queue, &mut out);
        out.put_u64(item.first.0);
        out.put_u32(item.count);
        out.put_u64(item.at);
    }
    put_crc(directory_at, &mut out);

    let keys_at = out.len() as u64;
    let mut keys = live.keys.clone();
    keys.sort_unstable();
    for block in keys.chunks(KEYS_PER_BLOCK as usize) {
        let at = out.len() as u64;
        for (hash, position) in block {
            out.put_u64(*hash);
            out.put_u64(position.0);
        }
        put_crc(at, &mut out);
    }

    let timers_at = out.len() as u64;
    let mut timers = live.timers.clone();
    timers.sort_unstable_by_key(|(key, _)| *key);
    for (key, message) in &timers {
        put_timer_key(*key, &mut out);
        message.encode(&mut out);
    }
    put_crc(timers_at, &mut out);

    let header = Header {
        segment,
        oldest: live.oldest.unwrap_or_default(),
        newest: live.newest.unwrap_or_default(),
        queues: items.len() as u32,
        keys: keys.len() as u32,
        timers: timers.len() as u32,
        directory_at,
        keys_at,
        timers_at,
    };
    out[..HEADER_LEN].copy_from_slice(&header.encode());
    out
}

fn put_run(run: &LiveRun, out: &mut Vec<u8>) {
    for block in run.entries.chunks(ENTRIES_PER_BLOCK as usize) {
        let start = out.len() as u64;
        for entry in block {
            entry.encode(out);
        }
        put_crc(start, out);
    }
}

fn put_crc(from: u64, out: &mut Vec<u8>) {
    let crc = crc32c::crc32c(&out[from as usize..]);
    out.put_u32(crc);
}

/// The bytes before the crc at the end, if it is right.
fn checked<'a>(bytes: &'a [u8], what: &'static str) -> Result<Take<'a>, Malformed> {
    let split = bytes.len().checked_sub(4).ok_or(Malformed::Damaged { what })?;
    let (content, crc) = bytes.split_at(split);
    if crc32c::crc32c(content).to_le_bytes() != crc {
        return Err(Malformed::Damaged { what });
    }
    Ok(Take::new(content, what))
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.put_u8(VERSION);
        out.extend_from_slice(&[0; 3]);
        out.put_u64(self.segment.0);
        out.put_u64(self.oldest.0);
        out.put_u64(self.newest.0);
        out.put_u32(self.queues);
        out.put_u32(self.keys);
        out.put_u32(self.timers);
        out.put_u64(self.directory_at);
        out.put_u64(self.keys_at);
        out.put_u64(self.timers_at);
        put_crc(0, &mut out);
        out
    }

    pub fn decode(bytes: &[u8], segment: SegmentId) -> Result<Header, Malformed> {
        let mut take = checked(bytes, "index header")?;
        let magic = take.slice(4)? == MAGIC;
        let version = take.u8()?;
        take.slice(3)?;
        let header = Header {
            segment: SegmentId(take.u64()?),
            oldest: Timestamp(take.u64()?),
            newest: Timestamp(take.u64()?),
            queues: take.u32()?,
            keys: take.u32()?,
            timers: take.u32()?,
            directory_at: take.u64()?,
            keys_at: take.u64()?,
            timers_at: take.u64()?,
        };
        // An index can always be built again from its segment, so an unknown version is treated like damage.
        if !magic || version != VERSION || header.segment != segment {
            return Err(take.malformed());
        }
        Ok(header)
    }

    pub fn directory(&self) -> Part {
        Part { at: self.directory_at, len: self.queues as usize * DIRECTORY_ITEM_LEN + 4 }
    }

    pub fn timers(&self) -> Part {
        Part { at: self.timers_at, len: self.timers as usize * TIMER_LEN + 4 }
    }

    pub fn key_blocks(&self) -> u64 {
        u64::from(self.keys).div_ceil(KEYS_PER_BLOCK)
    }

    pub fn key_block(&self, block: u64) -> Part {
        let keys = (u64::from(self.keys) - block * KEYS_PER_BLOCK).min(KEYS_PER_BLOCK);
        Part { at: self.keys_at + block * KEY_BLOCK_LEN, len: keys as usize * KEY_LEN + 4 }
    }
}

pub(crate) fn decode_directory(bytes: &[u8]) -> Result<Vec<RunItem>, Malformed> {
    let mut take = checked(bytes, "index directory")?;
    let mut items = Vec::with_capacity(bytes.len() / DIRECTORY_ITEM_LEN);
    while !take.is_empty() {
        items.push(RunItem {
            queue: take_queue(&mut take)?,
            first: QueueOffset(take.u64()?),
            count: take.u32()?,
            at: take.u64()?,
        });
    }
    Ok(items)
}

pub(crate) fn decode_entries(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let mut take = checked(bytes, "index entries")?;
    let mut entries = Vec::with_capacity(bytes.len() / Entry::LEN);
    while !take.is_empty() {
        entries.push(Entry::decode(&mut take)?);
    }
    Ok(entries)
}

pub(crate) fn decode_keys(bytes: &[u8]) -> Result<Vec<(u64, Position)>, Malformed> {
    let mut take = checked(bytes, "index keys")?;
    let mut keys = Vec::with_capacity(bytes.len() / KEY_LEN);
    while !take.is_empty() {
        keys.push((take.u64()?, Position(take.u64()?)));
    }
    Ok(keys)
}

pub(crate) fn decode_timers(bytes: &[u8]) -> Result<Vec<(TimerKey, MessageRef)>, Malformed> {
    let mut take = checked(bytes, "index timers")?;
    let mut timers = Vec::with_capacity(bytes.len() / TIMER_LEN);
    while !take.is_empty() {
        timers.push((take_timer_key(&mut take)?, MessageRef::decode(&mut take)?));
    }
    Ok(timers)
}

/// The block of a run that holds its `n`-th entry, given where the run begins and how long it is.
pub(crate) fn entry_block(run_at: u64, n: u64, count: u64) -> (u64, Part) {
    let block = n / ENTRIES_PER_BLOCK;
    let entries = (count - block * ENTRIES_PER_BLOCK).min(ENTRIES_PER_BLOCK);
    (block, Part { at: run_at + block * ENTRY_BLOCK_LEN, len: entries as usize * Entry::LEN + 4 })
}
