//! Histograms with fixed buckets, as Prometheus has them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts values in fixed buckets. Values are whole numbers in the caller's unit. Counting one takes a few comparisons and two
/// atomic additions.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// Upper bounds, included, ascending.
    bounds: &'static [u64; N],
    buckets: [AtomicU64; N],
    /// Values above the last bound.
    beyond: AtomicU64,
    sum: AtomicU64,
}

/// A histogram as it was at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Each upper bound with the number of values up to it.
    pub buckets: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

impl<const N: usize> Histogram<N> {
    pub const fn new(bounds: &'static [u64; N]) -> Histogram<N> {
        Histogram {
            bounds,
            buckets: [const { AtomicU64::new(0) }; N],
            beyond: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    pub fn observe(&self, value: u64) {
        self.observe_many(value, 1);
    }

    /// The same value several times.
    pub fn observe_many(&self, value: u64, times: u64) {
        let at = self.bounds.iter().position(|bound| value <= *bound);
        let bucket = at.map_or(&self.beyond, |at| &self.buckets[at]);
        bucket.fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
    }

    pub fn distribution(&self) -> Distribution {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(N);
        for (bound, bucket) in self.bounds.iter().zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        count += self.beyond.load(Ordering::Relaxed);
        Distribution { buckets, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up_and_a_bound_belongs_to_its_bucket() {
        static BOUNDS: [u64; 3] = [1, 10, 100];
        let histogram = Histogram::new(&BOUNDS);
        for value in [0, 1, 2, 10, 11, 1000] {
            histogram.observe(value);
        }
        histogram.observe_many(50, 4);
        let found = histogram.distribution();
        assert_eq!(found.buckets, [(1, 2), (10, 4), (100, 9)]);
        assert_eq!((found.count, found.sum), (10, 1224));
    }
}
