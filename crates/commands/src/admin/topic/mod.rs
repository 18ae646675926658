//! `redstart topic`.

mod change;
mod list;
mod show;

use clap::{Subcommand, ValueEnum};
use redstart_wire::remoting::body::TopicEntry;
use serde::Serialize;

use super::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a topic
    Create(change::Create),
    /// Change a topic; settings that are not given stay as they are
    Update(change::Update),
    /// Delete a topic and its messages
    Delete(change::Delete),
    /// List the topics
    List(list::List),
    /// Show a topic: settings, queues, and the groups that consume it
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

const MESSAGE_TYPE: &str = "message.type";
const UNSPECIFIED: &str = "NORMAL";

/// The type of a topic's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Normal,
    Fifo,
    Delay,
    Transaction,
    Mixed,
    Priority,
    Lite,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Normal => "NORMAL",
            Kind::Fifo => "FIFO",
            Kind::Delay => "DELAY",
            Kind::Transaction => "TRANSACTION",
            Kind::Mixed => "MIXED",
            Kind::Priority => "PRIORITY",
            Kind::Lite => "LITE",
        }
    }
}

/// A topic's type, in RocketMQ's words.
pub fn kind_of(topic: &TopicEntry) -> &str {
    topic.attributes.get(MESSAGE_TYPE).map_or(UNSPECIFIED, String::as_str)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Permission {
    Rw,
    R,
    W,
    None,
}

impl Permission {
    fn bits(self) -> u8 {
        match self {
            Permission::Rw => 6,
            Permission::R => 4,
            Permission::W => 2,
            Permission::None => 0,
        }
    }
}

/// `rw`, `r`, `w`, or `none`.
fn permission_name(bits: u8) -> &'static str {
    match (bits & 4 != 0, bits & 2 != 0) {
        (true, true) => "rw",
        (true, false) => "r",
        (false, true) => "w",
        (false, false) => "none",
    }
}

/// The settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    topic: String,
    r#type: String,
    read_queues: u32,
    write_queues: u32,
    permission: &'static str,
    brokers: Vec<String>,
}

impl Settings {
    fn new(entry: &TopicEntry, brokers: Vec<String>) -> Settings {
        Settings {
            topic: entry.topic_name.clone(),
            r#type: kind_of(entry).to_owned(),
            read_queues: entry.read_queue_nums,
            write_queues: entry.write_queue_nums,
            permission: permission_name(entry.perm),
            brokers,
        }
    }

    /// `8`, or `8 read, 4 written` while queues are added or drained.
    fn queues(&self) -> String {
        match (self.read_queues, self.write_queues) {
            (read, write) if read == write => read.to_string(),
            (read, write) => format!("{read} read, {write} written"),
        }
    }
}
