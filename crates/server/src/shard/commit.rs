//! The commit path: appends the batch as a frame, backs off while the log refuses frames, and applies frames once they are durable.
//! With `flush = "async"` a frame is applied as soon as it is appended: its senders are answered and consumers see its messages
//! before it is durable.

use std::time::Duration;

use redstart_log::{Error as LogError, Index};

use super::{Failure, Flush, Now, backoff::Backoff, leadership::Role, log_lines, planted, runtime::Runtime};
use crate::throttle::Throttle;

/// Facts are appended at once and flushed with the next decision, or after this time. No caller waits for them; a fact that a power
/// cut loses leads to a redelivery.
const FACTS_FLUSH_AFTER: Duration = Duration::from_millis(20);

static REFUSED: Throttle = Throttle::new();

/// A frame that was appended and is not known to be durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    index: Index,
    at: Duration,
    /// Bytes appended since the start, this frame included.
    end: u64,
    /// It holds decisions, for which callers may wait.
    decisions: bool,
}

/// The log refused a frame, because the disk is full or there is no file descriptor left. Until the next attempt sends are refused
/// at once; receives, acks and queries go on, and their facts stay in memory.
#[derive(Debug)]
pub(super) struct Refusal {
    cause: String,
    backoff: Backoff,
    pub append_again_at: Duration,
}

impl Runtime {
    /// Why sends are refused without an attempt to append, if they are.
    pub(super) fn refuses(&self, now: Now) -> Option<&str> {
        self.refusal
            .as_ref()
            .filter(|refusal| now.uptime < refusal.append_again_at)
            .map(|refusal| &*refusal.cause)
    }

    /// Appends the batch, unless the log has just refused it.
    pub(super) fn submit(&mut self, now: Now) -> Result<(), Failure> {
        if !self.engine.has_batch() || self.refuses(now).is_some() {
            return Ok(());
        }
        self.end_deferral();
        let decisions = self.engine.has_decisions();
        let (records, bytes) = (self.engine.batch_records(), self.engine.batch_bytes());
        match self.engine.submit(now.time) {
            Ok(None) => {}
            Ok(Some(index)) => {
                self.append_succeeded();
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
                self.replies.resolve(refused);
                if let LogError::Poisoned { .. } = error {
                    return Err(error.into());
                }
                self.append_refused(&error, now);
            }
        }
        Ok(())
    }

    fn append_succeeded(&mut self) {
        if let Some(refusal) = self.refusal.take() {
            tracing::info!(cause = refusal.cause, "the log accepts frames again");
        }
    }

    fn append_refused(&mut self, error: &LogError, now: Now) {
        if let Some(repeated) = REFUSED.permit() {
            tracing::warn!(%error, repeated, "the log refused a frame");
        }
        // Some facts may have been appended before the refusal.
        if self.engine.pending_frames() > 0 {
            self.flush_facts_soon(now);
        }
        // Only decisions make a frame too large, and the engine has withdrawn them: the next append can follow at once.
        if !matches!(error, LogError::FrameTooLarge { .. }) {
            let backoff = self.refusal.take().map_or_else(Backoff::default, |last| last.backoff).next();
            let append_again_at = planted::append_again_at(&self.config, backoff.until(now.uptime), now);
            self.refusal = Some(Refusal { cause: error.to_string(), backoff, append_again_at });
        }
    }

    pub(super) fn order_flush(&mut self) {
        self.facts_flush_at = None;
        self.flush_wanted = true;
    }

    fn flush_facts_soon(&mut self, now: Now) {
        self.facts_flush_at.get_or_insert(now.uptime + FACTS_FLUSH_AFTER);
    }

    /// Orders a flush for facts when their time has come, or when a checkpoint waits for the last frame to be durable.
    pub(super) fn flush_facts(&mut self, now: Now) {
        if self.facts_flush_at.is_some_and(|at| self.checkpoint_wanted || at <= now.uptime) {
            self.order_flush();
        }
    }

    /// A flush has ended: the log is durable up to this frame, or has failed. With replicas that says nothing about what is
    /// committed.
    pub fn flushed(&mut self, committed: Result<Index, LogError>, now: Now) -> Result<(), Failure> {
        self.counters.flushed();
        let index = committed?;
        match self.role {
            Role::Alone => self.commit(index, now),
            Role::Leading { .. } | Role::Following => {
                self.flushed_at = Some(now.uptime);
                Ok(())
            }
        }
    }

    /// Every frame up to `index` is committed, and this shard has proposed those that are not applied yet.
    pub(super) fn commit(&mut self, index: Index, now: Now) -> Result<(), Failure> {
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

    /// Applies the frames up to `index`, which are durable (with `flush = "async"`: appended). The last of them ends at byte `end`.
    fn apply(&mut self, index: Index, end: u64) -> Result<(), Failure> {
        let outcomes = self.engine.committed(index)?;
        self.counters.applied(end);
        self.count_events();
        self.replies.resolve(outcomes);
        self.engine.take_changes().iter().for_each(log_lines::log_change);
        Ok(())
    }
}
