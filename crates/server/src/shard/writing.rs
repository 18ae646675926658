//! From the batch to durable frames: appending, pausing while the log refuses, and applying what is durable.

use std::time::Duration;

use redstart_log::{Error as LogError, Index};

use super::{Failure, Flush, Now, events, pause::Pause, planted::planted, runtime::Runtime};
use crate::throttle::Throttle;

/// Facts are written at once and made durable with the next decision, or after this time: nobody waits for them, and a
/// power cut that takes one leads to a redelivery.
const FACTS_FLUSH_AFTER: Duration = Duration::from_millis(20);

static REFUSED: Throttle = Throttle::new();

/// A frame that was appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    index: Index,
    at: Duration,
    /// Bytes appended since the start, this frame included.
    end: u64,
    /// A caller may wait for it.
    decisions: bool,
}

/// The log refused a frame, for want of room or of file descriptors. Until it is tried again sends are refused at once;
/// receives, acks and questions go on, and their facts wait in memory.
#[derive(Debug)]
pub(super) struct Refusal {
    cause: String,
    pause: Pause,
    pub retry_at: Duration,
}

impl Runtime {
    /// Why a send is refused without asking the log, if it is.
    pub(super) fn refuses(&self, now: Now) -> Option<&str> {
        self.refusal.as_ref().filter(|refusal| now.uptime < refusal.retry_at).map(|refusal| &*refusal.cause)
    }

    /// Appends the batch, unless the log refused it a moment ago.
    pub(super) fn submit(&mut self, now: Now) -> Result<(), Failure> {
        if !self.engine.has_batch() || self.refuses(now).is_some() {
            return Ok(());
        }
        self.undefer();
        let decisions = self.engine.has_decisions();
        let (records, bytes) = (self.engine.batch_records(), self.engine.batch_bytes());
        match self.engine.submit(now.time) {
            Ok(None) => {}
            Ok(Some(index)) => {
                self.accepted();
                let end = self.counters.appended(records, bytes);
                self.written.push_back(Written { index, at: now.uptime, end, decisions });
                if decisions {
                    self.order_flush();
                } else {
                    self.flush_facts_soon(now);
                }
                if let Flush::Async { .. } = self.config.flush {
                    self.apply(index, end)?;
                }
            }
            Err((error, refused)) => {
                self.replies.settle(refused);
                if let LogError::Poisoned { .. } = error {
                    return Err(error.into());
                }
                self.refused(&error, now);
            }
        }
        Ok(())
    }

    fn accepted(&mut self) {
        if let Some(refusal) = self.refusal.take() {
            tracing::info!(cause = refusal.cause, "the log takes frames again");
        }
    }

    fn refused(&mut self, error: &LogError, now: Now) {
        if let Some(repeated) = REFUSED.permit() {
            tracing::warn!(%error, repeated, "the log refused a frame");
        }
        // Some facts may have been written before the refusal.
        if self.engine.pending_frames() > 0 {
            self.flush_facts_soon(now);
        }
        // Too large are only decisions, and those are withdrawn: there is nothing to wait for.
        if !matches!(error, LogError::FrameTooLarge { .. }) {
            let pause = self.refusal.take().map_or_else(Pause::default, |last| last.pause).longer();
            let spins = planted!(self.config, RefusalSpins);
            let retry_at = if spins { now.uptime } else { pause.after(now.uptime) };
            self.refusal = Some(Refusal { cause: error.to_string(), pause, retry_at });
        }
    }

    pub(super) fn order_flush(&mut self) {
        self.facts_flush_at = None;
        self.flush_wanted = true;
    }

    fn flush_facts_soon(&mut self, now: Now) {
        self.facts_flush_at.get_or_insert(now.uptime + FACTS_FLUSH_AFTER);
    }

    /// Also when a checkpoint waits for the last frame.
    pub(super) fn flush_facts(&mut self, now: Now) {
        if self.facts_flush_at.is_some_and(|at| self.checkpoint_wanted || at <= now.uptime) {
            self.order_flush();
        }
    }

    /// A flush has ended: the log is durable up to this frame, or has failed.
    pub fn flushed(&mut self, committed: Result<Index, LogError>, now: Now) -> Result<(), Failure> {
        self.counters.flushed();
        let index = committed?;
        let mut end = 0;
        while let Some(frame) = self.written.front().copied().filter(|frame| frame.index <= index) {
            self.written.pop_front();
            if frame.decisions {
                self.counters.committed(now.uptime.saturating_sub(frame.at));
            }
            end = frame.end;
            self.flushed_at = Some(now.uptime);
        }
        self.apply(index, end)
    }

    /// Applies the frames up to `index`. The last of them ends at byte `end`.
    fn apply(&mut self, index: Index, end: u64) -> Result<(), Failure> {
        let outcomes = self.engine.committed(index)?;
        self.counters.applied(end);
        self.tally();
        self.replies.settle(outcomes);
        self.engine.take_changes().iter().for_each(events::log_change);
        Ok(())
    }
}
