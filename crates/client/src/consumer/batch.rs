//! Messages that are processed several at a time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Display,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{
    Delivery, Outcome, Settle,
    core::{Core, Phase},
    worker::{GroupKey, Running, guarded, key_of, log, outcome_of, settle_as},
};
use tracing::Instrument as _;

use crate::Received;

const COUNT_MAX: usize = 1024;
const WAIT_MAX: Duration = Duration::from_secs(450);

/// When collected messages go to the handler: as soon as there are so many, or so many bytes, or the first has waited so long.
///
/// While messages wait they are renewed, so that the wait may be longer than the invisible time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Messages of a batch, 1 to 1,024.
    pub count: usize,
    /// Bytes of a batch; a larger message goes alone.
    pub bytes: usize,
    /// The longest wait of the first message, up to 450 s. 0: what is there goes at once.
    pub wait: Duration,
}

impl Default for BatchPolicy {
    /// 32 messages, 4 MiB, no wait.
    fn default() -> BatchPolicy {
        BatchPolicy { count: 32, bytes: 4 << 20, wait: Duration::ZERO }
    }
}

impl BatchPolicy {
    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        if !(1..=COUNT_MAX).contains(&self.count) {
            faults.push(format!("batches of {} messages; it must be 1 to {COUNT_MAX}", self.count));
        }
        if self.bytes == 0 {
            faults.push("batches of 0 bytes".to_owned());
        }
        if self.wait > WAIT_MAX {
            faults.push(format!(
                "a wait of {} s for a batch; the limit is {} s",
                self.wait.as_secs(),
                WAIT_MAX.as_secs()
            ));
        }
    }
}

/// Messages of one topic that are processed together, in the order in which they came.
///
/// When the handler returns `Ok`, every message is done but those that [`settle`](Batch::settle) says otherwise of. When it returns an
/// error, every message comes again but those.
#[derive(Debug, Clone)]
pub struct Batch {
    messages: Arc<Vec<Received>>,
    outcomes: Arc<Mutex<HashMap<usize, Outcome>>>,
}

impl Batch {
    fn new(messages: Vec<Received>) -> Batch {
        Batch { messages: Arc::new(messages), outcomes: Arc::default() }
    }

    /// The messages.
    pub fn messages(&self) -> &[Received] {
        &self.messages
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Never: a batch has at least one message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Says what becomes of one message, by its place in the batch. The later word counts; a place that is not there is ignored.
    pub fn settle(&self, index: usize, outcome: Outcome) {
        if index < self.messages.len() {
            self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(index, outcome);
        }
    }

    fn outcome(&self, index: usize) -> Option<Outcome> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).remove(&index)
    }
}

/// Messages of one topic that wait to become a batch. Of a message group only one batch is out, and it holds the oldest of those that
/// wait.
#[derive(Debug)]
struct Gather<K, T> {
    waiting: VecDeque<Waiting<K, T>>,
    out: HashSet<K>,
}

#[derive(Debug)]
struct Waiting<K, T> {
    key: Option<K>,
    item: T,
    bytes: usize,
    since: Instant,
}

impl<K: Eq + Hash + Clone, T> Gather<K, T> {
    fn new() -> Gather<K, T> {
        Gather { waiting: VecDeque::new(), out: HashSet::new() }
    }

    fn push(&mut self, key: Option<K>, item: T, bytes: usize, now: Instant) {
        self.waiting.push_back(Waiting { key, item, bytes, since: now });
    }

    fn is_free(&self, waiting: &Waiting<K, T>) -> bool {
        waiting.key.as_ref().is_none_or(|key| !self.out.contains(key))
    }

    /// When the next batch is due: now, later, or not before something changes.
    fn due(&self, policy: &BatchPolicy) -> Option<Instant> {
        let mut free = self.waiting.iter().filter(|waiting| self.is_free(waiting));
        let first = free.next()?;
        let (mut count, mut bytes) = (1, first.bytes);
        for waiting in free {
            if count >= policy.count || bytes >= policy.bytes {
                break;
            }
            count += 1;
            bytes += waiting.bytes;
        }
        let full = count >= policy.count || bytes >= policy.bytes;
        Some(if full { first.since } else { first.since + policy.wait })
    }

