//! How many receives may wait at a time: fewer than there are connections, so that health checks and other requests find one.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::refusal::Refusal;

/// Connections that receives do not wait on.
const KEPT_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct WaitingPlaces {
    taken: AtomicUsize,
    max: usize,
}

/// The place of one receive; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a>(&'a WaitingPlaces);

impl WaitingPlaces {
    pub fn new(connections_max: usize) -> WaitingPlaces {
        let kept = (connections_max / 8).clamp(1, KEPT_MAX);
        WaitingPlaces { taken: AtomicUsize::new(0), max: connections_max.saturating_sub(kept) }
    }

    pub fn take(&self) -> Result<Place<'_>, Refusal> {
        if self.taken.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.taken.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::busy(format!("receives that wait over HTTP: the limit is {}", self.max)));
        }
        Ok(Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_are_kept_for_other_requests() {
        let places = WaitingPlaces::new(4);
        let taken: Vec<_> = (0..3).map(|_| places.take().unwrap()).collect();
        assert_eq!(places.take().map(drop).map_err(|refusal| refusal.status.as_u16()), Err(429));
        drop(taken);
        assert!(places.take().is_ok());
        assert_eq!(WaitingPlaces::new(16_384).max, 16_128);
        assert!(WaitingPlaces::new(1).take().is_err());
    }
}
