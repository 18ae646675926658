//! Recall of delayed messages. A handle is `v1 topic broker time message-id position`, in base64: the client itself
//! reads the broker out of it. The last field is ours, and the message is compared before anything is cancelled.

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use redstart_engine::{TimerKey, Timestamp, TopicName};
use redstart_log::Position;
use redstart_wire::remoting::code;

use super::{
    property as p,
    refusal::Refusal,
    request::{Answer, Request},
};

pub(super) fn handle(topic: &str, broker: &str, key: TimerKey, id: &str) -> String {
    URL_SAFE.encode(format!("v1 {topic} {broker} {} {id} {}", key.due, key.id.0))
}

/// The message that a handle names: its topic, its key, its id.
pub(super) fn read(handle: &str) -> Option<(String, TimerKey, String)> {
    let text = String::from_utf8(URL_SAFE.decode(handle).ok()?).ok()?;
    let fields: Vec<&str> = text.split(' ').collect();
    let ["v1", topic, _, due, id, position] = fields[..] else { return None };
    let key = TimerKey { due: Timestamp(due.parse().ok()?), id: Position(position.parse().ok()?) };
    Some((topic.to_owned(), key, id.to_owned()))
}

pub(super) async fn recall(request: &Request) -> Result<Answer, Refusal> {
    let illegal = |why: &str| Refusal::new(code::ILLEGAL_OPERATION, why);
    let topic = request.required("topic")?;
    let (of, key, id) = read(request.required("recallHandle")?)
        .ok_or_else(|| illegal("recall failed, the recall handle is malformed"))?;
    if of != topic {
        return Err(illegal("recall failed, topic not match"));
    }
    let name = TopicName::new(topic)?;
    let (known, held) = request.ask(move |engine, _| (engine.topic_id(&name), engine.delayed(key))).await?;
    let known = known.ok_or_else(|| Refusal::unknown_topic(topic))?;
    let (position, size) =
        held.ok_or_else(|| illegal("recall failed, no delayed message is known by this handle"))?;
    let fetched = request.context.shard.bodies().fetch(position, size).await;
    let fetched = fetched.map_err(|error| Refusal::unread(&error))?;
    let same = fetched.message().is_ok_and(|message| message.id == id)
        && fetched.home().is_ok_and(|home| home.topic == known);
    if !same {
        return Err(illegal("recall failed, the recall handle belongs to another message"));
    }
    request.change(move |engine, now| engine.recall(key, now)).await?;
    Ok(Answer::ok().with("msgId", id).with(p::MSG_REGION, p::REGION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_comes_back_and_nonsense_does_not() {
        let key = TimerKey { due: Timestamp(17), id: Position(99) };
        let text = handle("t", "b", key, "ID");
        assert_eq!(read(&text), Some(("t".to_owned(), key, "ID".to_owned())));
        for bad in ["", "!", &URL_SAFE.encode("v1 t b 1 id"), &URL_SAFE.encode("v1 t b x id 1")] {
            assert_eq!(read(bad), None);
        }
    }
}
