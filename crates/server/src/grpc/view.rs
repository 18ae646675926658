use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{clients::Clients, intake};
use crate::statistics::{Crowd, Live};

/// What can be seen of the front end while it works. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    clients: Arc<Clients>,
    open: Live,
    intake: Arc<AtomicUsize>,
}

impl View {
    pub(super) fn new(clients: Arc<Clients>, open: Live, intake: Arc<AtomicUsize>) -> View {
        View { clients, open, intake }
    }

    pub fn connections(&self) -> usize {
        self.open.count()
    }

    /// Bytes of requests that are on their way in, and how many there may be.
    pub fn incoming_bytes(&self) -> (usize, usize) {
        (self.intake.load(Ordering::Relaxed), intake::ALL_BYTES_MAX)
    }

    /// Producers and consumers.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        self.clients.crowds()
    }
}
