//! Queue locks of orderly 4.x consumers. A lock ends when its client releases it, or has not renewed it for 60 s.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redstart_wire::remoting::{
    body::{LockQueues, LockedQueues, Queue},
    code,
};

use super::{
    peer_text,
    refusal::Refusal,
    request::{Answer, Request},
};

const LOCK_EXPIRY: Duration = Duration::from_secs(60);
/// Queues in one request, and queues that one group may lock.
const QUEUES_MAX: usize = 65_536;
/// Locked queues of all groups.
const LOCKS_MAX: usize = 200_000;

#[derive(Debug, Clone)]
struct Lock {
    client: Arc<str>,
    renewed: Instant,
}

type Groups = HashMap<String, HashMap<Queue, Lock>>;

#[derive(Debug, Default)]
pub(super) struct QueueLocks {
    groups: Mutex<Groups>,
}

impl QueueLocks {
    /// Locks the queues that are free or locked by the client already; returns those.
    fn lock(&self, group: &str, client: &str, queues: Vec<Queue>, now: Instant) -> Vec<Queue> {
        let mut groups = self.groups();
        let mut room = LOCKS_MAX.saturating_sub(groups.values().map(HashMap::len).sum());
        let client: Arc<str> = client.into();
        let locks = groups.entry(group.to_owned()).or_default();
        let mut locked = Vec::new();
        for queue in queues.into_iter().take(QUEUES_MAX) {
            let free = locks.get(&queue).is_none_or(|lock| {
                lock.client == client || now.saturating_duration_since(lock.renewed) > LOCK_EXPIRY
            });
            let known = locks.contains_key(&queue);
            if free && (known || (room > 0 && locks.len() < QUEUES_MAX)) {
                room -= usize::from(!known);
                locks.insert(queue.clone(), Lock { client: client.clone(), renewed: now });
                locked.push(queue);
            }
        }
        if locks.is_empty() {
            groups.remove(group);
        }
        locked
    }

    fn unlock(&self, group: &str, client: &str, queues: &[Queue]) {
        let mut groups = self.groups();
        let Some(locks) = groups.get_mut(group) else { return };
        for queue in queues {
            if locks.get(queue).is_some_and(|lock| &*lock.client == client) {
                locks.remove(queue);
            }
        }
        if locks.is_empty() {
            groups.remove(group);
        }
    }

    pub fn expire(&self, now: Instant) {
        self.groups().retain(|_, locks| {
            locks.retain(|_, lock| now.saturating_duration_since(lock.renewed) <= LOCK_EXPIRY);
            !locks.is_empty()
        });
    }

    /// Whether a consumer of the group holds a queue lock, which only orderly consumers do.
    pub fn is_locked(&self, group: &str, now: Instant) -> bool {
        let valid = |lock: &Lock| now.saturating_duration_since(lock.renewed) <= LOCK_EXPIRY;
        self.groups().get(group).is_some_and(|locks| locks.values().any(valid))
    }

    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(request: &Request) -> Result<LockQueues, Refusal> {
    let body: LockQueues = request.json()?;
    if body.consumer_group.is_empty() || body.client_id.is_empty() {
        return Err(Refusal::invalid("consumerGroup and clientId must be there"));
    }
    if request.context.members.is_of_another_user(&body.consumer_group, &body.client_id, &request.peer) {
        return Err(Refusal::new(code::NO_PERMISSION, "this client id is used by another user"));
    }
    peer_text::check("consumerGroup", &body.consumer_group)?;
    peer_text::check("clientId", &body.client_id)?;
    for queue in &body.mq_set {
        peer_text::check("topic", &queue.topic)?;
        peer_text::check("broker name", &queue.broker_name)?;
    }
    Ok(body)
}

pub(super) fn lock(request: &Request) -> Result<Answer, Refusal> {
    let LockQueues { consumer_group, client_id, mq_set } = read(request)?;
    let locked = request.context.queue_locks.lock(&consumer_group, &client_id, mq_set, Instant::now());
    Ok(Answer::json(&LockedQueues { locked }))
}

pub(super) fn unlock(request: &Request) -> Result<Answer, Refusal> {
    let LockQueues { consumer_group, client_id, mq_set } = read(request)?;
    request.context.queue_locks.unlock(&consumer_group, &client_id, &mq_set);
    Ok(Answer::ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i32) -> Queue {
        Queue { broker_name: "b".to_owned(), queue_id: id, topic: "t".to_owned() }
    }

    #[test]
    fn a_lock_moves_only_after_release_or_expiry() {
        let locks = QueueLocks::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let both = || vec![queue(0), queue(1)];
        assert_eq!(locks.lock("g", "a", both(), start), both());
        assert_eq!(locks.lock("g", "b", both(), later(60)), [], "held");
        assert_eq!(locks.lock("other", "b", both(), start), both(), "of another group");
        assert_eq!(locks.lock("g", "a", vec![queue(0)], later(60)), [queue(0)], "renewed");
        assert_eq!(locks.lock("g", "b", both(), later(61)), [queue(1)], "not renewed");
        locks.unlock("g", "b", &[queue(0)]);
        assert_eq!(locks.lock("g", "b", vec![queue(0)], later(62)), [], "not its own to release");
        locks.unlock("g", "a", &[queue(0)]);
        assert_eq!(locks.lock("g", "b", vec![queue(0)], later(62)), [queue(0)]);
        assert!(locks.is_locked("g", later(62)));
    }

    #[test]
    fn locks_are_bounded_in_all_and_a_group_without_any_is_not_kept() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        let many = || (0..QUEUES_MAX as i32).map(queue).collect::<Vec<_>>();
        let held: usize = (0..5).map(|n| locks.lock(&format!("g{n}"), "a", many(), now).len()).sum();
        assert_eq!(held, LOCKS_MAX);
        assert_eq!(locks.lock("g9", "a", vec![queue(0)], now), []);
        assert!(!locks.groups().contains_key("g9"));
        assert_eq!(locks.lock("g0", "a", vec![queue(0)], now), [queue(0)], "renewed");
    }

    #[test]
    fn a_lock_ends_sixty_seconds_after_it_was_last_renewed() {
        let locks = QueueLocks::default();
        let start = Instant::now();
        let later = |millis| start + Duration::from_millis(millis);
        locks.lock("g", "a", vec![queue(0)], start);
        locks.lock("g", "a", vec![queue(0)], later(20_000));
        for sweep in [false, true] {
            if sweep {
                locks.expire(later(80_000));
            }
            assert!(locks.is_locked("g", later(80_000)), "to the last millisecond");
            assert_eq!(locks.lock("g", "b", vec![queue(0)], later(80_000)), []);
        }
        assert!(!locks.is_locked("g", later(80_001)), "even before anybody has swept");
        locks.expire(later(80_001));
        assert!(locks.groups().is_empty(), "nothing is left behind");
        assert_eq!(locks.lock("g", "b", vec![queue(0)], later(80_001)), [queue(0)]);
    }
}
