//! Counts of the running front end.

use std::sync::Arc;

use super::Node;
use crate::{shards::ShardNumber, statistics::ClientCounts};

/// Counts of the running front end, for metrics, and what the gRPC front end asks of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Monitor {
    node: Arc<Node>,
}

impl Monitor {
    pub(super) fn new(node: Arc<Node>) -> Monitor {
        Monitor { node }
    }

    /// Connections to the name service and to the broker.
    pub fn connections(&self) -> (usize, usize) {
        (self.node.names_port.open.count(), self.node.broker_port.open.count())
    }

    /// Bytes of requests and answers under way over both protocols, and how many there may be.
    pub fn network_bytes(&self) -> (usize, usize) {
        let bytes = &self.node.config.resources.bytes;
        (bytes.used(), bytes.limit())
    }

    /// Producers and consumers.
    pub fn client_counts(&self) -> (ClientCounts, ClientCounts) {
        let mut counts = (ClientCounts::default(), ClientCounts::default());
        for broker in &self.node.brokers {
            let (producers, consumers) = broker.members.client_counts();
            counts.0.merge(producers);
            counts.1.merge(consumers);
        }
        counts
    }
}

impl crate::grpc::PullConsumers for Monitor {
    fn consume_retry_topic(&self, shard: ShardNumber, group: &str) -> bool {
        let Some(broker) = self.node.brokers.get(usize::from(shard.0)) else { return false };
        let retry_topic = format!("{}{group}", redstart_engine::RETRY_PREFIX);
        broker.members.consume_retry_topic(group, &retry_topic)
    }

    fn creates_topics(&self) -> bool {
        self.node.brokers[0].settings.auto_create_topics()
    }
}
