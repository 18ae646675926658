//! The thread that writes the audit log.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use redstart_auth::{audit::Outcome, repeats::WINDOW_MS};

use super::{Entry, Message, State, line, rotating_file::RotatingFile};

/// How often written lines are made durable, and ended windows of denials are said.
const TICK: Duration = Duration::from_secs(1);
/// Bytes that are written with one call.
const BATCH_BYTES: usize = 64 << 10;

struct Writer<'a> {
    file: RotatingFile,
    state: &'a State,
    /// Something was written since the last sync.
    is_dirty: bool,
    /// The last write failed; that was logged.
    is_failing: bool,
}

pub(super) fn run(queue: &Receiver<Message>, file: RotatingFile, state: &State) {
    let mut writer = Writer { file, state, is_dirty: false, is_failing: false };
    let mut ticked = Instant::now();
    loop {
        let mut stop = false;
        match queue.recv_timeout(TICK.saturating_sub(ticked.elapsed())) {
            Ok(Message::Line(line)) => stop = writer.write_queued(line, queue),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => stop = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop || ticked.elapsed() >= TICK {
            writer.tick();
            ticked = Instant::now();
        }
        if stop {
            return;
        }
    }
}

impl Writer<'_> {
    /// Writes a line and those that are queued behind it; returns whether the thread is to stop.
    fn write_queued(&mut self, first: String, queue: &Receiver<Message>) -> bool {
        let (mut lines, mut count) = (first, 1);
        let mut stop = false;
        while lines.len() < BATCH_BYTES {
            match queue.try_recv() {
                Ok(Message::Line(line)) => {
                    lines.push_str(&line);
                    count += 1;
                }
                Ok(Message::Stop) => {
                    stop = true;
                    break;
                }
                Err(_) => break,
            }
        }
        self.write(&lines, count);
        stop
    }

    fn write(&mut self, lines: &str, count: u64) {
        match self.file.write(lines) {
            Ok(()) => (self.is_dirty, self.is_failing) = (true, false),
            Err(error) => {
                self.state.dropped.fetch_add(count, Ordering::Relaxed);
                if !self.is_failing {
                    tracing::error!(%error, "the audit log cannot be written; lines are dropped and counted");
                }
                self.is_failing = true;
            }
        }
    }

    fn tick(&mut self) {
        for unwritten in self.state.repeats.lock().end(self.state.now()) {
            let (count, seconds) = (unwritten.count, WINDOW_MS / 1000);
            let whose = if unwritten.source.is_some() { "of this address" } else { "of further addresses" };
            let why = format!("{count} more denials {whose} within {seconds} s were not written");
            self.note(unwritten.source, "repeated denials", Outcome::Denied, &why);
        }
        let dropped = self.state.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "lines of the audit log were dropped");
            let why =
                format!("{dropped} lines were dropped: the queue was full or the file could not be written");
            // If that fails too, this line is counted; the others were said in the log above.
            self.note(None, "dropped lines", Outcome::Failed, &why);
        }
        if self.is_dirty {
            self.is_dirty = false;
            if let Err(error) = self.file.sync() {
                tracing::error!(%error, "the audit log cannot be made durable");
            }
        }
    }

    /// Writes a line about the audit log itself.
    fn note(&mut self, source: Option<IpAddr>, request: &str, outcome: Outcome, why: &str) {
        let from = SocketAddr::new(source.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0);
        let entry = Entry { user: None, from, port: "audit", request, objects: &[], outcome, why };
        self.write(&line(entry), 1);
    }
}
