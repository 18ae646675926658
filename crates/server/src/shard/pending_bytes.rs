//! The bound on the bytes of messages that were accepted and are not stored yet.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The budget for bytes of messages that were accepted and are not stored yet. Clones share it.
#[derive(Debug, Clone)]
pub struct PendingBytesBudget(pub(super) Arc<PendingBytes>);

impl PendingBytesBudget {
    pub fn new(limit: usize) -> PendingBytesBudget {
        PendingBytesBudget(Arc::new(PendingBytes::new(limit)))
    }
}

/// Bytes accepted and not yet stored, of all senders together.
#[derive(Debug)]
pub(super) struct PendingBytes {
    used: AtomicUsize,
    limit: usize,
}

/// Bytes of one send; no longer counted once dropped.
#[derive(Debug)]
pub(super) struct Permit {
    pending: Arc<PendingBytes>,
    bytes: usize,
}

impl PendingBytes {
    pub fn new(limit: usize) -> PendingBytes {
        PendingBytes { used: AtomicUsize::new(0), limit }
    }

    /// Counts `bytes`, or returns the bytes in use if that would exceed the limit. A send that is larger than the limit is accepted
    /// when no other is pending.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Permit, usize> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let permit = Permit { pending: self.clone(), bytes };
        if used > 0 && used + bytes > self.limit { Err(used) } else { Ok(permit) }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pending.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_that_was_refused_or_dropped_is_no_longer_counted() {
        let pending = Arc::new(PendingBytes::new(100));
        let first = pending.take(80).unwrap();
        assert_eq!(pending.take(30).unwrap_err(), 80);
        drop(first);
        assert!(pending.take(30).is_ok());
        assert!(pending.take(1_000).is_ok(), "alone, a large request is not starved");
        assert_eq!(pending.used(), 0);
    }
}
