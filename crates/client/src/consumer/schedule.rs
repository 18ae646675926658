//! The order in which deliveries are processed: those of one message group one after the other, all others as they come.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Deliveries that wait. A key that is out (its delivery is being processed) holds back all later deliveries of that key.
#[derive(Debug)]
pub(crate) struct Schedule<K, T> {
    ready: VecDeque<(Option<K>, T)>,
    /// Keys with a delivery that is ready or being processed, and the deliveries that wait behind it.
    behind: HashMap<K, VecDeque<T>>,
    waiting: usize,
}

impl<K: Eq + Hash + Clone, T> Schedule<K, T> {
    pub fn new() -> Schedule<K, T> {
        Schedule { ready: VecDeque::new(), behind: HashMap::new(), waiting: 0 }
    }

    pub fn push(&mut self, key: Option<K>, item: T) {
        self.waiting += 1;
        let Some(key) = key else { return self.ready.push_back((None, item)) };
        match self.behind.get_mut(&key) {
            Some(behind) => behind.push_back(item),
            None => {
                self.behind.insert(key.clone(), VecDeque::new());
                self.ready.push_back((Some(key), item));
            }
        }
    }

    /// The next delivery to process. Its key is out until [`Schedule::done`].
    pub fn next(&mut self) -> Option<(Option<K>, T)> {
        let next = self.ready.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }

    /// The delivery of a key has been processed.
    pub fn done(&mut self, key: &K) {
        let Some(behind) = self.behind.get_mut(key) else { return };
        match behind.pop_front() {
            Some(item) => self.ready.push_back((Some(key.clone()), item)),
            None => {
                self.behind.remove(key);
            }
        }
    }

    /// All that wait, ready or behind others.
    pub fn drain(&mut self) -> Vec<T> {
        let behind = self.behind.values_mut().flat_map(|behind| behind.drain(..)).collect::<Vec<T>>();
        self.waiting = 0;
        self.ready.drain(..).map(|(_, item)| item).chain(behind).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_goes_one_by_one_and_the_others_go_on() {
        let mut schedule = Schedule::new();
        for (key, item) in [(Some("a"), 1), (Some("a"), 2), (None, 3), (Some("b"), 4), (Some("a"), 5)] {
            schedule.push(key, item);
        }
        assert_eq!(schedule.len(), 5);
        let mut out = Vec::new();
        while let Some((key, item)) = schedule.next() {
            out.push((key, item));
        }
        assert_eq!(out, [(Some("a"), 1), (None, 3), (Some("b"), 4)], "2 and 5 wait for 1");
        schedule.push(Some("a"), 6);
        assert_eq!(schedule.next(), None);
        schedule.done(&"b");
        assert_eq!(schedule.next(), None);
        for expected in [2, 5, 6] {
            schedule.done(&"a");
            assert_eq!(schedule.next(), Some((Some("a"), expected)));
            assert_eq!(schedule.next(), None);
        }
        schedule.done(&"a");
        assert_eq!((schedule.len(), schedule.behind.len()), (0, 0), "nothing is kept of what is done");
        schedule.push(Some("a"), 7);
        assert_eq!(schedule.next(), Some((Some("a"), 7)));
    }

    #[test]
    fn what_waits_can_be_taken_back() {
        let mut schedule = Schedule::new();
        for item in [1, 2, 3] {
            schedule.push(Some("a"), item);
        }
        schedule.push(None, 4);
        assert_eq!(schedule.next(), Some((Some("a"), 1)));
        let mut left = schedule.drain();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
        schedule.done(&"a");
        assert_eq!((schedule.next(), schedule.len()), (None, 0));
    }
}
