//! The operator's commands: `topic`, `group`, `message`, `offset`, `dlq`, `cluster`, `user`, `acl`, `auth`. They work with every server that speaks
//! RocketMQ's Remoting protocol.

mod acl;
mod auth;
mod cluster;
mod confirm;
mod dlq;
mod explain;
mod group;
mod message;
mod offset;
mod output;
mod resource;
mod table;
mod target;
mod time;
mod topic;
mod user;

use std::{future::Future, process::ExitCode};

use clap::{Args, Subcommand};
use futures_util::{StreamExt, stream};
use redstart_client::admin::Admin;

use crate::{access, blocking::block_on, stdout};
use output::{Form, Output};
use time::TimeFormat;

const DEFAULT_NAMES: &str = "127.0.0.1:9876";
/// Variables with the addresses of the name servers; the first that is set counts. The second is mqadmin's.
pub const NAMES_VARIABLES: [&str; 2] = ["REDSTART_NAMESRV", "NAMESRV_ADDR"];
/// Requests in flight when a command sends one for each topic, group or queue.
const REQUESTS_MAX: usize = 16;

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
    /// Offsets of a consumer group: show, reset
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
    /// Users: list, show, create, set-secret, enable, disable, delete
    User {
        #[command(subcommand)]
        command: user::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Rules that say what users may do: list, show, grant, deny, revoke
    Acl {
        #[command(subcommand)]
        command: acl::Command,
        #[command(flatten)]
        server: Server,
    },
    /// What a user may do: test
    Auth {
        #[command(subcommand)]
        command: auth::Command,
        #[command(flatten)]
        server: Server,
    },
    /// Show the brokers with their versions, addresses and message rates
    Cluster {
        #[command(flatten)]
        server: Server,
    },
}

/// Options of every command: the server, and the form of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Server {
    /// Name servers, host:port separated by ';' [default: $REDSTART_NAMESRV, $NAMESRV_ADDR or 127.0.0.1:9876]
    #[arg(short, long, global = true, value_name = "ADDR")]
    namesrv: Option<String>,
    /// Output format; with json, errors are JSON as well
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Form,
    /// Short for --output json
    #[arg(long, global = true, conflicts_with = "output")]
    json: bool,
    /// How tables show times; JSON is always in UTC
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    time: TimeFormat,
    #[command(flatten)]
    access: access::Flags,
}

impl Server {
    fn names(&self, of_context: Option<String>) -> String {
        let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let variable = || NAMES_VARIABLES.iter().find_map(set);
        self.namesrv.clone().or_else(variable).or(of_context).unwrap_or_else(|| DEFAULT_NAMES.to_owned())
    }
}

/// The connection and the output of one command.
#[derive(Debug)]
pub struct Session {
    admin: Admin,
    output: Output,
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    block_on(&runtime, async {
        let (Command::Topic { server, .. }
        | Command::Group { server, .. }
        | Command::Message { server, .. }
        | Command::Offset { server, .. }
        | Command::Dlq { server, .. }
        | Command::User { server, .. }
        | Command::Acl { server, .. }
        | Command::Auth { server, .. }
        | Command::Cluster { server }) = &command;
        let form = if server.json { Form::Json } else { server.output };
        let access = server.access.resolve()?;
        let admin = Admin::new(&server.names(access.namesrv));
        let admin = admin.with_credentials(access.credentials).with_tls(access.tls);
        let session = Session { admin, output: Output::new(form, server.time) };
        let done = match &command {
            Command::Topic { command, .. } => topic::run(command, &session).await,
            Command::Group { command, .. } => group::run(command, &session).await,
            Command::Message { command, .. } => message::run(command, &session).await,
            Command::Offset { command, .. } => offset::run(command, &session).await,
            Command::Dlq { command, .. } => dlq::run(command, &session).await,
            Command::User { command, .. } => user::run(command, &session).await,
            Command::Acl { command, .. } => acl::run(command, &session).await,
            Command::Auth { command, .. } => match auth::run(command, &session).await {
                Ok(code) => return Ok(code),
                Err(error) => Err(error),
            },
            Command::Cluster { .. } => cluster::run(&session).await,
        };
        match done {
            Err(error) if stdout::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(explain::explain(&session.admin, error).await),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Runs requests side by side, a bounded number at a time; the answers come in the order of the requests.
async fn all<T, F: Future<Output = T>>(requests: impl IntoIterator<Item = F>) -> Vec<T> {
    stream::iter(requests).buffered(REQUESTS_MAX).collect().await
}
