//! Runs an operation again and again, at a rate or as fast as it goes, and measures it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};

use super::{
    Common,
    report::{EndToEnd, Report},
    usage::Usage,
};

/// Longest time that the histogram tells apart.
const LATENCY_MAX_US: u64 = 60_000_000;
const REFRESH: Duration = Duration::from_millis(200);
/// How long workers may take to end what they have begun.
const DRAIN: Duration = Duration::from_secs(30);

/// A load that is to end by a count is given up when so long nothing has moved.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Workers of different kinds, side by side.
pub type Worker = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the workers of a load share.
#[derive(Debug)]
pub struct Meter {
    measuring: AtomicBool,
    stopping: AtomicBool,
    tally: Tally,
    /// What arrives, where a load sends and receives at once.
    arrivals: Tally,
    failures: AtomicU64,
    first_failure: Mutex<Option<String>>,
    pace: Option<Pace>,
    /// The count of messages that ends the load.
    until: Option<u64>,
    reached: Notify,
    ended: Notify,
}

/// How many messages there were and how long they took.
#[derive(Debug)]
struct Tally {
    messages: AtomicU64,
    /// Those before and after the measurement as well.
    ever: AtomicU64,
    latency: Mutex<Histogram<u64>>,
}

impl Tally {
    fn new() -> anyhow::Result<Tally> {
        let latency = Mutex::new(Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?);
        Ok(Tally { messages: AtomicU64::new(0), ever: AtomicU64::new(0), latency })
    }

    /// Says how many there are now.
    fn add(&self, messages: u64, since: Instant, measuring: bool) -> u64 {
        self.ever.fetch_add(messages, Ordering::Relaxed);
        if !measuring {
            return self.count();
        }
        let us = (since.elapsed().as_micros() as u64).clamp(1, LATENCY_MAX_US);
        self.latency().saturating_record(us);
        self.messages.fetch_add(messages, Ordering::Relaxed) + messages
    }

