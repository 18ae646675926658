//! One file of the simulated disk: what the process reads, what a sync has made durable, and what a crash leaves of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::random::Random;

const PAGE: usize = 4096;
pub(super) const SECTOR: usize = 512;

/// The content of a file: only pages that were written exist, and copies share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    pub(super) len: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Sparse {
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let available = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..available];
        let mut done = 0;
        while done < buffer.len() {
            let (page, skip, count) = piece(offset + done as u64, buffer.len() - done);
            let target = &mut buffer[done..done + count];
            match self.pages.get(&page) {
                Some(content) => target.copy_from_slice(&content[skip..skip + count]),
                None => target.fill(0),
            }
            done += count;
        }
        available
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, skip, count) = piece(offset + done as u64, bytes.len() - done);
            let content = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(content)[skip..skip + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, skip, _) = piece(len, 1);
            self.pages.split_off(&(page + 1));
            if skip == 0 {
                self.pages.remove(&page);
            } else if let Some(content) = self.pages.get_mut(&page) {
                Arc::make_mut(content)[skip..].fill(0);
            }
        }
        self.len = len;
    }

    fn sector(&self, sector: u64) -> [u8; SECTOR] {
        let (page, skip, _) = piece(sector * SECTOR as u64, 1);
        let mut copy = [0; SECTOR];
        if let Some(content) = self.pages.get(&page) {
            copy.copy_from_slice(&content[skip..skip + SECTOR]);
        }
        copy
    }

    /// Writes a sector, the last one as far as the length `len` goes.
    fn write_sector(&mut self, sector: u64, bytes: &[u8; SECTOR], len: u64) {
        let offset = sector * SECTOR as u64;
        let count = len.saturating_sub(offset).min(SECTOR as u64) as usize;
        self.write(offset, &bytes[..count]);
    }
}

/// Page, offset in it, and how many of `left` bytes are in it.
fn piece(offset: u64, left: usize) -> (u64, usize, usize) {
    let skip = (offset % PAGE as u64) as usize;
    (offset / PAGE as u64, skip, left.min(PAGE - skip))
}

/// A file: what the process sees, and what would survive.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) now: Sparse,
    pub(super) safe: Sparse,
    /// Sectors that the next sync will write.
    dirty: BTreeSet<u64>,
    /// The shortest length that was set since the last sync.
    shrunk: Option<u64>,
    /// Bytes for which there is room on the disk.
    pub(super) room: u64,
    pub(super) handles: usize,
}

/// How a crash treats what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    KeepAll,
    LoseAll,
    /// Each piece on its own.
    Mixed,
}

impl Mode {
    pub(super) fn pick(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::KeepAll,
            1 => Self::LoseAll,
            _ => Self::Mixed,
        }
    }

    pub(super) fn keeps(self, random: &mut Random) -> bool {
        match self {
            Self::KeepAll => true,
            Self::LoseAll => false,
            Self::Mixed => random.one_in(2),
        }
    }
}

impl Inode {
    /// A file that was put on the disk whole.
    pub(super) fn stored(content: Sparse) -> Self {
        let room = content.len;
        Self { now: content.clone(), safe: content, room, ..Self::default() }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.now.write(offset, bytes);
        let end = offset + bytes.len() as u64;
        self.dirty.extend(offset / SECTOR as u64..end.div_ceil(SECTOR as u64));
        self.room = self.room.max(end);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.now.len {
            self.shrunk = Some(self.shrunk.map_or(len, |shrunk| shrunk.min(len)));
            self.dirty.split_off(&len.div_ceil(SECTOR as u64));
            self.room = self.room.min(len);
        }
        self.now.set_len(len);
    }

    pub(super) fn sync(&mut self) {
        self.sync_some(|_| true);
    }

    /// A sync that fails: some sectors are written, none is tried again.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        self.sync_some(|_| random.one_in(2));
    }

    fn sync_some(&mut self, mut written: impl FnMut(u64) -> bool) {
        if let Some(shrunk) = self.shrunk.take() {
            self.safe.set_len(self.safe.len.min(shrunk));
        }
        for sector in std::mem::take(&mut self.dirty) {
            if written(sector) {
                self.safe.write_sector(sector, &self.now.sector(sector), self.now.len);
            }
        }
        self.safe.set_len(self.now.len);
    }

    /// What a machine finds after a power cut.
    pub(super) fn crash(&self, random: &mut Random) -> Self {
        let mode = Mode::pick(random);
        let mut found = self.safe.clone();
        let mut limit = u64::MAX;
        if let Some(shrunk) = self.shrunk {
            if mode.keeps(random) {
                found.set_len(found.len.min(shrunk));
            } else {
                // The length is older than what was written behind it, so that is not reachable.
                limit = shrunk;
            }
        }
        for sector in self.dirty.iter().copied() {
            if (sector + 1) * SECTOR as u64 > limit {
                break;
            }
            if let Some(content) = self.crash_sector(sector, &found, mode, random) {
                found.write_sector(sector, &content, self.now.len);
            }
        }
        if limit == u64::MAX && found.len < self.now.len && mode.keeps(random) {
            found.set_len(self.now.len);
        }
        Self::stored(found)
    }

    fn crash_sector(
        &self,
        sector: u64,
        found: &Sparse,
        mode: Mode,
        random: &mut Random,
    ) -> Option<[u8; SECTOR]> {
        let new = self.now.sector(sector);
        match (mode, random.below(8)) {
            (Mode::KeepAll, _) | (Mode::Mixed, 0..=3) => Some(new),
            (Mode::LoseAll, _) | (Mode::Mixed, 4..=5) => None,
            (Mode::Mixed, which) => {
                let (mut torn, cut) = (found.sector(sector), random.below(SECTOR as u64) as usize);
                let range = if which == 6 { 0..cut } else { cut..SECTOR };
                torn[range.clone()].copy_from_slice(&new[range]);
                Some(torn)
            }
        }
    }
}
