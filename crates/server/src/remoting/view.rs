use std::sync::Arc;

use super::Context;
use crate::statistics::Crowd;

/// What can be seen of the front end while it works. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    context: Arc<Context>,
}

impl View {
    pub(super) fn new(context: Arc<Context>) -> View {
        View { context }
    }

    /// Connections to the name service and to the broker.
    pub fn connections(&self) -> (usize, usize) {
        (self.context.names_port.open.count(), self.context.broker_port.open.count())
    }

    /// Bytes of requests and answers under way over both protocols, and how many there may be.
    pub fn network_bytes(&self) -> (usize, usize) {
        let bytes = &self.context.config.resources.bytes;
        (bytes.used(), bytes.limit())
    }

    /// Producers and consumers.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        self.context.members.crowds()
    }
}

impl crate::grpc::PullConsumers for View {
    fn take_retries(&self, group: &str) -> bool {
        let retry_topic = format!("{}{group}", redstart_engine::RETRY_PREFIX);
        self.context.members.take_retries(group, &retry_topic)
    }

    fn creates_topics(&self) -> bool {
        self.context.settings.auto_create_topics()
    }
}
