//! Messages looked up: by id, by key, by their place in a queue.

use redstart_wire::remoting::{Command, StoredMessage, code, read_offset_message_id};

use super::{Admin, Error, Expression, Message, PullRequest, json};

/// Messages that share a key, and when they were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyQuery<'a> {
    pub topic: &'a str,
    pub key: &'a str,
    /// Milliseconds since 1970, as the next one.
    pub from: i64,
    pub to: i64,
    pub max: u32,
    /// The key is the id that a producer gave a message.
    pub unique: bool,
}

impl<'a> KeyQuery<'a> {
    pub fn new(topic: &'a str, key: &'a str) -> KeyQuery<'a> {
        KeyQuery { topic, key, from: 0, to: i64::MAX, max: 64, unique: false }
    }
}

impl Admin {
    /// The message at a broker's address; `topic` may be empty if it is not known.
    pub async fn message_by_offset_id(&self, topic: &str, id: &str) -> Result<Message, Error> {
        let (host, offset) =
            read_offset_message_id(id).ok_or_else(|| Error::MessageId { id: id.to_owned() })?;
        let address = host.to_string();
        let request = code::VIEW_MESSAGE_BY_ID;
        let mut command = Command::request(request).with_field("offset", offset);
        if !topic.is_empty() {
            command = command.with_field("topic", topic);
        }
        let mut answer = self.ask(&address, command).await?;
        let stored = StoredMessage::decode(&mut answer.body)
            .ok_or_else(|| json::malformed(&address, request, "no message"))?;
        let brokers = self.brokers().await?;
        let name = brokers.into_iter().find(|broker| broker.address == address).map(|broker| broker.name);
        Ok(Message::new(&name.unwrap_or_default(), stored))
    }

    /// The message of a topic by the id that its producer gave it.
    pub async fn message_by_unique_key(&self, topic: &str, id: &str) -> Result<Message, Error> {
        // A resent message has the same id; the newest counts, as in mqadmin.
        let found = self.messages_by_unique_key(topic, id).await?;
        found
            .into_iter()
            .next_back()
            .ok_or_else(|| Error::NoMessage { what: format!("{id} in topic {topic}") })
    }

    /// All messages of a topic that have this id, the oldest first.
    pub async fn messages_by_unique_key(&self, topic: &str, id: &str) -> Result<Vec<Message>, Error> {
        self.messages_by_key(KeyQuery { unique: true, ..KeyQuery::new(topic, id) }).await
    }

    /// Messages with a key, on all brokers of the topic, the oldest first.
    pub async fn messages_by_key(&self, query: KeyQuery<'_>) -> Result<Vec<Message>, Error> {
        let mut found = Vec::new();
        for broker in self.brokers_of_topic(query.topic).await? {
            let request = Command::request(code::QUERY_MESSAGE)
                .with_field("topic", query.topic)
                .with_field("key", query.key)
                .with_field("maxNum", query.max)
                .with_field("beginTimestamp", query.from)
                .with_field("endTimestamp", query.to)
                .with_field("_UNIQUE_KEY_QUERY", query.unique);
            let mut answer = match self.ask(&broker.address, request).await {
                Ok(answer) => answer,
                Err(error) if error.code() == Some(code::QUERY_NOT_FOUND) => continue,
                Err(error) => return Err(error.about_topic(query.topic)),
            };
            let messages = decode_all(&broker.address, code::QUERY_MESSAGE, &broker.name, &mut answer.body)?;
            // An index knows hashes only.
            found.extend(messages.into_iter().filter(|message| fits(message, &query)));
        }
        found.sort_by_key(|message| message.stored.stored_at);
        found.truncate(query.max as usize);
        Ok(found)
    }

    /// The message at an offset of a queue.
    pub async fn message_at(
        &self,
        broker: &str,
        topic: &str,
        queue: i32,
        offset: i64,
    ) -> Result<Message, Error> {
        let request = PullRequest {
            group: None,
            topic,
            queue,
            offset,
            max: 1,
            expression: &Expression::All,
            wait: std::time::Duration::ZERO,
        };
        let pulled = self.pull(broker, "", &request).await?;
        let message = pulled.messages.into_iter().find(|message| message.stored.queue_offset == offset);
        message.ok_or_else(|| Error::NoMessage {
            what: format!(
                "at offset {offset} of queue {queue} of topic {topic}: it holds {} to {}",
                pulled.min, pulled.max
            ),
        })
    }
}

fn fits(message: &Message, query: &KeyQuery<'_>) -> bool {
    message.stored.topic == query.topic
        && match query.unique {
            true => message.id() == query.key,
            false => message.keys().contains(&query.key),
        }
}

/// The messages of a body.
pub(super) fn decode_all(
    address: &str,
    request: i32,
    broker: &str,
    body: &mut bytes::Bytes,
) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    while !body.is_empty() {
        let stored = StoredMessage::decode(body)
            .ok_or_else(|| json::malformed(address, request, "what should be a message is none"))?;
        messages.push(Message::new(broker, stored));
    }
    Ok(messages)
}
