//! What an operator does with a running server: Redstart, or any other that speaks RocketMQ's Remoting protocol.

mod cluster;
mod confirm;
mod dlq;
mod explain;
mod group;
mod message;
mod offset;
mod output;
mod table;
mod target;
mod time;
mod topic;

use std::{future::Future, process::ExitCode};

use clap::{Args, Subcommand};
use futures_util::{StreamExt, stream};
use redstart_client::admin::Admin;

use crate::stdout;
use output::Output;

const DEFAULT_NAMES: &str = "127.0.0.1:9876";
/// The first that is set counts. The second is mqadmin's.
pub(crate) const NAMES_VARIABLES: [&str; 2] = ["REDSTART_NAMESRV", "NAMESRV_ADDR"];
/// Questions that are on their way at a time, when many of a kind are asked.
const QUESTIONS_MAX: usize = 16;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Topics: create, update, delete, list, show
    Topic {
        #[command(subcommand)]
        command: topic::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Consumer groups: create, update, delete, list, show
    Group {
        #[command(subcommand)]
        command: group::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Messages: get, query, send, tail, trace
    Message {
        #[command(subcommand)]
        command: message::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Where a consumer group stands: show, reset
    Offset {
        #[command(subcommand)]
        command: offset::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Dead letters: list, show, resend
    Dlq {
        #[command(subcommand)]
        command: dlq::Command,
        #[command(flatten)]
        server: Server,
    },
    /// The brokers, their versions, addresses and totals
    Cluster {
        #[command(flatten)]
        server: Server,
    },
}

/// Which server, and how to answer.
#[derive(Debug, Args)]
pub struct Server {
    /// Name servers, host:port separated by ';' [default: $REDSTART_NAMESRV, $NAMESRV_ADDR or 127.0.0.1:9876]
    #[arg(short, long, global = true, value_name = "ADDR")]
    namesrv: Option<String>,
    /// Print JSON, for scripts
    #[arg(long, global = true)]
    json: bool,
}

impl Server {
    fn names(&self) -> String {
        let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let variable = || NAMES_VARIABLES.iter().find_map(set);
        self.namesrv.clone().or_else(variable).unwrap_or_else(|| DEFAULT_NAMES.to_owned())
    }
}

/// What every command works with.
#[derive(Debug)]
pub struct Session {
    admin: Admin,
    output: Output,
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (Command::Topic { server, .. }
        | Command::Group { server, .. }
        | Command::Message { server, .. }
        | Command::Offset { server, .. }
        | Command::Dlq { server, .. }
        | Command::Cluster { server }) = &command;
        let session = Session { admin: Admin::new(&server.names()), output: Output::new(server.json) };
        let done = match &command {
            Command::Topic { command, .. } => topic::run(command, &session).await,
            Command::Group { command, .. } => group::run(command, &session).await,
            Command::Message { command, .. } => message::run(command, &session).await,
            Command::Offset { command, .. } => offset::run(command, &session).await,
            Command::Dlq { command, .. } => dlq::run(command, &session).await,
            Command::Cluster { .. } => cluster::run(&session).await,
        };
        match done {
            Err(error) if stdout::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(explain::explain(&session.admin, error).await),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Asks the same of many, some at a time; the answers come in the order of the questions.
async fn all<T, F: Future<Output = T>>(questions: impl IntoIterator<Item = F>) -> Vec<T> {
    stream::iter(questions).buffered(QUESTIONS_MAX).collect().await
}
