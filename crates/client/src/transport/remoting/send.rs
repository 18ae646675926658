//! Sends over Remoting.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redstart_wire::remoting::{BatchEntry, Command, FieldError, code, flag, put_properties};

use super::{Session, TEMPLATE_QUEUES, TEMPLATE_TOPIC, malformed, refused};
use crate::{
    CallError, Message, SendStatus,
    route::Place,
    transport::{Outgoing, Purpose, Stored},
};

impl Session {
    pub async fn send(
        &self,
        to: &Place,
        messages: &[Outgoing],
        within: Duration,
    ) -> Result<Vec<Result<Stored, CallError>>, CallError> {
        let request = match messages {
            [] => return Ok(Vec::new()),
            [one] => self.single(to, one),
            several => self.batch(to, several),
        };
        let answer = self.net.ask(&to.address, request, within).await?;
        let status = match answer.code {
            code::SUCCESS => SendStatus::Stored,
            code::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
            code::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
            code::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
            _ => return Err(refused(&to.address, answer)),
        };
        let read = |error: FieldError| malformed(&to.address, error);
        let queue: i32 = answer.number("queueId").map_err(read)?;
        let first: i64 = answer.number("queueOffset").map_err(read)?;
        let recall = answer.field("recallHandle").map(str::to_owned);
        let stored = messages.iter().zip(first..).map(|(message, offset)| {
            Ok(Stored {
                id: message.id.clone(),
                queue,
                // A delayed message is in no queue yet.
                offset: message.message.delivery.is_none().then_some(offset),
                recall: recall.clone(),
                status,
                transaction: match message.purpose {
                    Purpose::Half { .. } => Session::transaction(to, message, &answer),
                    _ => None,
                },
            })
        });
        Ok(stored.collect())
    }

    pub async fn post(&self, to: &Place, message: &Outgoing) -> Result<(), CallError> {
        let connection = self.net.connection(&to.address).await?;
        Ok(connection.tell(self.single(to, message))?)
    }

    fn single(&self, to: &Place, message: &Outgoing) -> Command {
        let mut request = self.header(code::SEND_MESSAGE_V2, to, message);
        request.fields.add("i", properties(message, &self.identity()));
        request.fields.add("m", false);
        request.body = message.body.clone();
        request
    }

    fn batch(&self, to: &Place, messages: &[Outgoing]) -> Command {
        let mut request = self.header(code::SEND_BATCH_MESSAGE, to, &messages[0]);
        request.fields.add("i", "WAIT\u{1}true\u{2}");
        request.fields.add("m", true);
        request.body = entries(messages, &self.identity());
        request
    }

    fn identity(&self) -> Identity<'_> {
        Identity { client: &self.net.settings.client_id, group: self.role.group() }
    }

    fn header(&self, code: i32, to: &Place, message: &Outgoing) -> Command {
        let half = matches!(message.purpose, Purpose::Half { .. });
        let system_flag = if message.packed { flag::COMPRESSED } else { 0 }
            | if half { flag::TRANSACTION_PREPARED } else { 0 };
        Command::request(code)
            .and("a", self.role.group())
            .and("b", &to.queue.topic)
            .and("c", TEMPLATE_TOPIC)
            .and("d", TEMPLATE_QUEUES)
            .and("e", to.queue.id)
            .and("f", system_flag)
            .and("g", message.born_at)
            .and("h", 0)
            .and("j", 0)
            .and("k", false)
            .and("n", &to.queue.broker)
    }

    pub async fn recall(
        &self,
        at: &Place,
        topic: &str,
        handle: &str,
        within: Duration,
    ) -> Result<String, CallError> {
        let request = Command::request(code::RECALL_MESSAGE)
            .with_field("producerGroup", self.role.group())
            .with_field("topic", topic)
            .with_field("recallHandle", handle)
            .with_field("bname", &at.queue.broker);
        let answer = self.net.call(&at.address, request, within).await?;
        Ok(answer.required("msgId").map_err(|error| malformed(&at.address, error))?.to_owned())
    }
}