    /// The next batch: the oldest that may go, as many as fit.
    fn take(&mut self, policy: &BatchPolicy) -> Vec<T> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut kept = VecDeque::with_capacity(self.waiting.len());
        let mut keys = HashSet::new();
        let mut full = false;
        for waiting in std::mem::take(&mut self.waiting) {
            let fits =
                batch.is_empty() || (batch.len() < policy.count && bytes + waiting.bytes <= policy.bytes);
            full |= self.is_free(&waiting) && !fits;
            if full || !self.is_free(&waiting) {
                kept.push_back(waiting);
                continue;
            }
            bytes += waiting.bytes;
            keys.extend(waiting.key);
            batch.push(waiting.item);
        }
        self.waiting = kept;
        self.out.extend(keys);
        batch
    }

    /// A batch is done. Later messages of a key whose message comes again must not be processed before it: they are returned.
    fn done(&mut self, keys: &HashSet<K>, failed: &HashSet<K>) -> Vec<T> {
        self.out.retain(|key| !keys.contains(key));
        let (behind, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.key.as_ref().is_some_and(|key| failed.contains(key)));
        self.waiting = kept.into();
        behind.into_iter().map(|waiting| waiting.item).collect()
    }

    fn drain(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|waiting| waiting.item).collect()
    }
}

/// What a batch leaves behind.
struct Finished {
    topic: String,
    keys: HashSet<GroupKey>,
    failed: HashSet<GroupKey>,
}

/// Collects deliveries and hands batches to handlers, as many at a time as may run.
pub(super) async fn dispatch<H, F, E>(
    core: Arc<Core>,
    policy: BatchPolicy,
    handler: Arc<H>,
    concurrency: usize,
) where
    H: Fn(Batch) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(concurrency));
    let mut topics: HashMap<String, Gather<GroupKey, Delivery>> = HashMap::new();
    let mut jobs: JoinSet<Finished> = JoinSet::new();
    while core.phase() == Phase::Running {
        let arrived = core.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        while let Some(delivery) = core.take() {
            let Some(delivery) = readable(delivery, &mut jobs) else { continue };
            let gather = topics.entry(delivery.topic().to_owned()).or_insert_with(Gather::new);
            let (key, bytes) = (key_of(&delivery), delivery.body().len());
            gather.push(key, delivery, bytes, Instant::now());
        }
        let mut next: Option<Instant> = None;
        for (topic, gather) in &mut topics {
            while let Some(due) = gather.due(&policy) {
                if due > Instant::now() {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    break;
                }
                let Ok(slot) = slots.clone().try_acquire_owned() else { break };
                let (core, handler, topic) = (core.clone(), handler.clone(), topic.clone());
                let batch = gather.take(&policy);
                let running = Running::new(&core);
                jobs.spawn(async move {
                    let finished = process(&core, &*handler, topic, batch).await;
                    drop((running, slot));
                    finished
                });
            }
        }
        let due = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = arrived => {}
            () = due => {}
            Some(job) = jobs.join_next(), if !jobs.is_empty() => {
                if let Ok(Finished { topic, keys, failed }) = job
                    && let Some(gather) = topics.get_mut(&topic)
                {
                    core.give_back(gather.done(&keys, &failed));
                }
            }
            () = core.stopping() => {}
        }
    }
    for gather in topics.values_mut() {
        core.give_back(gather.drain());
    }
    core.give_back(core.take_all());
    while jobs.join_next().await.is_some() {}
}

/// A delivery whose body can be shown. The others go to the dead letters.
fn readable(delivery: Delivery, jobs: &mut JoinSet<Finished>) -> Option<Delivery> {
    let Some(error) = delivery.body_error() else { return Some(delivery) };
    let reason = format!("the body cannot be read: {error}");
    jobs.spawn(async move {
        log(delivery.dead_letter(&reason).await);
        Finished { topic: String::new(), keys: HashSet::new(), failed: HashSet::new() }
    });
    None
}

