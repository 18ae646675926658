//! `redstart user`: who may authenticate.

mod change;
mod list;
mod secret;

use clap::Subcommand;
use redstart_client::admin::{Broker, Target};
use redstart_wire::remoting::body::User;

use super::Session;
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the users
    List(list::List),
    /// Show a user and its rules
    Show(list::Show),
    /// Create a user; without a secret of its own it gets a random one, which is printed once
    Create(change::Create),
    /// Give a user another secret; without one it gets a random one, which is printed once
    SetSecret(change::SetSecret),
    /// Let a disabled user authenticate again
    Enable(change::Enable),
    /// Refuse a user from now on, and keep it with its rules
    Disable(change::Disable),
    /// Delete a user with its rules
    Delete(change::Delete),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::List(list) => list.run(session).await,
        Command::Show(show) => show.run(session).await,
        Command::Create(create) => create.run(session).await,
        Command::SetSecret(set) => set.run(session).await,
        Command::Enable(enable) => enable.run(session).await,
        Command::Disable(disable) => disable.run(session).await,
        Command::Delete(delete) => delete.run(session).await,
    }
}

/// The brokers that know the user, each with what it knows; an error if none does.
pub async fn holders(session: &Session, name: &str, target: &Target) -> anyhow::Result<Vec<(Broker, User)>> {
    let mut found = Vec::new();
    for broker in session.admin.masters(target).await? {
        if let Some(user) = session.admin.user(&broker.address, name).await? {
            found.push((broker, user));
        }
    }
    if found.is_empty() {
        return Err(Failure::new("unknownUser", format!("there is no user {name}"))
            .with_hint("redstart user list shows those there are")
            .into());
    }
    Ok(found)
}
