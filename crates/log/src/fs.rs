//! A directory of the local file system.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, IoSliceMut, Read},
    num::NonZeroU64,
    ops::Range,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    buffer::spare_capacity,
    fs::{Advice, FallocateFlags, FlockOperation, SeekFrom},
    io::{Errno, ReadWriteFlags},
};

use crate::{
    Error, Usage, names,
    storage::{LockGuard, Storage, StorageFile},
};

/// [`Storage`] in a directory of the local file system.
#[derive(Debug)]
pub struct FsStorage {
    dir: PathBuf,
    /// Kept open, because it is synced again and again.
    handle: File,
    /// Cleared when the file system turns out not to know reads without waiting. All files of the directory share it.
    tells_cached: Arc<AtomicBool>,
}

impl FsStorage {
    /// Opens the directory and creates it, with its parents, where it is missing.
    pub fn open(dir: impl AsRef<Path>) -> io::Result<Self> {
        let dir = dir.as_ref();
        create_dir_durably(dir)?;
        // Absolute, so that messages name it and a change of the working directory does not move it.
        let dir = fs::canonicalize(dir)?;
        let handle = File::open(&dir)?;
        Ok(Self { dir, handle, tells_cached: Arc::new(AtomicBool::new(true)) })
    }

    fn file(&self, file: File) -> Arc<dyn StorageFile> {
        Arc::new(FsFile { file, tells_cached: Arc::clone(&self.tells_cached) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Creates a directory, with its parents, so that it is still there after a power cut. Only the owner of the process may enter it.
pub fn create_dir_durably(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return create_dir(dir),
    };
    create_dir_durably(parent)?;
    match create_dir(dir) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

/// Messages and what else is stored are for the owner of the process. Directories that exist keep their mode.
fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Options that make a file which only the owner of the process may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

impl Storage for FsStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = private();
        options.truncate(true);
        Ok(self.file(options.open(self.path(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.file(OpenOptions::new().read(true).write(true).open(self.path(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            // A name that is not text is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn usage(&self) -> io::Result<Usage> {
        let volume = rustix::fs::fstatvfs(&self.handle)?;
        // Blocks that are reserved for the superuser count neither as used nor as ours: full is when nothing is left
        // to us, as `df` has it.
        let used = volume.f_blocks.saturating_sub(volume.f_bfree);
        let total = used.saturating_add(volume.f_bavail);
        Ok(Usage { total: total * volume.f_frsize, free: volume.f_bavail * volume.f_frsize })
    }

    fn lock(&self) -> Result<LockGuard, Error> {
        let io = |source| Error::Io { what: format!("locking {}", self.describe()), source };
        let path = self.path(names::LOCK);
        let mut file = private().truncate(false).open(path).map_err(io)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let holder = match file.read_to_string(&mut pid) {
                    Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
                    _ => "a process that has not left its number".to_owned(),
                };
                return Err(Error::Locked { dir: self.describe(), holder });
            }
            Err(err) => return Err(io(err.into())),
        }
        // The number is for people; the lock itself is what excludes, so it survives no crash of its holder.
        file.set_len(0).map_err(io)?;
        file.write_all_at(format!("{}\n", process::id()).as_bytes(), 0).map_err(io)?;
        Ok(LockGuard::new(file))
    }

    fn salt(&self) -> u64 {
        RandomState::new().hash_one(process::id())
    }

    fn describe(&self) -> String {
        self.dir.display().to_string()
    }
}

#[derive(Debug)]
struct FsFile {
    file: File,
    tells_cached: Arc<AtomicBool>,
}

impl StorageFile for FsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        Ok(filled)
    }

    /// Reads into uninitialized capacity: a buffer that is overwritten anyway need not be zeroed first.
    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(err) => return Err(err.into()),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_cached(&self, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        if self.tells_cached.load(Ordering::Relaxed) {
            match read_without_waiting(&self.file, offset, len) {
                // Networked and layered file systems, and kernels before 4.14.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    self.tells_cached.store(false, Ordering::Relaxed);
                }
                other => return Ok(other?),
            }
        }
        let bytes = self.read(offset, len)?;
        Ok(Some(bytes).filter(|bytes| bytes.len() == len))
    }

    fn read_aside(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.tells_cached.load(Ordering::Relaxed) {
            return self.read_at(offset, buffer);
        }
        // No read-ahead: what this call brings in must be what it drops again.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
        let cached =
            rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
        let cached = cached.unwrap_or(0);
        if cached == buffer.len() {
            return Ok(cached);
        }
        let from = offset + cached as u64;
        let read = self.read_at(from, &mut buffer[cached..])?;
        if let Some(len) = NonZeroU64::new(read as u64) {
            let _ = rustix::fs::fadvise(&self.file, from, Some(len), Advice::DontNeed);
        }
        Ok(cached + read)
    }

    fn next_written(&self, offset: u64) -> io::Result<Range<u64>> {
        let end = self.len()?.max(offset);
        // These move the handle's own offset, which no call uses.
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => data.max(offset),
            Err(Errno::NXIO) => return Ok(end..end),
            // Not every file system can tell.
            Err(_) => return Ok(offset..end),
        };
        let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(start)).unwrap_or(end);
        Ok(start..hole.clamp(start, end))
    }

    fn set_read_ahead(&self, on: bool) {
        let advice = if on { Advice::Normal } else { Advice::Random };
        // Without it a start takes longer.
        let _ = rustix::fs::fadvise(&self.file, 0, None, advice);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        loop {
            return match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
                Err(Errno::INTR) => continue,
                // Not every file system can reserve. The log then learns of a full disk when it writes.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    if self.len()? < len {
                        self.set_len(len)
                    } else {
                        Ok(())
                    }
                }
                other => Ok(other?),
            };
        }
    }
}

