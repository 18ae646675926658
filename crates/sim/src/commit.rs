//! From a proposal to its outcome: append, flush, commit.

use std::sync::{Arc, Mutex, PoisonError};

use redstart_engine::{Outcome, Ticket};
use redstart_log::{Error as LogError, Flusher, Index};

use crate::{
    observe::Depth,
    oracle::{Checked, Violation, ensure},
    outcomes::Note,
    world::{IN_STEP, World},
};

pub const FITS: &str = "what the engine proposes fits into a frame";

/// A frame that is appended and not yet durable.
#[derive(Debug)]
pub struct PendingFrame {
    pub index: Index,
    pub notes: Vec<Note>,
    /// Where the log was known to be durable when the frame was written, and where the frame ends.
    pub durable_before: u64,
    pub end: u64,
}

type Submitted = Result<Option<Index>, (LogError, Vec<(Ticket, Outcome)>)>;

impl World {
    fn flusher(&mut self) -> Arc<dyn Flusher> {
        self.engine().log().flusher()
    }

    /// Appends what was proposed.
    pub fn submit(&mut self) -> Checked {
        let now = self.now;
        let durable_before = self.durable_end;
        let submitted = self.engine().submit(now);
        self.after_submit(submitted, durable_before)
    }

    pub fn after_submit(&mut self, submitted: Submitted, durable_before: u64) -> Checked {
        match submitted {
            Ok(None) => Ok(()),
            Ok(Some(index)) => {
                let end = self.engine().log().segments().last().map_or(0, |segment| segment.end.0);
                let notes = std::mem::take(&mut self.notes);
                self.say(format!("submit: frame {index}"));
                self.frames.push_back(PendingFrame { index, notes, durable_before, end });
                Ok(())
            }
            Err((error, refused)) => {
                self.say(format!("submit: {error}, {} refused", refused.len()));
                ensure(!matches!(error, LogError::FrameTooLarge { .. }), FITS, || error.to_string())?;
                // Only a full disk is known to have kept nothing.
                let certain = matches!(error, LogError::NoSpace(_));
                for (ticket, outcome) in refused {
                    self.refused(ticket, &outcome, certain);
                }
                match error {
                    LogError::NoSpace(_) => Ok(()),
                    // Nothing is wrong with the log.
                    LogError::NotLeading if self.cluster.is_some() => self.be_served(),
                    _ => self.fail(),
                }
            }
        }
    }

    /// Makes durable what was appended. A failure poisons the log: the process has to start again.
    pub fn flush(&mut self) -> Checked {
        let flushed = self.flusher().flush();
        self.after_flush(flushed)
    }

    fn after_flush(&mut self, flushed: Result<Index, LogError>) -> Checked {
        match flushed {
            Ok(index) => {
                self.say(format!("flush: durable up to frame {index}"));
                Ok(())
            }
            Err(error) => {
                self.say(format!("flush: {error}"));
                self.fail()
            }
        }
    }

    /// Flushes, and appends what is proposed while the flush runs.
    pub fn flush_with_append(&mut self) -> Checked {
        let durable_before = self.durable_end;
        let flusher = self.flusher();
        let slot = Arc::new(Mutex::new((self.engine.take(), None)));
        let (inside, now) = (slot.clone(), self.now);
        self.storage.on_sync(Some(Arc::new(move || {
            // A new segment is synced too, within the append.
            let Ok(mut slot) = inside.try_lock() else { return };
            let slot = &mut *slot;
            if let (Some(engine), None) = (&mut slot.0, &slot.1) {
                slot.1 = Some(engine.submit(now));
            }
        })));
        let flushed = flusher.flush();
        self.storage.on_sync(None);
        let (engine, submitted) = {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            (slot.0.take(), slot.1.take())
        };
        self.engine = engine;
        let restarts = self.restarts;
        if let Some(submitted) = submitted {
            self.after_submit(submitted, durable_before)?;
        }
        if self.restarts != restarts { Ok(()) } else { self.after_flush(flushed) }
    }

    /// Passes to the engine how far the log is durable, and to the clients the outcomes of their requests.
    pub fn commit(&mut self) -> Checked {
        let durable = self.engine().log().committed();
        let committed = self.engine().committed(durable);
        let outcomes = committed.map_err(|gap| Violation::new(IN_STEP, gap.to_string()))?;
        while let Some(frame) = self.frames.front().filter(|frame| frame.index <= durable) {
            self.witnessed = self.witnessed.max(frame.durable_before);
            self.durable_end = self.durable_end.max(frame.end);
            let notes = self.frames.pop_front().map(|frame| frame.notes).unwrap_or_default();
            notes.iter().for_each(|note| self.model.durable(note));
        }
        if !outcomes.is_empty() {
            self.say(format!("commit: {} outcomes", outcomes.len()));
        }
        self.acknowledged(outcomes)?;
        self.follow()?;
        self.observe(Depth::New)
    }

    pub fn settle(&mut self) -> Checked {
        if self.cluster.is_some() {
            return self.settle_in_cluster();
        }
        self.submit()?;
        self.flush()?;
        self.commit()
    }
}
