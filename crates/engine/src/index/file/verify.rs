//! Checking a stored index block by block, without knowing where the bytes come from.

use std::collections::VecDeque;

use redstart_log::SegmentId;

use super::{
    ENTRIES_PER_BLOCK, ENTRY_BLOCK_LEN, HEADER_LEN, Header, KEY_BLOCK_LEN, checked, decode_directory,
};
use crate::{Entry, codec::Malformed};

/// Bytes asked for at a time, unless a block is larger.
const PIECE_BYTES: u64 = 256 << 10;

/// A check of one index: ask for [`IndexCheck::next`], hand its bytes to [`IndexCheck::feed`], until there is no next.
#[derive(Debug)]
pub struct IndexCheck {
    segment: SegmentId,
    len: u64,
    parts: VecDeque<Blocks>,
}

/// A part of the file that consists of blocks, each with its checksum; the last may be shorter.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    what: What,
    at: u64,
    len: u64,
    block: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Header,
    Directory,
    Entries,
    Keys,
    Timers,
}

/// Where an index is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexFault {
    /// The block that does not match its checksum begins here.
    pub at: u64,
    pub what: &'static str,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Header => "header of the index is damaged",
            What::Directory => "directory of the index is damaged",
            What::Entries => "entries of the index are damaged",
            What::Keys => "keys of the index are damaged",
            What::Timers => "timers of the index are damaged",
        }
    }
}

impl Blocks {
    fn one(what: What, at: u64, len: u64) -> Blocks {
        Blocks { what, at, len, block: len }
    }

    fn fault(self) -> IndexFault {
        IndexFault { at: self.at, what: self.what.name() }
    }

    /// How many of its bytes to check next: whole blocks.
    fn piece(self) -> u64 {
        (PIECE_BYTES / self.block.max(1) * self.block).max(self.block).min(self.len)
    }
}

impl IndexCheck {
    /// For an index of `len` bytes.
    pub fn new(segment: SegmentId, len: u64) -> IndexCheck {
        let header = Blocks::one(What::Header, 0, HEADER_LEN as u64);
        IndexCheck { segment, len, parts: VecDeque::from([header]) }
    }

    /// The bytes to check next, as offset and length.
    pub fn next(&self) -> Option<(u64, usize)> {
        self.parts.front().map(|part| (part.at, part.piece() as usize))
    }

    /// Checks the bytes that [`IndexCheck::next`] asked for.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexFault> {
        let Some(part) = self.parts.pop_front() else { return Ok(()) };
        let piece = part.piece();
        if bytes.len() as u64 != piece {
            return Err(IndexFault { at: part.at, what: "the index is shorter than it says" });
        }
        let mut at = part.at;
        for block in bytes.chunks(part.block as usize) {
            checked(block, part.what.name()).map_err(|_| Blocks { at, ..part }.fault())?;
            at += block.len() as u64;
        }
        let rest = Blocks { at, len: part.len - piece, ..part };
        if rest.len > 0 {
            self.parts.push_front(rest);
        }
        self.look_into(part, bytes).map_err(|_| part.fault())?;
        // A length from the file must not make anyone read beyond it.
        match self.parts.iter().find(|part| part.at.checked_add(part.len).is_none_or(|end| end > self.len)) {
            Some(beyond) => Err(beyond.fault()),
            None => Ok(()),
        }
    }

    /// Learns from header and directory what else there is.
    fn look_into(&mut self, part: Blocks, bytes: &[u8]) -> Result<(), Malformed> {
        match part.what {
            What::Header => {
                let header = Header::decode(bytes, self.segment)?;
                let (directory, timers) = (header.directory(), header.timers());
                self.parts.push_back(Blocks::one(What::Directory, directory.at, directory.len as u64));
                if let Some(last) = header.key_blocks().checked_sub(1) {
                    let last = header.key_block(last);
                    let (at, len) = (header.keys_at, last.at + last.len as u64 - header.keys_at);
                    self.parts.push_back(Blocks { what: What::Keys, at, len, block: KEY_BLOCK_LEN });
                }
                self.parts.push_back(Blocks::one(What::Timers, timers.at, timers.len as u64));
            }
            What::Directory => {
                for run in decode_directory(bytes)?.into_iter().filter(|run| run.count > 0) {
                    let count = u64::from(run.count);
                    let len = count * Entry::LEN as u64 + 4 * count.div_ceil(ENTRIES_PER_BLOCK);
                    let (at, block) = (run.at, ENTRY_BLOCK_LEN);
                    self.parts.push_back(Blocks { what: What::Entries, at, len, block });
                }
            }
            What::Entries | What::Keys | What::Timers => {}
        }
        Ok(())
    }
}
