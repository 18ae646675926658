use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// A file of lines that is bounded: when it is full it becomes `name.1`, what was that becomes `name.2`, and so on, and the oldest
/// one is removed.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub file_bytes_max: u64,
    /// The one that is written and those before it.
    pub files_max: usize,
}

impl RotatingFile {
    pub fn open(path: &Path, limits: Limits) -> io::Result<RotatingFile> {
        let mut file = open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // A crash may have left a part of a line.
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes += 1;
            }
        }
        Ok(RotatingFile { path: path.to_owned(), file, bytes, limits })
    }

    /// Writes whole lines.
    pub fn write(&mut self, lines: &str) -> io::Result<()> {
        let len = lines.len() as u64;
        if self.bytes > 0 && self.bytes + len > self.limits.file_bytes_max {
            self.rotate()?;
        }
        self.file.write_all(lines.as_bytes())?;
        self.bytes += len;
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        // The oldest is replaced by the one before it.
        for number in (1..self.limits.files_max).rev() {
            let from = if number == 1 { self.path.clone() } else { self.numbered(number - 1) };
            match fs::rename(from, self.numbered(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = open(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    const LIMITS: Limits = Limits { file_bytes_max: 10, files_max: 3 };

    fn names(dir: &TempDir) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(dir.path()).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn full_files_are_kept_up_to_a_number() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("audit.log");
        let mut file = RotatingFile::open(&path, LIMITS).unwrap();
        for number in 0..10 {
            file.write(&format!("line {number}\n")).unwrap();
        }
        assert_eq!(names(&dir), ["audit.log", "audit.log.1", "audit.log.2"]);
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            [text("audit.log.2"), text("audit.log.1"), text("audit.log")],
            ["line 7\n", "line 8\n", "line 9\n"]
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn it_goes_on_behind_what_is_there_and_ends_half_a_line() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("audit.log");
        fs::write(&path, "half").unwrap();
        RotatingFile::open(&path, LIMITS).unwrap().write("x\n").unwrap();
        RotatingFile::open(&path, LIMITS).unwrap().write("y\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half\nx\ny\n");
    }
}
