//! A disk whose reads fail for a while. What is on it is sound.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redstart_log::{Error, FsStorage, LockGuard, Storage, StorageFile, Usage};

/// Reads that fail one after the other: some are tried again in another way before they are given up.
const RUN: u64 = 8;

/// Which reads fail: one run of n; none, at 0.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    every: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl Faults {
    pub fn fail_every(&self, n: u64) {
        self.every.store(n, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        let every = self.every.load(Ordering::SeqCst);
        if every > 0 && (self.reads.fetch_add(1, Ordering::SeqCst) / RUN).is_multiple_of(every) {
            // EIO.
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct FlakyStorage {
    pub inner: FsStorage,
    pub faults: Faults,
}

#[derive(Debug)]
struct FlakyFile {
    inner: Arc<dyn StorageFile>,
    faults: Faults,
}

impl FlakyStorage {
    fn wrap(&self, inner: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(FlakyFile { inner, faults: self.faults.clone() })
    }
}

impl Storage for FlakyStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.inner.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn usage(&self) -> io::Result<Usage> {
        self.inner.usage()
    }

    fn lock(&self) -> Result<LockGuard, Error> {
        self.inner.lock()
    }

    fn salt(&self) -> u64 {
        self.inner.salt()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl StorageFile for FlakyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.faults.check()?;
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }
}
