//! The group and topic that a request names. A handle that was made for another group or topic is refused: a client that
//! mixes up its handles must not ack what other consumers have in flight.

use std::fmt;

use redstart_engine::{Engine, GroupName, Receipt, TopicId, TopicName};

/// The group and topic that a request names.
#[derive(Debug)]
pub(crate) struct Scope {
    pub group: GroupName,
    pub topic: TopicName,
}

/// A handle does not fit what the request names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScopeError {
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error(
        "the receipt handle was made for group {of_group} and topic {of_topic}; the request names group {group} and topic {topic}"
    )]
    OtherDelivery { of_group: String, of_topic: String, group: GroupName, topic: TopicName },
    #[error("the {handle} was made for topic {made_for}; the request names topic {named}")]
    OtherTopic { handle: HandleKind, made_for: String, named: TopicName },
}

/// What a handle that names a topic alone stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleKind {
    Transaction,
    Recall,
}

impl fmt::Display for HandleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandleKind::Transaction => "transaction id",
            HandleKind::Recall => "recall handle",
        })
    }
}

/// Why an operation on a handle failed.
#[derive(Debug)]
pub(crate) enum ScopedError<E> {
    /// The handle was made for another group or topic than the request names.
    OutOfScope(ScopeError),
    /// The engine refused it.
    Engine(E),
}

impl Scope {
    /// Checks that the receipt was made for this group and topic. Runs on the owner thread, together with the operation that
    /// uses the receipt, so that neither can be deleted in between. `lite` is the lite topic that the request names.
    pub fn check(&self, engine: &Engine, receipt: Receipt, lite: Option<&str>) -> Result<(), ScopeError> {
        let topic = engine.topic_id(&self.topic);
        let topic = topic.ok_or_else(|| ScopeError::UnknownTopic { topic: self.topic.clone() })?;
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
        Err(ScopeError::OtherDelivery {
            of_group: of_group.map_or_else(|| "(deleted)".to_owned(), |group| group.to_string()),
            of_topic: topic_text(engine, receipt.queue.topic),
            group: self.group.clone(),
            topic: self.topic.clone(),
        })
    }
}

/// Checks that a recall handle or a transaction id was made for the topic that the request names.
pub(crate) fn check_topic(
    engine: &Engine,
    handle: HandleKind,
    made_for: TopicId,
    named: &TopicName,
) -> Result<(), ScopeError> {
    if engine.topic_id(named) == Some(made_for) {
        return Ok(());
    }
    Err(ScopeError::OtherTopic { handle, made_for: topic_text(engine, made_for), named: named.clone() })
}

fn topic_text(engine: &Engine, topic: TopicId) -> String {
    engine.topic_name_of(topic).map_or_else(|| "(deleted)".to_owned(), |topic| topic.to_string())
}
