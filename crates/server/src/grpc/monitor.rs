//! Counts of the running front end.

use std::sync::Arc;

use super::clients::Clients;
use crate::{
    byte_budget::ByteBudget,
    statistics::{ClientCounts, LiveCount},
};

/// Counts of the running front end, for metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Monitor {
    clients: Arc<Clients>,
    open: LiveCount,
    bytes: ByteBudget,
}

impl Monitor {
    pub(super) fn new(clients: Arc<Clients>, open: LiveCount, bytes: ByteBudget) -> Monitor {
        Monitor { clients, open, bytes }
    }

    pub fn connections(&self) -> usize {
        self.open.count()
    }

    /// Bytes of requests and answers under way over both protocols, and how many there may be.
    pub fn network_bytes(&self) -> (usize, usize) {
        (self.bytes.used(), self.bytes.limit())
    }

    /// Producers and consumers.
    pub fn client_counts(&self) -> (ClientCounts, ClientCounts) {
        self.clients.client_counts()
    }
}
