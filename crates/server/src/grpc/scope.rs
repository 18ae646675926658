//! The group and topic that a request names. A handle that was made for another group or topic is refused: a client that
//! mixes up its handles must not ack what other consumers have in flight.

use redstart_engine::{Engine, GroupName, Receipt, SendError, TopicId, TopicName};
use redstart_wire::v2::{Code, Resource};

use super::{refusal::Refusal, service::Service};

/// The group and topic that a request names.
#[derive(Debug)]
pub(super) struct Scope {
    group: GroupName,
    topic: TopicName,
}

/// Why an operation on a handle failed.
pub(super) enum ScopedError<E> {
    /// The handle was made for another group or topic than the request names.
    OutOfScope(Refusal),
    /// The engine refused it.
    Engine(E),
}

impl<E: Into<Refusal>> From<ScopedError<E>> for Refusal {
    fn from(error: ScopedError<E>) -> Self {
        match error {
            ScopedError::OutOfScope(refusal) => refusal,
            ScopedError::Engine(error) => error.into(),
        }
    }
}

impl Service {
    pub(super) fn scope(&self, group: Option<&Resource>, topic: Option<&Resource>) -> Result<Scope, Refusal> {
        Ok(Scope { group: self.group_name(group)?, topic: self.topic_name(topic)? })
    }
}

impl Scope {
    /// Checks that the receipt was made for this group and topic. Runs on the owner thread, together with the operation that
    /// uses the receipt, so that neither can be deleted in between. `lite` is the lite topic that the request names.
    pub fn check(&self, engine: &Engine, receipt: Receipt, lite: Option<&str>) -> Result<(), Refusal> {
        let topic = topic_id(engine, &self.topic)?;
        let of_topic = match engine.lite_name_of(receipt.queue.topic) {
            Some((parent, found)) => parent == self.topic && lite.is_none_or(|lite| lite == found.as_str()),
            None => {
                // A message of the group's retry topic is delivered as one of the topic that the consumer asked for.
                receipt.queue.topic == topic
                    || engine.retry_topic_of(receipt.group) == Some(receipt.queue.topic)
            }
        };
        if engine.group_id(&self.group) == Some(receipt.group) && of_topic {
            return Ok(());
        }
        let of_group = engine.group_name_of(receipt.group);
        let of_group = of_group.as_ref().map_or("(deleted)", GroupName::as_str);
        let of_topic = topic_text(engine, receipt.queue.topic);
        let why = format!(
            "the receipt handle was made for group {of_group} and topic {of_topic}; the request names group {} and topic {}",
            self.group, self.topic
        );
        Err(Refusal::new(Code::InvalidReceiptHandle, why))
    }
}

/// Checks that a recall handle or a transaction id was made for the topic that the request names.
pub(super) fn check_topic(
    engine: &Engine,
    what: &'static str,
    code: Code,
    made_for: TopicId,
    named: &TopicName,
) -> Result<(), Refusal> {
    if engine.topic_id(named) == Some(made_for) {
        return Ok(());
    }
    let made_for = topic_text(engine, made_for);
    Err(Refusal::new(
        code,
        format!("the {what} was made for topic {made_for}; the request names topic {named}"),
    ))
}

fn topic_id(engine: &Engine, topic: &TopicName) -> Result<TopicId, Refusal> {
    engine.topic_id(topic).ok_or_else(|| SendError::UnknownTopic { topic: topic.clone() }.into())
}

fn topic_text(engine: &Engine, topic: TopicId) -> String {
    engine.topic_name_of(topic).map_or_else(|| "(deleted)".to_owned(), |topic| topic.to_string())
}
