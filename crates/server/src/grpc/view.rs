use std::sync::Arc;

use super::clients::Clients;
use crate::{
    byte_budget::ByteBudget,
    statistics::{Crowd, Live},
};

/// What can be seen of the front end while it works. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    clients: Arc<Clients>,
    open: Live,
    bytes: ByteBudget,
}

impl View {
    pub(super) fn new(clients: Arc<Clients>, open: Live, bytes: ByteBudget) -> View {
        View { clients, open, bytes }
    }

    pub fn connections(&self) -> usize {
        self.open.count()
    }

    /// Bytes of requests and answers under way over both protocols, and how many there may be.
    pub fn network_bytes(&self) -> (usize, usize) {
        (self.bytes.used(), self.bytes.limit())
    }

    /// Producers and consumers.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        self.clients.crowds()
    }
}
