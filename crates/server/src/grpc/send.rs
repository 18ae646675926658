//! SendMessage.

use std::collections::BTreeMap;

use futures_util::future::join_all;
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
use crate::{
    shard::SendFailure,
    shards::{ServedShard, ShardNumber},
};

/// A lite topic that has been idle for long may be removed between its creation and the send.
const LITE_TRIES: usize = 3;

impl Service {
    /// Stores the messages of a request: those of a shard all or none.
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
        let entries = match self.one_shard(&topic, &messages) {
            Some(shard) => {
                let receipts = self.store(shard, topic.clone(), messages, options).await?;
                ids.into_iter().zip(receipts).map(|(id, receipt)| self.entry(shard, id, receipt)).collect()
            }
            None => self.store_on_several(&topic, messages, options).await,
        };
        if options.half.is_some() {
            self.clients.sent_half(caller.client, &topic);
        }
        Ok(SendMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        })
    }

    /// The shard that takes all messages of a request; `None` if their message groups or lite topics are on several.
    fn one_shard(&self, topic: &TopicName, messages: &[Message]) -> Option<&ServedShard> {
        // There is a first message.
        let first = self.shards.for_message(topic, &messages[0]);
        if self.shards.is_single() || messages.len() == 1 {
            return Some(first);
        }
        let shards = self.shards_of(topic, messages);
        shards.iter().all(|shard| shard.number == shards[0].number).then_some(shards[0])
    }

    /// The shard of each message. Messages without a message group go together, so that a request that is sent again meets its copies.
    fn shards_of(&self, topic: &TopicName, messages: &[Message]) -> Vec<&ServedShard> {
        let mut unbound = None;
        let choose = |message: &Message| match message.group.is_some() || message.lite_topic().is_some() {
            true => self.shards.for_message(topic, message),
            false => *unbound.get_or_insert_with(|| self.shards.for_message(topic, message)),
        };
        messages.iter().map(choose).collect()
    }

    /// Stores messages on the shards of their message groups. Each shard takes its own or refuses them: the entries tell.
    async fn store_on_several(
        &self,
        topic: &TopicName,
        messages: Vec<Message>,
        options: SendOptions,
    ) -> Vec<SendResultEntry> {
        let mut parts: BTreeMap<ShardNumber, (&ServedShard, Vec<usize>, Vec<Message>)> = BTreeMap::new();
        let shards = self.shards_of(topic, &messages);
        let mut entries = vec![SendResultEntry::default(); messages.len()];
        for (at, (shard, message)) in shards.into_iter().zip(messages).enumerate() {
            entries[at].message_id = message.id.clone();
            let (_, places, part) =
                parts.entry(shard.number).or_insert_with(|| (shard, Vec::new(), Vec::new()));
            places.push(at);
            part.push(message);
        }
        let stores = parts.into_values().map(async |(shard, places, part)| {
            (shard, places, self.store(shard, topic.clone(), part, options).await)
        });
        for (shard, places, stored) in join_all(stores).await {
            match stored {
                Ok(receipts) => places.into_iter().zip(receipts).for_each(|(at, receipt)| {
                    let id = std::mem::take(&mut entries[at].message_id);
                    entries[at] = self.entry(shard, id, receipt);
                }),
                Err(refusal) => {
                    places.into_iter().for_each(|at| entries[at].status = Some(refusal.status()));
                }
            }
        }
        entries
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
