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
use crate::shard::SendFailure;

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
        let receipts = self.store(topic.clone(), messages, options).await?;
        if options.half.is_some() {
            self.clients.sent_half(caller.client, &topic);
        }
        let entries: Vec<SendResultEntry> =
            ids.into_iter().zip(receipts).map(|(id, receipt)| self.entry(id, receipt)).collect();
        Ok(SendMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        })
    }

    /// Stores the messages. The first message of a lite topic creates it.
    async fn store(
        &self,
        topic: TopicName,
        messages: Vec<Message>,
        options: SendOptions,
    ) -> Result<Vec<SendReceipt>, Refusal> {
        if messages.iter().all(|message| message.lite_topic().is_none()) {
            if !self.creates_topic(&topic) {
                return Ok(self.shard.send(topic, messages, options)?.await??);
            }
            // Cloning is cheap: bodies are shared.
            return match self.shard.send(topic.clone(), messages.clone(), options)?.await? {
                Err(SendFailure::Refused(SendError::UnknownTopic { .. })) => {
                    self.ensure_topic(topic.clone()).await?;
                    Ok(self.shard.send(topic, messages, options)?.await??)
                }
                other => Ok(other?),
            };
        }
        for _ in 0..LITE_TRIES {
            let sent = self.shard.send(topic.clone(), messages.clone(), options)?.await?;
            let Err(SendFailure::Refused(SendError::UnknownLiteTopic { topic, lite })) = sent else {
                return Ok(sent?);
            };
            self.ensure_lites(&topic, vec![lite]).await?;
        }
        Ok(self.shard.send(topic, messages, options)?.await??)
    }

    fn entry(&self, message_id: String, receipt: SendReceipt) -> SendResultEntry {
        let mut entry = SendResultEntry { status: Some(ok()), message_id, ..SendResultEntry::default() };
        match receipt.visibility {
            Visibility::Visible(offset) => entry.offset = offset.0 as i64,
            Visibility::Delayed(key) => entry.recall_handle = self.signer.recall(receipt.queue.topic, key),
            Visibility::Half => {
                entry.transaction_id = self.signer.transaction(receipt.queue.topic, receipt.position);
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
