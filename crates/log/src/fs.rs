//! A directory of the local file system.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use rustix::{
    buffer::spare_capacity,
    fs::{FallocateFlags, FlockOperation},
    io::Errno,
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
}

impl FsStorage {
    /// Opens the directory and creates it, with its parents, where it is missing.
    pub fn open(dir: impl AsRef<Path>) -> io::Result<Self> {
        let dir = dir.as_ref();
        create_dir_durably(dir)?;
        // Absolute, so that messages name it and a change of the working directory does not move it.
        let dir = fs::canonicalize(dir)?;
        let handle = File::open(&dir)?;
        Ok(Self { dir, handle })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Creates a directory so that it is still there after a power cut.
fn create_dir_durably(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return fs::create_dir(dir),
    };
    create_dir_durably(parent)?;
    match fs::create_dir(dir) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

impl Storage for FsStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(FsFile(options.open(self.path(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(FsFile(OpenOptions::new().read(true).write(true).open(self.path(name))?)))
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
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
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
struct FsFile(File);

impl StorageFile for FsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        Ok(filled)
    }

    /// Into memory that nobody has filled with zeros before.
    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.0, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(err) => return Err(err.into()),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        loop {
            return match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
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