fn entries(messages: &[Outgoing], sender: &Identity<'_>) -> Bytes {
    let bytes: usize = messages.iter().map(|message| message.body.len() + 256).sum();
    let mut body = BytesMut::with_capacity(bytes);
    for message in messages {
        BatchEntry { flag: 0, properties: properties(message, sender), body: message.body.clone() }
            .encode(&mut body);
    }
    body.freeze()
}

/// Who sends, as properties of messages say it.
struct Identity<'a> {
    client: &'a str,
    group: &'a str,
}

/// The properties of a message as one text.
fn properties(outgoing: &Outgoing, sender: &Identity<'_>) -> String {
    let Message { tag, keys, group, delivery, priority, properties, .. } = &outgoing.message;
    let mut text = String::with_capacity(128);
    let mut put = |name: &str, value: &str| put_properties([(name, value)], &mut text);
    put("UNIQ_KEY", &outgoing.id);
    put("WAIT", "true");
    if let Some(tag) = tag {
        put("TAGS", tag);
    }
    match &keys[..] {
        [] => {}
        [one] => put("KEYS", one),
        several => put("KEYS", &several.join(" ")),
    }
    if let Some(group) = group {
        put("__SHARDINGKEY", group);
    }
    if let Some(delivery) = delivery {
        put("TIMER_DELIVER_MS", &delivery.to_ms(outgoing.born_at).to_string());
    }
    if let Some(priority) = priority {
        put("_SYS_MSG_PRIORITY_", &priority.to_string());
    }
    match &outgoing.purpose {
        Purpose::Plain => {}
        Purpose::Half { check_after } => {
            put("TRAN_MSG", "true");
            put("PGROUP", sender.group);
            if let Some(time) = check_after {
                put("CHECK_IMMUNITY_TIME_IN_SECONDS", &time.as_secs().max(1).to_string());
            }
        }
        Purpose::Request { correlation, within } => {
            put("CORRELATION_ID", correlation);
            put("REPLY_TO_CLIENT", sender.client);
            put("TTL", &within.as_millis().to_string());
        }
    }
    for (name, value) in properties {
        put(name, value);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redstart_wire::remoting::{decode_batch, decode_properties};

    use super::*;

    fn outgoing(message: Message) -> Outgoing {
        let body = message.body().clone();
        let purpose = Purpose::Plain;
        Outgoing { id: "ID".to_owned(), message, body, packed: false, born_at: 1000, purpose }
    }

    fn properties(outgoing: &Outgoing) -> String {
        super::properties(outgoing, &Identity { client: "c", group: "g" })
    }

    #[test]
    fn a_message_has_rocketmqs_properties() {
        let message = Message::new("t", "x").tag("a").key("k1").key("k2").property("p", "v").dedup_key("d");
        let text = properties(&outgoing(message));
        let expected = [
            ("UNIQ_KEY", "ID"),
            ("WAIT", "true"),
            ("TAGS", "a"),
            ("KEYS", "k1 k2"),
            ("p", "v"),
            ("DEDUP_KEY", "d"),
        ];
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(decode_properties(&text), expected);
        let text = properties(&outgoing(Message::new("t", "x").after(Duration::from_secs(2))));
        assert!(text.contains("TIMER_DELIVER_MS\u{1}3000\u{2}"), "{text}");
        assert!(
            properties(&outgoing(Message::new("t", "x").group("g"))).contains("__SHARDINGKEY\u{1}g\u{2}")
        );
        assert!(
            properties(&outgoing(Message::new("t", "x").priority(7)))
                .contains("_SYS_MSG_PRIORITY_\u{1}7\u{2}")
        );
    }

    #[test]
    fn a_batch_holds_every_message_with_its_properties() {
        let messages = [outgoing(Message::new("t", "one").tag("a")), outgoing(Message::new("t", "two"))];
        let read =
            decode_batch(entries(&messages, &Identity { client: "c", group: "g" }), 9).expect("a batch");
        assert_eq!(read.len(), 2);
        assert_eq!((&read[0].body[..], &read[1].body[..]), (&b"one"[..], &b"two"[..]));
        assert!(read[0].properties.contains("TAGS\u{1}a"));
    }
}
