//! AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what a consumer does with a delivery.

use std::{collections::BTreeMap, sync::Arc};

use redstart_engine::{AckError, Engine, ForwardError, Receipt, Timestamp};
use redstart_wire::v2::{
    AckMessageEntry, AckMessageRequest, AckMessageResponse, AckMessageResultEntry,
    ChangeInvisibleDurationRequest, ChangeInvisibleDurationResponse, Code,
    ForwardMessageToDeadLetterQueueRequest,
};

use super::{
    admission::{Admitted, Refusable},
    convert::from_duration,
    refusal::{Refusal, ok, summary},
    service::Service,
};
use crate::{
    invisible_time::{RETRY_DELAY_MIN, not_early},
    scope::{Scope, ScopedError},
    shard::ChangeError,
    shards::{ServedShard, ShardNumber},
};

const ENTRIES_MAX: usize = 1024;
/// Length of an id or a handle, which are sent back. Those of this broker are far shorter.
const TEXT_LEN_MAX: usize = 1024;

fn unknown_handle() -> Refusal {
    Refusal::new(Code::InvalidReceiptHandle, "the receipt handle was not made by this broker")
}

/// One entry of an ack.
struct Acked {
    /// Its place in the request.
    at: usize,
    receipt: Receipt,
    lite: Option<String>,
}

/// Acks the entries that fit the scope. The results have the entries' places.
fn ack_on(
    engine: &mut Engine,
    scope: &Scope,
    entries: Vec<Acked>,
    now: Timestamp,
) -> Vec<(usize, Result<Receipt, Refusal>)> {
    let fit = |entry: Acked| {
        let checked = scope.check(engine, entry.receipt, entry.lite.as_deref());
        (entry.at, checked.map(|()| entry.receipt).map_err(Refusal::from))
    };
    let fitting: Vec<(usize, Result<Receipt, Refusal>)> = entries.into_iter().map(fit).collect();
    let receipts: Vec<Receipt> = fitting.iter().filter_map(|(_, fit)| fit.clone().ok()).collect();
    let mut acked = engine.ack_batch(&receipts, now).into_iter();
    let mut next = |receipt| match acked.next() {
        Some(Ok(())) => Ok(receipt),
        Some(Err(error)) => Err(error.into()),
        None => Err(AckError::Unknown.into()),
    };
    fitting.into_iter().map(|(at, fit)| (at, fit.and_then(&mut next))).collect()
}

impl Refusable for AckMessageRequest {
    type Answer = AckMessageResponse;

    /// Every entry is refused: some clients (Rust 5.0.0) look at the first entry whatever the status is.
    fn refused(self, refusal: &Refusal) -> AckMessageResponse {
        let fits = |entry: &AckMessageEntry| {
            entry.message_id.len() <= TEXT_LEN_MAX && entry.receipt_handle.len() <= TEXT_LEN_MAX
        };
        let entries =
            self.entries.into_iter().take(ENTRIES_MAX).filter(fits).map(|entry| AckMessageResultEntry {
                message_id: entry.message_id,
                receipt_handle: entry.receipt_handle,
                status: Some(refusal.status()),
            });
        AckMessageResponse { status: Some(refusal.status()), entries: entries.collect() }
    }
}

impl Refusable for ChangeInvisibleDurationRequest {
    type Answer = ChangeInvisibleDurationResponse;

    /// The old handle goes back: the Java client keeps the handle of the answer even when it is a refusal.
    fn refused(self, refusal: &Refusal) -> ChangeInvisibleDurationResponse {
        let status = Some(refusal.status());
        ChangeInvisibleDurationResponse { status, receipt_handle: self.receipt_handle }
    }
}

impl Service {
    pub(super) async fn ack(&self, request: AckMessageRequest) -> AckMessageResponse {
        let results = match self.try_ack(&request).await {
            Ok(results) => results,
            Err(refusal) => return request.refused(&refusal),
        };
        let entries: Vec<AckMessageResultEntry> = request
            .entries
            .into_iter()
            .zip(results)
            .map(|(entry, result)| AckMessageResultEntry {
                message_id: entry.message_id,
                receipt_handle: entry.receipt_handle,
                status: Some(result.map_or_else(|refusal| refusal.status(), |_| ok())),
            })
            .collect();
        AckMessageResponse {
            status: Some(summary(entries.iter().map(|entry| entry.status.as_ref()))),
            entries,
        }
    }

