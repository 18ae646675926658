//! Reads for the engine's own work: the messages that become dead letters, and those that are copied out of a segment before it
//! goes. The engine does not wait for the disk: it names the parts that are not in memory, goes on with other work, and
//! comes back to these messages when the parts were read.

use std::collections::VecDeque;

use redstart_log::ReadError;
use rustc_hash::FxHashSet;

use super::Engine;
use crate::{
    index::{ColdPart, Inside, Warmed},
    planted,
};

/// Parts that are being read at the same time, and their bytes. What was read is kept up to twice these bytes.
const PARTS_MAX: usize = 1024;
const BYTES_MAX: usize = 16 << 20;

/// Parts of the log that the engine's own work needs.
#[derive(Debug, Default)]
pub(super) struct OwnReads {
    /// Not handed out yet.
    wanted: Vec<ColdPart>,
    /// Wanted, or being read, and their bytes.
    unread: FxHashSet<ColdPart>,
    unread_bytes: usize,
    /// Read, for the next attempt. The oldest are dropped first, and read again if they are still needed.
    read: VecDeque<Warmed>,
    read_bytes: usize,
}

impl OwnReads {
    /// Notes that a part is needed.
    pub fn want(&mut self, part: ColdPart) {
        if self.unread.insert(part) {
            self.unread_bytes += part.bytes();
            self.wanted.push(part);
        }
    }

    /// Whether work that needs further parts has to wait.
    pub fn is_full(&self) -> bool {
        self.unread.len() >= PARTS_MAX || self.unread_bytes >= BYTES_MAX
    }

    /// Whether everything that was wanted has been read.
    pub fn is_idle(&self) -> bool {
        self.unread.is_empty()
    }

    /// A part was read. Says whether it was wanted here.
    pub fn arrived(&mut self, part: &Warmed) -> bool {
        let wanted = self.unread.remove(&part.part());
        if wanted {
            self.unread_bytes -= part.part().bytes();
            self.keep(part.share());
        }
        wanted
    }

    fn keep(&mut self, part: Warmed) {
        self.read_bytes += part.bytes();
        self.read.push_back(part);
        while self.read.len() > 1 && self.read_bytes > 2 * BYTES_MAX {
            self.read_bytes -= self.read.pop_front().map_or(0, |part| part.bytes());
        }
    }

    /// No work needs the parts any more.
    pub fn forget(&mut self) {
        (self.read, self.read_bytes) = (VecDeque::new(), 0);
    }
}

impl Engine {
    /// The parts of the log that the engine's own work waits for. The caller has them read, by the jobs of [`Engine::warm`], and
    /// passes the results to [`Engine::job_done`]: dead letters are proposed then, copies by the next [`Engine::retire`].
    pub fn take_own_reads(&mut self) -> Vec<ColdPart> {
        std::mem::take(&mut self.own_reads.wanted)
    }

    /// From now on only what is in memory is read, and what was read for the engine's own work.
    pub(super) fn begin_own_work(&mut self) -> Inside {
        let parts = std::mem::take(&mut self.own_reads.read).into();
        self.indexes.access().enter(parts, !planted::own_work_waits(&self.config))
    }

    /// Ends what [`Engine::begin_own_work`] began. A part that could not be read was reported, and is read anew.
    pub(super) fn end_own_work(&mut self, inside: Inside) {
        let parts = self.indexes.access().leave(inside);
        self.own_reads.forget();
        for part in parts.into_iter().filter(|part| !matches!(part.result, Err(ReadError::Io { .. }))) {
            self.own_reads.keep(part);
        }
    }
}
