//! The audit log: a file with one line for every administrative change and every denial.
//!
//! Lines go through a bounded queue to a thread that writes them, so that no request waits for the disk. Lines that find the
//! queue full, or cannot be written, are dropped; how many stands in the log as soon as it can be written again. Denials of
//! one source are bounded by time.

mod rotating_file;
mod writer;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
pub use redstart_auth::audit::Outcome;
use redstart_auth::{audit::Event, repeats::Repeats};

use self::rotating_file::{Limits, RotatingFile};
use crate::shard::{Clock as _, SystemClock};

const LIMITS: Limits = Limits { file_bytes_max: 16 << 20, files_max: 8 };
/// Lines that wait to be written. A line has up to 30 kB if a peer makes it as long as it can, and mostly some hundred bytes.
const QUEUE_MAX: usize = 1024;

/// Writes the audit log. Clones are one; without a file it does nothing.
#[derive(Clone, Default)]
pub struct AuditLog(Option<Arc<Shared>>);

struct Shared {
    lines: Sender<Message>,
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and those who write share.
struct State {
    repeats: Mutex<Repeats>,
    /// Lines that were dropped and not reported yet.
    dropped: AtomicU64,
    began: Instant,
}

enum Message {
    Line(String),
    Stop,
}

/// One request, as its front end knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub user: Option<&'a str>,
    pub from: SocketAddr,
    pub port: &'static str,
    pub request: &'a str,
    pub objects: &'a [String],
    pub outcome: Outcome,
    pub why: &'a str,
}

impl AuditLog {
    /// Opens the file, behind what is there, and starts the thread that writes it.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        AuditLog::open_with(path, LIMITS)
    }

    fn open_with(path: &Path, limits: Limits) -> io::Result<AuditLog> {
        let file = RotatingFile::open(path, limits)?;
        let (lines, queue) = crossbeam_channel::bounded(QUEUE_MAX);
        let state =
            Arc::new(State { repeats: Mutex::default(), dropped: AtomicU64::new(0), began: Instant::now() });
        let shared = state.clone();
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer::run(&queue, file, &shared))?;
        Ok(AuditLog(Some(Arc::new(Shared { lines, state, thread: Mutex::new(Some(thread)) }))))
    }

    pub(crate) fn record(&self, entry: Entry<'_>) {
        let Some(shared) = &self.0 else { return };
        let is_change = matches!(entry.outcome, Outcome::Done | Outcome::Failed);
        if is_change || shared.state.is_written(entry.from.ip()) {
            shared.put(line(entry));
        }
    }

    /// Writes what is queued, and ends the thread. Later entries are dropped.
    pub fn close(&self) {
        let Some(shared) = &self.0 else { return };
        let Some(thread) = shared.thread.lock().take() else { return };
        // Waits while the queue is full. The thread ends only here, or by a panic, which was logged.
        drop(shared.lines.send(Message::Stop));
        drop(thread.join());
    }
}

impl Shared {
    fn put(&self, line: String) {
        if self.lines.try_send(Message::Line(line)).is_err() {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl State {
    fn is_written(&self, source: IpAddr) -> bool {
        self.repeats.lock().is_written(source, self.now())
    }

    /// Milliseconds of a clock that does not go back.
    fn now(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

fn line(entry: Entry<'_>) -> String {
    let Entry { user, from, port, request, objects, outcome, why } = entry;
    let at = i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX);
    Event { at, user, from, port, request, objects, outcome, why }.line()
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLog").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
