//! Messages looked up by their address, or by their key.

use redstart_engine::{Filter, KeyAnswer, QueryError, Timestamp, TopicName};
use redstart_wire::remoting::code;

use super::{
    convert::read_physical_offset,
    records::{self, Place},
    refusal::Refusal,
    request::{Answer, Request},
    rights::READ,
};
use crate::{access::Needs, shard::WantedKey};

const FOUND_MAX: usize = 256;
/// What RocketMQ makes of the wish when an id is looked for.
const FOUND_BY_ID_MAX: usize = 32;

/// Says that not every message with the key was looked at.
const CUT_SHORT: &str =
    "the search was cut short, there may be further messages: too many were stored with this key";

pub(super) async fn view(request: &Request) -> Result<Answer, Refusal> {
    let offset: i64 = request.number("offset")?;
    let not_found =
        || Refusal::new(code::SYSTEM_ERROR, format!("can not find message by the offset, {offset}"));
    let (position, attempt) = read_physical_offset(offset).ok_or_else(not_found)?;
    let (found, topic) = request
        .look(move |engine, _| {
            let found = engine.message_by_position(position)?;
            Ok::<_, QueryError>((found, engine.topic_name_of(found.queue.topic)))
        })
        .await?
        .map_err(|error| Refusal::of_position(error, not_found))?;
    let topic = topic.ok_or_else(not_found)?;
    let needs = Needs::nothing().topic(topic.as_str(), READ);
    // Any position can be asked for: what is there is not told, nor that there is something.
    request.check(&needs).map_err(|_| not_found())?;
    let place = Place { attempt, ..Place::found(&found) };
    let records = records::read(request, &topic, &[place], &Filter::All).await?.whole()?;
    if records.written.is_empty() {
        return Err(Refusal::new(
            code::SYSTEM_ERROR,
            format!("can not find message by the offset, {offset}: it cannot be read"),
        ));
    }
    Ok(Answer { body: records.body, grant: Some(records.grant), ..Answer::ok() })
}

pub(super) async fn by_key(request: &Request) -> Result<Answer, Refusal> {
    let (topic, key) = (TopicName::new(request.required("topic")?)?, request.required("key")?.to_owned());
    let time = |value: i64| Timestamp(u64::try_from(value).unwrap_or(0));
    let (from, to) = (time(request.number("beginTimestamp")?), time(request.number("endTimestamp")?));
    let max = match request.truth("_UNIQUE_KEY_QUERY") {
        Some(true) => FOUND_BY_ID_MAX,
        _ => usize::try_from(request.number::<i32>("maxNum")?).unwrap_or(0).clamp(1, FOUND_MAX),
    };
    let wanted = WantedKey { topic: topic.clone(), key, from, to, max };
    let KeyAnswer { found, truncated } = request.context.shard.find_by_key(wanted).await??;
    let last = found.iter().max_by_key(|found| found.position);
    let (time, position) = last.map_or((0, 0), |last| (last.stored_at.0, last.position.0));
    let places: Vec<Place> = found.iter().map(Place::found).collect();
    let records = records::read(request, &topic, &places, &Filter::All).await?.whole()?;
    if records.written.is_empty() {
        let why = if truncated { CUT_SHORT } else { "can not find message, maybe time range not correct" };
        return Err(Refusal::new(code::QUERY_NOT_FOUND, why));
    }
    let answer =
        Answer::ok().with("indexLastUpdateTimestamp", time).with("indexLastUpdatePhyoffset", position);
    let remark = truncated.then(|| CUT_SHORT.to_owned());
    Ok(Answer { remark, body: records.body, grant: Some(records.grant), ..answer })
}
