use std::time::Duration;

use redstart_engine::{AckError, ForwardError, Receipt};
use redstart_wire::v2::{
    AckMessageRequest, AckMessageResponse, AckMessageResultEntry, ChangeInvisibleDurationRequest, Code,
    ForwardMessageToDeadLetterQueueRequest,
};

use super::{
    convert::from_duration,
    service::Service,
    status::{Refusal, ok, summary},
};
use crate::shard::ChangeError;

const ENTRIES_MAX: usize = 1024;
/// A message that is given back does not come again at once: some clients compute no delay of their own.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);

fn unknown_handle() -> Refusal {
    Refusal::new(Code::InvalidReceiptHandle, "the receipt handle was not made by this broker")
}

impl Service {
    pub(super) async fn ack(&self, request: AckMessageRequest) -> Result<AckMessageResponse, Refusal> {
        if request.entries.is_empty() || request.entries.len() > ENTRIES_MAX {
            let why = format!("{} entries; there must be 1 to {ENTRIES_MAX}", request.entries.len());
            return Err(Refusal::new(Code::BadRequest, why));
        }
        let handles = request
            .entries
            .iter()
            .map(|entry| (self.signer.read_receipt(&entry.receipt_handle), entry.lite_topic.clone()))
            .collect();
        let handles: Vec<Option<Receipt>> = self.fitting(handles).await?;
        let receipts: Vec<Receipt> = handles.iter().flatten().copied().collect();
        self.renewal.remove(&receipts);
        let mut results = self.shard.ack(receipts)?.await?.into_iter();
        let entries: Vec<AckMessageResultEntry> = request
            .entries
            .into_iter()
            .zip(handles)
            .map(|(entry, handle)| {
                let result = match handle {
                    Some(_) => results.next().unwrap_or(Err(AckError::Unknown)).map_err(Refusal::from),
                    None => Err(unknown_handle()),
                };
                AckMessageResultEntry {
                    message_id: entry.message_id,
                    receipt_handle: entry.receipt_handle,
                    status: Some(result.map_or_else(|refusal| refusal.status(), |()| ok())),
                }
            })
            .collect();
        Ok(AckMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        })
    }

    async fn one_receipt(&self, handle: &str, lite: Option<&String>) -> Result<Receipt, Refusal> {
        let receipt = (self.signer.read_receipt(handle), lite.cloned());
        self.fitting(vec![receipt]).await?.into_iter().flatten().next().ok_or_else(unknown_handle)
    }

    pub(super) async fn change_invisible(
        &self,
        request: ChangeInvisibleDurationRequest,
    ) -> Result<String, Refusal> {
        let receipt = self.one_receipt(&request.receipt_handle, request.lite_topic.as_ref()).await?;
        let delay = request.invisible_duration.as_ref().and_then(from_duration).ok_or_else(|| {
            Refusal::new(Code::IllegalInvisibleTime, "the invisible duration is missing or negative")
        })?;
        let delay = delay.max(RETRY_DELAY_MIN);
        self.renewal.remove(&[receipt]);
        // A lite consumer that pauses has not failed.
        let suspends = request.suspend() && request.lite_topic.is_some();
        let changed = self
            .ask(move |engine, now| match suspends {
                true => engine.suspend(receipt, delay, now),
                false => engine.change_invisible(receipt, delay, now),
            })
            .await??;
        Ok(self.signer.receipt(changed))
    }

    pub(super) async fn forward(
        &self,
        request: ForwardMessageToDeadLetterQueueRequest,
    ) -> Result<(), Refusal> {
        let receipt = self.one_receipt(&request.receipt_handle, request.lite_topic.as_ref()).await?;
        self.renewal.remove(&[receipt]);
        let forward = || self.shard.change(move |engine, now| engine.forward_to_dead_letters(receipt, now));
        match forward()?.await? {
            // The first dead letter of a group makes its topic; when that is durable there is somewhere to go.
            Err(ChangeError::Refused(ForwardError::NoTopic { .. })) => {
                self.change(|engine, _| Ok::<_, Refusal>(engine.barrier())).await?;
                forward()?.await?.map_err(ChangeError::into)
            }
            other => other.map_err(ChangeError::into),
        }
    }
}
