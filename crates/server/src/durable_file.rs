//! Files that the process writes outside the log. A power cut at any moment leaves either the old file or the new one, complete.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Suffix of a file that is being written; the next write removes one that a crash left.
const UNFINISHED: &str = ".new";
/// Suffix of a file that was found unusable and replaced.
const UNUSABLE: &str = ".unusable";

/// Which users of the machine may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    ByOwner,
    ByAll,
}

impl Readable {
    fn mode(self) -> u32 {
        match self {
            Readable::ByOwner => 0o600,
            Readable::ByAll => 0o644,
        }
    }
}

/// Replaces a file: writes a temporary one, syncs it, renames it, and syncs the directory.
pub fn replace(path: &Path, bytes: &[u8], readable: Readable) -> io::Result<()> {
    let new = with_suffix(path, UNFINISHED);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(readable.mode()).open(&new)?;
    file.write_all(bytes)?;
    // Before the rename: the name must never refer to bytes that are not durable.
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_parent(path)
}

/// Removes a file for good: after a power cut it is not there again.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_parent(path),
    }
}

/// Renames a file that cannot be used instead of replacing it: an operator may have put it there. An empty file is left to be
/// replaced.
pub(crate) fn set_aside(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.len() > 0 => fs::rename(path, with_suffix(path, UNUSABLE)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_leftover_is_removed() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("key");
        fs::write(with_suffix(&path, UNFINISHED), "a leftover that is longer than the file").unwrap();
        replace(&path, b"one", Readable::ByOwner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        replace(&path, b"two", Readable::ByAll).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let dir = tempfile::TempDir::new().unwrap();
        assert!(replace(&dir.path().join("missing/key"), b"x", Readable::ByAll).is_err());
        let path = dir.path().join("key");
        replace(&path, b"old", Readable::ByAll).unwrap();
        fs::create_dir(with_suffix(&path, UNFINISHED)).unwrap();
        assert!(replace(&path, b"new", Readable::ByAll).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_file_that_is_set_aside_is_kept_under_another_name() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("key");
        set_aside(&path).unwrap();
        fs::write(&path, "half a k").unwrap();
        set_aside(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(with_suffix(&path, UNUSABLE)).unwrap(), b"half a k");
        fs::write(&path, "").unwrap();
        set_aside(&path).unwrap();
        assert_eq!(fs::read(with_suffix(&path, UNUSABLE)).unwrap(), b"half a k", "an empty file is not kept");
    }
}
