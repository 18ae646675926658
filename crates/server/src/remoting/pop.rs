//! Pop over Remoting: a popped message is invisible to other consumers for a time, and is acked by itself.
//!
//! A client builds its handles from the answer. A handle holds the queue, the offset and the end of the invisible time (pop
//! time + invisible time), which together name one delivery: the next delivery of the same message ends later.

use std::time::Duration;

use redstart_engine::{
    AckError, Engine, GroupName, Popped, Proof, QueueId, QueueOffset, READ_AGAIN_AFTER, Receipt, Start,
    Timestamp, TopicName,
};
use redstart_wire::remoting::{PopHandle, PopOffsets, body::BatchAcks, code};

use super::{
    members,
    pull::queue_id,
    records::{self, Place, Records},
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::{
    handover::Handover,
    shard::{Clock, PopRequest, ReceiveError, SystemClock, Unavailable},
};

const BATCH_MAX: i32 = 32;
pub(super) const POLL_MAX: Duration = Duration::from_secs(60);
/// Milliseconds after which a request that arrives late is not served: its client has given it up.
const LATE: i64 = 500;
/// A poll ends this much earlier than asked, so that the answer arrives before the client gives up.
pub(super) const SLACK: Duration = Duration::from_millis(50);
/// Acks of one request.
const ACKS_MAX: usize = 4096;

pub(super) async fn pop(request: &Request) -> Result<Answer, Refusal> {
    let group = request.group("consumerGroup")?;
    let topic = TopicName::new(request.required("topic")?)?;
    let queue: i32 = request.number("queueId")?;
    let max: i32 = request.number("maxMsgNums")?;
    let invisible: i64 = request.number("invisibleTime")?;
    let poll: i64 = request.number("pollTime")?;
    let start = start(request)?;
    if max > BATCH_MAX {
        return Err(Refusal::invalid(format!("{max} messages asked for, the limit is {BATCH_MAX}")));
    }
    let invisible = u64::try_from(invisible).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
    let invisible = invisible.ok_or_else(|| Refusal::invalid("invisibleTime must be above 0"))?;
    if is_late(request, poll)? {
        return Ok(nothing(code::POLLING_TIMEOUT));
    }
    let filter = members::filter(request.field("expType"), request.field("exp").unwrap_or("*"))
        .map_err(|error| Refusal::subscription(&error))?;
    request.ensure_group(&group).await?;
    let wait = Duration::from_millis(u64::try_from(poll).unwrap_or(0)).min(POLL_MAX).saturating_sub(SLACK);
    let pop = PopRequest {
        group,
        topic: topic.clone(),
        queue: u32::try_from(queue).ok().map(QueueId),
        max: usize::try_from(max).unwrap_or(0),
        invisible,
        filter,
        attempt: request.field("attemptId").filter(|attempt| !attempt.is_empty()).map(str::to_owned),
        client: request.peer.remote.to_string(),
        start,
        one_per_group: false,
        refused_attribute: None,
        only_if_begun: false,
        in_order: request.truth("order").unwrap_or(false),
        with_retry_topic: false,
        wait,
    };
    match request.context.node.shards.pop(request.context.served(), pop).await? {
        Ok(popped) => deliver(request, &topic, popped, invisible).await,
        Err(ReceiveError::Unavailable(Unavailable::Overloaded { .. })) => Ok(nothing(code::POLLING_FULL)),
        Err(error) => Err(error.into()),
    }
}

/// Clients send the mode that their consume-from-where stands for.
fn start(request: &Request) -> Result<Start, Refusal> {
    if request.field("initMode").is_none() {
        return Ok(Start::Configured);
    }
    Ok(if request.number::<i32>("initMode")? == 0 { Start::Earliest } else { Start::Latest })
}

fn is_late(request: &Request, poll: i64) -> Result<bool, Refusal> {
    let born: i64 = request.number_or("bornTime", 0)?;
    let now = SystemClock.now().0 as i64;
    Ok(born > 0 && now.saturating_sub(born).saturating_sub(poll.max(0)) > LATE)
}

/// Clients read these fields with every code.
fn nothing(code: i32) -> Answer {
    Answer::new(code).with("popTime", 0).with("invisibleTime", 0).with("reviveQid", 0).with("restNum", 0)
}

async fn deliver(
    request: &Request,
    topic: &TopicName,
    mut popped: Popped,
    invisible: Duration,
) -> Result<Answer, Refusal> {
    if popped.deliveries.is_empty() {
        return Ok(nothing(code::POLLING_TIMEOUT));
    }
    // If this ends before the answer is written, dropping the handover returns the messages to their queues.
    let mut handover = Handover::new(&request.context.give_back_queue, &popped);
    // Clients sort the offsets of a queue and expect to find them in that order.
    popped.deliveries.sort_by_key(|delivery| (delivery.receipt.queue.queue, delivery.receipt.offset));
    let places: Vec<Place> = popped.deliveries.iter().map(Place::delivered).collect();
    let records = records::read(request, topic, &places, &redstart_engine::Filter::All).await?;
    let receipts: Vec<Receipt> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
    let delay = if records.failed.is_some() { READ_AGAIN_AFTER } else { Duration::ZERO };
    handover.give_back(&receipts[records.end..], delay);
    skip_undeliverable(request, &mut handover, &receipts, &records);
    if let (Some(error), true) = (&records.failed, records.written.is_empty()) {
        return Err(Refusal::unread(error));
    }
    if records.written.is_empty() {
        return Ok(nothing(code::POLLING_TIMEOUT));
    }
    let mut offsets = PopOffsets::default();
    for place in records.written.iter().map(|n| &places[*n]) {
        offsets.add(place.queue.0 as i32, place.offset.0 as i64);
    }
    let invisible = invisible.as_millis() as u64;
    let answer = Answer::ok()
        .with("popTime", popped.visible_at.0.saturating_sub(invisible))
        .with("invisibleTime", invisible)
        .with("reviveQid", 0)
        .with("restNum", 0)
        .with("startOffsetInfo", offsets.start_info())
        .with("msgOffsetInfo", offsets.message_info());
    Ok(Answer { body: records.body, grant: Some(records.grant), handover: Some(handover), ..answer })
}

/// Delay until a message that cannot be encoded for this protocol is delivered again.
const UNENCODABLE_DELAY: Duration = Duration::from_secs(10);

/// Passes over messages that are proven to be lost. A message that this protocol cannot encode counts as failed: it ends as a
/// dead letter of its group, which gRPC clients can read.
fn skip_undeliverable(request: &Request, handover: &mut Handover, receipts: &[Receipt], records: &Records) {
    if records.lost.is_empty() && records.unencodable.is_empty() {
        return;
    }
    let lost: Vec<(Receipt, Proof)> = records.lost.iter().map(|(n, proof)| (receipts[*n], *proof)).collect();
    let unencodable: Vec<Receipt> = records.unencodable.iter().map(|n| receipts[*n]).collect();
    lost.iter().for_each(|(receipt, _)| handover.exclude(&[*receipt]));
    handover.exclude(&unencodable);
    // If the shard is overloaded, they are delivered again after their invisible time.
    drop(request.context.shard.ask(move |engine, now| {
        for (receipt, proof) in lost {
            let _ = engine.pass_over(receipt, proof);
        }
        for receipt in unencodable {
            let _ = engine.change_invisible(receipt, UNENCODABLE_DELAY, now);
        }
    }));
}

/// A delivery, as a client's handle names it.
#[derive(Debug, Clone)]
struct NamedDelivery {
    group: GroupName,
    topic: TopicName,
    queue: QueueId,
    offset: QueueOffset,
    visible_at: Timestamp,
}

impl NamedDelivery {
    fn read(request: &Request) -> Result<NamedDelivery, Refusal> {
        let illegal = |why: &str| Refusal::new(code::MESSAGE_ILLEGAL, why);
        let handle = PopHandle::read(request.required("extraInfo")?)
            .ok_or_else(|| illegal("the receipt handle is malformed"))?;
        let (queue, offset) = (queue_id(request)?, request.number::<i64>("offset")?);
        if i64::from(handle.queue_id) != i64::from(queue) || handle.queue_offset != offset {
            return Err(illegal("the receipt handle belongs to another message"));
        }
        Ok(NamedDelivery {
            group: request.group("consumerGroup")?,
            topic: TopicName::new(request.required("topic")?)?,
            queue: QueueId(queue),
            offset: QueueOffset(u64::try_from(offset).map_err(|_| illegal("the offset is negative"))?),
            visible_at: time(handle.pop_time, handle.invisible_time)
                .ok_or_else(|| illegal("the time in the receipt handle is invalid"))?,
        })
    }

    /// The delivery's receipt, when it is the latest of its message.
    fn receipt(&self, engine: &Engine) -> Option<Receipt> {
        engine.receipt_of(&self.group, &self.topic, self.queue, self.offset, self.visible_at)
    }
}

fn time(pop_time: i64, invisible: i64) -> Option<Timestamp> {
    u64::try_from(pop_time.checked_add(invisible)?).ok().map(Timestamp)
}

/// Checks that the topic, the queue and the offset exist.
fn check(engine: &Engine, named: &NamedDelivery) -> Result<(), Refusal> {
    if engine.topic_id(&named.topic).is_none() {
        return Err(Refusal::unknown_topic(named.topic.as_str()));
    }
    let (min, end) = engine
        .offset_range(&named.topic, named.queue)
        .map_err(|error| Refusal::new(code::MESSAGE_ILLEGAL, error.to_string()))?;
    if named.offset < min || named.offset > end {
        let why = format!("offset {} is not from {min} to {end}", named.offset);
        return Err(Refusal::new(code::NO_MESSAGE, why));
    }
    Ok(())
}

/// A late or repeated ack is answered like the first: the client could do nothing about it.
pub(super) async fn ack(request: &Request) -> Result<Answer, Refusal> {
    let named = NamedDelivery::read(request)?;
    request
        .record(move |engine, now| {
            check(engine, &named)?;
            acked(engine, &named, now);
            Ok::<_, Refusal>(Answer::ok())
        })
        .await?
}

fn acked(engine: &mut Engine, named: &NamedDelivery, now: Timestamp) {
    if let Some(receipt) = named.receipt(engine)
        && let Err(error) = engine.ack(receipt, now)
    {
        tracing::debug!(%error, topic = %named.topic, offset = %named.offset, "an ack came too late");
    }
}

pub(super) async fn batch_ack(request: &Request) -> Result<Answer, Refusal> {
    let empty = || Refusal::new(code::NO_MESSAGE, "there is nothing to ack");
    if request.body.is_empty() {
        return Err(empty());
    }
    let BatchAcks { acks, .. } = request.json()?;
    let mut all = Vec::new();
    for ack in &acks {
        let offsets = ack.offsets(ACKS_MAX.saturating_sub(all.len()));
        let offsets =
            offsets.ok_or_else(|| Refusal::invalid(format!("a bit set of over {ACKS_MAX} acks")))?;
        let (group, topic) = (GroupName::new(&ack.group)?, TopicName::new(&ack.topic)?);
        let queue = u32::try_from(ack.queue_id).map_err(|_| Refusal::invalid("the queue id is negative"))?;
        let visible_at = time(ack.pop_time, ack.invisible_time);
        let visible_at = visible_at.ok_or_else(|| Refusal::invalid("the time of the batch is invalid"))?;
        all.extend(offsets.into_iter().filter_map(|offset| {
            let offset = QueueOffset(u64::try_from(offset).ok()?);
            let (group, topic) = (group.clone(), topic.clone());
            Some(NamedDelivery { group, topic, queue: QueueId(queue), offset, visible_at })
        }));
    }
    if all.is_empty() {
        return Err(empty());
    }
    request
        .record(move |engine, now| {
            for named in &all {
                acked(engine, named, now);
            }
        })
        .await?;
    Ok(Answer::ok())
}

pub(super) async fn change_invisible(request: &Request) -> Result<Answer, Refusal> {
    let named = NamedDelivery::read(request)?;
    let time: i64 = request.number("invisibleTime")?;
    let time = u64::try_from(time).map_err(|_| Refusal::invalid("invisibleTime must not be negative"))?;
    let at = request
        .record(move |engine, now| {
            check(engine, &named)?;
            let receipt = named.receipt(engine).ok_or(AckError::Expired)?;
            engine.change_invisible(receipt, Duration::from_millis(time), now)?;
            let until = engine.visible_at(receipt).unwrap_or(now);
            Ok::<_, Refusal>(until)
        })
        .await??;
    let pop_time = at.0.saturating_sub(time);
    Ok(Answer::ok().with("popTime", pop_time).with("invisibleTime", time).with("reviveQid", 0))
}
