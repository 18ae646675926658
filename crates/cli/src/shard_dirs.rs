//! The directories of the shards in the data directory, `shard-0` and so on. How many there are is written down once there is more than
//! one, so that one that is lost is noticed.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::bail;
use redstart_server::durable_file::{self, Readable};

use crate::startup;

/// Holds the number of shards, as decimal text.
const FILE: &str = "shards";
const PREFIX: &str = "shard-";

/// The directory of a shard.
pub fn of(data: &Path, number: usize) -> PathBuf {
    data.join(format!("{PREFIX}{number}"))
}

/// Checks that the directory holds no more shards than are to be served, and all that it should. Changes nothing.
pub fn check(data: &Path, wanted: usize) -> anyhow::Result<()> {
    let held = held(data).map_err(|error| startup::directory(&error, data))?;
    let last = held.last().map_or(0, |number| number + 1);
    let count = recorded(data)?.unwrap_or(0).max(last);
    if let Some(missing) = (0..count).find(|number| !held.contains(number)) {
        bail!(
            "{} is missing, the directory of one of {count} shards: put it back, or restore a backup of {}",
            of(data, missing).display(),
            data.display()
        );
    }
    if wanted < count {
        bail!(
            "{} holds {count} shards, and {wanted} are to be served; the number cannot shrink: set {} to {count}",
            data.display(),
            startup::ways("shards")
        );
    }
    Ok(())
}

/// Writes down how many shards there are. To be called when all of them are open.
pub fn record(data: &Path, count: usize) -> anyhow::Result<()> {
    if count > 1 && recorded(data)? != Some(count) {
        let file = data.join(FILE);
        let written = durable_file::replace(&file, format!("{count}\n").as_bytes(), Readable::ByAll);
        written.map_err(|error| startup::directory(&error, &file))?;
    }
    Ok(())
}

fn recorded(data: &Path) -> anyhow::Result<Option<usize>> {
    let file = data.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => match text.trim().parse() {
            Ok(count) => Ok(Some(count)),
            Err(_) => bail!("{} must hold the number of shards; it holds {:?}", file.display(), text.trim()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(startup::directory(&error, &file)),
    }
}

/// The numbers of the shards that have a directory.
pub fn held(data: &Path) -> io::Result<BTreeSet<usize>> {
    let entries = match fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut held = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let number: Option<usize> = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        // `shard-01` is none of ours.
        held.extend(number.filter(|number| name.to_str() == Some(&format!("{PREFIX}{number}"))));
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_what_is_wrong_with_it() {
        let data = tempfile::TempDir::new().unwrap();
        let data = data.path();
        let refused = |wanted| check(data, wanted).unwrap_err().to_string();
        assert!(check(&data.join("none"), 3).is_ok() && check(data, 3).is_ok());
        fs::create_dir(of(data, 0)).unwrap();
        assert!(check(data, 1).is_ok() && check(data, 2).is_ok());
        fs::create_dir(of(data, 1)).unwrap();
        fs::create_dir(data.join("shard-07")).unwrap();
        assert!(refused(1).contains("holds 2 shards"));
        fs::create_dir(of(data, 3)).unwrap();
        assert!(refused(4).contains("shard-2 is missing"));
        fs::remove_dir(of(data, 3)).unwrap();
        record(data, 3).unwrap();
        assert!(refused(3).contains("shard-2 is missing"), "its number was written down");
        fs::create_dir(of(data, 2)).unwrap();
        assert!(check(data, 3).is_ok() && check(data, 4).is_ok());
        assert!(refused(2).contains("holds 3 shards"));
        fs::write(data.join(FILE), "x").unwrap();
        assert!(refused(3).contains("must hold the number"));
    }
}
