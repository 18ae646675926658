//! Runs the workers of a load, at a rate or as fast as possible, and measures throughput and latency.

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

/// Upper bound of the latency histogram.
const LATENCY_MAX_US: u64 = 60_000_000;
const REFRESH: Duration = Duration::from_millis(200);
/// How long workers may take to finish their calls when the load ends.
const DRAIN: Duration = Duration::from_secs(30);

/// A load that ends at a number of messages fails after this long without one.
const STANDSTILL: Duration = Duration::from_secs(60);

/// A sender or a receiver.
pub type Worker = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The counters and the schedule that the workers of a load share.
#[derive(Debug)]
pub struct Meter {
    measuring: AtomicBool,
    stopping: AtomicBool,
    operations: Counters,
    /// Received messages, where a load both sends and receives.
    arrivals: Counters,
    failures: AtomicU64,
    first_failure: Mutex<Option<String>>,
    pace: Option<Pace>,
    /// The number of messages that ends the load.
    until: Option<u64>,
    reached: Notify,
    ended: Notify,
}

/// Number of messages and their latencies.
#[derive(Debug)]
struct Counters {
    messages: AtomicU64,
    /// Includes those before and after the measurement.
    total: AtomicU64,
    latency: Mutex<Histogram<u64>>,
}

impl Counters {
    fn new() -> anyhow::Result<Counters> {
        let latency = Mutex::new(Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?);
        Ok(Counters { messages: AtomicU64::new(0), total: AtomicU64::new(0), latency })
    }

    /// Returns the new number of measured messages.
    fn add(&self, messages: u64, since: Instant, measuring: bool) -> u64 {
        self.total.fetch_add(messages, Ordering::Relaxed);
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

/// The time between two calls of `messages` messages each at `rate` messages per second.
pub fn interval(rate: u64, messages: u64) -> Duration {
    Duration::from_secs_f64(messages as f64 / rate.max(1) as f64)
}

/// A schedule: the n-th operation is due at `start + n * interval`. Its latency counts from then, even if a worker starts it
/// later. Otherwise a stall of the server would hide the latency of the requests that waited (coordinated omission).
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
    /// With an interval, operations follow a schedule; without one, each follows the one before.
    pub fn new(common: &Common, interval: Option<Duration>) -> anyhow::Result<Arc<Meter>> {
        Meter::ending(common.until, interval)
    }

    fn ending(until: Option<u64>, interval: Option<Duration>) -> anyhow::Result<Arc<Meter>> {
        Ok(Arc::new(Meter {
            measuring: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            operations: Counters::new()?,
            arrivals: Counters::new()?,
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

    /// Returns when the load ends.
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

    /// Waits until the next operation is due and returns that time; its latency counts from then.
    pub async fn turn(&self) -> Instant {
        let Some(pace) = &self.pace else { return Instant::now() };
        if let Ok(permit) = pace.due.acquire().await {
            permit.forget();
        }
        pace.take()
    }

    /// The same without waiting; `None` if no operation is due or the load has ended.
    pub fn turn_now(&self) -> Option<Instant> {
        if self.stopping() {
            return None;
        }
        let Some(pace) = &self.pace else { return Some(Instant::now()) };
        pace.due.try_acquire().ok()?.forget();
        Some(pace.take())
    }

    /// Records a finished operation of `messages` messages that was due at `since`.
    pub fn done(&self, messages: u64, since: Instant) {
        // Operations that finish after the end of the load are not part of the measurement.
        if self.stopping() {
            return;
        }
        let moved = self.operations.add(messages, since, self.measuring.load(Ordering::Relaxed));
        if self.until.is_some_and(|until| moved >= until) {
            self.reached.notify_one();
        }
    }

    /// Records the arrival of a message that was due to be sent at `since`.
    pub fn arrived(&self, since: Instant) {
        if self.stopping() {
            return;
        }
        self.arrivals.add(1, since, self.measuring.load(Ordering::Relaxed));
    }

    /// Throughput, latency and backlog of deliveries, where each message is due `deliveries` times.
    pub fn end_to_end(&self, elapsed: Duration, deliveries: u64) -> EndToEnd {
        let sent = self.operations.total.load(Ordering::Relaxed) * deliveries;
        let backlog = sent.saturating_sub(self.arrivals.total.load(Ordering::Relaxed));
        EndToEnd::new(self.arrivals.count(), elapsed, &self.arrivals.latency(), backlog)
    }

    pub fn failed(&self, why: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| why.to_string());
    }

    /// A line for the progress bar.
    fn summary(&self, elapsed: Duration) -> String {
        let rate = self.operations.count() as f64 / elapsed.as_secs_f64().max(0.001);
        let (p50, p99) = (self.percentile_ms(0.5), self.percentile_ms(0.99));
        format!("{rate:.0} messages/s, p50 {p50:.2} ms, p99 {p99:.2} ms")
    }

    fn percentile_ms(&self, percentile: f64) -> f64 {
        self.operations.latency().value_at_quantile(percentile) as f64 / 1000.0
    }
}

/// Releases operations when they are due. This needs its own thread: timers of the runtime have a resolution of 1 ms.
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
        // Wakes the workers that wait for their turn, so that they see the end of the load.
        pace.due.close();
    });
}

/// Runs the workers through warm-up and measurement, with a progress bar, and returns the report.
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
    // Without a warm-up the first message must count: a load that ends at a number of messages would never reach it.
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
    // Dropping the set aborts a worker whose call does not return.
    drop(tokio::time::timeout(DRAIN, async { while running.join_next().await.is_some() {} }).await);

    let latency = meter.operations.latency();
    let first_failure = meter.first_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let messages = meter.operations.count();
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

/// Returns when `until` messages are counted; an error if none is for too long.
async fn await_count(until: u64, started: Instant, meter: &Meter) -> anyhow::Result<()> {
    let bar = progress_bar(until);
    let (mut before, mut moved_at) = (0, started);
    loop {
        let moved = meter.operations.count();
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
        // A late worker still gets the turn that was due first.
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
        stopped.await.expect("a waiting task sees the end");
    }

    #[test]
    fn calls_with_many_messages_are_rarer() {
        assert_eq!(interval(1000, 1), Duration::from_millis(1));
        assert_eq!(interval(1000, 32), Duration::from_millis(32));
    }
}
