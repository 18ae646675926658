//! What a request says it is about. A handle of another group or topic does not fit it: a client that mixes up its
//! handles must not end what others hold.

use redstart_engine::{Engine, GroupName, Receipt, SendError, TopicId, TopicName};
use redstart_wire::v2::{Code, Resource};

use super::{service::Service, status::Refusal};

/// The group and topic that a request names.
#[derive(Debug)]
pub(super) struct Claim {
    group: GroupName,
    topic: TopicName,
}

/// Refused because the handle does not fit, or by what was asked of the engine.
pub(super) enum Denied<E> {
    Unfit(Refusal),
    Engine(E),
}

impl<E: Into<Refusal>> From<Denied<E>> for Refusal {
    fn from(denied: Denied<E>) -> Self {
        match denied {
            Denied::Unfit(refusal) => refusal,
            Denied::Engine(error) => error.into(),
        }
    }
}

impl Service {
    pub(super) fn claim(&self, group: Option<&Resource>, topic: Option<&Resource>) -> Result<Claim, Refusal> {
        Ok(Claim { group: self.group_name(group)?, topic: self.topic_name(topic)? })
    }
}

impl Claim {
    /// Whether the receipt is one of the request's own. Runs on the owner thread, in the call that uses the receipt.
    /// `lite` is the lite topic that the request names with the receipt.
    pub fn check(&self, engine: &Engine, receipt: Receipt, lite: Option<&str>) -> Result<(), Refusal> {
        let topic = topic_id(engine, &self.topic)?;
        let of_topic = match engine.lite_name_of(receipt.queue.topic) {
            Some((parent, found)) => parent == self.topic && lite.is_none_or(|lite| lite == found.as_str()),
            // One out of another topic, such as a dead letter, has no lite topic to compare.
            None => {
                // What waited in the group's retry topic was given out as a message of the topic asked for.
                receipt.queue.topic == topic
                    || engine.retry_topic_of(receipt.group) == Some(receipt.queue.topic)
            }
        };
        if engine.group_id(&self.group) == Some(receipt.group) && of_topic {
            return Ok(());
        }
        let of_group = engine.group_name_of(receipt.group);
        let of_group = of_group.as_ref().map_or("that is gone", GroupName::as_str);
        let of_topic = topic_text(engine, receipt.queue.topic);
        let why = format!(
            "the receipt handle is of group {of_group} and topic {of_topic}; the request names group {} and topic {}",
            self.group, self.topic
        );
        Err(Refusal::new(Code::InvalidReceiptHandle, why))
    }
}

/// Whether something made for a topic (a recall handle, a transaction) fits the one that a request names.
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
    Err(Refusal::new(code, format!("the {what} is of topic {made_for}; the request names topic {named}")))
}

fn topic_id(engine: &Engine, topic: &TopicName) -> Result<TopicId, Refusal> {
    engine.topic_id(topic).ok_or_else(|| SendError::UnknownTopic { topic: topic.clone() }.into())
}

fn topic_text(engine: &Engine, topic: TopicId) -> String {
    engine.topic_name_of(topic).map_or_else(|| "that is gone".to_owned(), |topic| topic.to_string())
}
