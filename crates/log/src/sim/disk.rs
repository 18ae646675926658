//! The state of the simulated disk: its files, its directory, and the faults that a test has set.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use crate::{Usage, names::Kind, storage::TEMPORARY};

use super::{
    Counters, FileCounters,
    inode::{Inode, Mode, Sparse},
    random::Random,
};

const PAGE: u64 = 4096;

/// A volume of this size is pretended while no capacity is set.
const VOLUME_BYTES: u64 = 1 << 40;

/// Too many open files.
const EMFILE: i32 = 24;

/// Files, names, and what is wrong with them.
#[derive(Debug)]
pub(super) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    safe_names: BTreeMap<String, u64>,
    /// Changes of names since the directory was synced.
    changes: Vec<Change>,
    locked: bool,
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) counters: Counters,
    /// Pages in memory, by file and number; `None` when all are.
    cached: Option<BTreeSet<(u64, u64)>>,
}

#[derive(Clone, Debug)]
enum Change {
    Link { name: String, inode: u64 },
    Unlink { name: String },
    Rename { from: String, to: String, inode: u64 },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) dies_at: Option<u64>,
    pub(super) dead: bool,
    pub(super) fail_write: Option<u64>,
    pub(super) fail_read: Option<u64>,
    pub(super) fail_reads: bool,
    pub(super) no_descriptors: bool,
    pub(super) fail_sync: Option<u64>,
    pub(super) fail_dir_sync: Option<u64>,
    pub(super) misdirect_write: Option<(u64, u64)>,
    pub(super) capacity: Option<u64>,
    pub(super) no_space_after: Option<u64>,
}

/// Whether an operation is the last one of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Alive,
    Dying,
}

impl Step {
    fn end(self) -> io::Result<()> {
        if self == Self::Dying { Err(died()) } else { Ok(()) }
    }
}

fn died() -> io::Error {
    io::Error::other("the simulated process has died")
}

fn io_fault() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

/// The pages that these bytes are in.
fn pages(offset: u64, len: usize) -> std::ops::Range<u64> {
    offset / PAGE..(offset + len as u64).div_ceil(PAGE)
}

