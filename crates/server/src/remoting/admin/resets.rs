use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redstart_engine::{GroupName, QueueId, QueueOffset, TopicName};

/// A consumer that has not followed a reset by then is gone; its successor begins at the stored offset.
const PENDING_MAX: Duration = Duration::from_secs(300);
const QUEUES_MAX: usize = 100_000;

type Place = (GroupName, TopicName, QueueId);

#[derive(Debug, Clone, Copy)]
struct Pending {
    target: QueueOffset,
    since: Instant,
}

/// Offset resets that 4.x consumers have not followed yet. Such consumers keep their own offsets, and until they have followed,
/// an offset that they store would undo the reset.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    pending: Mutex<HashMap<Place, Pending>>,
    /// The number of resets, almost always 0: then no request accepts the lock.
    count: AtomicUsize,
}

impl Resets {
    pub fn add(&self, group: &GroupName, topic: &TopicName, queue: QueueId, target: QueueOffset) {
        let mut pending = self.lock();
        let place = (group.clone(), topic.clone(), queue);
        if pending.len() < QUEUES_MAX || pending.contains_key(&place) {
            pending.insert(place, Pending { target, since: Instant::now() });
        }
        self.count.store(pending.len(), Ordering::Release);
    }

    /// Called when a consumer reads at an offset. `Some` is the offset that it has to continue at; it is returned once.
    pub fn moved(
        &self,
        group: &GroupName,
        topic: &TopicName,
        queue: QueueId,
        offset: QueueOffset,
    ) -> Option<QueueOffset> {
        let target = self.end(&(group.clone(), topic.clone(), queue), |_| true)?;
        (target != offset).then_some(target)
    }

    /// Whether an offset that a consumer stores is accepted. A consumer that stores the offset of the reset has followed it.
    pub fn accepts(&self, group: &GroupName, topic: &TopicName, queue: QueueId, offset: QueueOffset) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return true;
        }
        let place = (group.clone(), topic.clone(), queue);
        self.end(&place, |target| target == offset).is_some() || !self.lock().contains_key(&place)
    }

    pub fn expire(&self, now: Instant) {
        let mut pending = self.lock();
        pending.retain(|_, pending| now.saturating_duration_since(pending.since) < PENDING_MAX);
        self.count.store(pending.len(), Ordering::Release);
    }

    fn end(&self, place: &Place, ends: impl FnOnce(QueueOffset) -> bool) -> Option<QueueOffset> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut pending = self.lock();
        let target = pending.get(place).map(|pending| pending.target).filter(|target| ends(*target))?;
        pending.remove(place);
        self.count.store(pending.len(), Ordering::Release);
        Some(target)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_told_once_and_stores_nothing_before() {
        let resets = Resets::default();
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("t").unwrap());
        let moved = |offset| resets.moved(&group, &topic, QueueId(0), QueueOffset(offset));
        let accepts = |offset| resets.accepts(&group, &topic, QueueId(0), QueueOffset(offset));
        assert!(accepts(9) && moved(9).is_none());
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert!(!accepts(9) && !accepts(9));
        assert_eq!((moved(9), moved(9)), (Some(QueueOffset(3)), None));
        assert!(accepts(9));
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert!(accepts(3), "it has followed by itself");
        assert!(accepts(4) && moved(4).is_none());
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert_eq!(moved(3), None, "it is there already");
        assert!(accepts(4));
        resets.add(&group, &topic, QueueId(1), QueueOffset(3));
        assert!(accepts(9), "another queue");
        resets.expire(Instant::now() + PENDING_MAX);
        assert!(resets.accepts(&group, &topic, QueueId(1), QueueOffset(9)));
    }
}
