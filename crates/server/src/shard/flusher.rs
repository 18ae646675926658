use std::{
    io,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use redstart_log::{Error as LogError, Flusher, Index};

use super::{Counters, Flush};
use crate::throttle::Throttle;

static SLOW: Throttle = Throttle::new();

/// A flush of this length holds up every sender.
const STALL: Duration = Duration::from_secs(1);

/// A flush that took no longer runs in the owner's thread: handing it over and back costs about as much, and what senders
/// bring meanwhile makes one frame instead of many small ones. Whoever comes meanwhile waits no longer than that.
const SHORT: Duration = Duration::from_millis(1);

/// Makes frames durable, in a thread of its own or at once. The thread takes no orders but "something was appended": one
/// flush covers all that came while the last one ran, and it never waits for more.
pub(super) struct Flushing {
    flush: Flush,
    flusher: Arc<dyn Flusher>,
    counters: Arc<Counters>,
    /// At most one order waits: a second says nothing new.
    orders: Option<Sender<()>>,
    pub reports: Receiver<Report>,
    /// Orders without a report yet.
    ordered: usize,
    last_took: Duration,
    thread: Option<JoinHandle<()>>,
}

/// What came of a flush.
#[derive(Debug)]
pub(super) struct Report {
    pub committed: Result<Index, LogError>,
    took: Duration,
}

impl Flushing {
    pub fn start(flusher: Arc<dyn Flusher>, mode: Flush, counters: Arc<Counters>) -> io::Result<Flushing> {
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
        let thread = std::thread::Builder::new().name("shard-flusher".to_owned()).spawn(work)?;
        Ok(Flushing {
            flush: mode,
            flusher,
            counters,
            orders: Some(orders),
            reports,
            ordered: 0,
            last_took: Duration::MAX,
            thread: Some(thread),
        })
    }

    pub fn order(&mut self) {
        if let Some(orders) = &self.orders {
            match orders.try_send(()) {
                Ok(()) => self.ordered += 1,
                Err(TrySendError::Full(())) | Err(TrySendError::Disconnected(())) => {}
            }
        }
    }

    /// Whether a flush is best done at once: the disk is quick, and the thread has nothing under way.
    pub fn is_short(&self) -> bool {
        matches!(self.flush, Flush::Sync) && self.ordered == 0 && self.last_took <= SHORT
    }

    /// Flushes in the caller's thread.
    pub fn flush(&mut self) -> Report {
        self.ordered += 1;
        flush(&*self.flusher, &self.counters)
    }

    /// Takes note of a report.
    pub fn reported(&mut self, report: &Report) {
        self.ordered = self.ordered.saturating_sub(1);
        self.last_took = report.took;
    }

    /// Flushes what is there and ends the thread; the last reports stay in the channel.
    pub fn finish(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the flusher shows as a missing report.
            drop(thread.join());
        }
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What was appended before it begins is durable when it ends. Tells of a disk that takes long about it.
fn flush(flusher: &dyn Flusher, counters: &Counters) -> Report {
    let (covered, began) = (counters.appended_bytes(), Instant::now());
    let committed = flusher.flush();
    let took = began.elapsed();
    if committed.is_ok() {
        counters.flush_took(took, covered);
    }
    if took >= STALL
        && let Some(repeated) = SLOW.permit()
    {
        let millis = took.as_millis() as u64;
        tracing::warn!(millis, repeated, "a flush took long: the disk is slow or busy");
    }
    Report { committed, took }
}

fn flush_at_once(flush: impl Fn() -> Report, wanted: &Receiver<()>, report: &Sender<Report>) {
    for () in wanted {
        if report.send(flush()).is_err() {
            return;
        }
    }
}

fn flush_at_intervals(
    flush: impl Fn() -> Report,
    interval: Duration,
    wanted: &Receiver<()>,
    report: &Sender<Report>,
) {
    while let Ok(()) = wanted.recv() {
        // Appends go on meanwhile; the end of the channel cuts the wait short.
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
