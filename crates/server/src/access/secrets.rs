use std::sync::{Arc, OnceLock};

use redstart_auth::{
    Secret,
    seal::{Keyring, NONCE_LEN},
};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::stored_user::ReadUserError;

/// Seals and opens the secrets of users. Clones are one. The keys come after the data directory was opened: they may be in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<OnceLock<Keyring>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("there is no key to seal the secret with")]
    NoKey,
    #[error("the system gives no random bytes")]
    NoRandom,
}

impl Secrets {
    /// Only the first keys count: what they have sealed must not be opened with others.
    pub fn install(&self, keys: Keyring) {
        // An error gives the second keys back.
        drop(self.0.set(keys));
    }

    pub fn seal(&self, user: &str, secret: &Secret) -> Result<String, SealError> {
        let keys = self.0.get().ok_or(SealError::NoKey)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::NoRandom)?;
        Ok(keys.seal(user, secret, nonce))
    }

    pub(super) fn open(&self, user: &str, sealed: &str) -> Result<Secret, ReadUserError> {
        Ok(self.0.get().ok_or(ReadUserError::NoKey)?.open(user, sealed)?)
    }

    pub fn is_current(&self, sealed: &str) -> bool {
        self.0.get().is_some_and(|keys| keys.is_current(sealed))
    }
}
