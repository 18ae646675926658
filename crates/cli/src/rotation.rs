//! `redstart secrets rotate`: seals the secrets of a stopped broker with a new key.
//!
//! The order makes a crash harmless: the key file gets the new key before anything is sealed with it, and loses an older key only
//! after nothing needs it. So the keys in the file open every secret at any moment, and the command, or the broker's next start,
//! finishes what a crash has interrupted.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use redstart_commands::{blocking::block_on, stdout};
use redstart_server::{Access, listen::FileLimits, sealing_keys, sealing_keys::Keyring, shard::ShardHandle};

use crate::{
    config::{self, Config, Flags, FlushMode, SECRETS_KEY_VARIABLE, Setting},
    node::Node,
    shard_dirs,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Seal the secrets of a stopped broker's users with a new key; takes the same flags as serve
    Rotate(Rotate),
}

#[derive(Debug, Args)]
pub struct Rotate {
    /// Remove the older keys from the key file afterwards: secrets in backups of the data need the key of their time
    #[arg(long)]
    drop_older: bool,
    #[command(flatten)]
    flags: Flags,
}

pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Rotate(Rotate { drop_older, flags }) = command;
    let mut config = config::load(flags)?.config;
    // A key may go only when what was sealed with another one is durable.
    config.flush = FlushMode::Sync;
    // The users are in the first one.
    config.shards = 1;
    let file = key_file(&config)?;
    let keys = sealing_keys::read_file(&file)?;
    let keys =
        keys.with_context(|| format!("{} does not exist: there is no key to rotate", file.display()))?;
    if !shard_dirs::of(&config.data_dir, 0).exists() {
        bail!("{} is no data directory of a broker", config.data_dir.display());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let node = Node::open(&config, FileLimits::of_process())?;
    let sealed = block_on(&runtime, rotate(&config, &node.first(), keys, &file, *drop_older));
    node.stop()?;
    let (sealed, keys) = sealed?;
    let secrets = if sealed == 1 { "secret was" } else { "secrets were" };
    let mut said = format!("{sealed} {secrets} sealed with the new key {}\n", keys.current().id());
    if *drop_older {
        sealing_keys::keep_first(&file)?;
        said.push_str("the older keys were removed\n");
    } else {
        said.push_str(
            "no secret needs the older keys any more; remove them when no backup needs them (--drop-older)\n",
        );
    }
    stdout::print(&said)?;
    Ok(ExitCode::SUCCESS)
}

async fn rotate(
    config: &Config,
    shard: &ShardHandle,
    keys: Keyring,
    file: &Path,
    drop_older: bool,
) -> anyhow::Result<(usize, Keyring)> {
    // First with the keys that are there: if they do not open every secret, nothing is changed.
    seal(config, shard, keys).await?;
    if drop_older {
        // Makes room for the new key in a file that rotations have filled.
        sealing_keys::keep_first(file)?;
    }
    let sealed = seal(config, shard, sealing_keys::add(file)?).await?;
    let keys = sealing_keys::read_file(file)?.context("the key file is gone")?;
    Ok((sealed, keys))
}

/// Seals with the first of the keys what is not sealed with it. All secrets must open.
async fn seal(config: &Config, shard: &ShardHandle, keys: Keyring) -> anyhow::Result<usize> {
    let access = Access::on(&config.cluster_name);
    access.install_keys(keys);
    Ok(access.seal_stored(shard).await?)
}

/// The file that holds the keys.
fn key_file(config: &Config) -> anyhow::Result<PathBuf> {
    if let Some(file) = &config.secrets_key_file {
        return Ok(file.clone());
    }
    if std::env::var(SECRETS_KEY_VARIABLE).is_ok_and(|text| !text.trim().is_empty()) {
        let ways = Setting::named("secrets_key_file").map(Setting::ways).unwrap_or_default();
        bail!(
            "the keys are in the variable {SECRETS_KEY_VARIABLE}, which a command cannot change: put a new key before the others \
             there and start the broker, or keep the keys in a file ({ways})"
        );
    }
    Ok(config.data_dir.join(sealing_keys::FILE))
}
