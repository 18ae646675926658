use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

use redstart_engine::Timestamp;

use super::{Meter, Span};

/// Names counted one by one; those past it count only in the totals.
const NAMES_MAX: usize = 100_000;

/// Meters by name.
#[derive(Debug)]
pub(super) struct Table<K> {
    meters: RwLock<HashMap<K, Arc<Meter>>>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table { meters: RwLock::default() }
    }
}

impl<K: Hash + Eq + Clone> Table<K> {
    pub fn get(&self, name: &K) -> Option<Arc<Meter>> {
        self.meters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub fn add(&self, name: &K, messages: usize, bytes: usize) {
        if let Some(meter) = self.meters.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return meter.add(messages, bytes);
        }
        let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
        if meters.len() < NAMES_MAX || meters.contains_key(name) {
            meters.entry(name.clone()).or_default().add(messages, bytes);
        }
    }

    /// Samples all, and forgets those for which nothing came in a day.
    pub fn sample(&self, now: Timestamp) {
        let meters: Vec<(K, Arc<Meter>)> = {
            let meters = self.meters.read().unwrap_or_else(PoisonError::into_inner);
            meters.iter().map(|(name, meter)| (name.clone(), meter.clone())).collect()
        };
        let mut silent = Vec::new();
        for (name, meter) in meters {
            meter.sample(now);
            if meter.over(Span::Day, now).messages == 0 && meter.is_old(now) {
                silent.push(name);
            }
        }
        if !silent.is_empty() {
            let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
            silent.iter().for_each(|name| drop(meters.remove(name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_forgotten_after_a_day_of_silence() {
        let table = Table::default();
        let hour = |n: u64| Timestamp(1_000_000_000 + n * 3_600_000);
        table.add(&"a", 1, 1);
        for n in 0..=23 {
            table.sample(hour(n));
            assert!(table.get(&"a").is_some(), "hour {n}");
        }
        table.add(&"b", 1, 1);
        for n in 24..=26 {
            table.sample(hour(n));
        }
        assert!(table.get(&"a").is_none());
        assert_eq!(table.get(&"b").map(|meter| meter.count()), Some(1));
    }
}
