//! Receiving over gRPC, and what becomes of a delivery.

use std::{sync::Arc, time::Duration};

use redstart_wire::v2::{
    AckMessageEntry, AckMessageRequest, AckMessageResponse, Broker, ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse, Code, ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse, MessageQueue, ReceiveMessageRequest, ReceiveMessageResponse,
    receive_message_response::Content,
};

use super::{
    Session, accept,
    channel::Method,
    convert::{filter_expression, received},
    resource, wire_duration,
};
use crate::{
    CallError,
    transport::{Fetch, Fetched, Receipt},
};

const RECEIVE_MAX: usize = 32;
/// Acks of one request.
const ACKS_MAX: usize = 512;

impl Session {
    pub async fn receive(&self, fetch: &Fetch<'_>) -> Result<Vec<Fetched>, CallError> {
        let (address, queue) = (&fetch.from.address, &fetch.from.queue);
        let broker = Broker { name: queue.broker.clone(), id: 0, endpoints: None };
        let request = ReceiveMessageRequest {
            group: Some(resource(self.role().group())),
            message_queue: Some(MessageQueue {
                topic: Some(resource(&queue.topic)),
                id: -1,
                broker: Some(broker),
                ..MessageQueue::default()
            }),
            filter_expression: Some(filter_expression(fetch.filter)),
            batch_size: fetch.max.clamp(1, RECEIVE_MAX) as i32,
            invisible_duration: Some(wire_duration(fetch.invisible)),
            auto_renew: false,
            long_polling_timeout: Some(wire_duration(fetch.wait)),
            attempt_id: None,
        };
        self.telemetry.ensure(address);
        let within = fetch.wait + self.net.timeout;
        let call = async {
            let channel = self.net.channels.get(address).await?;
            let headers = self.net.headers(self.client_id(), Some(within));
            let (mut answers, _) = channel.begin(Method::ReceiveMessage, headers, &request, true).await?;
            let mut fetched = Vec::new();
            loop {
                match channel.next::<ReceiveMessageResponse>(&mut answers).await {
                    Ok(Some(answer)) => self.take(fetch, answer, &mut fetched)?,
                    Ok(None) => return Ok(fetched),
                    // What has arrived is delivered, and must not wait for its time to run out.
                    Err(error) if !fetched.is_empty() => {
                        tracing::debug!(%error, "a receive ended early");
                        return Ok(fetched);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let late = |_| CallError::Timeout { address: address.to_string(), within };
        tokio::time::timeout(within, call).await.map_err(late)?
    }

    fn take(
        &self,
        fetch: &Fetch<'_>,
        answer: ReceiveMessageResponse,
        fetched: &mut Vec<Fetched>,
    ) -> Result<(), CallError> {
        match answer.content {
            Some(Content::Message(message)) => {
                let queue = &fetch.from.queue;
                let (received, handle) = received(&queue.topic, &queue.broker, message);
                let receipt = Receipt {
                    address: fetch.from.address.clone(),
                    topic: queue.topic.clone(),
                    handle,
                    message_id: received.id.clone(),
                    queue: received.queue.id,
                    offset: received.offset,
                    attempt: received.attempt,
                    physical_offset: 0,
                };
                fetched.push(Fetched { received, receipt });
                Ok(())
            }
            Some(Content::Status(status)) if status.code == i32::from(Code::MessageNotFound) => Ok(()),
            Some(Content::Status(status)) => accept(&fetch.from.address, Some(&status)),
            Some(Content::DeliveryTimestamp(_)) | None => Ok(()),
        }
    }

    pub async fn ack(&self, receipts: &[Receipt]) -> Vec<Result<(), CallError>> {
        let mut results: Vec<Option<Result<(), CallError>>> = receipts.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..receipts.len()).collect();
        // One request for each address and topic.
        while let Some(first) = left.first().map(|place| &receipts[*place]) {
            let same = |place: &usize| {
                receipts[*place].address == first.address && receipts[*place].topic == first.topic
            };
            let (mut now, mut later): (Vec<usize>, Vec<usize>) = left.iter().partition(|place| same(place));
            later.extend(now.split_off(now.len().min(ACKS_MAX)));
            let acked =
                self.ack_of(&first.address, &first.topic, now.iter().map(|place| &receipts[*place])).await;
            for (index, place) in now.iter().enumerate() {
                results[*place] = Some(match &acked {
                    Ok(answer) => entry_result(&first.address, answer, index),
                    Err(error) => Err(error.clone()),
                });
            }
            left = later;
        }
        results.into_iter().map(|result| result.unwrap_or(Ok(()))).collect()
    }

    async fn ack_of<'a>(
        &self,
        address: &Arc<str>,
        topic: &str,
        receipts: impl Iterator<Item = &'a Receipt>,
    ) -> Result<AckMessageResponse, CallError> {
        let entry = |receipt: &Receipt| AckMessageEntry {
            message_id: receipt.message_id.clone(),
            receipt_handle: receipt.handle.clone(),
            lite_topic: None,
        };
        let request = AckMessageRequest {
            group: Some(resource(self.role().group())),
            topic: Some(resource(topic)),
            entries: receipts.map(entry).collect(),
        };
        self.call(address, Method::AckMessage, &request, self.net.timeout).await
    }

    pub async fn change_invisible(&self, receipt: &Receipt, time: Duration) -> Result<Receipt, CallError> {
        let request = ChangeInvisibleDurationRequest {
            group: Some(resource(self.role().group())),
            topic: Some(resource(&receipt.topic)),
            receipt_handle: receipt.handle.clone(),
            invisible_duration: Some(wire_duration(time)),
            message_id: receipt.message_id.clone(),
            lite_topic: None,
            suspend: None,
        };
        let answer: ChangeInvisibleDurationResponse =
            self.call(&receipt.address, Method::ChangeInvisibleDuration, &request, self.net.timeout).await?;
        accept(&receipt.address, answer.status.as_ref())?;
        Ok(Receipt { handle: answer.receipt_handle, ..receipt.clone() })
    }

    pub async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), CallError> {
        let request = ForwardMessageToDeadLetterQueueRequest {
            group: Some(resource(self.role().group())),
            topic: Some(resource(&receipt.topic)),
            receipt_handle: receipt.handle.clone(),
            message_id: receipt.message_id.clone(),
            delivery_attempt: receipt.attempt as i32,
            max_delivery_attempts: receipt.attempt as i32,
            lite_topic: None,
        };
        let address = &receipt.address;
        let within = self.net.timeout;
        self.telemetry.ensure(address);
        let call = async {
            let channel = self.net.channels.get(address).await?;
            let mut headers = self.net.headers(self.client_id(), Some(within));
            // Servers other than Redstart do not read it.
            if let Ok(reason) = http::HeaderValue::from_bytes(reason.as_bytes()) {
                headers.insert("x-mq-dead-letter-reason", reason);
            }
            let answer: ForwardMessageToDeadLetterQueueResponse =
                channel.unary(Method::ForwardMessageToDeadLetterQueue, headers, &request).await?;
            accept(address, answer.status.as_ref())
        };
        let late = |_| CallError::Timeout { address: address.to_string(), within };
        tokio::time::timeout(within, call).await.map_err(late)?
    }
}

fn entry_result(address: &str, answer: &AckMessageResponse, index: usize) -> Result<(), CallError> {
    match answer.entries.get(index) {
        Some(entry) => accept(address, entry.status.as_ref()),
        None => accept(address, answer.status.as_ref()),
    }
}
