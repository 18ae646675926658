//! The start: the state comes back from a checkpoint, the indexes and the frames after it.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use redstart_log::{
    Error as LogError, Frame, Index, Log, Position, ReadError, Reader, SegmentId, SegmentInfo,
};

use super::{Engine, PassedOver, Wakes, batch::Batch, retention::Retirement, time::Time};
use crate::{
    Config, Timestamp,
    apply::{Apply, FrameContext, OffsetGap, Scope},
    codec::Malformed,
    index::{IndexError, Indexes},
    planted,
    queue::Run,
    record::{Record, decode_payload},
    speculation::{Dying, Speculation},
    state::{Effects, State},
};

/// A log that the engine cannot start from.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("frame {index} at log position {position}: {source}")]
    Malformed { index: Index, position: Position, source: Malformed },
    #[error("the checkpoint of frame {index}: {source}")]
    Checkpoint { index: Index, source: Malformed },
    #[error("frame {index}: {source}")]
    Gap { index: Index, source: OffsetGap },
    #[error("no checkpoint can be read and the log begins at frame {first}: what came before it is gone")]
    NoCheckpoint { first: Index },
    #[error("the log has no frame {missing}: it follows the checkpoint at frame {checkpoint}")]
    FramesMissing { checkpoint: Index, missing: Index },
}

impl OpenError {
    /// Whether a newer version wrote the data. Nothing has been changed, and that version can open it.
    pub fn is_newer(&self) -> bool {
        match self {
            OpenError::Malformed { source, .. } | OpenError::Checkpoint { source, .. } => source.is_newer(),
            _ => false,
        }
    }

    /// Whether the error shows that a segment is damaged. An IO error does not, nor do records of a newer version.
    pub(super) fn proves_damage(&self) -> bool {
        !self.is_newer() && !matches!(self, OpenError::Read(ReadError::Io { .. }))
    }
}

/// What a start found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Frame of the checkpoint that was used; 0 for none.
    pub checkpoint: Index,
    /// Checkpoints that could not be used, and why.
    pub damaged_checkpoints: Vec<String>,
    pub frames_replayed: u64,
    /// Segments whose index was built again.
    pub indexes_rebuilt: Vec<SegmentId>,
    /// Stored indexes that could not be read, and why.
    pub damaged_indexes: Vec<String>,
}

impl Engine {
    /// Restores the state: the newest good checkpoint, and the frames after it.
    pub fn open(log: Box<dyn Log>, config: Config) -> Result<(Engine, Recovered), OpenError> {
        let until = log.appended();
        Engine::open_until(log, config, until)
    }

    /// The same with the frames up to `committed` only. What comes behind them may be committed later, see
    /// [`Engine::follow`], or be cut off.
    pub fn open_until(
        log: Box<dyn Log>,
        config: Config,
        committed: Index,
    ) -> Result<(Engine, Recovered), OpenError> {
        let Restored { reader, state, indexes, applied, last_frame, checkpoints, report, .. } =
            Restored::read(&*log, committed)?;
        let mut engine = Engine {
            log,
            reader,
            config,
            state,
            indexes,
            speculation: Speculation::default(),
            batch: Batch::default(),
            pending: VecDeque::new(),
            ticket_next: 0,
            applied,
            facts_applied: applied,
            followed: None,
            time: Time::default(),
            time_suspicious: false,
            aged_out_at: None,
            receipts_from: 0,
            wakes: Wakes::default(),
            retry_readers: Default::default(),
            changes: Vec::new(),
            events: Vec::new(),
            passed_over: PassedOver::default(),
            expired_lites: VecDeque::new(),
            moves_again_at: None,
            rebuild_again_at: None,
            checks_again_at: None,
            postponed_moves: Vec::new(),
            cold_moves: Vec::new(),
            own_reads: Default::default(),
            copies_wait: false,
            checkpoints,
            checkpointing: false,
            encoding: None,
            spare_failed: false,
            sealing: BTreeSet::new(),
            retirement: Retirement::default(),
            usage: None,
        };
        engine.use_sizes();
        engine.time.recovered(last_frame, engine.indexes.newest());
        planted::after_start(&engine.config, &mut engine.state);
        Ok((engine, report))
    }
}

/// A state that was read back from a log.
pub(super) struct Restored {
    reader: Arc<dyn Reader>,
    pub state: State,
    pub indexes: Indexes,
    pub applied: Index,
    /// No frame behind it is read.
    until: Index,
    last_frame: Timestamp,
    /// Frames of the checkpoints that exist, newest first.
    checkpoints: [Index; 2],
    report: Recovered,
}

impl Restored {
    /// Reads the newest good checkpoint, and the frames after it up to `until`.
    pub fn read(log: &dyn Log, until: Index) -> Result<Restored, OpenError> {
        let (mut checkpoints, damaged_checkpoints) = log.checkpoints().load()?;
        checkpoints.retain(|(at, _)| *at <= until);
        let mut report = Recovered { damaged_checkpoints, ..Recovered::default() };
        let known = |n: usize| checkpoints.get(n).map(|(at, _)| *at).unwrap_or_default();
        let state = newest_state(&checkpoints, &mut report)?;
        let reader = log.reader();
        let mut restored = Restored {
            indexes: Indexes::new(reader.clone()),
            reader,
            state,
            applied: report.checkpoint,
            until,
            last_frame: Timestamp(0),
            checkpoints: [known(0), known(1)],
            report,
        };
        let segments = log.segments();
        restored.check_reach(&segments)?;
        for segment in segments {
            if segment.last_timestamp_ms > 0 {
                restored.last_frame = Timestamp(segment.last_timestamp_ms);
            }
            // One that was retired has only not been deleted yet; one behind the last frame may be cut off.
            if restored.state.retired < Some(segment.id) && segment.first <= until {
                restored.recover_segment(segment)?;
            }
        }
        restored.state.timers.restored();
        // Versions before the removal of segments was recorded did not raise it anywhere else. No receive waits before the start.
        let _ = restored.state.raise_progress();
        Ok(restored)
    }

