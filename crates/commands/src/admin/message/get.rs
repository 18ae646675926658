//! `redstart message get`.

use anyhow::bail;
use clap::Args;
use redstart_client::admin::{Admin, Error, Message, RETRY_PREFIX};
use redstart_wire::remoting::read_offset_message_id;
use serde::Serialize;

use super::MessageView;
use crate::admin::{
    Session, all,
    output::{Style, View, fields},
};

/// Properties that every message has. Only JSON shows them.
const UBIQUITOUS: [&str; 4] = ["CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT"];

#[derive(Debug, Args)]
pub struct Get {
    /// Message id that the producer got, or the offset id that says where the message is stored
    id: String,
    /// Topic of the message; without it, all topics are searched
    #[arg(short, long)]
    topic: Option<String>,
    /// Write the body unchanged and nothing else
    #[arg(long)]
    raw: bool,
}

impl Get {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let message = self.find(&session.admin).await?;
        if self.raw {
            return match message.body() {
                Ok(body) => session.output.raw(&body),
                Err(error) => bail!("message {}: {error}", self.id),
            };
        }
        let groups = consuming_groups(&session.admin, &message).await.unwrap_or_default();
        session.output.show(&Details { message: MessageView::new(&message), groups })
    }

    async fn find(&self, admin: &Admin) -> anyhow::Result<Message> {
        // A producer's id can look like an offset id, which starts with an address: it is one if a broker has that address.
        let address = read_offset_message_id(&self.id).map(|(host, _)| host.to_string());
        let brokers = admin.brokers().await?;
        if address.is_some_and(|address| brokers.iter().any(|broker| broker.address == address)) {
            let found = admin.message_by_offset_id(self.topic.as_deref().unwrap_or_default(), &self.id).await;
            if let Ok(message) = found {
                return Ok(message);
            }
        }
        if let Some(topic) = &self.topic {
            return Ok(admin.message_by_unique_key(topic, &self.id).await?);
        }
        let names = admin.topic_names().await?;
        let searched = names
            .iter()
            .filter(|name| !name.starts_with(RETRY_PREFIX) && !Admin::is_own_topic(name, &brokers));
        let found = all(searched.map(|topic| admin.messages_by_unique_key(topic, &self.id))).await;
        let mut found: Vec<Message> = found.into_iter().filter_map(Result::ok).flatten().collect();
        // The same id in two topics is a message and its dead letter. The message was stored first.
        found.sort_by_key(|message| message.stored.stored_at);
        let missing = || Error::NoMessage { what: format!("{} in any topic", self.id) };
        Ok(found.into_iter().next().ok_or_else(missing)?)
    }
}

/// The groups that consume the topic, and whether they have consumed the message.
async fn consuming_groups(admin: &Admin, message: &Message) -> Result<Vec<Group>, Error> {
    let brokers = admin.brokers_of_topic(&message.stored.topic).await?;
    let Some(broker) = brokers.into_iter().find(|broker| broker.name == message.broker) else {
        return Ok(Vec::new());
    };
    let names = admin.groups_of_topic(&broker.address, &message.stored.topic).await?;
    let mut groups = Vec::new();
    for group in names {
        let stats = admin.consume_stats(&broker.address, &group, Some(&message.stored.topic)).await?;
        let row = stats.queues.iter().find(|(queue, _)| queue.queue_id == message.stored.queue_id);
        if let Some((_, row)) = row {
            groups.push(Group { group, consumed: row.consumer_offset > message.stored.queue_offset });
        }
    }
    Ok(groups)
}

#[derive(Debug, Serialize)]
struct Details {
    #[serde(flatten)]
    message: MessageView,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    group: String,
    /// All messages of the queue up to this one are consumed.
    consumed: bool,
}

impl View for Details {
    fn text(&self, style: Style) -> String {
        let message = &self.message;
        let mut lines = vec![
            ("id", message.id.clone()),
            ("offset id", message.offset_id.clone()),
            ("topic", message.topic.clone()),
            ("queue", format!("{} of {}, offset {}", message.queue, message.broker, message.offset)),
        ];
        let optional = [("tag", &message.tag), ("message group", &message.message_group)];
        lines.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
        if !message.keys.is_empty() {
            lines.push(("keys", message.keys.join(" ")));
        }
        let at = |time, host: &str| format!("{} at {host}", style.time(time));
        lines.push(("born", at(message.born_at, &message.born_host)));
        lines.push(("stored", at(message.stored_at, &message.store_host)));
        if message.retries > 0 {
            lines.push(("retries", message.retries.to_string()));
        }
        let properties = message.properties.iter().filter(|(name, _)| !UBIQUITOUS.contains(&name.as_str()));
        lines.extend(properties.map(|(name, value)| ("property", format!("{name} = {value}"))));
        for group in &self.groups {
            let state = if group.consumed { "consumed" } else { "not consumed" };
            lines.push((state, format!("by {}", group.group)));
        }
        fields(style, &lines) + "\n" + &message.body.text()
    }
}
