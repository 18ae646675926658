//! The thread that makes appended frames durable, and the choice between it and a flush on the owner thread.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use redstart_log::{Error as LogError, Flusher, Index};

use super::{Counters, Flush};
use crate::throttle::Throttle;

static SLOW_FLUSHES: Throttle = Throttle::new();

/// A flush that takes this long is logged: every sender waits for it.
const SLOW_FLUSH: Duration = Duration::from_secs(1);

/// If the last flush took no longer than this, the next one runs on the owner thread: two thread switches cost about as much, and the
/// messages that come during the flush make one frame instead of many small ones. A request waits for it no longer than this.
const SHORT_FLUSH: Duration = Duration::from_millis(1);

/// Makes frames durable, on a thread of its own or on the caller's. An order only means that something was appended: one flush covers
/// all frames that were appended while the one before ran, and it never waits for more.
pub(super) struct FlushThread {
    mode: Flush,
    flusher: Arc<dyn Flusher>,
    counters: Arc<Counters>,
    /// Holds at most one order: a second one would mean the same.
    orders: Option<Sender<()>>,
    pub reports: Receiver<FlushReport>,
    /// Flushes that were ordered or begun and are not reported yet.
    unreported: usize,
    last_took: Duration,
    /// What the thread does; `None` once it has started.
    work: Option<Box<dyn FnOnce() + Send>>,
    thread: Option<JoinHandle<()>>,
}

/// The result of a flush.
#[derive(Debug)]
pub(super) struct FlushReport {
    pub committed: Result<Index, LogError>,
    took: Duration,
}

impl FlushThread {
    pub fn new(flusher: Arc<dyn Flusher>, mode: Flush, counters: Arc<Counters>) -> FlushThread {
        let (orders, wanted) = bounded::<()>(1);
        let (report, reports) = unbounded();
        let work = {
            let (flusher, counters) = (Arc::clone(&flusher), Arc::clone(&counters));
            move || {
                let flush = || flush(&*flusher, &counters);
                match mode {
                    Flush::Sync => flush_at_once(flush, &wanted, &report),
                    Flush::Async { interval } => flush_at_intervals(flush, interval, &wanted, &report),
                }
            }
        };
        FlushThread {
            mode,
            flusher,
            counters,
            orders: Some(orders),
            reports,
            unreported: 0,
            last_took: Duration::MAX,
            work: Some(Box::new(work)),
            thread: None,
        }
    }

    pub fn order(&mut self) {
        // A shard that nothing is sent to needs no thread.
        if let Some(work) = self.work.take() {
            match std::thread::Builder::new().name("shard-flusher".to_owned()).spawn(work) {
                Ok(thread) => self.thread = Some(thread),
                // The channel of reports is closed with the work, by which the owner notices.
                Err(error) => tracing::error!(%error, "cannot start the thread that makes frames durable"),
            }
        }
        if let Some(orders) = &self.orders {
            match orders.try_send(()) {
                Ok(()) => self.unreported += 1,
                Err(TrySendError::Full(())) | Err(TrySendError::Disconnected(())) => {}
            }
        }
    }

    /// Whether to flush on the caller's thread: the disk is quick, and no flush is under way.
    pub fn prefers_caller(&self) -> bool {
        matches!(self.mode, Flush::Sync) && self.unreported == 0 && self.last_took <= SHORT_FLUSH
    }

    /// Flushes on the caller's thread.
    pub fn flush(&mut self) -> FlushReport {
        self.unreported += 1;
        flush(&*self.flusher, &self.counters)
    }

    /// Has to be called for every report.
    pub fn reported(&mut self, report: &FlushReport) {
        self.unreported = self.unreported.saturating_sub(1);
        self.last_took = report.took;
    }

    /// Ends the thread after a flush that was ordered; its last reports stay in the channel.
    pub fn finish(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // After a panic the last report is missing, which the owner notices.
            drop(thread.join());
        }
    }
}

impl Drop for FlushThread {
    fn drop(&mut self) {
        self.finish();
    }
}

/// All frames that were appended before the call are durable after it. Logs a slow flush.
fn flush(flusher: &dyn Flusher, counters: &Counters) -> FlushReport {
    let (covered, began) = (counters.appended_bytes(), Instant::now());
    let committed = flusher.flush();
    let took = began.elapsed();
    if committed.is_ok() {
        counters.flush_took(took, covered);
    }
    if took >= SLOW_FLUSH
        && let Some(repeated) = SLOW_FLUSHES.permit()
    {
        let millis = took.as_millis() as u64;
        tracing::warn!(millis, repeated, "a flush took long: the disk is slow or busy");
    }
    FlushReport { committed, took }
}

fn flush_at_once(flush: impl Fn() -> FlushReport, wanted: &Receiver<()>, report: &Sender<FlushReport>) {
    for () in wanted {
        if report.send(flush()).is_err() {
            return;
        }
    }
}

fn flush_at_intervals(
    flush: impl Fn() -> FlushReport,
    interval: Duration,
    wanted: &Receiver<()>,
    report: &Sender<FlushReport>,
) {
    while let Ok(()) = wanted.recv() {
        // Frames are appended during this wait. A closed channel ends it early.
        let mut ended = false;
        let until = Instant::now() + interval;
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            match wanted.recv_timeout(rest) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    ended = true;
                    break;
                }
            }
        }
        if report.send(flush()).is_err() || ended {
            return;
        }
    }
}
