//! The start's part in sealing the secrets of users: finds the keys, and seals what is not sealed with the current one.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::bail;
use redstart_server::{
    Access, SealStoredError,
    sealing_keys::{self, Keyring},
    shard::ShardHandle,
};

use crate::config::{Config, SECRETS_KEY_VARIABLE, Setting};

/// To be called before requests are served.
pub async fn unlock(config: &Config, access: &Access, shard: &ShardHandle) -> anyhow::Result<()> {
    let keys = match given(config)? {
        Some(keys) => keys,
        None => in_data_dir(config, access, shard).await?,
    };
    let older = keys.older().len();
    access.install_keys(keys);
    let sealed = access.seal_stored(shard).await.map_err(|error| match error {
        SealStoredError::Unopened { .. } => anyhow::anyhow!("{error}: {}", advice()),
        _ => error.into(),
    })?;
    if sealed > 0 {
        tracing::info!(sealed, "secrets were sealed with the current key");
    }
    if older > 0 {
        tracing::info!(
            older,
            "no secret needs the older keys any more; remove them when no backup needs them"
        );
    }
    Ok(())
}

/// Keys that the operator keeps outside the data directory.
fn given(config: &Config) -> anyhow::Result<Option<Keyring>> {
    if let Some(file) = &config.secrets_key_file {
        let missing = || anyhow::anyhow!("{} does not exist: {}", file.display(), advice());
        warn_if_readable(file);
        return Ok(Some(sealing_keys::read_file(file)?.ok_or_else(missing)?));
    }
    let text = std::env::var(SECRETS_KEY_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    Ok(text.map(|text| sealing_keys::read_text(&text, SECRETS_KEY_VARIABLE)).transpose()?)
}

/// The key beside the data, which the first start makes.
async fn in_data_dir(config: &Config, access: &Access, shard: &ShardHandle) -> anyhow::Result<Keyring> {
    let file = config.data_dir.join(sealing_keys::FILE);
    if let Some(keys) = sealing_keys::read_file(&file)? {
        warn_if_readable(&file);
        return Ok(keys);
    }
    // A new key in place of a lost one would hide that the secrets cannot be opened. Without users that are asked for, it is how an
    // operator goes on who has lost the key.
    if config.auth && access.has_sealed_secrets(shard).await? {
        bail!("secrets of users are sealed, and their key {} is missing: {}", file.display(), advice());
    }
    let keys = sealing_keys::add(&file)?;
    tracing::info!(file = %file.display(), key = keys.current().id(), "made a key to seal secrets with");
    Ok(keys)
}

fn advice() -> String {
    let ways = Setting::named("secrets_key_file").map(Setting::ways).unwrap_or_default();
    format!(
        "put the key back, or give it with {ways} or {SECRETS_KEY_VARIABLE}; if it is lost, start without `auth` on a loopback \
         address and give the users other secrets"
    )
}

/// A key that others may read seals nothing from them.
fn warn_if_readable(file: &Path) {
    if others_may_read(file) {
        tracing::warn!(file = %file.display(), "other users of this machine may read the key that seals secrets");
    }
}

/// Says so if other users of the machine may look into the data directory. The directory of an operator is left as it is.
pub fn check_data_dir(dir: &Path) {
    if others_may_read(dir) {
        tracing::warn!(dir = %dir.display(), "other users of this machine may read the data directory; its mode should be 0700");
    }
}

fn others_may_read(path: &Path) -> bool {
    const OTHERS: u32 = 0o007;
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OTHERS != 0)
}
