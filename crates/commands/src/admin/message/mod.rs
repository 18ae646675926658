//! `redstart message`.

mod body;
mod follow;
mod get;
mod query;
mod reader;
mod send;
mod tail;
mod trace;
mod view;

use clap::Subcommand;

pub use reader::{Reader, Start};
pub use view::MessageView;

use super::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a message by its id
    Get(get::Get),
    /// Find messages by a key
    Query(query::Query),
    /// Send a message
    Send(send::Send),
    /// Print the newest messages of a topic, or follow it; uses no consumer group and moves no offset
    Tail(tail::Tail),
    /// Show when a message was sent, received and consumed, from the trace topic
    Trace(trace::Trace),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::Get(get) => get.run(session).await,
        Command::Query(query) => query.run(session).await,
        Command::Send(send) => send.run(session).await,
        Command::Tail(tail) => tail.run(session).await,
        Command::Trace(trace) => trace.run(session).await,
    }
}
