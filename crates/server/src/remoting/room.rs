//! Bounds on memory: bytes of requests that are being read or served, and of answers that are not yet written.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One permit stands for this many bytes.
const UNIT: usize = 1024;
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Room for bytes, shared by those who take it.
#[derive(Debug, Clone)]
pub(super) struct Rooms {
    free: Arc<Semaphore>,
    units: u32,
}

/// A share of the room; given back when dropped.
#[derive(Debug)]
pub(super) struct Room(Vec<OwnedSemaphorePermit>);

impl Rooms {
    pub fn new(bytes: usize) -> Rooms {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX >> 3);
        Rooms { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Bytes that are taken, and how many there are.
    pub fn used(&self) -> (usize, usize) {
        let free = self.free.available_permits();
        ((self.units as usize).saturating_sub(free) * UNIT, self.units as usize * UNIT)
    }

    /// Waits until there is room; `None` when it takes too long.
    pub async fn take(&self, bytes: usize) -> Option<Room> {
        // What is larger than all the room gets all of it.
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        let free = self.free.clone().acquire_many_owned(units);
        Some(Room(vec![tokio::time::timeout(WAIT_MAX, free).await.ok()?.ok()?]))
    }
}

impl Room {
    /// Both shares as one.
    pub fn and(mut self, other: Room) -> Room {
        self.0.extend(other.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_given_back_and_waited_for_only_so_long() {
        let rooms = Rooms::new(10 * UNIT);
        let all = rooms.take(1 << 30).await.unwrap();
        assert!(rooms.take(1).await.is_none(), "all of it is taken");
        drop(all);
        let part = rooms.take(9 * UNIT).await.unwrap().and(rooms.take(UNIT).await.unwrap());
        assert!(rooms.take(1).await.is_none());
        drop(part);
        assert!(rooms.take(10 * UNIT).await.is_some());
    }
}
