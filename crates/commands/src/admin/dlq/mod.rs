//! `redstart dlq`: the dead letters of consumer groups.

mod letter;
mod list;
mod resend;
mod show;

use clap::Subcommand;
use redstart_client::admin::{DEAD_LETTER_PREFIX, Error, Expression};

use super::{
    Session,
    message::{Reader, Start},
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the groups that have dead letters, with their number
    List(list::List),
    /// Show the dead letters of a group
    Show(show::Show),
    /// Send the dead letters of a group to the topics they came from
    Resend(resend::Resend),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::List(list) => list.run(session).await,
        Command::Show(show) => show.run(session).await,
        Command::Resend(resend) => resend.run(session).await,
    }
}

/// A reader of a group's dead letters; `None` when the group has never had one.
async fn open(session: &Session, group: &str, start: Start) -> anyhow::Result<Option<Reader>> {
    let topic = format!("{DEAD_LETTER_PREFIX}{group}");
    match Reader::open(&session.admin, &topic, start, Expression::All).await {
        Ok(reader) => Ok(Some(reader)),
        Err(Error::UnknownTopic { .. }) if session.admin.has_group(group).await? => Ok(None),
        Err(Error::UnknownTopic { .. }) => Err(Error::UnknownGroup { group: group.to_owned() }.into()),
        Err(error) => Err(error.into()),
    }
}
