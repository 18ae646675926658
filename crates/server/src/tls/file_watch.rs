use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Tells one content of a file from another without reading it; `None` for a file that cannot be looked at.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Decides when files that were replaced are to be read again.
#[derive(Debug)]
pub(super) struct FileWatch {
    files: Vec<PathBuf>,
    /// As the files were when they were last read, whether or not they could be used.
    read: Vec<Stamp>,
    /// As they were at the last look.
    seen: Vec<Stamp>,
}

impl FileWatch {
    /// To be made before the files are read: what changes while they are read is noticed later.
    pub fn new(files: Vec<PathBuf>) -> FileWatch {
        let read: Vec<_> = files.iter().map(|file| stamp(file)).collect();
        FileWatch { files, seen: read.clone(), read }
    }

    /// Whether the files have changed and are to be read now.
    pub fn is_due(&mut self) -> bool {
        let now = self.files.iter().map(|file| stamp(file)).collect();
        self.is_due_with(now)
    }

    /// A certificate and its key are two files, so that both are read only when neither has changed between two looks: then they
    /// belong together.
    fn is_due_with(&mut self, now: Vec<Stamp>) -> bool {
        let settled = now == self.seen;
        self.seen = now;
        if !settled || self.seen == self.read {
            return false;
        }
        self.read.clone_from(&self.seen);
        true
    }

    /// They are being read now, whatever has changed.
    pub fn reading(&mut self) {
        *self = FileWatch::new(std::mem::take(&mut self.files));
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_read_once_when_they_have_settled() {
        let at = |mtime| vec![Some((1, 1, mtime, 0)), Some((2, 1, mtime, 0))];
        let mut watch = FileWatch { files: Vec::new(), read: at(0), seen: at(0) };
        assert!(!watch.is_due_with(at(0)));
        let half = vec![Some((1, 1, 1, 0)), Some((2, 1, 0, 0))];
        assert!(!watch.is_due_with(half));
        assert!(!watch.is_due_with(at(1)), "the other one changes, too");
        assert!(watch.is_due_with(at(1)));
        assert!(!watch.is_due_with(at(1)), "once, even if they could not be used");
        let gone = vec![None, Some((2, 1, 1, 0))];
        assert!(!watch.is_due_with(gone.clone()));
        assert!(watch.is_due_with(gone));
    }

    #[test]
    fn a_file_of_the_same_length_is_another_one() {
        let dir = tempfile::TempDir::new().unwrap();
        let (file, other) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&file, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let mut watch = FileWatch::new(vec![file.clone()]);
        assert!(!watch.is_due());
        std::fs::rename(&other, &file).unwrap();
        assert!(!watch.is_due());
        assert!(watch.is_due());
        std::fs::write(&file, "three").unwrap();
        watch.reading();
        assert!(!watch.is_due() && !watch.is_due(), "it was read already");
    }
}
