use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes accepted and not yet stored, over all senders.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

/// A share of the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Budget {
        Budget { used: AtomicUsize::new(0), limit }
    }

    /// Takes `bytes`, or says how much is in use. A single request may exceed the limit when nothing else is there.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Permit, usize> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let permit = Permit { budget: self.clone(), bytes };
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
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_given_back_also_by_what_was_refused() {
        let budget = Arc::new(Budget::new(100));
        let first = budget.take(80).unwrap();
        assert_eq!(budget.take(30).unwrap_err(), 80);
        drop(first);
        assert!(budget.take(30).is_ok());
        assert!(budget.take(1_000).is_ok(), "alone, a large request is not starved");
        assert_eq!(budget.used(), 0);
    }
}