/// Counts down to a fault; true when it strikes.
fn strikes(countdown: &mut Option<u64>) -> bool {
    let left = countdown.take();
    *countdown = left.filter(|left| *left > 1).map(|left| left - 1);
    left == Some(1)
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            inodes: BTreeMap::new(),
            next_inode: 1,
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            changes: Vec::new(),
            locked: false,
            random: Random::new(seed),
            faults: Faults::default(),
            counters: Counters::default(),
            cached: None,
        }
    }

    pub(super) fn snapshot(&self) -> Self {
        let mut inodes = self.inodes.clone();
        inodes.values_mut().for_each(|inode| inode.handles = 0);
        Self {
            inodes,
            names: self.names.clone(),
            safe_names: self.safe_names.clone(),
            changes: self.changes.clone(),
            random: self.random.clone(),
            next_inode: self.next_inode,
            locked: false,
            faults: Faults { capacity: self.faults.capacity, ..Faults::default() },
            counters: Counters::default(),
            cached: None,
        }
    }

    pub(super) fn crash(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut names = self.safe_names.clone();
        let mode = Mode::pick(&mut random);
        for change in &self.changes {
            if mode.keeps(&mut random) {
                change.apply(&mut names);
            }
        }
        let mut inodes = BTreeMap::new();
        for number in names.values() {
            if let Some(inode) = self.inodes.get(number) {
                inodes.insert(*number, inode.crash(&mut random));
            }
        }
        Self {
            inodes,
            safe_names: names.clone(),
            names,
            changes: Vec::new(),
            random,
            next_inode: self.next_inode,
            locked: false,
            faults: Faults { capacity: self.faults.capacity, ..Faults::default() },
            counters: Counters::default(),
            cached: None,
        }
    }

    /// Begins an operation that changes the disk.
    fn step(&mut self) -> io::Result<Step> {
        self.alive()?;
        self.counters.operations += 1;
        if self.faults.dies_at.is_some_and(|at| self.counters.operations >= at) {
            self.faults.dead = true;
            return Ok(Step::Dying);
        }
        Ok(Step::Alive)
    }

    fn alive(&self) -> io::Result<()> {
        if self.faults.dead { Err(died()) } else { Ok(()) }
    }

    fn has_descriptor(&self) -> io::Result<()> {
        if self.faults.no_descriptors { Err(io::Error::from_raw_os_error(EMFILE)) } else { Ok(()) }
    }

    fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn number(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<u64> {
        self.has_descriptor()?;
        let step = self.step()?;
        let number = match self.names.get(name).copied() {
            Some(number) => {
                self.inode(number)?.set_len(0);
                number
            }
            None => {
                let number = self.next_inode;
                self.next_inode += 1;
                self.inodes.insert(number, Inode::default());
                self.change(Change::Link { name: name.to_owned(), inode: number });
                number
            }
        };
        step.end()?;
        self.inode(number)?.handles += 1;
        Ok(number)
    }

    pub(super) fn open(&mut self, name: &str) -> io::Result<u64> {
        self.has_descriptor()?;
        self.alive()?;
        let number = self.number(name)?;
        self.inode(number)?.handles += 1;
        Ok(number)
    }

    pub(super) fn close(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.handles = inode.handles.saturating_sub(1);
            if inode.handles == 0 {
                self.forget_unlinked();
            }
        }
    }

    /// Drops files that no name and no open handle leads to, and that no crash can bring back.
    fn forget_unlinked(&mut self) {
        if !self.changes.is_empty() || self.inodes.len() == self.names.len() {
            return;
        }
        let names = &self.names;
        self.inodes
            .retain(|number, inode| inode.handles > 0 || names.values().any(|linked| linked == number));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.number(from)?;
        let step = self.step()?;
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        step.end()
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.alive()?;
        self.number(name)?;
        let step = self.step()?;
        self.change(Change::Unlink { name: name.to_owned() });
        step.end()
    }

    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        self.alive()?;
        Ok(self.names.keys().cloned().collect())
    }

    pub(super) fn sync_dir(&mut self) -> io::Result<()> {
        self.step()?.end()?;
        self.counters.dir_syncs += 1;
        if strikes(&mut self.faults.fail_dir_sync) {
            return Err(io_fault());
        }
        self.changes.clear();
        self.safe_names = self.names.clone();
        self.forget_unlinked();
        Ok(())
    }

    pub(super) fn lock(&mut self) -> bool {
        !std::mem::replace(&mut self.locked, true)
    }

    pub(super) fn unlock(&mut self) {
        self.locked = false;
    }

    pub(super) fn usage(&self) -> Usage {
        let total = self.faults.capacity.unwrap_or(VOLUME_BYTES);
        Usage { total, free: total.saturating_sub(self.used()) }
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|number| self.inodes.get(number)).map(|inode| inode.room).sum()
    }

    /// How much further a file may reach, of what it wants.
    fn room(&self, number: u64, end: u64) -> u64 {
        let has = self.inodes.get(&number).map_or(0, |inode| inode.room);
        let free = self.faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()));
        end.min(has.saturating_add(free))
    }

    pub(super) fn read_at(&mut self, number: u64, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.alive()?;
        if strikes(&mut self.faults.fail_read) || self.faults.fail_reads {
            return Err(io_fault());
        }
        if self.is_cold(number, offset, buffer.len()) {
            self.counters.waiting_reads += 1;
        }
        self.cache(number, offset, buffer.len());
        Ok(self.inode(number)?.now.read(offset, buffer))
    }

    pub(super) fn read_cached(
        &mut self,
        number: u64,
        offset: u64,
        len: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        if self.is_cold(number, offset, len) {
            return self.alive().map(|()| None);
        }
        let mut bytes = vec![0; len];
        let read = self.read_at(number, offset, &mut bytes)?;
        Ok((read == len).then_some(bytes))
    }

    /// Whether a read has to wait for the disk.
    fn is_cold(&self, number: u64, offset: u64, len: usize) -> bool {
        let cold = |cached: &BTreeSet<_>| pages(offset, len).any(|page| !cached.contains(&(number, page)));
        self.cached.as_ref().is_some_and(cold)
    }

    pub(super) fn evict(&mut self) {
        self.cached = Some(BTreeSet::new());
    }

    fn cache(&mut self, number: u64, offset: u64, len: usize) {
        if let Some(cached) = &mut self.cached {
            cached.extend(pages(offset, len).map(|page| (number, page)));
        }
    }

    pub(super) fn write_at(&mut self, number: u64, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let step = self.step()?;
        let counters = self.counters_of(name);
        counters.writes += 1;
        counters.bytes_written += bytes.len() as u64;
        if strikes(&mut self.faults.fail_write) {
            let part = self.random.below(bytes.len() as u64 + 1) as usize;
            self.inode(number)?.write(offset, &bytes[..part]);
            return Err(io_fault());
        }
        let offset = self.directed(offset);
        let mut fits = self.room(number, offset + bytes.len() as u64).saturating_sub(offset);
        if let Some(left) = &mut self.faults.no_space_after {
            fits = fits.min(*left);
            *left -= fits;
        }
        let fits = fits.min(bytes.len() as u64) as usize;
        self.inode(number)?.write(offset, &bytes[..fits]);
        self.cache(number, offset, fits);
        step.end()?;
        if fits < bytes.len() { Err(full()) } else { Ok(()) }
    }

    fn directed(&mut self, offset: u64) -> u64 {
        let Some((countdown, by)) = self.faults.misdirect_write.take() else {
            return offset;
        };
        if countdown > 1 {
            self.faults.misdirect_write = Some((countdown - 1, by));
            return offset;
        }
        offset + by
    }

    pub(super) fn sync(&mut self, number: u64, name: &str) -> io::Result<()> {
        self.step()?.end()?;
        self.counters_of(name).syncs += 1;
        if strikes(&mut self.faults.fail_sync) {
            let mut random = self.random.clone();
            self.inode(number)?.fail_sync(&mut random);
            self.random = random;
            return Err(io_fault());
        }
        self.inode(number)?.sync();
        Ok(())
    }

    pub(super) fn set_len(&mut self, number: u64, len: u64) -> io::Result<()> {
        let step = self.step()?;
        self.inode(number)?.set_len(len);
        step.end()
    }

    pub(super) fn len(&mut self, number: u64) -> io::Result<u64> {
        self.alive()?;
        Ok(self.inode(number)?.now.len)
    }

    pub(super) fn allocate(&mut self, number: u64, len: u64) -> io::Result<()> {
        let step = self.step()?;
        if self.room(number, len) < len || self.faults.no_space_after == Some(0) {
            return Err(full());
        }
        let inode = self.inode(number)?;
        inode.room = inode.room.max(len);
        if inode.now.len < len {
            inode.set_len(len);
        }
        step.end()
    }

    pub(super) fn flip_bit(&mut self, name: &str, offset: u64, bit: u8) -> bool {
        let Ok(inode) = self.number(name).and_then(|number| self.inode(number)) else {
            return false;
        };
        let mut there = false;
        for content in [&mut inode.now, &mut inode.safe] {
            let mut byte = [0];
            if content.read(offset, &mut byte) == 1 {
                content.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
                there = true;
            }
        }
        there
    }

    pub(super) fn truncate_file(&mut self, name: &str, len: u64) -> bool {
        let Ok(inode) = self.number(name).and_then(|number| self.inode(number)) else {
            return false;
        };
        inode.set_len(len.min(inode.now.len));
        inode.sync();
        true
    }

    pub(super) fn put(&mut self, name: &str, content: &[u8]) {
        let mut sparse = Sparse::default();
        sparse.write(0, content);
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, Inode::stored(sparse));
        self.names.insert(name.to_owned(), number);
        self.safe_names.insert(name.to_owned(), number);
    }

    pub(super) fn content(&mut self, name: &str) -> Option<Vec<u8>> {
        let number = self.number(name).ok()?;
        let inode = self.inode(number).ok()?;
        let mut content = vec![0; inode.now.len as usize];
        inode.now.read(0, &mut content);
        Some(content)
    }

    fn counters_of(&mut self, name: &str) -> &mut FileCounters {
        match Kind::of(name.strip_suffix(TEMPORARY).unwrap_or(name)) {
            // It is going to be a segment.
            Kind::Segment(_) | Kind::Spare => &mut self.counters.log,
            Kind::Index(_) => &mut self.counters.index,
            Kind::Checkpoint(_) => &mut self.counters.checkpoint,
            Kind::Temporary | Kind::Lock | Kind::Manifest | Kind::Foreign => &mut self.counters.other,
        }
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, inode } => drop(names.insert(name.clone(), *inode)),
            Self::Unlink { name } => drop(names.remove(name)),
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }
}
