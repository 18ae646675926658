//! Runs an operation again and again, at a rate or as fast as it goes, and measures it.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{Common, report::Report, usage::Usage};

/// Longest time that the histogram tells apart.
const LATENCY_MAX_US: u64 = 60_000_000;
const REFRESH: Duration = Duration::from_millis(200);
/// How long workers may take to end what they have begun.
const DRAIN: Duration = Duration::from_secs(30);

/// What the workers of a load share.
#[derive(Debug)]
pub struct Meter {
    measuring: AtomicBool,
    stopping: AtomicBool,
    messages: AtomicU64,
    failures: AtomicU64,
    latency: Mutex<Histogram<u64>>,
    first_failure: Mutex<Option<String>>,
    pace: Option<Pace>,
}

/// A schedule: the n-th operation is due at `start + n / rate`. Its latency counts from then, however late a worker
/// gets to it: a server that stalls cannot hide the requests that had to wait.
#[derive(Debug)]
struct Pace {
    start: Instant,
    interval: Duration,
    next: AtomicU64,
    due: Semaphore,
}

impl Pace {
    fn new(rate: u64) -> Pace {
        Pace {
            start: Instant::now(),
            interval: Duration::from_secs(1) / rate.max(1) as u32,
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
        }
    }

    fn due_at(&self, n: u64) -> Instant {
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * n)
    }
}

impl Meter {
    pub fn new(rate: Option<u64>) -> anyhow::Result<Arc<Meter>> {
        Ok(Arc::new(Meter {
            measuring: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            messages: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            latency: Mutex::new(Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?),
            first_failure: Mutex::new(None),
            pace: rate.map(Pace::new),
        }))
    }

    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits for the next operation's turn: the time from which its latency counts.
    pub async fn turn(&self) -> Instant {
        let Some(pace) = &self.pace else { return Instant::now() };
        if let Ok(permit) = pace.due.acquire().await {
            permit.forget();
        }
        pace.due_at(pace.next.fetch_add(1, Ordering::Relaxed))
    }

    /// One operation that moved `messages` messages has ended; it was due at `since`.
    pub fn done(&self, messages: u64, since: Instant) {
        if self.measuring.load(Ordering::Relaxed) {
            self.messages.fetch_add(messages, Ordering::Relaxed);
            let us = (since.elapsed().as_micros() as u64).clamp(1, LATENCY_MAX_US);
            self.latency.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(us);
        }
    }

    pub fn failed(&self, why: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| why.to_string());
    }

    fn percentile_ms(&self, percentile: f64) -> f64 {
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.value_at_quantile(percentile) as f64 / 1000.0
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
    let mut running: JoinSet<()> = JoinSet::new();
    for worker in workers {
        running.spawn(worker);
    }
    tokio::time::sleep(common.warm_up()).await;
    let before = Usage::of(&common.server_pids)?;
    meter.measuring.store(true, Ordering::Relaxed);
    let started = Instant::now();
    show_progress(common.measured(), started, meter).await;
    meter.measuring.store(false, Ordering::Relaxed);
    let elapsed = started.elapsed();
    let after = Usage::of(&common.server_pids)?;
    meter.stopping.store(true, Ordering::Relaxed);
    // A worker that hangs in a call is dropped with the set.
    drop(tokio::time::timeout(DRAIN, async { while running.join_next().await.is_some() {} }).await);

    let latency = meter.latency.lock().unwrap_or_else(PoisonError::into_inner);
    let first_failure = meter.first_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let messages = meter.messages.load(Ordering::Relaxed);
    let failures = meter.failures.load(Ordering::Relaxed);
    let server = (!common.server_pids.is_empty())
        .then(|| Usage { cpu: after.cpu.saturating_sub(before.cpu), memory_bytes: after.memory_bytes });
    Ok(Report::new(name, messages, elapsed, &latency, (failures, first_failure), server))
}

async fn show_progress(length: Duration, started: Instant, meter: &Meter) {
    let bar = ProgressBar::new(length.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} {msg}") {
        bar.set_style(style);
    }
    loop {
        let elapsed = started.elapsed();
        if elapsed >= length {
            break;
        }
        let rate = meter.messages.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64().max(0.001);
        let (p50, p99) = (meter.percentile_ms(0.5), meter.percentile_ms(0.99));
        bar.set_position(elapsed.as_millis() as u64);
        bar.set_message(format!("{rate:.0} messages/s, p50 {p50:.2} ms, p99 {p99:.2} ms"));
        tokio::time::sleep(REFRESH.min(length - elapsed)).await;
    }
    bar.finish_and_clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_of_a_paced_load_are_due_by_the_schedule_not_by_the_worker() {
        let meter = Meter::new(Some(1000)).expect("a histogram");
        keep_pace(&meter);
        let first = meter.turn().await;
        // A worker that comes late still gets the turn that was due long ago.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = meter.turn().await;
        assert_eq!(second - first, Duration::from_millis(1));
        meter.measuring.store(true, Ordering::Relaxed);
        meter.done(1, second);
        assert!(meter.percentile_ms(0.5) >= 48.0, "the wait counts: {}", meter.percentile_ms(0.5));
        meter.stopping.store(true, Ordering::Relaxed);
    }
}
