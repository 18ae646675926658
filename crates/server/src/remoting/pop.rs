//! Pop over Remoting: messages are locked for whoever got them, and acked one by one.
//!
//! A client builds its handles out of the answer: what is left of a delivery is its queue, its offset, and when its time is
//! out (pop time + invisible time). That names one delivery: the next of the same message ends later.

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
/// A request that was under way for longer than it wanted to wait is not served: its client has gone on.
const LATE: i64 = 500;
/// The answer is on its way before the client gives up.
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
    let start = if request.number_or("initMode", 0)? == 0 { Start::Earliest } else { Start::Latest };
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
        not_with: None,
        in_order: request.truth("order").unwrap_or(false),
        retries: false,
        wait,
    };
    match request.context.returns.receive(request.context.shard.pop(pop)?).await? {
        Ok(popped) => deliver(request, &topic, popped, invisible).await,
        Err(ReceiveError::Unavailable(Unavailable::Overloaded { .. })) => Ok(nothing(code::POLLING_FULL)),
        Err(error) => Err(error.into()),
    }
}

fn is_late(request: &Request, poll: i64) -> Result<bool, Refusal> {
    let born: i64 = request.number_or("bornTime", 0)?;
    let now = SystemClock.now().0 as i64;
    Ok(born > 0 && now.saturating_sub(born).saturating_sub(poll.max(0)) > LATE)
}

/// Clients read the fields whatever the code is.
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
    // Whatever ends this before the answer is written gives the messages back.
    let mut handover = Handover::new(&request.context.returns, &popped);
    // Clients sort the offsets of a queue and expect to find them in that order.
    popped.deliveries.sort_by_key(|delivery| (delivery.receipt.queue.queue, delivery.receipt.offset));
    let places: Vec<Place> = popped.deliveries.iter().map(Place::delivered).collect();
    let records = records::read(request, topic, &places, &redstart_engine::Filter::All).await?;
    let receipts: Vec<Receipt> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
    let delay = if records.failed.is_some() { READ_AGAIN_AFTER } else { Duration::ZERO };
    handover.give_back(&receipts[records.end..], delay);
    settle(request, &mut handover, &receipts, &records);
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

/// Time until a message that cannot be written for this protocol comes again.
const UNFIT_DELAY: Duration = Duration::from_secs(10);

/// What is proven to be lost is done with. What this protocol has no words for counts as failed: it ends among the dead
/// letters of its group, where other clients can read it.
fn settle(request: &Request, handover: &mut Handover, receipts: &[Receipt], records: &Records) {
    if records.lost.is_empty() && records.unfit.is_empty() {
        return;
    }
    let lost: Vec<(Receipt, Proof)> = records.lost.iter().map(|(n, proof)| (receipts[*n], *proof)).collect();
    let unfit: Vec<Receipt> = records.unfit.iter().map(|n| receipts[*n]).collect();
    lost.iter().for_each(|(receipt, _)| handover.exclude(&[*receipt]));
    handover.exclude(&unfit);
    // Without room for this they come again when their time is out.
    drop(request.context.shard.ask(move |engine, now| {
        for (receipt, proof) in lost {
            let _ = engine.pass_over(receipt, proof);
        }
        for receipt in unfit {
            let _ = engine.change_invisible(receipt, UNFIT_DELAY, now);
        }
    }));
}

/// A delivery as a client names it.
#[derive(Debug, Clone)]
struct Named {
    group: GroupName,
    topic: TopicName,
    queue: QueueId,
    offset: QueueOffset,
    visible_at: Timestamp,
}

impl Named {
    fn read(request: &Request) -> Result<Named, Refusal> {
        let illegal = |why: &str| Refusal::new(code::MESSAGE_ILLEGAL, why);
        let handle = PopHandle::read(request.required("extraInfo")?)
            .ok_or_else(|| illegal("the receipt handle is malformed"))?;
        let (queue, offset) = (queue_id(request)?, request.number::<i64>("offset")?);
        if i64::from(handle.queue_id) != i64::from(queue) || handle.queue_offset != offset {
            return Err(illegal("the receipt handle is of another message"));
        }
        Ok(Named {
            group: request.group("consumerGroup")?,
            topic: TopicName::new(request.required("topic")?)?,
            queue: QueueId(queue),
            offset: QueueOffset(u64::try_from(offset).map_err(|_| illegal("the offset is negative"))?),
            visible_at: time(handle.pop_time, handle.invisible_time)
                .ok_or_else(|| illegal("the receipt handle's time cannot be"))?,
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

/// Where a queue begins and ends; the protocol's own codes for those that are not there.
fn check(engine: &Engine, named: &Named) -> Result<(), Refusal> {
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

/// An ack that comes late or twice is answered like the first: there is nothing that the client could do.
pub(super) async fn ack(request: &Request) -> Result<Answer, Refusal> {
    let named = Named::read(request)?;
    request
        .ask(move |engine, now| {
            check(engine, &named)?;
            acked(engine, &named, now);
            Ok::<_, Refusal>(Answer::ok())
        })
        .await?
}

fn acked(engine: &mut Engine, named: &Named, now: Timestamp) {
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
        let visible_at = visible_at.ok_or_else(|| Refusal::invalid("the time of the batch cannot be"))?;
        all.extend(offsets.into_iter().filter_map(|offset| {
            let offset = QueueOffset(u64::try_from(offset).ok()?);
            let (group, topic) = (group.clone(), topic.clone());
            Some(Named { group, topic, queue: QueueId(queue), offset, visible_at })
        }));
    }
    if all.is_empty() {
        return Err(empty());
    }
    request
        .ask(move |engine, now| {
            for named in &all {
                acked(engine, named, now);
            }
        })
        .await?;
    Ok(Answer::ok())
}

pub(super) async fn change_invisible(request: &Request) -> Result<Answer, Refusal> {
    let named = Named::read(request)?;
    let time: i64 = request.number("invisibleTime")?;
    let time = u64::try_from(time).map_err(|_| Refusal::invalid("invisibleTime must not be negative"))?;
    let at = request
        .ask(move |engine, now| {
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