async fn process<H, F, E>(core: &Arc<Core>, handler: &H, topic: String, deliveries: Vec<Delivery>) -> Finished
where
    H: Fn(Batch) -> F,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let (messages, settles): (Vec<Received>, Vec<Settle>) =
        deliveries.into_iter().map(Delivery::into_parts).unzip();
    let batch = Batch::new(messages);
    let span = core.client.tracer().process_batch(&core.settings.group, batch.messages());
    let result = guarded(|| handler(batch.clone()).instrument(span.clone())).await;
    let otherwise = batch.messages().first().map_or(Outcome::Done, |first| outcome_of(first, result));
    let keys: HashSet<GroupKey> = batch.messages().iter().filter_map(key_of).collect();
    let mut failed = HashSet::new();
    let (mut done, mut others) = (Vec::new(), JoinSet::new());
    for (index, settle) in settles.into_iter().enumerate() {
        let outcome = batch.outcome(index).unwrap_or_else(|| otherwise.clone());
        if settle.held().is_lost() {
            failed.extend(key_of(&batch.messages()[index]));
            continue;
        }
        match outcome {
            Outcome::Done => done.push(settle),
            outcome => {
                if !matches!(outcome, Outcome::DeadLetter(_)) {
                    failed.extend(key_of(&batch.messages()[index]));
                }
                others.spawn(settle_as(settle, outcome));
            }
        }
    }
    if !done.is_empty() {
        let held: Vec<_> = done.iter().map(|settle| settle.held().clone()).collect();
        let results = core.ack_all(&held).await;
        done.into_iter().zip(results).for_each(|(mut settle, result)| log(settle.finish(result)));
    }
    while others.join_next().await.is_some() {}
    Finished { topic, keys, failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(count: usize, bytes: usize, wait: u64) -> BatchPolicy {
        BatchPolicy { count, bytes, wait: Duration::from_secs(wait) }
    }

    #[tokio::test]
    async fn a_batch_goes_when_it_is_full_or_its_first_has_waited() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut gather: Gather<&str, u32> = Gather::new();
        let policy = policy(3, 100, 10);
        assert_eq!(gather.due(&policy), None);
        gather.push(None, 1, 10, now);
        gather.push(None, 2, 10, later);
        assert_eq!(gather.due(&policy), Some(now + Duration::from_secs(10)), "since the first");
        gather.push(None, 3, 10, later);
        assert_eq!(gather.due(&policy), Some(now), "full by count");
        gather.push(None, 4, 10, later);
        assert_eq!(gather.take(&policy), [1, 2, 3]);
        assert_eq!(gather.due(&policy), Some(later + Duration::from_secs(10)));
        gather.push(None, 5, 95, later);
        assert_eq!(gather.due(&policy), Some(later), "full by bytes");
        assert_eq!(gather.take(&policy), [4], "5 does not fit any more");
        assert_eq!(gather.take(&policy), [5]);
        gather.push(None, 6, 1000, now);
        assert_eq!(gather.take(&policy), [6], "a larger one goes alone");
    }

    #[tokio::test]
    async fn of_a_message_group_one_batch_is_out_and_it_is_a_prefix() {
        let now = Instant::now();
        let mut gather = Gather::new();
        let policy = policy(3, 100, 0);
        for (key, item) in [(Some("a"), 1), (Some("a"), 2), (Some("b"), 3), (Some("a"), 4), (None, 5)] {
            gather.push(key, item, 1, now);
        }
        assert_eq!(gather.take(&policy), [1, 2, 3]);
        assert_eq!(gather.take(&policy), [5], "4 waits for its group");
        assert_eq!(gather.due(&policy), None);
        let keys = HashSet::from(["a", "b"]);
        assert_eq!(gather.done(&keys, &HashSet::new()), [0; 0]);
        assert_eq!(gather.take(&policy), [4]);
    }

    #[tokio::test]
    async fn what_is_behind_a_message_that_comes_again_is_not_processed_before_it() {
        let now = Instant::now();
        let mut gather = Gather::new();
        let policy = policy(1, 100, 0);
        for (key, item) in [(Some("a"), 1), (Some("a"), 2), (Some("b"), 3), (Some("a"), 4)] {
            gather.push(key, item, 1, now);
        }
        assert_eq!(gather.take(&policy), [1]);
        let keys = HashSet::from(["a"]);
        assert_eq!(gather.done(&keys, &keys), [2, 4], "both go back");
        assert_eq!(gather.drain(), [3]);
    }

    #[test]
    fn the_limits_of_the_policy_are_checked() {
        let faults = |policy: BatchPolicy| {
            let mut faults = Vec::new();
            policy.faults(&mut faults);
            faults.len()
        };
        assert_eq!(faults(BatchPolicy::default()), 0);
        assert_eq!(faults(policy(1024, 1, 450)), 0);
        assert_eq!(faults(policy(0, 0, 451)), 3);
        assert_eq!(faults(policy(1025, 1, 0)), 1);
    }
}
