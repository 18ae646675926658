use std::{
    io,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use redstart_log::{Error as LogError, Flusher, Index};

use super::{Counters, Flush};

/// A flush of this length holds up every sender.
const STALL: Duration = Duration::from_secs(1);

/// The thread that makes frames durable. It takes no orders but "something was appended": one flush covers all that
/// came while the last one ran, and it never waits for more.
#[derive(Debug)]
pub(super) struct Flushing {
    /// At most one order waits: a second says nothing new.
    orders: Option<Sender<()>>,
    pub committed: Receiver<Result<Index, LogError>>,
    thread: Option<JoinHandle<()>>,
}

impl Flushing {
    pub fn start(flusher: Arc<dyn Flusher>, mode: Flush, counters: Arc<Counters>) -> io::Result<Flushing> {
        let (orders, wanted) = bounded::<()>(1);
        let (report, committed) = unbounded();
        let work = move || {
            let flush = || flush(&*flusher, &counters);
            match mode {
                Flush::Sync => flush_at_once(flush, &wanted, &report),
                Flush::Async { interval } => flush_at_intervals(flush, interval, &wanted, &report),
            }
        };
        let thread = std::thread::Builder::new().name("shard-flusher".to_owned()).spawn(work)?;
        Ok(Flushing { orders: Some(orders), committed, thread: Some(thread) })
    }

    pub fn order(&self) {
        if let Some(orders) = &self.orders {
            match orders.try_send(()) {
                Ok(()) | Err(TrySendError::Full(())) | Err(TrySendError::Disconnected(())) => {}
            }
        }
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

type Flushed = Result<Index, LogError>;

/// What was appended before it begins is durable when it ends. Tells of a disk that takes long about it.
fn flush(flusher: &dyn Flusher, counters: &Counters) -> Flushed {
    let (covered, began) = (counters.appended_bytes(), Instant::now());
    let flushed = flusher.flush();
    let took = began.elapsed();
    if flushed.is_ok() {
        counters.flush_took(took, covered);
    }
    if took >= STALL {
        tracing::warn!(millis = took.as_millis() as u64, "a flush took long: the disk is slow or busy");
    }
    flushed
}

fn flush_at_once(flush: impl Fn() -> Flushed, wanted: &Receiver<()>, report: &Sender<Flushed>) {
    for () in wanted {
        if report.send(flush()).is_err() {
            return;
        }
    }
}

fn flush_at_intervals(
    flush: impl Fn() -> Flushed,
    interval: Duration,
    wanted: &Receiver<()>,
    report: &Sender<Flushed>,
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
