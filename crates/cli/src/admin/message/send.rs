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

/// Servers take 4 MiB unless they are told otherwise; a file beyond this is read by mistake.
const BODY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct Send {
    /// The topic
    topic: String,
    /// The body; without it and --body-file it is read from standard input
    #[arg(short, long, conflicts_with = "body_file")]
    body: Option<String>,
    /// A file that holds the body
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// The tag
    #[arg(long)]
    tag: Option<String>,
    /// A key to find the message by; may be given several times
    #[arg(short, long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// A property; may be given several times
    #[arg(short, long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// The message group: its messages are consumed in order
    #[arg(short, long)]
    group: Option<String>,
    /// Deliver after a length of time, such as 30s
    #[arg(long, value_parser = time::duration, conflicts_with = "deliver_at")]
    delay: Option<Duration>,
    /// Deliver at a time (UTC), such as 2026-01-31T12:00
    #[arg(long, value_parser = time::time, value_name = "TIME")]
    deliver_at: Option<i64>,
}

/// `name=value`, of what the protocol can carry.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value))
            if !name.is_empty() && !value.is_empty() && !text.contains(['\u{1}', '\u{2}']) =>
        {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is no property; write name=value")),
    }
}

impl Send {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let config = session.admin.topic_config_anywhere(&self.topic).await?;
        let config = config.ok_or_else(|| Error::UnknownTopic { topic: self.topic.clone() })?;
        let delayed = self.delay.is_some() || self.deliver_at.is_some();
        if let Some(why) = mismatch(kind_of(&config), self.group.is_some(), delayed) {
            bail!("topic {} {why}", self.topic);
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
                bail!("no body: give --body or --body-file, or pipe one in")
            }
            None => {
                let mut input = std::io::stdin().lock().take(BODY_BYTES_MAX + 1);
                input.read_to_end(&mut body).context("cannot read the body")?;
            }
        }
        if body.len() as u64 > BODY_BYTES_MAX {
            bail!("the body has more than {BODY_BYTES_MAX} bytes");
        }
        Ok(body.into())
    }
}

/// Why a topic does not take such a message. Servers do not look over this protocol, and a message of another type is one
/// that 5.x consumers may never get in order or in time.
fn mismatch(kind: &str, grouped: bool, delayed: bool) -> Option<String> {
    let missing = |what: &str| Some(format!("is of type {kind}: its messages need {what}"));
    let wrong =
        |what: &str, kinds: &str| Some(format!("is of type {kind}: {what} goes to topics of type {kinds}"));
    match (kind, grouped, delayed) {
        ("FIFO", false, _) => missing("--group"),
        ("DELAY", _, false) => missing("--delay or --deliver-at"),
        ("TRANSACTION", _, _) => {
            Some(format!("is of type {kind}: send to it with a client, which answers for its transaction"))
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
            "flushDiskTimeout" => ", not yet on its disk",
            "flushSlaveTimeout" => ", not yet on a second broker",
            "slaveNotAvailable" => ", no second broker is there",
            _ => "",
        };
        let place = match &self.recall_handle {
            // Its place in the queue is not known before it is due.
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
    fn a_message_must_be_of_the_topics_type() {
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
            ("NORMAL", true, false, "is of type NORMAL: a message group goes to topics of type FIFO"),
            ("NORMAL", false, true, "is of type NORMAL: a delayed message goes to topics of type DELAY"),
            ("FIFO", false, false, "is of type FIFO: its messages need --group"),
            ("DELAY", false, false, "is of type DELAY: its messages need --delay or --deliver-at"),
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
