//! Receiving by pop, and what becomes of a delivery.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use redstart_wire::remoting::{
    Command, FieldError, PopHandle, StoredMessage,
    body::{BatchAck, BatchAcks},
    code, offset_message_id, read_properties,
};

use super::{Session, convert::received, malformed, refused};
use crate::{
    CallError,
    message_id::now_ms,
    transport::{Fetch, Fetched, Receipt},
};

/// Brokers refuse to pop more at once.
pub(crate) const POP_MAX: usize = 32;
const ANY_QUEUE: i32 = -1;
const FIRST: i32 = 0;
const LAST: i32 = 1;
/// The delay level by which a message that is sent back becomes a dead letter.
const GIVE_UP: i32 = -1;

impl Session {
    pub async fn receive(&self, fetch: &Fetch<'_>) -> Result<Vec<Fetched>, CallError> {
        let (kind, expression) = fetch.filter.fields();
        let queue = &fetch.from.queue;
        let request = Command::request(code::POP_MESSAGE)
            .and("consumerGroup", self.role.group())
            .and("topic", &queue.topic)
            .and("queueId", ANY_QUEUE)
            .and("maxMsgNums", fetch.max.clamp(1, POP_MAX))
            .and("invisibleTime", fetch.invisible.as_millis() as i64)
            .and("pollTime", fetch.wait.as_millis() as i64)
            .and("bornTime", now_ms())
            .and("initMode", if fetch.from_start { FIRST } else { LAST })
            .and("expType", kind)
            .and("exp", expression)
            .and("order", fetch.fifo)
            .and("bname", &queue.broker);
        let within = fetch.wait + self.net.settings.timeout;
        let answer = self.net.ask(&fetch.from.address, request, within).await?;
        match answer.code {
            code::SUCCESS => self.popped(fetch, answer),
            code::POLLING_TIMEOUT | code::PULL_NOT_FOUND | code::PULL_RETRY_IMMEDIATELY => Ok(Vec::new()),
            _ => Err(refused(&fetch.from.address, answer)),
        }
    }

    fn popped(&self, fetch: &Fetch<'_>, mut answer: Command) -> Result<Vec<Fetched>, CallError> {
        let address = &fetch.from.address;
        let read = |error: FieldError| malformed(address, error);
        let batch = Batch {
            pop_time: answer.number("popTime").map_err(read)?,
            invisible: answer.number("invisibleTime").map_err(read)?,
            revive_queue: answer.number("reviveQid").map_err(read)?,
            broker: &fetch.from.queue.broker,
            starts: starts(answer.field("startOffsetInfo").unwrap_or_default()),
        };
        let mut body = std::mem::take(&mut answer.body);
        let mut fetched = Vec::new();
        while !body.is_empty() {
            let Some(stored) = StoredMessage::decode(&mut body) else {
                // What was read before it is worth more than an error.
                if fetched.is_empty() {
                    return Err(malformed(address, "a message that cannot be read"));
                }
                tracing::warn!(%address, "a message of a receive cannot be read; those after it are left out");
                break;
            };
            let receipt = batch.receipt(address, &fetch.from.queue.topic, &stored);
            let mut received = received(address, batch.broker, &stored);
            received.queue.topic.clone_from(&fetch.from.queue.topic);
            fetched.push(Fetched { received, receipt });
        }
        Ok(fetched)
    }

    /// The topic that a delivery is really of, by the mark in its handle: brokers keep what comes again in topics of their own.
    fn real_topic(&self, receipt: &Receipt, mark: u8) -> String {
        let (group, topic) = (self.role.group(), &receipt.topic);
        match mark {
            1 => format!("%RETRY%{group}_{topic}"),
            2 => format!("%RETRY%{group}+{topic}"),
            _ => topic.clone(),
        }
    }

    fn about(&self, code: i32, receipt: &Receipt) -> Command {
        let mark = PopHandle::read(&receipt.handle).map_or(0, |handle| handle.mark);
        Command::request(code)
            .and("consumerGroup", self.role.group())
            .and("topic", self.real_topic(receipt, mark))
            .and("queueId", receipt.queue)
            .and("extraInfo", &receipt.handle)
            .and("offset", receipt.offset)
    }

