//! The start: the state comes back from a checkpoint, the indexes and the frames after it.

use std::collections::{BTreeSet, HashSet, VecDeque};

use redstart_log::{Error as LogError, Frame, Index, Log, Position, ReadError, SegmentId, SegmentInfo};

use super::{Engine, PassedOver, Wakes, batch::Batch, time::Time};
use crate::{
    Config, Timestamp,
    apply::{Apply, FrameContext, OffsetGap, Scope},
    codec::Malformed,
    index::{IndexError, Indexes},
    planted,
    queue::Run,
    record::{Record, decode_payload},
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
        let mut recovered = Recovered::default();
        let (checkpoints, damaged) = log.checkpoints().load()?;
        recovered.damaged_checkpoints = damaged;
        let known: Vec<Index> = checkpoints.iter().map(|(at, _)| *at).collect();
        let state = newest_state(&checkpoints, &mut recovered)?;
        let reader = log.reader();
        let indexes = Indexes::new(reader.clone());
        let mut engine = Engine {
            log,
            reader,
            config,
            state,
            indexes,
            batch: Batch::default(),
            pending: VecDeque::new(),
            ticket_next: 0,
            applied: recovered.checkpoint,
            time: Time::default(),
            time_suspicious: false,
            aged_out_at: None,
            receipts_from: 0,
            wakes: Wakes::default(),
            retry_readers: Default::default(),
            changes: Vec::new(),
            events: Vec::new(),
            passed_over: PassedOver::default(),
            linking: false,
            creating_topics: HashSet::new(),
            creating_groups: HashSet::new(),
            deleting_topics: HashSet::new(),
            deleting_groups: HashSet::new(),
            expired_lites: VecDeque::new(),
            moves_again_at: None,
            rebuild_again_at: None,
            checks_again_at: None,
            postponed_moves: Vec::new(),
            checkpoints: [
                known.first().copied().unwrap_or_default(),
                known.get(1).copied().unwrap_or_default(),
            ],
            checkpointing: false,
            encoding: None,
            spare_failed: false,
            sealing: BTreeSet::new(),
            retiring: None,
            usage: None,
        };
        engine.check_reach(&recovered)?;
        let mut last_frame = 0;
        for segment in engine.log.segments() {
            last_frame = if segment.last_timestamp_ms > 0 { segment.last_timestamp_ms } else { last_frame };
            engine.recover_segment(segment, &mut recovered)?;
        }
        engine.state.timers.restored();
        engine.time.recovered(Timestamp(last_frame), engine.indexes.newest());
        // No receive waits before the start.
        let _ = engine.state.raise_progress();
        planted::after_start(&engine.config, &mut engine.state);
        Ok((engine, recovered))
    }

    /// The frames after the checkpoint must all be there.
    fn check_reach(&self, recovered: &Recovered) -> Result<(), OpenError> {
        let Some(first) = self.log.segments().into_iter().map(|segment| segment.first).next() else {
            return Ok(());
        };
        if recovered.checkpoint == Index(0) && first > Index(1) {
            return Err(OpenError::NoCheckpoint { first });
        }
        if first.0 > recovered.checkpoint.0 + 1 {
            let missing = Index(recovered.checkpoint.0 + 1);
            return Err(OpenError::FramesMissing { checkpoint: recovered.checkpoint, missing });
        }
        Ok(())
    }

    /// Takes a segment's stored index when the checkpoint covers the whole segment; scans the segment otherwise.
    fn recover_segment(&mut self, segment: SegmentInfo, recovered: &mut Recovered) -> Result<(), OpenError> {
        if segment.has_index && !segment.active && segment.last <= recovered.checkpoint {
            match self.load_index(segment.id) {
                Ok(()) => return Ok(()),
                Err(error) => recovered.damaged_indexes.push(error.to_string()),
            }
        }
        self.scan_segment(segment, recovered)
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

    fn scan_segment(&mut self, segment: SegmentInfo, recovered: &mut Recovered) -> Result<(), OpenError> {
        if !segment.active {
            recovered.indexes_rebuilt.push(segment.id);
        }
        // From here on the segment has an index in memory, even if that stays empty.
        self.indexes.live_mut(segment.id);
        let mut at = Position(segment.id.0);
        let mut registered = false;
        while let Some(frame) = self.reader.frame(at)? {
            at = frame.next;
            let covered = frame.index <= recovered.checkpoint;
            if !covered && !registered {
                self.register(segment.id);
                registered = true;
            }
            let context = FrameContext { segment: segment.id, timestamp: Timestamp(frame.timestamp_ms) };
            let scope = if covered { Scope::IndexOnly } else { Scope::StateAndIndex };
            let mut effects = Effects::default();
            for located in decode_payload(&frame.payload, frame.position) {
                let located = located.map_err(|source| malformed(&frame, source))?;
                match located.record {
                    Record::Decision(decision) => {
                        let mut apply = Apply {
                            state: &mut self.state,
                            indexes: &mut self.indexes,
                            transactions: &self.config.transactions,
                            frame: context,
                            scope,
                            effects: &mut effects,
                        };
                        apply
                            .decision(&decision)
                            .map_err(|source| OpenError::Gap { index: frame.index, source })?;
                    }
                    Record::Fact(fact) if !covered => self.state.apply_fact(&fact, &mut effects),
                    Record::Fact(_) => {}
                }
            }
            if !covered {
                self.applied = frame.index;
                recovered.frames_replayed += 1;
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
