//! Users and policies: stored in the log, and read into the snapshot that decides.

use std::sync::{Arc, atomic::Ordering};

use redstart_auth::{InvalidUser, Secret, Standing, Status, User, seal::Keyring};
use redstart_engine::{Engine, Ticket, Timestamp};

use super::{
    Access,
    secrets::{SealError, Secrets},
    snapshot::{self, ACLS, USERS},
    stored_user::StoredUser,
};
use crate::shard::{ChangeError, ShardHandle, Unavailable};

/// A user could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeUserError {
    #[error(transparent)]
    Invalid(#[from] InvalidUser),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the user cannot be stored: {0}")]
    Stored(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Secrets could not be sealed at the start.
#[derive(Debug, thiserror::Error)]
pub enum SealStoredError {
    /// Nothing was changed.
    #[error("{}", unopened.join("; "))]
    Unopened { unopened: Vec<String> },
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("a user cannot be stored: {0}")]
    Stored(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Access {
    /// Gives the keys that seal and open secrets. Only the first call counts.
    pub fn install_keys(&self, keys: Keyring) {
        self.store.secrets.install(keys);
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.store.secrets
    }

    /// Reads users and policies as they are now. After it, every request is decided by them.
    pub async fn load(&self, shard: &ShardHandle) -> Result<(), Unavailable> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let _loading = guard.loading.lock().await;
        let (users, acls) = shard.ask(|engine, _| (engine.settings(USERS), engine.settings(ACLS)))?.await?;
        let rights = snapshot::rights(&users, &acls, &guard.cluster, &self.store.secrets);
        *guard.rights.write() = Arc::new(rights);
        // After the snapshot is in its place: a request that reads the new number is decided by the new rights.
        guard.version.fetch_add(1, Ordering::Release);
        guard.renewed.send_replace(());
        Ok(())
    }

    /// Changes users or policies, durably. They decide from the moment this returns, also for a caller that does not wait for it:
    /// the change runs in a task of its own, so that the snapshot follows the log whatever becomes of the caller. There is one change
    /// at a time, so that `propose` sees what the ones before it have stored.
    pub(crate) async fn change<E: Send + 'static>(
        &self,
        shard: &ShardHandle,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<(), ChangeError<E>> {
        let (access, shard) = (self.clone(), shard.clone());
        let change = tokio::spawn(async move {
            let _one_at_a_time = access.store.changing.lock().await;
            let changed = shard.change(propose)?.await?;
            access.load(&shard).await?;
            changed
        });
        // An error is a panic, which was logged, or the end of the process.
        change.await.unwrap_or_else(|_| Err(Unavailable::Stopped.into()))
    }

    /// Whether a secret is stored that only its key opens.
    pub async fn has_sealed_secrets(&self, shard: &ShardHandle) -> Result<bool, Unavailable> {
        let users = shard.ask(|engine, _| engine.settings(USERS))?.await?;
        Ok(users.values().any(|text| StoredUser::read(text).is_ok_and(|user| user.is_sealed())))
    }

    /// Seals with the current key what is stored plain or was sealed with an older one, and returns how many secrets these were. Where
    /// callers are asked who they are, all secrets must open. To be called before requests are served.
    pub async fn seal_stored(&self, shard: &ShardHandle) -> Result<usize, SealStoredError> {
        let users = shard.ask(|engine, _| engine.settings(USERS))?.await?;
        let (mut outdated, mut unopened) = (Vec::new(), Vec::new());
        for (name, text) in &users {
            // What cannot be read has no secret that could be sealed; it is logged when the snapshot is made.
            let Ok(mut user) = StoredUser::read(text) else { continue };
            match user.secret(&self.store.secrets) {
                Ok(secret) if user.is_outdated(&self.store.secrets) => {
                    user.seal(&secret, &self.store.secrets)?;
                    outdated.push((name.clone(), user.text()));
                }
                Ok(_) => {}
                Err(why) => unopened.push(why.to_string()),
            }
        }
        if !unopened.is_empty() && self.is_on() {
            return Err(SealStoredError::Unopened { unopened });
        }
        for why in unopened {
            tracing::warn!(
                why,
                "a secret cannot be opened; its user cannot authenticate until it gets another"
            );
        }
        let count = outdated.len();
        for (name, text) in outdated {
            let put = self.change(shard, move |engine, _| engine.put_setting(USERS, &name, Some(&text)));
            put.await.map_err(|error| SealStoredError::Stored(error.to_string()))?;
        }
        Ok(count)
    }

    /// The super users who may authenticate, sorted.
    pub fn super_users(&self) -> Vec<String> {
        let Some(guard) = &self.guard else { return Vec::new() };
        let rights = guard.rights.read().clone();
        let mut names: Vec<String> = rights.super_users().map(|user| user.name().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Makes a super user, durably.
    pub async fn make_super_user(
        &self,
        shard: &ShardHandle,
        name: &str,
        secret: &str,
    ) -> Result<(), MakeUserError> {
        let secret = Secret::new(secret);
        User::new(name, secret.clone())?;
        let mut user = StoredUser::new(name, Standing::Super, Status::Enabled);
        user.seal(&secret, &self.store.secrets)?;
        let put = self
            .change(shard, move |engine, _| engine.put_setting(USERS, &user.username, Some(&user.text())));
        put.await.map_err(|error| MakeUserError::Stored(error.to_string()))
    }
}