/// Bytes that the page cache holds; `None` if it lacks any of them.
fn read_without_waiting(file: &File, offset: u64, len: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = vec![0; len];
    loop {
        let mut whole = [IoSliceMut::new(&mut bytes)];
        return match rustix::io::preadv2(file, &mut whole, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(None),
            // Less than asked for: the rest is on the device only, or the file ends there.
            Ok(read) => Ok((read == len).then_some(bytes)),
            Err(err) => Err(err),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_made_is_for_its_owner_and_what_is_there_keeps_its_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let given = dir.path().join("given");
        fs::create_dir(&given).expect("a directory");
        fs::set_permissions(&given, fs::Permissions::from_mode(0o755)).expect("a mode");
        let made = given.join("made");
        let storage = FsStorage::open(&made).expect("a storage");
        storage.create("x").expect("a file");
        let _lock = storage.lock().expect("a lock");
        assert_eq!((mode(&given), mode(&made)), (0o755, 0o700));
        assert_eq!((mode(&made.join("x")), mode(&made.join(names::LOCK))), (0o600, 0o600));
    }

    #[test]
    fn room_that_was_never_written_is_skipped_and_what_is_written_is_not() {
        const WRITTEN: u64 = (5 << 20) + 123;
        const LEN: u64 = 8 << 20;
        let dir = tempfile::tempdir().expect("a directory");
        let file = FsStorage::open(dir.path()).expect("a storage").create("x").expect("a file");
        file.allocate(LEN).expect("room");
        assert!(file.next_written(0).expect("a range").start <= LEN);
        file.write_at(WRITTEN, &[1]).expect("written");
        for (from, limit) in
            [(0, WRITTEN), (WRITTEN - 1, WRITTEN), (WRITTEN, WRITTEN), (WRITTEN + 1, LEN), (LEN, LEN)]
        {
            let found = file.next_written(from).expect("a range");
            assert!((from..=limit).contains(&found.start), "{found:?} from {from} on");
        }
    }

    #[test]
    fn bytes_outside_the_page_cache_are_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let storage = FsStorage::open(dir.path()).expect("a storage");
        let content: Vec<u8> = (0..(1 << 20)).map(|n: u32| n as u8).collect();
        storage.create("x").expect("a file").write_at(0, &content).expect("written");

        let raw = OpenOptions::new().read(true).write(true).open(dir.path().join("x")).expect("the file");
        let file = storage.open("x").expect("the file");
        let hot = file.read_cached(4096, 8192).expect("read");
        assert_eq!(hot.as_deref(), Some(&content[4096..12288]), "just written");
        assert_eq!(file.read_cached(1 << 20, 1).expect("read"), None, "behind the end");

        raw.sync_all().expect("synced");
        rustix::fs::fadvise(&raw, 0, None, Advice::DontNeed).expect("evicted");
        if !storage.tells_cached.load(Ordering::Relaxed) {
            return;
        }
        // A file system in memory keeps everything. On others the pages are gone, and a plain read brings them back.
        if file.read_cached(512 << 10, 4096).expect("read").is_none() {
            file.read(512 << 10, 4096).expect("read");
            assert!(file.read_cached(512 << 10, 4096).expect("read").is_some());
        }
    }

    #[test]
    fn a_read_aside_leaves_the_page_cache_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let storage = FsStorage::open(dir.path()).expect("a storage");
        let content: Vec<u8> = (0..(1 << 20)).map(|n: u32| (n / 7) as u8).collect();
        let raw = storage.create("x").expect("a file");
        raw.write_at(0, &content).expect("written");
        raw.sync_data().expect("synced");
        let file = OpenOptions::new().read(true).open(dir.path().join("x")).expect("the file");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("evicted");
        let is_cached = |page: u64| raw.read_cached(page * 4096, 4096).expect("read").is_some();
        let cached = || (16..256).filter(|page| is_cached(*page)).count();
        if !storage.tells_cached.load(Ordering::Relaxed) || cached() > 120 {
            // A file system in memory keeps everything.
            return;
        }
        raw.read(0, 64 << 10).expect("read");
        assert!(is_cached(0));
        let before = cached();
        let aside = storage.open("x").expect("the file");
        let mut bytes = vec![0; 1 << 20];
        assert_eq!(aside.read_aside(0, &mut bytes).expect("read"), bytes.len());
        assert_eq!(bytes, content);
        assert!(is_cached(0), "what was in memory stays there");
        // The system may keep a few pages that another processor has just touched.
        let kept = cached().saturating_sub(before);
        assert!(kept <= 64, "{kept} pages are kept that were not in memory");
    }

    #[test]
    fn a_file_system_that_cannot_tell_is_read_as_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let storage = FsStorage::open(dir.path()).expect("a storage");
        storage.tells_cached.store(false, Ordering::Relaxed);
        let file = storage.create("x").expect("a file");
        file.write_at(0, b"bytes").expect("written");
        assert_eq!(file.read_cached(0, 5).expect("read").as_deref(), Some(&b"bytes"[..]));
        assert_eq!(file.read_cached(0, 6).expect("read"), None);
    }
}