    /// One result for each entry.
    async fn try_ack(&self, request: &AckMessageRequest) -> Result<Vec<Result<Receipt, Refusal>>, Refusal> {
        if request.entries.is_empty() || request.entries.len() > ENTRIES_MAX {
            let why =
                format!("the request has {} entries; it must have 1 to {ENTRIES_MAX}", request.entries.len());
            return Err(Refusal::new(Code::BadRequest, why));
        }
        let longest =
            request.entries.iter().map(|entry| entry.message_id.len().max(entry.receipt_handle.len()));
        if let Some(len) = longest.max().filter(|len| *len > TEXT_LEN_MAX) {
            let why = format!("an id or handle has {len} bytes; the limit is {TEXT_LEN_MAX}");
            return Err(Refusal::new(Code::InvalidReceiptHandle, why));
        }
        let scope = Arc::new(self.scope(request.group.as_ref(), request.topic.as_ref())?);
        let mut results: Vec<Result<Receipt, Refusal>> = Vec::with_capacity(request.entries.len());
        // Almost always one shard: a consumer acks what it received together.
        let mut by_shard: BTreeMap<ShardNumber, Vec<Acked>> = BTreeMap::new();
        for (at, entry) in request.entries.iter().enumerate() {
            results.push(Err(unknown_handle()));
            if let Some((shard, receipt)) = self.signer.read_receipt(&entry.receipt_handle) {
                let acked = Acked { at, receipt, lite: entry.lite_topic.clone() };
                by_shard.entry(shard).or_default().push(acked);
            }
        }
        for (number, handles) in by_shard {
            let Some(shard) = self.shards.get(number) else { continue };
            let scope = scope.clone();
            let places: Vec<usize> = handles.iter().map(|acked| acked.at).collect();
            let answered = self.record(shard, move |engine, now| ack_on(engine, &scope, handles, now)).await;
            // What one shard refuses says nothing about the entries of another.
            let answered = answered
                .unwrap_or_else(|refusal| places.into_iter().map(|at| (at, Err(refusal.clone()))).collect());
            let acked: Vec<Receipt> = answered.iter().filter_map(|(_, result)| result.clone().ok()).collect();
            self.renewal.remove(number, &acked);
            answered.into_iter().for_each(|(at, result)| results[at] = result);
        }
        Ok(results)
    }

    /// The delivery of a handle, and its shard.
    fn delivery(&self, handle: &str) -> Result<(&ServedShard, Receipt), Refusal> {
        let (number, receipt) = self.signer.read_receipt(handle).ok_or_else(unknown_handle)?;
        Ok((self.shards.get(number).ok_or_else(unknown_handle)?, receipt))
    }

    pub(super) async fn change_invisible(
        &self,
        request: ChangeInvisibleDurationRequest,
    ) -> ChangeInvisibleDurationResponse {
        match self.try_change_invisible(&request).await {
            Ok(receipt_handle) => ChangeInvisibleDurationResponse { status: Some(ok()), receipt_handle },
            Err(refusal) => request.refused(&refusal),
        }
    }

    /// The handle that takes the place of the request's.
    async fn try_change_invisible(
        &self,
        request: &ChangeInvisibleDurationRequest,
    ) -> Result<String, Refusal> {
        let scope = self.scope(request.group.as_ref(), request.topic.as_ref())?;
        let (shard, receipt) = self.delivery(&request.receipt_handle)?;
        let lite = request.lite_topic.clone();
        // A lite consumer that suspends a message has not failed to process it.
        let suspends = request.suspend() && lite.is_some();
        let delay = request.invisible_duration.as_ref().and_then(from_duration).ok_or_else(|| {
            Refusal::new(Code::IllegalInvisibleTime, "the invisible duration is missing or negative")
        })?;
        let delay = not_early(delay.max(RETRY_DELAY_MIN));
        let changed = self
            .record(shard, move |engine, now| {
                scope.check(engine, receipt, lite.as_deref())?;
                let changed = match suspends {
                    true => engine.suspend(receipt, delay, now),
                    false => engine.change_invisible(receipt, delay, now),
                };
                changed.map_err(Refusal::from)
            })
            .await??;
        self.renewal.remove(shard.number, &[receipt]);
        Ok(self.signer.receipt(shard.number, changed))
    }

    pub(super) async fn forward(
        &self,
        Admitted { caller, request, .. }: Admitted<'_, ForwardMessageToDeadLetterQueueRequest>,
    ) -> Result<(), Refusal> {
        let reason = caller.dead_letter_reason();
        let scope = Arc::new(self.scope(request.group.as_ref(), request.topic.as_ref())?);
        let (shard, receipt) = self.delivery(&request.receipt_handle)?;
        // The message is read for its dead letter. Not on the owner thread, if it is not in memory.
        let place = shard.handle.query(move |engine, _| engine.place_of_delivery(receipt))?.await?;
        if let Ok(Some((position, size))) = place {
            // The owner thread reports a failure.
            drop(shard.handle.bodies().fetch(position, size).await);
        }
        let forward = || {
            let (scope, lite, reason) = (scope.clone(), request.lite_topic.clone(), reason.clone());
            shard.handle.change(move |engine, now| {
                scope.check(engine, receipt, lite.as_deref()).map_err(ScopedError::OutOfScope)?;
                engine.forward_to_dead_letters(receipt, reason.as_deref(), now).map_err(ScopedError::Engine)
            })
        };
        let forwarded = match forward()?.await? {
            // The first dead letter of a group creates its topic. After the barrier the topic is durable.
            Err(ChangeError::Refused(ScopedError::Engine(ForwardError::NoTopic { .. }))) => {
                self.change(shard, |engine, _| Ok::<_, Refusal>(engine.barrier())).await?;
                forward()?.await?
            }
            other => other,
        };
        forwarded?;
        self.renewal.remove(shard.number, &[receipt]);
        Ok(())
    }
}
