//! Secrets at rest. HMAC needs them as they are, so they are encrypted rather than hashed: AES-256-GCM, bound to the user, so
//! that a sealed secret cannot be moved to another one.
//!
//! | part | text |
//! |---|---|
//! | version | `v1` |
//! | key id | 8 hex digits: which key sealed it |
//! | nonce | 12 bytes, base64 |
//! | secret and tag | base64 |
//!
//! Parts are separated by dots.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    digest::{SHA256, digest},
};

use crate::user::Secret;

pub const KEY_LEN: usize = 32;
pub const NONCE_LEN: usize = 12;
const VERSION: &str = "v1";

/// A key that seals. Its id is a part of its hash, so that equal keys have equal ids on every machine.
pub struct SealingKey {
    id: String,
    key: LessSafeKey,
}

/// The key that seals, and older ones that may still open.
#[derive(Debug)]
pub struct Keyring {
    current: SealingKey,
    older: Vec<SealingKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the sealed secret of {0} is malformed")]
    Malformed(String),
    #[error("the secret of {user} was sealed with the key {key}, which is not there")]
    UnknownKey { user: String, key: String },
    #[error("the sealed secret of {0} was changed, or belongs to another user or key")]
    Forged(String),
}

impl SealingKey {
    pub fn new(bytes: &[u8; KEY_LEN]) -> SealingKey {
        let id = digest(&SHA256, bytes).as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        #[expect(
            clippy::expect_used,
            reason = "fails for another length only, and the length is in the type"
        )]
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("a key of 32 bytes");
        SealingKey { id, key: LessSafeKey::new(key) }
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Keyring {
    pub fn new(current: SealingKey, older: Vec<SealingKey>) -> Keyring {
        Keyring { current, older }
    }

    /// `nonce` must be random and is used once.
    pub fn seal(&self, user: &str, secret: &Secret, nonce: [u8; NONCE_LEN]) -> String {
        let mut bytes = secret.reveal().as_bytes().to_vec();
        let head = head(&self.current.id);
        let sealed = self.current.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            bound_to(user),
            &mut bytes,
        );
        // Only a text of 64 GiB is too long to be sealed; an empty text never opens.
        if sealed.is_err() {
            bytes.clear();
        }
        format!("{head}.{}.{}", URL_SAFE_NO_PAD.encode(nonce), URL_SAFE_NO_PAD.encode(bytes))
    }

    pub fn open(&self, user: &str, text: &str) -> Result<Secret, OpenError> {
        let malformed = || OpenError::Malformed(user.to_owned());
        let [version, id, nonce, sealed] =
            text.split('.').collect::<Vec<_>>().try_into().map_err(|_| malformed())?;
        if version != VERSION {
            return Err(malformed());
        }
        let key = [&self.current].into_iter().chain(&self.older).find(|key| key.id == id);
        let key = key.ok_or_else(|| OpenError::UnknownKey { user: user.to_owned(), key: id.to_owned() })?;
        let nonce = URL_SAFE_NO_PAD.decode(nonce).ok().and_then(|nonce| nonce.try_into().ok());
        let nonce = Nonce::assume_unique_for_key(nonce.ok_or_else(malformed)?);
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| malformed())?;
        let opened = key.key.open_in_place(nonce, bound_to(user), &mut bytes);
        let opened = opened.map_err(|_| OpenError::Forged(user.to_owned()))?;
        std::str::from_utf8(opened).map(Secret::new).map_err(|_| malformed())
    }

    /// Whether the current key sealed it; what an older one did is to be sealed again.
    pub fn is_current(&self, text: &str) -> bool {
        text.strip_prefix(&head(&self.current.id)).is_some_and(|rest| rest.starts_with('.'))
    }

    pub fn current(&self) -> &SealingKey {
        &self.current
    }

    /// The keys that only open.
    pub fn older(&self) -> &[SealingKey] {
        &self.older
    }
}

fn head(id: &str) -> String {
    format!("{VERSION}.{id}")
}

fn bound_to(user: &str) -> Aad<String> {
    Aad::from(format!("redstart user {user}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(current: u8, older: &[u8]) -> Keyring {
        let key = |byte: u8| SealingKey::new(&[byte; KEY_LEN]);
        Keyring::new(key(current), older.iter().map(|byte| key(*byte)).collect())
    }

    #[test]
    fn what_is_sealed_opens_for_the_same_user_and_key_only() {
        let secret = Secret::new("hunter2-hunter2");
        let sealed = ring(1, &[]).seal("app", &secret, [7; NONCE_LEN]);
        assert!(!sealed.contains("hunter2"));
        assert_eq!(ring(1, &[]).open("app", &sealed), Ok(secret));
        assert_eq!(ring(1, &[]).open("root", &sealed), Err(OpenError::Forged("root".to_owned())));
        assert!(matches!(ring(2, &[]).open("app", &sealed), Err(OpenError::UnknownKey { .. })));
        let forged_id = sealed.replace(ring(1, &[]).current.id(), ring(2, &[]).current.id());
        assert_eq!(ring(2, &[]).open("app", &forged_id), Err(OpenError::Forged("app".to_owned())));
    }

    #[test]
    fn a_rotated_key_still_opens_what_it_sealed() {
        let secret = Secret::new("s3cret-s3cret");
        let old = ring(1, &[]).seal("app", &secret, [1; NONCE_LEN]);
        let rotated = ring(2, &[1]);
        assert!(!rotated.is_current(&old));
        let new = rotated.seal("app", &rotated.open("app", &old).unwrap(), [2; NONCE_LEN]);
        assert!(rotated.is_current(&new));
        assert_eq!(ring(2, &[]).open("app", &new), Ok(secret));
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = format!("{:?}", ring(0x41, &[0x42]));
        assert!(!shown.contains("AAAA") && !shown.contains("65"), "{shown}");
    }

    proptest! {
        #[test]
        fn every_secret_comes_back(user in "\\PC{1,64}", secret in "\\PC{1,256}", nonce: [u8; NONCE_LEN]) {
            let ring = ring(9, &[]);
            let secret = Secret::new(secret);
            prop_assert_eq!(ring.open(&user, &ring.seal(&user, &secret, nonce)), Ok(secret));
        }

        #[test]
        fn a_changed_text_never_opens(at: proptest::sample::Index, byte in "[A-Za-z0-9._-]") {
            let ring = ring(9, &[]);
            let sealed = ring.seal("u", &Secret::new("a-secret-of-a-user"), [3; NONCE_LEN]);
            let mut changed: Vec<char> = sealed.chars().collect();
            *at.get_mut(&mut changed) = byte.chars().next().unwrap();
            let changed: String = changed.into_iter().collect();
            prop_assert_eq!(ring.open("u", &changed).is_ok(), changed == sealed);
        }

        #[test]
        fn no_text_makes_the_opener_fail(text in "\\PC{0,100}") {
            prop_assert!(ring(9, &[]).open("u", &text).is_err());
        }
    }
}
