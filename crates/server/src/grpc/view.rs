use std::sync::{Arc, atomic::Ordering};

use super::{Limits, accept::Rooms, clients::Clients, intake};
use crate::statistics::Crowd;

/// What can be seen of the front end while it works. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    clients: Arc<Clients>,
    rooms: Rooms,
    connections_max: usize,
}

impl View {
    pub(super) fn new(clients: Arc<Clients>, rooms: Rooms, limits: &Limits) -> View {
        View { clients, rooms, connections_max: limits.connections_max }
    }

    pub fn connections(&self) -> usize {
        self.connections_max.saturating_sub(self.rooms.places.available_permits())
    }

    /// Bytes of requests that are on their way in, and how many there may be.
    pub fn incoming_bytes(&self) -> (usize, usize) {
        (self.rooms.intake.load(Ordering::Relaxed), intake::ALL_BYTES_MAX)
    }

    /// Producers and consumers.
    pub fn crowds(&self) -> (Crowd, Crowd) {
        self.clients.crowds()
    }
}
