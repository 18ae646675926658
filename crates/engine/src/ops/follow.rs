//! A replica: it applies what others have committed, and forgets what it has proposed itself when it leads no longer.

use redstart_log::{Frame, Index, Position, SegmentId};

use super::{
    Engine, OpenError,
    batch::Batch,
    recovery::{Restored, apply_frame},
    retention::Retirement,
};
use crate::{
    Ticket, Timestamp, apply::Scope, codec::Put, planted, record::put_timer_key, speculation::Speculation,
    timer::TimerKey,
};

impl Engine {
    /// The last frame that was applied.
    pub fn applied(&self) -> Index {
        self.applied
    }

    /// Every frame up to `index` is committed, and none of those that are not applied yet was submitted here: they are read
    /// from the log and applied, decisions and facts, in order.
    pub fn follow(&mut self, index: Index) -> Result<(), OpenError> {
        debug_assert!(
            self.pending.is_empty() && self.batch.is_empty(),
            "a replica that follows proposes nothing"
        );
        while self.applied < index {
            let missing = || OpenError::FramesMissing {
                checkpoint: self.checkpoints[0],
                missing: Index(self.applied.0 + 1),
            };
            let (segment, frame) = self.next_frame()?.ok_or_else(missing)?;
            // What was applied when it was recorded is not applied again.
            let facts = frame.index > self.facts_applied;
            let (state, indexes) = (&mut self.state, &mut self.indexes);
            let effects = apply_frame(state, indexes, &frame, segment, Scope::StateAndIndex, facts)?;
            self.note(effects);
            self.retirement.look();
            self.applied = frame.index;
            self.facts_applied = self.facts_applied.max(frame.index);
            self.followed = Some((frame.index, frame.next));
            self.time.followed(Timestamp(frame.timestamp_ms));
        }
        Ok(())
    }

    /// The frame behind the last one that was applied, and its segment.
    fn next_frame(&self) -> Result<Option<(SegmentId, Frame)>, OpenError> {
        let next = Index(self.applied.0 + 1);
        let segments = self.log.segments();
        let Some(segment) = segments.iter().find(|segment| (segment.first..=segment.last).contains(&next))
        else {
            return Ok(None);
        };
        let behind = self.followed.filter(|(index, _)| *index == self.applied).map(|(_, at)| at);
        let begin = Position(segment.id.0);
        let mut at = behind.filter(|at| *at >= begin && *at < segment.end).unwrap_or(begin);
        while let Some(frame) = self.reader.frame(at)? {
            if frame.index == next {
                return Ok(Some((segment.id, frame)));
            }
            at = frame.next;
        }
        Ok(None)
    }

    /// Forgets everything that was proposed or recorded and is not committed, as an owner does that leads no longer.
    /// Returns the tickets whose outcome is not known: their frame may still be committed, and then [`Engine::follow`]
    /// applies it.
    ///
    /// What was proposed is no part of the state and is dropped. Facts are: when some of them are not committed, the
    /// state is read back from the log. After an error the engine must not be used.
    pub fn drop_speculation(&mut self) -> Result<Vec<Ticket>, OpenError> {
        let under_way = self.pending.iter().flat_map(|frame| &frame.proposals).chain(&self.batch.proposals);
        let mut tickets: Vec<Ticket> = under_way.filter_map(|proposal| proposal.ticket).collect();
        // The messages of a batch share one.
        tickets.dedup();
        let tainted = self.has_uncommitted_facts();
        self.speculation = Speculation::default();
        self.batch = Batch::default();
        self.pending.clear();
        self.postponed_moves.clear();
        self.cold_moves.clear();
        (self.moves_again_at, self.checks_again_at) = (None, None);
        self.retirement = Retirement::default();
        self.time.stepped_down();
        if tainted && planted::forgets_uncommitted_facts(&self.config) {
            let restored = Restored::read(&*self.log, self.applied)?;
            (self.state, self.indexes) = (restored.state, restored.indexes);
            planted::after_start(&self.config, &mut self.state);
        } else {
            self.state.final_attempts.clear();
            self.state.restore_final_attempts(None);
        }
        self.facts_applied = self.applied;
        Ok(tickets)
    }

    /// Whether the state holds facts that no committed frame has.
    fn has_uncommitted_facts(&self) -> bool {
        self.batch.facts > 0 || !self.batch.refused.is_empty() || self.facts_applied > self.applied
    }

    /// The whole state in one order of bytes, to compare replicas that have applied the same frames: what a checkpoint has,
    /// and what comes from the indexes instead.
    pub fn encoded_state(&self) -> Vec<u8> {
        let mut out = self.state.encode();
        let last = TimerKey { due: Timestamp::MAX, id: Position(u64::MAX) };
        for (key, message) in self.state.timers.range(TimerKey::default(), last) {
            put_timer_key(key, &mut out);
            message.encode(&mut out);
        }
        let mut topics: Vec<_> = self.state.topics.values().collect();
        topics.sort_unstable_by_key(|topic| topic.id);
        for queue in topics.iter().flat_map(|topic| &topic.queues) {
            out.put_u64(queue.end().0);
            for run in queue.runs() {
                out.put_u64(run.segment.0);
                out.put_u64(run.first.0);
            }
        }
        out
    }

    /// The state in words, for a report on replicas that differ.
    #[cfg(feature = "planted")]
    pub fn state_in_words(&self) -> String {
        format!("{:#?}", self.state)
    }

    /// From here on this engine proposes, in a term that no other has proposed in. Everything committed has been applied.
    pub fn lead(&mut self, term: u64) {
        self.log.set_term(term);
        self.use_sizes();
        self.time.leads(self.indexes.newest());
    }
}
