//! The administrator of a broker that asks its callers who they are. The first start makes it.

use anyhow::Context;
use redstart_commands::credentials;
use redstart_server::{Access, shard::ShardHandle};

use crate::config::{ADMIN_SECRET_VARIABLE, Config};

const NAME: &str = "admin";
/// Names in one line of the log.
const NAMES_MAX: usize = 50;

/// Makes the administrator if there is no super user yet: without one nobody could make any.
pub async fn ensure(config: &Config, access: &Access, shard: &ShardHandle) -> anyhow::Result<()> {
    access.load(shard).await?;
    let known = access.super_users();
    if !known.is_empty() {
        // Some may have been made by anybody while nobody was asked.
        let names: Vec<&str> = known.iter().map(String::as_str).take(NAMES_MAX).collect();
        tracing::info!(count = known.len(), names = names.join(" "), "super users");
        return Ok(());
    }
    let given = given(config)?;
    let secret = given.clone().map_or_else(credentials::random_secret, Ok)?;
    access
        .make_super_user(shard, NAME, &secret)
        .await
        .with_context(|| format!("the user {NAME} cannot be made"))?;
    tracing::info!(user = NAME, "the administrator was made");
    if given.is_none() {
        // Here and nowhere else: no log holds it.
        println!("administrator: user {NAME}, secret {secret} (it is shown this once)");
    }
    Ok(())
}

/// The secret that the operator has chosen. The file wins: its setting is the more deliberate of the two.
fn given(config: &Config) -> anyhow::Result<Option<String>> {
    if let Some(file) = &config.admin_secret_file {
        return credentials::read(file).map(Some);
    }
    Ok(std::env::var(ADMIN_SECRET_VARIABLE).ok().filter(|secret| !secret.trim().is_empty()))
}
