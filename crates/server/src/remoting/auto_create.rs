//! Topics that are created when they are first needed.

use redstart_engine::{GroupName, MessageType, TopicConfig, TopicName};

use super::{refusal::Refusal, request::Request};

/// The topic that clients with tracing enabled send their traces to.
pub(super) const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";

/// Creates a topic unless it exists.
pub(super) async fn ensure_topic(
    request: &Request,
    name: TopicName,
    config: TopicConfig,
) -> Result<(), Refusal> {
    let known = {
        let name = name.clone();
        request.ask(move |engine, _| engine.topic_id(&name).is_some()).await?
    };
    if known {
        return Ok(());
    }
    Ok(request.context.node.shards.ensure_topic(request.context.served(), &name, config).await?)
}

/// One queue, for messages of all types.
pub(super) fn system_topic() -> TopicConfig {
    TopicConfig {
        message_type: MessageType::Mixed,
        read_queues: 1,
        write_queues: 1,
        ..TopicConfig::default()
    }
}

/// Creates the retry topic of a group, through which the messages that its 4.x clients send back come again.
pub(super) async fn ensure_retry_topic(request: &Request, group: &GroupName) -> Result<(), Refusal> {
    ensure_topic(request, group.retry_topic(), system_topic()).await
}
