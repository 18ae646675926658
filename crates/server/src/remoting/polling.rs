//! Questions about pops: whether one would find a message, and how many are waiting.

use std::time::Duration;

use redstart_engine::{Engine, QueueId, TopicName};
use redstart_wire::remoting::code;

use super::{
    pop::{POLL_MAX, SLACK},
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::shard::AwaitedPops;

/// Whether a pop would find a message; waits for one as long as the request says.
pub(super) async fn notification(request: &Request) -> Result<Answer, Refusal> {
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    let (group, topic) = (request.group("consumerGroup")?, TopicName::new(request.required("topic")?)?);
    let queue: i32 = request.number("queueId")?;
    let poll: i64 = request.number("pollTime")?;
    request.ensure_group(&group).await?;
    let wait = Duration::from_millis(u64::try_from(poll).unwrap_or(0)).min(POLL_MAX).saturating_sub(SLACK);
    let until = tokio::time::Instant::now() + wait;
    loop {
        let (group, topic) = (group.clone(), topic.clone());
        let all = request.look(move |engine, _| engine.progress(&group, &topic)).await??;
        let mut wanted = all.iter().filter(|one| queue < 0 || one.queue.0 == queue as u32);
        let waiting = wanted.any(|one| one.lag() > one.in_flight as u64);
        if waiting || tokio::time::Instant::now() >= until {
            return Ok(Answer::ok().with("hasMsg", waiting).with("pollingFull", false));
        }
        tokio::time::sleep_until((tokio::time::Instant::now() + LOOK_EVERY).min(until)).await;
    }
}

/// How many pops wait for a queue. Queue -1 counts only the pops that take from any queue.
pub(super) async fn info(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.group("consumerGroup")?, TopicName::new(request.required("topic")?)?);
    let queue: i32 = request.number("queueId")?;
    let of = AwaitedPops { group, topic, queue: u32::try_from(queue).ok().map(QueueId) };
    let asked = of.clone();
    request.ask(move |engine, _| may_wait(engine, &asked)).await??;
    let waiting = request.context.shard.count_pops(of)?.await?;
    Ok(Answer::ok().with("pollingNum", waiting))
}

/// Checks that such a pop would be accepted.
fn may_wait(engine: &Engine, pops: &AwaitedPops) -> Result<(), Refusal> {
    let AwaitedPops { group, topic, queue } = pops;
    let view = engine.topic(topic).ok_or_else(|| Refusal::unknown_topic(topic.as_str()))?;
    let no = |why: String| Err(Refusal::new(code::NO_PERMISSION, why));
    if !view.config.permission.read {
        return no(format!("the topic[{topic}] peeking message is forbidden"));
    }
    let queues = view.queues.len();
    if let Some(queue) = queue.filter(|queue| queue.0 as usize >= queues) {
        return Err(Refusal::invalid(format!("queueId[{queue}] is illegal: topic {topic} has {queues}")));
    }
    match engine.group(group) {
        None => Err(Refusal::unknown_group(group.as_str())),
        Some(group) if !group.config.enabled => {
            no(format!("subscription group no permission, {}", pops.group))
        }
        Some(_) => Ok(()),
    }
}
