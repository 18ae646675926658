//! The seam to the disk: one flat directory of files.

use std::{any::Any, fmt, io, ops::Range, sync::Arc};

use crate::{Error, Usage};

/// The directory that holds one log. Names are plain file names, without a path.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a new file for reading and writing; an old one of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Gives a file another name, replacing what had it. Durable only after [`Storage::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; open handles stay usable. Durable only after [`Storage::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;

    fn usage(&self) -> io::Result<Usage>;

    /// Locks the directory for this process until the guard is dropped; the error names the process that holds it.
    fn lock(&self) -> Result<LockGuard, Error>;

    /// A number that no client can guess, for the header of a new segment.
    fn salt(&self) -> u64;

    /// The directory, for people.
    fn describe(&self) -> String;

    /// The whole content of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name)?;
        let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut content = vec![0; len];
        let read = file.read_at(0, &mut content)?;
        content.truncate(read);
        Ok(content)
    }
}

/// An open file. All calls are positioned, so that one handle serves all threads.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Fills the buffer; a count below its length means that the file ends there.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads `len` bytes, or as many as the file has from there on.
    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads `len` bytes only if that needs no access to the device; `None` when it would, or when the file ends before.
    /// A storage that cannot tell reads them.
    fn read_cached(&self, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        let bytes = self.read(offset, len)?;
        Ok(Some(bytes).filter(|bytes| bytes.len() == len))
    }

    /// [`StorageFile::read_at`] for a handle that reads everything once: what was not in memory before is not kept there.
    fn read_aside(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }

    /// A stretch from `offset` on that may hold other bytes than zeros: before it all are zero. It is empty and at the file's end if no other byte
    /// follows. A storage that does not know where room was reserved and never written returns everything.
    fn next_written(&self, offset: u64) -> io::Result<Range<u64>> {
        Ok(offset..self.len()?.max(offset))
    }

    /// Whether reads bring the bytes behind them into memory too. It is on, unless a caller has said otherwise.
    fn set_read_ahead(&self, _: bool) {}

    /// Writes all bytes. After an error any part of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes content and length durable.
    fn sync_data(&self) -> io::Result<()>;

    fn set_len(&self, len: u64) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    /// Reserves room for the first `len` bytes and makes the file at least that long. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Holds a directory until it is dropped.
pub struct LockGuard(#[expect(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl LockGuard {
    /// Wraps whatever releases the lock when it is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// Suffix of a file that is being written and has not got its name yet. Leftovers are removed on open.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Writes a file that is there whole or not at all, whatever happens. The caller makes the name durable
/// with [`Storage::sync_dir`], after `publish` has given the file its name.
pub(crate) fn write_temporary<'a>(
    storage: &'a dyn Storage,
    name: &'a str,
    parts: &[&[u8]],
) -> io::Result<Temporary<'a>> {
    let temporary = Temporary { storage, name, path: format!("{name}{TEMPORARY}") };
    let written = (|| {
        let file = storage.create(&temporary.path)?;
        let mut offset = 0;
        for part in parts {
            file.write_at(offset, part)?;
            offset += part.len() as u64;
        }
        // Before the rename: a name must never lead to bytes that are not there yet.
        file.sync_data()
    })();
    match written {
        Ok(()) => Ok(temporary),
        Err(err) => {
            temporary.discard();
            Err(err)
        }
    }
}

/// A file that is complete and durable, and lacks only its name.
pub(crate) struct Temporary<'a> {
    storage: &'a dyn Storage,
    name: &'a str,
    path: String,
}

impl Temporary<'_> {
    pub(crate) fn publish(self) -> io::Result<()> {
        self.storage.rename(&self.path, self.name)
    }

    /// A leftover that cannot be removed now is removed when the log is opened again.
    pub(crate) fn discard(self) {
        let _ = self.storage.remove(&self.path);
    }
}

/// Reads a part of a file; shorter than asked where the file ends.
pub(crate) fn read_part(file: &dyn StorageFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut part = vec![0; len];
    let read = file.read_at(offset, &mut part)?;
    part.truncate(read);
    Ok(part)
}
