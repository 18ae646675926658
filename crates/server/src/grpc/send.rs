//! SendMessage.

use redstart_engine::{HalfOptions, Message, SendError, SendOptions, SendReceipt, TopicName, Visibility};
use redstart_wire::v2::{
    Code, Message as WireMessage, MessageType as WireType, SendMessageRequest, SendMessageResponse,
    SendResultEntry,
};

use super::{
    admission::Admitted,
    convert::{from_duration, to_engine},
    refusal::{Refusal, ok, summary},
    service::Service,
};
use crate::{shard::SendFailure, shards::ServedShard};

/// A lite topic that has been idle for long may be removed between its creation and the send.
const LITE_TRIES: usize = 3;

impl Service {
    /// Stores the messages of a request, all or none.
    pub(super) async fn send(
        &self,
        Admitted { caller, request, .. }: Admitted<'_, SendMessageRequest>,
    ) -> Result<SendMessageResponse, Refusal> {
        let Some(first) = request.messages.first() else {
            return Err(Refusal::new(Code::MessageCorrupted, "no message to send"));
        };
        let topic = self.topic_name(first.topic.as_ref())?;
        topic.not_reserved()?;
        let resource = first.topic.clone();
        if request.messages.iter().any(|message| message.topic != resource) {
            return Err(Refusal::new(
                Code::MessageCorrupted,
                "topic in message is not same: all messages of a request must have the same topic",
            ));
        }
        let message_type = check_type(first)?;
        if request.messages.iter().any(|message| type_number(message) != message_type) {
            let why = "all messages of a request must have the same type";
            return Err(Refusal::new(Code::MessagePropertyConflictWithType, why));
        }
        let options = SendOptions { half: half(first), ..SendOptions::default() };
        let messages = request.messages.into_iter().map(to_engine).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
        let shard = self.one_shard(&topic, &messages)?;
        let receipts = self.store(shard, topic.clone(), messages, options).await?;
        if options.half.is_some() {
            self.clients.sent_half(caller.client, &topic);
        }
        let entries: Vec<SendResultEntry> =
            ids.into_iter().zip(receipts).map(|(id, receipt)| self.entry(shard, id, receipt)).collect();
        Ok(SendMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        })
    }

    /// The shard that takes the messages of a request. They are stored all or none, so that it has to be one: that of the first
    /// message. Messages that must go to another shard cannot be in the same request; the official clients send none such.
    fn one_shard(&self, topic: &TopicName, messages: &[Message]) -> Result<&ServedShard, Refusal> {
        // There is a first message.
        let shard = self.shards.for_message(topic, &messages[0]);
        let bound = |message: &&Message| message.group.is_some() || message.lite_topic().is_some();
        let elsewhere = |message: &Message| self.shards.for_message(topic, message).number != shard.number;
        if !self.shards.is_single() && messages[1..].iter().filter(bound).any(elsewhere) {
            let why = "the messages of a request must have the same message group, or the same lite topic";
            return Err(Refusal::new(Code::IllegalMessageGroup, why));
        }
        Ok(shard)
    }

    /// Stores the messages. The first message of a lite topic creates it.
    async fn store(
        &self,
        shard: &ServedShard,
        topic: TopicName,
        messages: Vec<Message>,
        options: SendOptions,
    ) -> Result<Vec<SendReceipt>, Refusal> {
        if messages.iter().all(|message| message.lite_topic().is_none()) {
            if !self.creates_topic(&topic) {
                return Ok(shard.handle.send(topic, messages, options)?.await??);
            }
            // Cloning is cheap: bodies are shared.
            return match shard.handle.send(topic.clone(), messages.clone(), options)?.await? {
                Err(SendFailure::Refused(SendError::UnknownTopic { .. })) => {
                    self.ensure_topic(shard, &topic).await?;
                    Ok(shard.handle.send(topic, messages, options)?.await??)
                }
                other => Ok(other?),
            };
        }
        for _ in 0..LITE_TRIES {
            let sent = shard.handle.send(topic.clone(), messages.clone(), options)?.await?;
            let Err(SendFailure::Refused(SendError::UnknownLiteTopic { topic, lite })) = sent else {
                return Ok(sent?);
            };
            self.ensure_lites(shard, &topic, vec![lite]).await?;
        }
        Ok(shard.handle.send(topic, messages, options)?.await??)
    }

    fn entry(&self, shard: &ServedShard, message_id: String, receipt: SendReceipt) -> SendResultEntry {
        let mut entry = SendResultEntry { status: Some(ok()), message_id, ..SendResultEntry::default() };
        match receipt.visibility {
            Visibility::Visible(offset) => entry.offset = offset.0 as i64,
            Visibility::Delayed(key) => {
                entry.recall_handle = self.signer.recall(shard.number, receipt.queue.topic, key);
            }
            Visibility::Half => {
                entry.transaction_id =
                    self.signer.transaction(shard.number, receipt.queue.topic, receipt.position);
            }
        }
        entry
    }
}

fn type_number(message: &WireMessage) -> i32 {
    message.system_properties.as_ref().map_or(0, |system| system.message_type)
}

/// An unknown message type is refused: the message could not be stored as what it is.
fn check_type(message: &WireMessage) -> Result<i32, Refusal> {
    let number = type_number(message);
    match WireType::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => {
            let why = format!("the message type {number} is not known");
            Err(Refusal::new(Code::MessagePropertyConflictWithType, why))
        }
    }
}

/// Only transactional messages are told by their type; the engine sees the other types by their properties.
fn half(message: &WireMessage) -> Option<HalfOptions> {
    let system = message.system_properties.as_ref()?;
    (system.message_type == i32::from(WireType::Transaction)).then(|| HalfOptions {
        check_after: system.orphaned_transaction_recovery_duration.as_ref().and_then(from_duration),
    })
}
