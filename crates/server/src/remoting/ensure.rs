//! Topics that are made when they are first needed.

use redstart_engine::{AdminError, GroupName, MessageType, TopicConfig, TopicName};

use super::{refusal::Refusal, request::Request};

/// Where clients with tracing on send what they did.
pub(super) const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";

/// Makes a topic unless it is there.
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
    let created = request.change(move |engine, _| match engine.put_topic(&name, config) {
        // Somebody else's creation is on its way: what comes after it in the log comes after it in time.
        Err(AdminError::Creating { .. }) => Ok(engine.barrier()),
        other => other,
    });
    created.await
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

/// The topic through which messages come again that a group's 4.x clients handed back.
pub(super) async fn ensure_retry_topic(request: &Request, group: &GroupName) -> Result<(), Refusal> {
    ensure_topic(request, group.retry_topic(), system_topic()).await
}