    fn count(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    fn latency(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time between two calls that move so many messages each.
pub fn interval(rate: u64, messages: u64) -> Duration {
    Duration::from_secs_f64(messages as f64 / rate.max(1) as f64)
}

/// A schedule: the n-th operation is due at `start + n * interval`. Its latency counts from then, however late a worker
/// gets to it: a server that stalls cannot hide the requests that had to wait.
#[derive(Debug)]
struct Pace {
    start: Instant,
    interval: Duration,
    next: AtomicU64,
    due: Semaphore,
}

impl Pace {
    fn new(interval: Duration) -> Pace {
        Pace {
            start: Instant::now(),
            interval: interval.max(Duration::from_nanos(1)),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
        }
    }

    fn take(&self) -> Instant {
        self.due_at(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn due_at(&self, n: u64) -> Instant {
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * n)
    }
}

impl Meter {
    /// A load whose operations are due at this interval, or follow each other.
    pub fn new(common: &Common, interval: Option<Duration>) -> anyhow::Result<Arc<Meter>> {
        Meter::ending(common.until, interval)
    }

    fn ending(until: Option<u64>, interval: Option<Duration>) -> anyhow::Result<Arc<Meter>> {
        Ok(Arc::new(Meter {
            measuring: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            tally: Tally::new()?,
            arrivals: Tally::new()?,
            failures: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            pace: interval.map(Pace::new),
            until,
            reached: Notify::new(),
            ended: Notify::new(),
        }))
    }

    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits for the end of the load.
    pub async fn stopped(&self) {
        let ended = self.ended.notified();
        if !self.stopping() {
            ended.await;
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    /// Waits for the next operation's turn: the time from which its latency counts.
    pub async fn turn(&self) -> Instant {
        let Some(pace) = &self.pace else { return Instant::now() };
        if let Ok(permit) = pace.due.acquire().await {
            permit.forget();
        }
        pace.take()
    }

    /// The same without a wait: nothing if no turn has come, or none will any more.
    pub fn turn_now(&self) -> Option<Instant> {
        if self.stopping() {
            return None;
        }
        let Some(pace) = &self.pace else { return Some(Instant::now()) };
        pace.due.try_acquire().ok()?.forget();
        Some(pace.take())
    }

    /// One operation that moved `messages` messages has ended; it was due at `since`.
    pub fn done(&self, messages: u64, since: Instant) {
        // What ends after the load is nobody's business.
        if self.stopping() {
            return;
        }
        let moved = self.tally.add(messages, since, self.measuring.load(Ordering::Relaxed));
        if self.until.is_some_and(|until| moved >= until) {
            self.reached.notify_one();
        }
    }

    /// A message that was due to be sent at `since` has arrived.
    pub fn arrived(&self, since: Instant) {
        if self.stopping() {
            return;
        }
        self.arrivals.add(1, since, self.measuring.load(Ordering::Relaxed));
    }

    /// What became of the messages, each of which is to be delivered so many times.
    pub fn end_to_end(&self, elapsed: Duration, deliveries: u64) -> EndToEnd {
        let sent = self.tally.ever.load(Ordering::Relaxed) * deliveries;
        let backlog = sent.saturating_sub(self.arrivals.ever.load(Ordering::Relaxed));
        EndToEnd::new(self.arrivals.count(), elapsed, &self.arrivals.latency(), backlog)
    }

    pub fn failed(&self, why: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| why.to_string());
    }

    /// How it goes, for the progress bar.
    fn summary(&self, elapsed: Duration) -> String {
        let rate = self.tally.count() as f64 / elapsed.as_secs_f64().max(0.001);
        let (p50, p99) = (self.percentile_ms(0.5), self.percentile_ms(0.99));
        format!("{rate:.0} messages/s, p50 {p50:.2} ms, p99 {p99:.2} ms")
    }

    fn percentile_ms(&self, percentile: f64) -> f64 {
        self.tally.latency().value_at_quantile(percentile) as f64 / 1000.0
    }
}

/// Releases operations when they are due. A thread of its own, because the runtime's timer is exact to 1 ms only.
fn keep_pace(meter: &Arc<Meter>) {
    let meter = meter.clone();
    thread::spawn(move || {
        let Some(pace) = &meter.pace else { return };
        let mut released = 0;
        while !meter.stopping() {
            let now = Instant::now();
            let mut due = 0;
            while pace.due_at(released + due) <= now {
                due += 1;
            }
            pace.due.add_permits(due as usize);
            released += due;
            thread::sleep(pace.due_at(released).saturating_duration_since(Instant::now()).min(REFRESH));
        }
        // Whoever still waits for a turn goes on and sees that it is over.
        pace.due.close();
    });
}

/// Runs the workers through warm-up and measurement, with a progress bar, and says what came of it.
pub async fn measure<F>(
    name: &'static str,
    common: &Common,
    meter: &Arc<Meter>,
    workers: impl IntoIterator<Item = F>,
) -> anyhow::Result<Report>
where
    F: Future<Output = ()> + Send + 'static,
{
    keep_pace(meter);
    let warm_up = common.warm_up();
    let mut before = Usage::of(&common.target.server_pids)?;
    let mut started = Instant::now();
    // Without a warm-up the first message counts: a load that ends by a count would wait for it in vain.
    meter.measuring.store(warm_up.is_zero(), Ordering::Relaxed);
    let mut running: JoinSet<()> = JoinSet::new();
    for worker in workers {
        running.spawn(worker);
    }
    if !warm_up.is_zero() {
        tokio::time::sleep(warm_up).await;
        (before, started) = (Usage::of(&common.target.server_pids)?, Instant::now());
        meter.measuring.store(true, Ordering::Relaxed);
    }
    match common.until {
        Some(until) => await_count(until, started, meter).await?,
        None => show_progress(common.measured(), started, meter).await,
    }
    meter.measuring.store(false, Ordering::Relaxed);
    let elapsed = started.elapsed();
    let after = Usage::of(&common.target.server_pids)?;
    meter.stop();
    // A worker that hangs in a call is dropped with the set.
    drop(tokio::time::timeout(DRAIN, async { while running.join_next().await.is_some() {} }).await);

    let latency = meter.tally.latency();
    let first_failure = meter.first_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let messages = meter.tally.count();
    let failures = meter.failures.load(Ordering::Relaxed);
    let server = (!common.target.server_pids.is_empty())
        .then(|| Usage { cpu: after.cpu.saturating_sub(before.cpu), memory_bytes: after.memory_bytes });
    Ok(Report::new(
        (name, common.target.protocol.name()),
        messages,
        elapsed,
        &latency,
        (failures, first_failure),
        server,
    ))
}

async fn show_progress(length: Duration, started: Instant, meter: &Meter) {
    let bar = progress_bar(length.as_millis() as u64);
    loop {
        let elapsed = started.elapsed();
        if elapsed >= length {
            break;
        }
        bar.set_position(elapsed.as_millis() as u64);
        bar.set_message(meter.summary(elapsed));
        tokio::time::sleep(REFRESH.min(length - elapsed)).await;
    }
    bar.finish_and_clear();
}

/// Goes on until so many messages have moved; it is an error when they stop coming.
async fn await_count(until: u64, started: Instant, meter: &Meter) -> anyhow::Result<()> {
    let bar = progress_bar(until);
    let (mut before, mut moved_at) = (0, started);
    loop {
        let moved = meter.tally.count();
        if moved >= until {
            break;
        }
        if moved > before {
            (before, moved_at) = (moved, Instant::now());
        } else if moved_at.elapsed() > STANDSTILL {
            bail!("{moved} of {until} messages, and no further one within {} s", STANDSTILL.as_secs());
        }
        bar.set_position(moved);
        bar.set_message(meter.summary(started.elapsed()));
        drop(tokio::time::timeout(REFRESH, meter.reached.notified()).await);
    }
    bar.finish_and_clear();
    Ok(())
}

fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_of_a_paced_load_are_due_by_the_schedule_not_by_the_worker() {
        let meter = Meter::ending(None, Some(interval(1000, 1))).expect("a histogram");
        keep_pace(&meter);
        let first = meter.turn().await;
        // A worker that comes late still gets the turn that was due long ago.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = meter.turn().await;
        assert_eq!(second - first, Duration::from_millis(1));
        meter.measuring.store(true, Ordering::Relaxed);
        meter.done(1, second);
        assert!(meter.percentile_ms(0.5) >= 48.0, "the wait counts: {}", meter.percentile_ms(0.5));
        meter.stop();
    }

    #[tokio::test]
    async fn a_load_ends_when_its_count_is_reached() {
        let meter = Meter::ending(Some(3), None).expect("a histogram");
        meter.measuring.store(true, Ordering::Relaxed);
        let waiting = tokio::spawn({
            let meter = meter.clone();
            async move { await_count(3, Instant::now(), &meter).await }
        });
        meter.done(1, Instant::now());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one of three");
        meter.done(2, Instant::now());
        waiting.await.expect("no panic").expect("reached");
        let stopped = tokio::spawn({
            let meter = meter.clone();
            async move { meter.stopped().await }
        });
        meter.stop();
        stopped.await.expect("whoever waits for the end sees it");
    }

    #[test]
    fn calls_with_many_messages_are_rarer() {
        assert_eq!(interval(1000, 1), Duration::from_millis(1));
        assert_eq!(interval(1000, 32), Duration::from_millis(32));
    }
}
