//! A message on one line, or as JSON.

use std::collections::BTreeMap;

use redstart_client::admin::{Message, property};
use serde::Serialize;

use super::body::Body;
use crate::admin::{
    output::{Style, View, one_line},
    time::Time,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    pub id: String,
    pub offset_id: String,
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    pub offset: i64,
    pub tag: Option<String>,
    pub keys: Vec<String>,
    pub message_group: Option<String>,
    pub born_at: Time,
    pub born_host: String,
    pub stored_at: Time,
    pub store_host: String,
    /// Failed deliveries before this one.
    pub retries: i32,
    /// Properties without a field of their own.
    pub properties: BTreeMap<String, String>,
    #[serde(flatten)]
    pub body: Body,
}

impl MessageView {
    pub fn new(message: &Message) -> MessageView {
        let named = [property::UNIQUE_KEY, property::TAGS, property::KEYS, property::MESSAGE_GROUP];
        let mut properties = message.properties.clone();
        properties.retain(|name, _| !named.contains(&name.as_str()));
        let stored = &message.stored;
        MessageView {
            id: message.id(),
            offset_id: message.offset_id(),
            topic: stored.topic.to_string(),
            broker: message.broker.clone(),
            queue: stored.queue_id,
            offset: stored.queue_offset,
            tag: message.tag().map(str::to_owned),
            keys: message.keys().into_iter().map(str::to_owned).collect(),
            message_group: message.message_group().map(str::to_owned),
            born_at: Time(stored.born_at),
            born_host: stored.born_host.to_string(),
            stored_at: Time(stored.stored_at),
            store_host: stored.store_host.to_string(),
            retries: stored.reconsume_times,
            properties,
            body: Body::of(message),
        }
    }

    /// `broker/queue@offset`.
    pub fn place(&self) -> String {
        format!("{}/{}@{}", self.broker, self.queue, self.offset)
    }
}

impl View for MessageView {
    fn text(&self, style: Style) -> String {
        let mut words = vec![style.dim(&style.time(self.stored_at)), self.place(), one_line(&self.id)];
        if style.wide {
            let born = format!("{} at {}", style.time(self.born_at), self.born_host);
            words.extend([style.dim("offset-id=") + &self.offset_id, style.dim("born=") + &born]);
            words.push(style.dim("retries=") + &self.retries.to_string());
        }
        let keys = (!self.keys.is_empty()).then(|| self.keys.join(","));
        for (name, value) in [("tag=", &self.tag), ("group=", &self.message_group), ("keys=", &keys)] {
            words.extend(value.as_ref().map(|value| style.dim(name) + &one_line(value)));
        }
        words.push(self.body.summary());
        words.join(" ")
    }
}
