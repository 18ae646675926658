use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redstart_engine::{GroupName, QueueId, QueueOffset, TopicName};

/// Consumers that have not followed by then never will: they are gone, and others begin at the stored offset.
const PENDING_MAX: Duration = Duration::from_secs(300);
const QUEUES_MAX: usize = 100_000;

type Place = (GroupName, TopicName, QueueId);

#[derive(Debug, Clone, Copy)]
struct Pending {
    target: QueueOffset,
    since: Instant,
}

/// Groups that an operator moved while their 4.x consumers were at work. Those keep their own offsets: until they have
/// followed, what they store would undo the move.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    pending: Mutex<HashMap<Place, Pending>>,
    /// Almost always 0, and then nobody waits for the lock.
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

    /// A consumer reads at an offset. `Some` when it must go elsewhere first; that is told once.
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

    /// Whether what a consumer wants to store counts. When it stores where it was moved to, it has followed.
    pub fn takes(&self, group: &GroupName, topic: &TopicName, queue: QueueId, offset: QueueOffset) -> bool {
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
        let takes = |offset| resets.takes(&group, &topic, QueueId(0), QueueOffset(offset));
        assert!(takes(9) && moved(9).is_none());
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert!(!takes(9) && !takes(9));
        assert_eq!((moved(9), moved(9)), (Some(QueueOffset(3)), None));
        assert!(takes(9));
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert!(takes(3), "it has followed by itself");
        assert!(takes(4) && moved(4).is_none());
        resets.add(&group, &topic, QueueId(0), QueueOffset(3));
        assert_eq!(moved(3), None, "it is there already");
        assert!(takes(4));
        resets.add(&group, &topic, QueueId(1), QueueOffset(3));
        assert!(takes(9), "another queue");
        resets.expire(Instant::now() + PENDING_MAX);
        assert!(resets.takes(&group, &topic, QueueId(1), QueueOffset(9)));
    }
}
