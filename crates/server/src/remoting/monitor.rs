//! Counts of the running front end.

use std::sync::Arc;

use super::Context;
use crate::statistics::ClientCounts;

/// Counts of the running front end, for metrics, and what the gRPC front end asks of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Monitor {
    context: Arc<Context>,
}

impl Monitor {
    pub(super) fn new(context: Arc<Context>) -> Monitor {
        Monitor { context }
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
    pub fn client_counts(&self) -> (ClientCounts, ClientCounts) {
        self.context.members.client_counts()
    }
}

impl crate::grpc::PullConsumers for Monitor {
    fn consume_retry_topic(&self, group: &str) -> bool {
        let retry_topic = format!("{}{group}", redstart_engine::RETRY_PREFIX);
        self.context.members.consume_retry_topic(group, &retry_topic)
    }

    fn creates_topics(&self) -> bool {
        self.context.settings.auto_create_topics()
    }
}
