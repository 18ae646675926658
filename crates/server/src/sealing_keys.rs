//! The keys that seal the secrets of users: lines of text, each the base64 of 32 random bytes. The first key seals, the others
//! still open what they have sealed. So a key is rotated by putting a new one on top: a command or the next start seals every secret
//! again, and a crash at any moment leaves keys that open all of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
pub use redstart_auth::seal::Keyring;
use redstart_auth::seal::{KEY_LEN, SealingKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::durable_file::{self, Readable};

/// The file in the data directory.
pub const FILE: &str = "secrets.key";
const KEYS_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read {}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("{place} has no key")]
    Empty { place: String },
    /// The line is not shown: it may be a key.
    #[error("{place}: key {number} is not the base64 of {KEY_LEN} bytes")]
    Malformed { place: String, number: usize },
    #[error("{place} has more than {KEYS_MAX} keys")]
    TooMany { place: String },
    #[error("the system gives no random bytes")]
    NoRandom,
}

/// Reads keys from a text, such as the value of a variable; `place` is its name.
pub fn read_text(text: &str, place: &str) -> Result<Keyring, KeyError> {
    let place = || place.to_owned();
    let mut keys = Vec::new();
    for (at, word) in text.split_whitespace().enumerate() {
        let bytes = STANDARD.decode(word).ok().and_then(|bytes| <[u8; KEY_LEN]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| KeyError::Malformed { place: place(), number: at + 1 })?;
        keys.push(SealingKey::new(&bytes));
    }
    if keys.len() > KEYS_MAX {
        return Err(KeyError::TooMany { place: place() });
    }
    let mut keys = keys.into_iter();
    let current = keys.next().ok_or_else(|| KeyError::Empty { place: place() })?;
    Ok(Keyring::new(current, keys.collect()))
}

/// Reads a file of keys; `None` if there is none.
pub fn read_file(file: &Path) -> Result<Option<Keyring>, KeyError> {
    match fs::read_to_string(file) {
        Ok(text) => read_text(&text, &file.display().to_string()).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Read { file: file.to_owned(), source }),
    }
}

/// Puts a new key on top of a file, durably; makes the file if there is none. Only its owner may read it.
pub fn add(file: &Path) -> Result<Keyring, KeyError> {
    let older = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(KeyError::Read { file: file.to_owned(), source }),
    };
    let mut bytes = [0; KEY_LEN];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandom)?;
    write(file, &format!("{}\n{older}", STANDARD.encode(bytes)))
}

/// Leaves only the first key in a file, durably. What another one sealed does not open any more.
pub fn keep_first(file: &Path) -> Result<Keyring, KeyError> {
    let text = fs::read_to_string(file).map_err(|source| KeyError::Read { file: file.to_owned(), source })?;
    let first = text.split_whitespace().next().unwrap_or_default();
    write(file, &format!("{first}\n"))
}

fn write(file: &Path, text: &str) -> Result<Keyring, KeyError> {
    // Before it is written: a file that cannot be read must not be replaced by another.
    let keys = read_text(text, &file.display().to_string())?;
    durable_file::replace(file, text.as_bytes(), Readable::ByOwner)
        .map_err(|source| KeyError::Write { file: file.to_owned(), source })?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use redstart_auth::{Secret, seal::NONCE_LEN};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_new_key_seals_and_the_ones_below_it_still_open() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(FILE);
        assert!(read_file(&file).unwrap().is_none());
        let first = add(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let secret = Secret::new("secret-of-app");
        let sealed = first.seal("app", &secret, [1; NONCE_LEN]);
        let second = add(&file).unwrap();
        assert!(!second.is_current(&sealed));
        assert_eq!(second.open("app", &sealed), Ok(secret));
        let read = read_file(&file).unwrap().unwrap();
        assert_eq!(read.current().id(), second.current().id());
        let only = keep_first(&file).unwrap();
        assert_eq!((only.current().id(), only.older().len()), (second.current().id(), 0));
        assert!(only.open("app", &sealed).is_err());
        assert_eq!(read_file(&file).unwrap().unwrap().older().len(), 0);
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let short = STANDARD.encode([1; 31]);
        let many = format!("{}\n", STANDARD.encode([1; KEY_LEN])).repeat(KEYS_MAX + 1);
        for text in ["", " \n", "not-base64!", &short, &many] {
            let error = read_text(text, "THE_VARIABLE").unwrap_err().to_string();
            assert!(error.contains("THE_VARIABLE"), "{error}");
            assert!(text.trim().is_empty() || !error.contains(text.trim()), "{error}");
        }
    }

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(FILE);
        fs::write(&file, "half a k").unwrap();
        assert!(read_file(&file).is_err() && add(&file).is_err() && keep_first(&file).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"half a k");
    }
}
