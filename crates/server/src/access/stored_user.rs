use redstart_auth::{Secret, Standing, Status, User, seal::OpenError};
use serde::{Deserialize, Serialize};

use super::secrets::{SealError, Secrets};

/// A user as it is kept among the engine's settings, as JSON.
///
/// | field | |
/// |---|---|
/// | `username` | |
/// | `sealed` | the secret, as `redstart_auth::seal` writes it |
/// | `password` | the secret as it is, of a version that did not seal; gone with the next change of the user, or the next start |
/// | `userType` | `Super`, `Normal` |
/// | `userStatus` | `enable`, `disable` |
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StoredUser {
    pub username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_status: Option<String>,
}

/// What is stored is no user. It says nothing of what stands there: that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored user cannot be read")]
pub(crate) struct UnreadableUser;

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadUserError {
    #[error(transparent)]
    Unreadable(#[from] UnreadableUser),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("there is no key to open its secret with")]
    NoKey,
    #[error("{0}")]
    Invalid(String),
}

impl StoredUser {
    pub fn new(name: &str, standing: Standing, status: Status) -> StoredUser {
        StoredUser {
            username: name.to_owned(),
            user_type: Some(standing.name().to_owned()),
            user_status: Some(status.name().to_owned()),
            ..StoredUser::default()
        }
    }

    pub fn read(text: &str) -> Result<StoredUser, UnreadableUser> {
        serde_json::from_str(text).map_err(|_| UnreadableUser)
    }

    pub fn text(&self) -> String {
        // Only maps whose keys are not text fail, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Gives the user another secret.
    pub fn seal(&mut self, secret: &Secret, secrets: &Secrets) -> Result<(), SealError> {
        self.sealed = Some(secrets.seal(&self.username, secret)?);
        self.password = None;
        Ok(())
    }

    /// Seals the secret if it is plain.
    pub fn seal_plain(&mut self, secrets: &Secrets) -> Result<(), SealError> {
        match self.password.take() {
            Some(plain) if self.sealed.is_none() => self.seal(&Secret::new(plain), secrets),
            _ => Ok(()),
        }
    }

    /// Gives the user the secret of another state of it.
    pub fn keep_secret_of(&mut self, old: &StoredUser) {
        (self.sealed, self.password) = (old.sealed.clone(), old.password.clone());
    }

    pub fn has_secret(&self) -> bool {
        self.sealed.is_some() || self.password.is_some()
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Whether its secret is to be sealed again: it is plain, or sealed with an older key.
    pub fn is_outdated(&self, secrets: &Secrets) -> bool {
        self.sealed.as_ref().map_or(self.password.is_some(), |sealed| !secrets.is_current(sealed))
    }

    pub fn is_super(&self) -> bool {
        let is =
            |word: Option<&String>, known: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(known));
        // A user without a status is enabled, as in RocketMQ.
        is(self.user_type.as_ref(), Standing::Super.name())
            && !is(self.user_status.as_ref(), Status::Disabled.name())
    }

    pub(super) fn secret(&self, secrets: &Secrets) -> Result<Secret, ReadUserError> {
        match (&self.sealed, &self.password) {
            (Some(sealed), _) => secrets.open(&self.username, sealed),
            (None, Some(plain)) => Ok(Secret::new(plain.as_str())),
            (None, None) => Ok(Secret::new("")),
        }
    }

    /// The user that decides.
    pub(super) fn user(&self, secrets: &Secrets) -> Result<User, ReadUserError> {
        let invalid = |error: &dyn std::fmt::Display| ReadUserError::Invalid(error.to_string());
        let mut user = User::new(&self.username, self.secret(secrets)?).map_err(|error| invalid(&error))?;
        if let Some(kind) = &self.user_type {
            user.standing = Standing::read(kind).map_err(|error| invalid(&error))?;
        }
        if let Some(status) = &self.user_status {
            user.status = Status::read(status).map_err(|error| invalid(&error))?;
        }
        Ok(user)
    }
}