    /// The frames after the checkpoint must all be there.
    fn check_reach(&self, segments: &[SegmentInfo]) -> Result<(), OpenError> {
        let Some(first) = segments.first().map(|segment| segment.first) else { return Ok(()) };
        let checkpoint = self.report.checkpoint;
        if checkpoint == Index(0) && first > Index(1) {
            return Err(OpenError::NoCheckpoint { first });
        }
        if first.0 > checkpoint.0 + 1 {
            return Err(OpenError::FramesMissing { checkpoint, missing: Index(checkpoint.0 + 1) });
        }
        Ok(())
    }

    /// Takes a segment's stored index when the checkpoint covers the whole segment; scans the segment otherwise.
    fn recover_segment(&mut self, segment: SegmentInfo) -> Result<(), OpenError> {
        if segment.has_index && !segment.active && segment.last <= self.report.checkpoint {
            match self.load_index(segment.id) {
                Ok(()) => return Ok(()),
                Err(error) => self.report.damaged_indexes.push(error.to_string()),
            }
        }
        self.scan_segment(segment)
    }

    fn load_index(&mut self, segment: SegmentId) -> Result<(), IndexError> {
        let (runs, timers) = self.indexes.load(segment)?;
        for item in runs {
            if let Some(topic) = self.state.topics.get_mut(&item.queue.topic) {
                let run = Run { segment, first: item.first, at: Some(item.at) };
                topic.queue_mut(item.queue.queue).restore_run(run, u64::from(item.count));
            }
        }
        for (key, timer) in timers {
            self.state.timers.restore(key, timer, segment);
        }
        Ok(())
    }

    fn scan_segment(&mut self, segment: SegmentInfo) -> Result<(), OpenError> {
        if !segment.active {
            self.report.indexes_rebuilt.push(segment.id);
        }
        // From here on the segment has an index in memory, even if that stays empty.
        self.indexes.live_mut(segment.id);
        let mut at = Position(segment.id.0);
        let mut registered = false;
        while let Some(frame) = self.reader.frame(at)?.filter(|frame| frame.index <= self.until) {
            at = frame.next;
            let covered = frame.index <= self.report.checkpoint;
            if !covered && !registered {
                self.register(segment.id);
                registered = true;
            }
            let scope = if covered { Scope::IndexOnly } else { Scope::StateAndIndex };
            let facts = !covered;
            apply_frame(&mut self.state, &mut self.indexes, &frame, segment.id, scope, facts)?;
            if !covered {
                self.applied = frame.index;
                self.report.frames_replayed += 1;
            }
        }
        if !registered {
            self.register(segment.id);
        }
        Ok(())
    }

    /// Makes known what the part of a segment holds that the checkpoint covers: its runs and its timers.
    fn register(&mut self, segment: SegmentId) {
        let Some(live) = self.indexes.live(segment).cloned() else { return };
        for (key, run) in live.runs() {
            if let Some(topic) = self.state.topics.get_mut(&key.topic) {
                let run = Run { segment, first: run.first, at: None };
                topic.queue_mut(key.queue).restore_run(run, 0);
            }
        }
        for (key, timer) in &live.timers {
            self.state.timers.restore(*key, *timer, segment);
        }
    }
}

/// Applies the records of a frame that was read from the log.
pub(super) fn apply_frame(
    state: &mut State,
    indexes: &mut Indexes,
    frame: &Frame,
    segment: SegmentId,
    scope: Scope,
    facts: bool,
) -> Result<Effects, OpenError> {
    let context = FrameContext { segment, timestamp: Timestamp(frame.timestamp_ms) };
    let mut effects = Effects::default();
    for located in decode_payload(&frame.payload, frame.position) {
        let located = located.map_err(|source| malformed(frame, source))?;
        match located.record {
            Record::Decision(decision) => {
                let mut apply = Apply { state, indexes, frame: context, scope, effects: &mut effects };
                let applied = apply.decision(&decision);
                applied.map_err(|source| OpenError::Gap { index: frame.index, source })?;
            }
            Record::Fact(fact) if facts => state.apply_fact(&fact, &mut Dying::default(), &mut effects),
            Record::Fact(_) => {}
        }
    }
    Ok(effects)
}

pub(super) fn malformed(frame: &Frame, source: Malformed) -> OpenError {
    OpenError::Malformed { index: frame.index, position: frame.position, source }
}

/// The newest checkpoint that can be read, or an empty state from which the whole log is replayed. One that a newer version
/// wrote stops the start, even if there is an older one: frames after that may hold records which are not known here.
fn newest_state(
    checkpoints: &[(Index, bytes::Bytes)],
    recovered: &mut Recovered,
) -> Result<State, OpenError> {
    for (at, bytes) in checkpoints {
        match State::decode(bytes) {
            Ok(state) => {
                recovered.checkpoint = *at;
                return Ok(state);
            }
            Err(source) if source.is_newer() => return Err(OpenError::Checkpoint { index: *at, source }),
            Err(error) => recovered.damaged_checkpoints.push(format!("checkpoint at frame {at}: {error}")),
        }
    }
    Ok(State::default())
}
