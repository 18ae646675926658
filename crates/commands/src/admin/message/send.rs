//! `redstart message send`.

use std::{
    io::{IsTerminal, Read},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use redstart_client::admin::{Error, OutgoingMessage, Receipt, SendStatus};
use serde::Serialize;

use crate::admin::{
    Session,
    output::{Style, View},
    time,
    topic::kind_of,
};
use crate::failure::Failure;

/// Servers accept 4 MiB by default and far less than this at most: a larger file was named by mistake.
const BODY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct Send {
    /// Topic to send to
    topic: String,
    /// Body of the message; without it and --body-file, standard input is read
    #[arg(short, long, conflicts_with = "body_file")]
    body: Option<String>,
    /// File with the body
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Tag of the message
    #[arg(long)]
    tag: Option<String>,
    /// Key to find the message by; may be given several times
    #[arg(short, long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Property of the message; may be given several times
    #[arg(short, long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Message group, whose messages are consumed in order
    #[arg(short, long)]
    group: Option<String>,
    /// Deliver after a delay, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = time::duration, conflicts_with = "deliver_at")]
    delay: Option<Duration>,
    /// Deliver at this time (UTC), such as 2026-01-31T12:00
    #[arg(long, value_parser = time::time, value_name = "TIME")]
    deliver_at: Option<i64>,
}

/// Reads `name=value`. The protocol separates properties with the control characters 1 and 2.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value))
            if !name.is_empty() && !value.is_empty() && !text.contains(['\u{1}', '\u{2}']) =>
        {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected name=value".to_owned()),
    }
}

impl Send {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let config = session.admin.topic_config_anywhere(&self.topic).await?;
        let config = config.ok_or_else(|| Error::UnknownTopic { topic: self.topic.clone() })?;
        let delayed = self.delay.is_some() || self.deliver_at.is_some();
        if let Some(why) = mismatch(kind_of(&config), self.group.is_some(), delayed) {
            return Err(Failure::new("wrongMessageType", format!("topic {} {why}", self.topic)).into());
        }
        let message = self.message()?;
        let receipt = session.admin.send(&message).await?;
        session.output.show(&Sent::new(&self.topic, receipt))
    }

    fn message(&self) -> anyhow::Result<OutgoingMessage> {
        let mut message = OutgoingMessage::new(&self.topic, self.body()?);
        for (name, value) in &self.properties {
            message.set(name, value);
        }
        if let Some(tag) = &self.tag {
            message.set_tag(tag);
        }
        if !self.keys.is_empty() {
            message.set_keys(&self.keys);
        }
        if let Some(group) = &self.group {
            message.set_message_group(group);
        }
        let after = self.delay.map(|delay| time::now().saturating_add(delay.as_millis() as i64));
        if let Some(at) = self.deliver_at.or(after) {
            message.set_deliver_at(at);
        }
        Ok(message)
    }

    fn body(&self) -> anyhow::Result<Bytes> {
        if let Some(body) = &self.body {
            return Ok(body.clone().into());
        }
        let mut body = Vec::new();
        match &self.body_file {
            Some(path) => {
                let file =
                    std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                file.take(BODY_BYTES_MAX + 1)
                    .read_to_end(&mut body)
                    .with_context(|| format!("cannot read {}", path.display()))?;
            }
            None if std::io::stdin().is_terminal() => {
                return Err(Failure::new("usage", "there is no body")
                    .with_hint("give --body or --body-file, or pipe it in")
                    .into());
            }
            None => {
                let mut input = std::io::stdin().lock().take(BODY_BYTES_MAX + 1);
                input.read_to_end(&mut body).context("cannot read the body")?;
            }
        }
        if body.len() as u64 > BODY_BYTES_MAX {
            bail!("the body is larger than {BODY_BYTES_MAX} bytes");
        }
        Ok(body.into())
    }
}

/// Why a message does not fit the type of its topic. Servers do not check this over Remoting, and 5.x consumers may get a
/// message of another type out of order or at the wrong time.
fn mismatch(kind: &str, grouped: bool, delayed: bool) -> Option<String> {
    let missing = |what: &str| Some(format!("has type {kind}: its messages need {what}"));
    let wrong =
        |what: &str, kinds: &str| Some(format!("has type {kind}: {what} needs a topic of type {kinds}"));
    match (kind, grouped, delayed) {
        ("FIFO", false, _) => missing("--group"),
        ("DELAY", _, false) => missing("--delay or --deliver-at"),
        ("TRANSACTION", _, _) => {
            Some(format!("has type {kind}: use a client, which commits or rolls back its transaction"))
        }
        ("NORMAL" | "DELAY", true, _) => wrong("a message group", "FIFO"),
        ("NORMAL" | "FIFO", _, true) => wrong("a delayed message", "DELAY"),
        _ => None,
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    id: String,
    offset_id: String,
    topic: String,
    broker: String,
    queue: i32,
    offset: i64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall_handle: Option<String>,
}

impl Sent {
    fn new(topic: &str, receipt: Receipt) -> Sent {
        Sent {
            id: receipt.message_id,
            offset_id: receipt.offset_id,
            topic: topic.to_owned(),
            broker: receipt.broker,
            queue: receipt.queue,
            offset: receipt.queue_offset,
            status: match receipt.status {
                SendStatus::Stored => "stored",
                SendStatus::FlushDiskTimeout => "flushDiskTimeout",
                SendStatus::FlushSlaveTimeout => "flushSlaveTimeout",
                SendStatus::SlaveNotAvailable => "slaveNotAvailable",
            },
            recall_handle: receipt.recall_handle,
        }
    }
}

impl View for Sent {
    fn text(&self, _: Style) -> String {
        let status = match self.status {
            "flushDiskTimeout" => ", not yet flushed to disk",
            "flushSlaveTimeout" => ", not yet on a replica",
            "slaveNotAvailable" => ", no replica available",
            _ => "",
        };
        let place = match &self.recall_handle {
            // A delayed message gets its offset when it is due.
            Some(_) => format!("queue {} of {}, to be delivered later", self.queue, self.broker),
            None => format!("queue {} of {} at offset {}", self.queue, self.broker, self.offset),
        };
        format!("sent {} to {place}{status}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_must_have_the_type_of_its_topic() {
        let fits = [
            ("NORMAL", false, false),
            ("FIFO", true, false),
            ("DELAY", false, true),
            ("MIXED", true, true),
            ("PRIORITY", false, false),
            ("UNSPECIFIED", true, false),
        ];
        for (kind, grouped, delayed) in fits {
            assert_eq!(mismatch(kind, grouped, delayed), None, "{kind}");
        }
        let wrong = [
            ("NORMAL", true, false, "has type NORMAL: a message group needs a topic of type FIFO"),
            ("NORMAL", false, true, "has type NORMAL: a delayed message needs a topic of type DELAY"),
            ("FIFO", false, false, "has type FIFO: its messages need --group"),
            ("DELAY", false, false, "has type DELAY: its messages need --delay or --deliver-at"),
        ];
        for (kind, grouped, delayed, why) in wrong {
            assert_eq!(mismatch(kind, grouped, delayed).as_deref(), Some(why));
        }
        assert!(mismatch("TRANSACTION", false, false).is_some());
    }

    #[test]
    fn a_property_has_a_name_and_a_value() {
        assert_eq!(property("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        for bad in ["", "a", "a=", "=b", "a=\u{1}"] {
            assert!(property(bad).is_err(), "{bad:?}");
        }
    }
}
