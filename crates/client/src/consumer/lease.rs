//! The time for which a delivery is this consumer's own.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::transport::Receipt;

/// Tells a handler whether the delivery is still this consumer's. Once it is lost the message may be with another consumer.
#[derive(Debug, Clone)]
pub struct Lease {
    lost: watch::Receiver<bool>,
}

impl Lease {
    /// Whether the delivery's time is over.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Returns when the delivery's time is over; never, if it is settled before.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A delivery that is not settled.
#[derive(Debug)]
pub(super) struct Held {
    /// What names the delivery now. A call that changes or uses it holds the lock, so that none uses an old one.
    pub receipt: tokio::sync::Mutex<Receipt>,
    pub weight: usize,
    pub attempt: u32,
    began: Instant,
    until: Mutex<Instant>,
    renewing: AtomicBool,
    lost: watch::Sender<bool>,
}

impl Held {
    pub fn new(receipt: Receipt, weight: usize, until: Instant, renewing: bool) -> Held {
        Held {
            attempt: receipt.attempt,
            receipt: tokio::sync::Mutex::new(receipt),
            weight,
            began: Instant::now(),
            until: Mutex::new(until),
            renewing: AtomicBool::new(renewing),
            lost: watch::Sender::new(false),
        }
    }

    pub fn lease(&self) -> Lease {
        Lease { lost: self.lost.subscribe() }
    }

    pub fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_until(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub fn set_renewing(&self, renewing: bool) {
        self.renewing.store(renewing, Ordering::Relaxed);
    }

    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    pub fn lose(&self) {
        self.lost.send_replace(true);
    }
}

/// What the keeper of leases does with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// More than half of its time is left, or nobody renews it.
    Nothing,
    Renew,
    /// Its time is over.
    Lost,
}

/// Decides for one delivery. A delivery is renewed at half time, for `renew_max` after it came.
pub(super) fn due(held: &HeldTimes, invisible: Duration, renew_max: Duration, now: Instant) -> Due {
    if now >= held.until {
        return Due::Lost;
    }
    let renews = held.renewing && now < held.began + renew_max;
    if renews && held.until.saturating_duration_since(now) <= invisible / 2 {
        Due::Renew
    } else {
        Due::Nothing
    }
}

/// The times of a delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldTimes {
    pub began: Instant,
    pub until: Instant,
    pub renewing: bool,
}

impl Held {
    pub fn times(&self) -> HeldTimes {
        HeldTimes { began: self.began, until: self.until(), renewing: self.renewing.load(Ordering::Relaxed) }
    }
}

/// All deliveries that are not settled.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    all: HashMap<u64, Arc<Held>>,
    bytes: usize,
}

impl Leases {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, held: &Arc<Held>) -> u64 {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        table.bytes += held.weight;
        table.all.insert(number, held.clone());
        number
    }

    /// Whether it was there.
    pub fn remove(&self, number: u64) -> bool {
        let mut table = self.table();
        let removed = table.all.remove(&number);
        table.bytes -= removed.as_ref().map_or(0, |held| held.weight);
        removed.is_some()
    }

    /// Number of deliveries and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let table = self.table();
        (table.all.len(), table.bytes)
    }

    pub fn all(&self) -> Vec<Arc<Held>> {
        self.table().all.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_renewed_at_half_time_and_not_for_ever() {
        let (second, began) = (Duration::from_secs(1), Instant::now());
        let held = |until: u32, renewing| HeldTimes { began, until: began + second * until, renewing };
        let due = |held: HeldTimes, now: u32| due(&held, second * 60, second * 600, began + second * now);
        assert_eq!(due(held(60, true), 29), Due::Nothing);
        assert_eq!(due(held(60, true), 30), Due::Renew);
        assert_eq!(due(held(60, false), 30), Due::Nothing);
        assert_eq!(due(held(60, false), 60), Due::Lost);
        assert_eq!(due(held(60, true), 60), Due::Lost);
        assert_eq!(due(held(640, true), 599), Due::Nothing);
        assert_eq!(due(held(610, true), 599), Due::Renew);
        assert_eq!(due(held(610, true), 600), Due::Nothing, "the limit is reached");
        assert_eq!(due(held(610, true), 610), Due::Lost);
    }
}