    pub async fn ack(&self, receipts: &[Receipt]) -> Vec<Result<(), CallError>> {
        if let [receipt] = receipts {
            return vec![self.ack_one(receipt).await];
        }
        let mut results: Vec<Option<Result<(), CallError>>> = receipts.iter().map(|_| None).collect();
        for (address, places) in by_address(receipts) {
            match self.ack_batch(&address, places.iter().map(|place| &receipts[*place])).await {
                Err(error)
                    if error.code().is_some_and(|code| code.number == code::REQUEST_CODE_NOT_SUPPORTED) =>
                {
                    for place in places {
                        results[place] = Some(self.ack_one(&receipts[place]).await);
                    }
                }
                result => places.into_iter().for_each(|place| results[place] = Some(result.clone())),
            }
        }
        results.into_iter().map(|result| result.unwrap_or(Ok(()))).collect()
    }

    async fn ack_one(&self, receipt: &Receipt) -> Result<(), CallError> {
        let request = self.about(code::ACK_MESSAGE, receipt);
        self.net.call(&receipt.address, request, self.net.settings.timeout).await.map(drop)
    }

    async fn ack_batch<'a>(
        &self,
        address: &str,
        receipts: impl Iterator<Item = &'a Receipt>,
    ) -> Result<(), CallError> {
        let body = batch_acks(self.role.group(), receipts);
        let body = serde_json::to_vec(&body).map_err(|error| malformed(address, error))?;
        let request = Command { body: body.into(), ..Command::request(code::BATCH_ACK_MESSAGE) };
        self.net.call(address, request, self.net.settings.timeout).await.map(drop)
    }

    pub async fn change_invisible(&self, receipt: &Receipt, time: Duration) -> Result<Receipt, CallError> {
        let request = self
            .about(code::CHANGE_MESSAGE_INVISIBLETIME, receipt)
            .and("invisibleTime", time.as_millis() as i64);
        let answer = self.net.call(&receipt.address, request, self.net.settings.timeout).await?;
        let read = |error: FieldError| malformed(&receipt.address, error);
        let old = PopHandle::read(&receipt.handle)
            .ok_or_else(|| malformed(&receipt.address, "a receipt handle that cannot be read"))?;
        let handle = PopHandle {
            start_offset: receipt.offset,
            pop_time: answer.number("popTime").map_err(read)?,
            invisible_time: answer.number("invisibleTime").map_err(read)?,
            revive_queue: answer.number("reviveQid").map_err(read)?,
            ..old
        };
        Ok(Receipt { handle: handle.text(), ..receipt.clone() })
    }

    /// Sends the message back with the order to give it up, and then acks the delivery: brokers other than Redstart know no
    /// connection between the two.
    pub async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), CallError> {
        let request = Command::request(code::CONSUMER_SEND_MSG_BACK)
            .with_field("offset", receipt.physical_offset)
            .with_field("group", self.role.group())
            .with_field("delayLevel", GIVE_UP)
            .with_field("originMsgId", &receipt.message_id)
            .with_field("originTopic", &receipt.topic)
            .with_field("unitMode", false)
            .with_field("maxReconsumeTimes", 16)
            .with_field("reason", reason);
        self.net.call(&receipt.address, request, self.net.settings.timeout).await?;
        match self.ack_one(receipt).await {
            Err(error) if error.code().is_some_and(crate::ServerCode::is_lost_receipt) => Ok(()),
            result => result,
        }
    }
}

/// What all deliveries of one answer have in common.
struct Batch<'a> {
    pop_time: i64,
    invisible: i64,
    revive_queue: i32,
    broker: &'a str,
    starts: HashMap<i32, i64>,
}

impl Batch<'_> {
    /// A message that comes again from an Apache broker has its handle with it; the others get one from the answer.
    fn receipt(&self, address: &Arc<str>, topic: &str, stored: &StoredMessage<'_>) -> Receipt {
        let properties = read_properties(&stored.properties);
        let own = properties.iter().find(|(name, _)| *name == "POP_CK").map(|(_, value)| (*value).to_owned());
        let id =
            properties.iter().find(|(name, _)| *name == "UNIQ_KEY").map(|(_, value)| (*value).to_owned());
        let made = || {
            let start_offset = self.starts.get(&stored.queue_id).copied().unwrap_or(stored.queue_offset);
            let handle = PopHandle {
                start_offset,
                pop_time: self.pop_time,
                invisible_time: self.invisible,
                revive_queue: self.revive_queue,
                mark: 0,
                broker: self.broker.to_owned(),
                queue_id: stored.queue_id,
                queue_offset: stored.queue_offset,
            };
            handle.text()
        };
        let handle = own.unwrap_or_else(made);
        // The handle names the place in the topic that the delivery is really of.
        let named = PopHandle::read(&handle);
        Receipt {
            address: address.clone(),
            topic: topic.to_owned(),
            queue: named.as_ref().map_or(stored.queue_id, |named| named.queue_id),
            offset: named.as_ref().map_or(stored.queue_offset, |named| named.queue_offset),
            handle,
            message_id: id.unwrap_or_else(|| offset_message_id(stored.store_host, stored.physical_offset)),
            attempt: u32::try_from(stored.reconsume_times).unwrap_or(0).saturating_add(1),
            physical_offset: stored.physical_offset,
        }
    }
}

