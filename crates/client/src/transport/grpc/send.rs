//! Sends over gRPC.

use std::time::Duration;

use redstart_wire::v2::{
    Code, EndTransactionRequest, EndTransactionResponse, RecallMessageRequest, RecallMessageResponse,
    SendMessageRequest, SendMessageResponse, SendResultEntry, TransactionResolution, TransactionSource,
};

use super::{Session, accept, channel::Method, convert::to_wire, resource};
use crate::{
    CallError, SendStatus,
    route::Place,
    transport::{Outgoing, Stored, Transaction, Verdict},
};

impl Session {
    pub async fn send(
        &self,
        to: &Place,
        messages: &[Outgoing],
        within: Duration,
    ) -> Result<Vec<Result<Stored, CallError>>, CallError> {
        let request = SendMessageRequest {
            messages: messages.iter().map(|message| to_wire(message, to.queue.id)).collect(),
        };
        let answer: SendMessageResponse =
            self.call(&to.address, Method::SendMessage, &request, within).await?;
        if answer.entries.is_empty() {
            accept(&to.address, answer.status.as_ref())?;
        }
        // Apache's proxy stores a batch as one and answers with one entry.
        let entry_of = |place: usize| match &answer.entries[..] {
            [one] => Some(one),
            entries => entries.get(place),
        };
        let results = messages.iter().enumerate().map(|(place, message)| {
            let entry = entry_of(place).ok_or_else(|| CallError::Malformed {
                address: to.address.to_string(),
                why: format!("{} results for {} messages", answer.entries.len(), messages.len()),
            })?;
            stored(to, message, entry, answer.entries.len() == messages.len())
        });
        Ok(results.collect())
    }

    /// gRPC has no call without an answer: the answer is not waited for.
    pub async fn post(&self, to: &Place, message: &Outgoing) -> Result<(), CallError> {
        let request = SendMessageRequest { messages: vec![to_wire(message, to.queue.id)] };
        self.telemetry.ensure(&to.address);
        let channel = self.net.channels.get(&to.address).await?;
        let headers = self.net.headers(self.client_id(), Some(self.net.timeout));
        let within = self.net.timeout;
        tokio::spawn(async move {
            let answer = channel.unary::<SendMessageResponse>(Method::SendMessage, headers, &request);
            drop(tokio::time::timeout(within, answer).await);
        });
        Ok(())
    }

    pub async fn end_transaction(
        &self,
        transaction: &Transaction,
        verdict: Verdict,
        checked: bool,
    ) -> Result<(), CallError> {
        let resolution = match verdict {
            Verdict::Commit => TransactionResolution::Commit,
            Verdict::Rollback => TransactionResolution::Rollback,
        };
        let source =
            if checked { TransactionSource::SourceServerCheck } else { TransactionSource::SourceClient };
        let request = EndTransactionRequest {
            topic: Some(resource(&transaction.topic)),
            message_id: transaction.message_id.clone(),
            transaction_id: transaction.id.clone(),
            resolution: resolution.into(),
            source: source.into(),
            trace_context: String::new(),
        };
        let answer: EndTransactionResponse =
            self.call(&transaction.address, Method::EndTransaction, &request, self.net.timeout).await?;
        accept(&transaction.address, answer.status.as_ref())
    }

    pub async fn recall(
        &self,
        at: &Place,
        topic: &str,
        handle: &str,
        within: Duration,
    ) -> Result<String, CallError> {
        let request = RecallMessageRequest { topic: Some(resource(topic)), recall_handle: handle.to_owned() };
        let answer: RecallMessageResponse =
            self.call(&at.address, Method::RecallMessage, &request, within).await?;
        accept(&at.address, answer.status.as_ref())?;
        Ok(answer.message_id)
    }
}

fn stored(
    to: &Place,
    message: &Outgoing,
    entry: &SendResultEntry,
    own_entry: bool,
) -> Result<Stored, CallError> {
    let code = entry.status.as_ref().and_then(|status| Code::try_from(status.code).ok());
    let status = match code {
        Some(Code::MasterPersistenceTimeout) => SendStatus::FlushDiskTimeout,
        Some(Code::SlavePersistenceTimeout) => SendStatus::FlushSlaveTimeout,
        Some(Code::HaNotAvailable) => SendStatus::SlaveNotAvailable,
        _ => {
            accept(&to.address, entry.status.as_ref())?;
            SendStatus::Stored
        }
    };
    Ok(Stored {
        id: message.id.clone(),
        queue: to.queue.id,
        offset: (own_entry && message.message.delivery.is_none()).then_some(entry.offset),
        recall: Some(entry.recall_handle.clone()).filter(|handle| !handle.is_empty()),
        status,
        transaction: Some(&entry.transaction_id).filter(|id| !id.is_empty()).map(|id| Transaction {
            address: to.address.clone(),
            topic: to.queue.topic.clone(),
            broker: to.queue.broker.clone(),
            message_id: message.id.clone(),
            id: id.clone(),
            half_offset: 0,
            physical_offset: 0,
        }),
    })
}
