//! Counts by name, with bounds on the names that are counted and on those that are listed.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use redstart_engine::Timestamp;

use super::{Meter, Shown, Span};

/// Names that are counted one by one; further names count only in `others`.
const NAMES_MAX: usize = 100_000;
/// Names that [`Table::read`] lists one by one. A name that is not listed counts in `others` too, so that neither number ever
/// decreases.
pub(super) const SHOWN_MAX: usize = 10_000;

/// What is counted under a name.
pub(super) trait Counted: Default {
    /// The meter that shows whether the name is still in use.
    fn meter(&self) -> &Meter;
}

/// Counts by name.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    entries: RwLock<HashMap<K, Arc<Entry<V>>>>,
    shown: AtomicUsize,
    others: V,
}

#[derive(Debug)]
struct Entry<V> {
    counts: V,
    shown: bool,
}

impl<K, V: Default> Default for Table<K, V> {
    fn default() -> Self {
        Table { entries: RwLock::default(), shown: AtomicUsize::new(0), others: V::default() }
    }
}

impl<K: Hash + Eq + Clone, V: Counted> Table<K, V> {
    /// Reads the counts of a name, if there are any.
    pub fn get<R>(&self, name: &K, read: impl FnOnce(&V) -> R) -> Option<R> {
        let entry = self.entries().get(name).cloned();
        entry.map(|entry| read(&entry.counts))
    }

    /// Counts under a name.
    pub fn count(&self, name: &K, count: impl Fn(&V)) {
        if let Some(entry) = self.entries().get(name) {
            return self.count_in(entry, count);
        }
        let mut entries = self.entries_mut();
        if !entries.contains_key(name) && entries.len() >= NAMES_MAX {
            drop(entries);
            return count(&self.others);
        }
        let entry = entries.entry(name.clone()).or_insert_with(|| Arc::new(self.entry()));
        self.count_in(entry, count);
    }

    /// Called under the write lock, so that the number of listed names stays within its bound.
    fn entry(&self) -> Entry<V> {
        let shown = self.shown.load(Ordering::Relaxed) < SHOWN_MAX;
        self.shown.fetch_add(usize::from(shown), Ordering::Relaxed);
        Entry { counts: V::default(), shown }
    }

    fn count_in(&self, entry: &Entry<V>, count: impl Fn(&V)) {
        count(&entry.counts);
        if !entry.shown {
            count(&self.others);
        }
    }

    /// Reads the counts of every name that is listed, and the sum of the others.
    pub fn read<R>(&self, read: impl Fn(&V) -> R) -> Shown<K, R> {
        let shown: Vec<(K, Arc<Entry<V>>)> =
            self.all().into_iter().filter(|(_, entry)| entry.shown).collect();
        let shown = shown.into_iter().map(|(name, entry)| (name, read(&entry.counts))).collect();
        (shown, read(&self.others))
    }

    /// Samples all meters, and removes the names for which nothing was counted in a day.
    pub fn sample(&self, now: Timestamp) {
        let mut silent = Vec::new();
        for (name, entry) in self.all() {
            let meter = entry.counts.meter();
            meter.sample(now);
            if meter.over(Span::Day, now).messages == 0 && meter.is_old(now) {
                silent.push(name);
            }
        }
        if !silent.is_empty() {
            let mut entries = self.entries_mut();
            for name in silent {
                let freed = entries.remove(&name).is_some_and(|entry| entry.shown);
                self.shown.fetch_sub(usize::from(freed), Ordering::Relaxed);
            }
        }
    }

    fn all(&self) -> Vec<(K, Arc<Entry<V>>)> {
        self.entries().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    fn entries(&self) -> RwLockReadGuard<'_, HashMap<K, Arc<Entry<V>>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, HashMap<K, Arc<Entry<V>>>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count(Meter);

    impl Counted for Count {
        fn meter(&self) -> &Meter {
            &self.0
        }
    }

    fn add<K: Hash + Eq + Clone>(table: &Table<K, Count>, name: &K, messages: usize) {
        table.count(name, |count| count.0.add(messages, messages));
    }

    #[test]
    fn a_name_is_forgotten_after_a_day_of_silence() {
        let table = Table::default();
        let hour = |n: u64| Timestamp(1_000_000_000 + n * 3_600_000);
        add(&table, &"a", 1);
        for n in 0..=23 {
            table.sample(hour(n));
            assert!(table.get(&"a", |_| ()).is_some(), "hour {n}");
        }
        add(&table, &"b", 1);
        for n in 24..=26 {
            table.sample(hour(n));
        }
        assert!(table.get(&"a", |_| ()).is_none());
        assert_eq!(table.get(&"b", |count| count.0.count()), Some(1));
        assert_eq!(table.shown.load(Ordering::Relaxed), 1, "another name can be listed instead");
    }

    #[test]
    fn names_past_the_bound_count_together_and_nothing_is_lost() {
        let table: Table<usize, Count> = Table::default();
        for name in 0..SHOWN_MAX + 5 {
            add(&table, &name, 1);
        }
        add(&table, &SHOWN_MAX, 10);
        let (shown, others) = table.read(|count| count.0.count());
        assert_eq!((shown.len(), others), (SHOWN_MAX, 15));
        assert!(shown.iter().all(|(name, count)| *name < SHOWN_MAX && *count == 1));
        assert_eq!(
            table.get(&SHOWN_MAX, |count| count.0.count()),
            Some(11),
            "asked for by name, it has its own count"
        );
    }
}