/// `mark queue start;…`: where the batch of each queue of the topic itself begins.
fn starts(info: &str) -> HashMap<i32, i64> {
    let item = |item: &str| {
        let mut fields = item.split(' ');
        let (mark, queue, start) = (fields.next()?, fields.next()?, fields.next()?);
        (mark == "0").then_some((queue.parse().ok()?, start.parse().ok()?))
    };
    info.split(';').filter_map(item).collect()
}

fn by_address(receipts: &[Receipt]) -> Vec<(Arc<str>, Vec<usize>)> {
    let mut by_address: Vec<(Arc<str>, Vec<usize>)> = Vec::new();
    for (place, receipt) in receipts.iter().enumerate() {
        match by_address.iter_mut().find(|(address, _)| *address == receipt.address) {
            Some((_, places)) => places.push(place),
            None => by_address.push((receipt.address.clone(), vec![place])),
        }
    }
    by_address
}

/// Acks as bit sets: one for each batch of each queue.
fn batch_acks<'a>(group: &str, receipts: impl Iterator<Item = &'a Receipt>) -> BatchAcks {
    let mut acks: Vec<(BatchAck, Vec<u8>)> = Vec::new();
    let mut broker_name = String::new();
    for receipt in receipts {
        let Some(handle) = PopHandle::read(&receipt.handle) else { continue };
        let one = BatchAck {
            group: group.to_owned(),
            topic: receipt.topic.clone(),
            mark: handle.mark.to_string(),
            start_offset: handle.start_offset,
            queue_id: handle.queue_id,
            revive_queue: handle.revive_queue,
            pop_time: handle.pop_time,
            invisible_time: handle.invisible_time,
            bits: String::new(),
        };
        let Ok(bit) = usize::try_from(handle.queue_offset - handle.start_offset) else { continue };
        broker_name = handle.broker;
        let at = acks.iter().position(|(known, _)| *known == one).unwrap_or_else(|| {
            acks.push((one, Vec::new()));
            acks.len() - 1
        });
        let bits = &mut acks[at].1;
        if bits.len() <= bit / 8 {
            bits.resize(bit / 8 + 1, 0);
        }
        bits[bit / 8] |= 1 << (bit % 8);
    }
    let acks = acks.into_iter().map(|(ack, bits)| BatchAck { bits: STANDARD.encode(bits), ..ack });
    BatchAcks { broker_name, acks: acks.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(handle: &str) -> Receipt {
        let read = PopHandle::read(handle).expect("a handle");
        Receipt {
            address: "a:1".into(),
            topic: "t".to_owned(),
            handle: handle.to_owned(),
            message_id: "id".to_owned(),
            queue: read.queue_id,
            offset: read.queue_offset,
            attempt: 1,
            physical_offset: 0,
        }
    }

    #[test]
    fn starts_are_those_of_the_topic_itself() {
        assert_eq!(starts("0 1 10;1 0 7;0 0 5"), HashMap::from([(1, 10), (0, 5)]));
        assert_eq!(starts(""), HashMap::new());
        assert_eq!(starts("0 x 1;0;nonsense"), HashMap::new());
    }

    #[test]
    fn acks_of_one_batch_share_a_bit_set_and_come_back_as_their_offsets() {
        let receipts: Vec<Receipt> =
            ["10 5 60 0 0 b 2 10", "10 5 60 0 0 b 2 25", "10 5 60 0 0 b 3 11", "10 6 60 0 0 b 2 12"]
                .iter()
                .map(|handle| receipt(handle))
                .collect();
        let acks = batch_acks("g", receipts.iter());
        assert_eq!(acks.broker_name, "b");
        let offsets: Vec<_> = acks
            .acks
            .iter()
            .map(|ack| (ack.queue_id, ack.pop_time, ack.offsets(99).expect("bits")))
            .collect();
        assert_eq!(offsets, [(2, 5, vec![10, 25]), (3, 5, vec![11]), (2, 6, vec![12])]);
    }
}
