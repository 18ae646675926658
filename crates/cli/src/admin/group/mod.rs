mod change;
mod list;
mod members;
mod show;

use clap::Subcommand;
use redstart_client::admin::{Admin, DEAD_LETTER_PREFIX, Error};

use super::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a consumer group
    Create(change::Create),
    /// Change a consumer group: what is not named stays as it is
    Update(change::Update),
    /// Delete a consumer group with its progress, its retries and its dead letters
    Delete(change::Delete),
    /// List the consumer groups
    List(list::List),
    /// Show a consumer group: settings, members, lag of each queue
    Show(show::Show),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::Create(create) => create.run(session).await,
        Command::Update(update) => update.run(session).await,
        Command::Delete(delete) => delete.run(session).await,
        Command::List(list) => list.run(session).await,
        Command::Show(show) => show.run(session).await,
    }
}

/// Dead letters of a group on one broker.
async fn dead_letters(admin: &Admin, broker: &str, group: &str) -> Result<i64, Error> {
    match admin.topic_stats(broker, &format!("{DEAD_LETTER_PREFIX}{group}")).await {
        Err(Error::UnknownTopic { .. }) => Ok(0),
        other => Ok(other?.queues.iter().map(|(_, row)| row.max_offset - row.min_offset).sum()),
    }
}
