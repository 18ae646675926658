use redstart_engine::{HalfOptions, SendOptions, SendReceipt, Visibility};
use redstart_wire::v2::{
    Code, Message as WireMessage, MessageType as WireType, SendMessageRequest, SendMessageResponse,
    SendResultEntry,
};

use super::{
    convert::{from_duration, to_engine},
    service::Service,
    status::{Refusal, ok, summary},
};

impl Service {
    /// Stores the messages of a request, all or none.
    pub(super) async fn send(&self, request: SendMessageRequest) -> Result<SendMessageResponse, Refusal> {
        let Some(first) = request.messages.first() else {
            return Err(Refusal::new(Code::MessageCorrupted, "the request has no message"));
        };
        let topic = self.topic_name(first.topic.as_ref())?;
        topic.not_reserved()?;
        let resource = first.topic.clone();
        if request.messages.iter().any(|message| message.topic != resource) {
            return Err(Refusal::new(
                Code::MessageCorrupted,
                "the messages of a request must have one topic",
            ));
        }
        let options = SendOptions { half: half(first), ..SendOptions::default() };
        let messages = request.messages.into_iter().map(to_engine).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
        let receipts = self.shard.send(topic, messages, options)?.await??;
        let entries: Vec<SendResultEntry> =
            ids.into_iter().zip(receipts).map(|(id, receipt)| self.entry(id, receipt)).collect();
        Ok(SendMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        })
    }

    fn entry(&self, message_id: String, receipt: SendReceipt) -> SendResultEntry {
        let mut entry = SendResultEntry { status: Some(ok()), message_id, ..SendResultEntry::default() };
        match receipt.visibility {
            Visibility::Visible(offset) => entry.offset = offset.0 as i64,
            Visibility::Delayed(key) => entry.recall_handle = self.signer.recall(receipt.queue.topic, key),
            Visibility::Half => entry.transaction_id = self.signer.transaction(receipt.position),
        }
        entry
    }
}

/// A transactional message says so; everything else shows in its properties.
fn half(message: &WireMessage) -> Option<HalfOptions> {
    let system = message.system_properties.as_ref()?;
    (system.message_type == i32::from(WireType::Transaction)).then(|| HalfOptions {
        check_after: system.orphaned_transaction_recovery_duration.as_ref().and_then(from_duration),
    })
}
