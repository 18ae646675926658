//! A disk in memory that loses, tears, misdirects and corrupts writes, for tests and the simulation.
//!
//! It remembers what was synced and what was not. [`SimStorage::crash`] keeps the first; for the second the
//! seed decides. Every run is a function of its seeds.

mod disk;
mod inode;
mod random;

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Error, Usage,
    storage::{LockGuard, Storage, StorageFile},
};

use disk::Disk;
pub use random::Random;

/// [`Storage`] on a simulated disk. Clones are handles of the same disk; see [`SimStorage::snapshot`] for a copy.
#[derive(Clone)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    on_sync: Arc<Mutex<Option<Hook>>>,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What was done to the files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounters {
    pub writes: u64,
    pub bytes_written: u64,
    pub syncs: u64,
}

/// What was done to a disk since it was made. A temporary file counts as what it is going to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub log: FileCounters,
    pub index: FileCounters,
    pub checkpoint: FileCounters,
    pub other: FileCounters,
    pub dir_syncs: u64,
    /// Reads of pages that were not in memory.
    pub waiting_reads: u64,
    /// All operations that change the disk or make a change durable; [`SimStorage::crash_at`] counts these.
    pub operations: u64,
}

impl SimStorage {
    pub fn new(seed: u64) -> Self {
        Self::of(Disk::new(seed))
    }

    fn of(disk: Disk) -> Self {
        Self { disk: Arc::new(Mutex::new(disk)), on_sync: Arc::default() }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as a machine finds it that comes back from a power cut. What was synced is there; each sector
    /// and each directory change that was not is kept, lost or torn as the seed has it. This disk itself does
    /// not change, so that one moment can be crashed in many ways.
    pub fn crash(&self, seed: u64) -> Self {
        Self::of(self.disk().crash(seed))
    }

    /// The disk as a process finds it that is started again after the last one was killed: nothing is lost,
    /// but what was not synced still is not.
    pub fn snapshot(&self) -> Self {
        Self::of(self.disk().snapshot())
    }

    /// Lets the process die at the `n`-th operation from now that changes the disk (1 is the next one). That
    /// operation may or may not take effect; it and everything after it fails.
    pub fn crash_at(&self, n: u64) {
        let mut disk = self.disk();
        disk.faults.dies_at = Some(disk.counters.operations + n);
    }

    /// Whether the process has died at the place set by [`SimStorage::crash_at`].
    pub fn is_dead(&self) -> bool {
        self.disk().faults.dead
    }

    /// Lets the `n`-th write from now fail with an IO error, after a part of it was written.
    pub fn fail_write(&self, n: u64) {
        self.disk().faults.fail_write = Some(n);
    }

    /// Lets the `n`-th read from now fail with an IO error.
    pub fn fail_read(&self, n: u64) {
        self.disk().faults.fail_read = Some(n);
    }

    /// While set, every read fails with an IO error.
    pub fn fail_reads(&self, fail: bool) {
        self.disk().faults.fail_reads = fail;
    }

    /// While set, no file can be opened or created, as when the process has no file descriptor left.
    pub fn no_descriptors(&self, none: bool) {
        self.disk().faults.no_descriptors = none;
    }

    /// Lets the `n`-th sync of a file from now fail as on Linux: some of the data is lost, memory still shows
    /// it, and later syncs report success.
    pub fn fail_sync(&self, n: u64) {
        self.disk().faults.fail_sync = Some(n);
    }

    /// Lets the `n`-th sync of the directory from now fail.
    pub fn fail_dir_sync(&self, n: u64) {
        self.disk().faults.fail_dir_sync = Some(n);
    }

    /// Lets the `n`-th write from now land so many bytes further on than it should.
    pub fn misdirect_write(&self, n: u64, by: u64) {
        self.disk().faults.misdirect_write = Some((n, by));
    }

    /// Size of the disk; files and reservations together cannot be larger. `None` is endless.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.disk().faults.capacity = capacity;
    }

    /// Lets the disk run full after so many more bytes are written, whatever is removed; `None` ends that.
    pub fn no_space_after(&self, bytes: Option<u64>) {
        self.disk().faults.no_space_after = bytes;
    }

    /// Runs in the middle of each sync of a file: the sync covers what was written before, not what the hook writes.
    pub fn on_sync(&self, hook: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.on_sync.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    /// Damages one bit of what is stored. Says whether there is such a byte.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> bool {
        self.disk().flip_bit(name, offset, bit)
    }

    /// Shortens a file without counting it as an operation. Says whether there is such a file.
    pub fn truncate_file(&self, name: &str, len: u64) -> bool {
        self.disk().truncate_file(name, len)
    }

    /// Empties the page cache. From here on a page is in memory only after it was read or written again.
    pub fn evict(&self) {
        self.disk().evict();
    }

    /// Puts a file on the disk, durably and without counting.
    pub fn put(&self, name: &str, content: &[u8]) {
        self.disk().put(name, content);
    }

    /// The content of a file as the process sees it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.disk().content(name)
    }

    pub fn counters(&self) -> Counters {
        self.disk().counters
    }

    fn file(&self, name: &str, inode: u64) -> Arc<dyn StorageFile> {
        Arc::new(SimFile { storage: self.clone(), name: name.to_owned(), inode })
    }
}

impl fmt::Debug for SimStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStorage").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Storage for SimStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.disk().create(name)?;
        Ok(self.file(name, inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.disk().open(name)?;
        Ok(self.file(name, inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk().remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk().list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk().sync_dir()
    }

    fn usage(&self) -> io::Result<Usage> {
        Ok(self.disk().usage())
    }

    fn lock(&self) -> Result<LockGuard, Error> {
        if !self.disk().lock() {
            return Err(Error::Locked { dir: self.describe(), holder: "process 1".to_owned() });
        }
        Ok(LockGuard::new(Unlock(self.clone())))
    }

    fn salt(&self) -> u64 {
        self.disk().random.next()
    }

    fn describe(&self) -> String {
        "simulated disk".to_owned()
    }
}

struct Unlock(SimStorage);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.disk().unlock();
    }
}

#[derive(Debug)]
struct SimFile {
    storage: SimStorage,
    name: String,
    inode: u64,
}

impl StorageFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.storage.disk().read_at(self.inode, offset, buffer)
    }

    fn read_cached(&self, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        self.storage.disk().read_cached(self.inode, offset, len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.storage.disk().write_at(self.inode, &self.name, offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.storage.disk().sync(self.inode, &self.name)?;
        let hook = self.storage.on_sync.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.disk().set_len(self.inode, len)
    }

    fn len(&self) -> io::Result<u64> {
        self.storage.disk().len(self.inode)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.storage.disk().allocate(self.inode, len)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.storage.disk().close(self.inode);
    }
}
