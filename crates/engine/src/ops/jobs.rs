//! Work that the engine hands out to other threads: indexes written at seal, checkpoints, cold reads, the next segment.

use std::sync::Arc;

use redstart_log::{
    Checkpoints, Error as LogError, Flusher, Index, IndexWriter, Position, Reader, SegmentId, SegmentInfo,
    Spare, SpareMaker,
};

use super::{Engine, OpenError, RetireError, rebuild::build_index};
use crate::{
    index::{ColdPart, LiveIndex, Warmed, file},
    planted,
};

/// Slow work that needs nothing of the engine: run it on any thread and hand the result to [`Engine::job_done`].
pub enum Job {
    WriteIndex {
        segment: SegmentId,
        index: LiveIndexHandle,
        writer: Arc<dyn IndexWriter>,
    },
    SaveCheckpoint {
        at: Index,
        state: Vec<u8>,
        store: Arc<dyn Checkpoints>,
    },
    Read {
        part: ColdPart,
        reader: Arc<dyn Reader>,
    },
    BuildIndex {
        segment: SegmentId,
        reader: Arc<dyn Reader>,
    },
    /// Makes the file of the log's next segment.
    MakeSpare {
        maker: Arc<dyn SpareMaker>,
    },
    /// Makes durable up to where the log is.
    SyncManifest {
        flusher: Arc<dyn Flusher>,
    },
}

/// An index on its way to disk, or built again from its segment.
#[derive(Debug)]
pub struct LiveIndexHandle(pub(super) Arc<LiveIndex>);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Job::WriteIndex { segment, .. } => write!(f, "WriteIndex({segment})"),
            Job::BuildIndex { segment, .. } => write!(f, "BuildIndex({segment})"),
            Job::Read { part, .. } => write!(f, "Read({part})"),
            Job::MakeSpare { .. } => f.write_str("MakeSpare"),
            Job::SyncManifest { .. } => f.write_str("SyncManifest"),
            Job::SaveCheckpoint { at, state, .. } => write!(f, "SaveCheckpoint({at}, {} bytes)", state.len()),
        }
    }
}

/// What became of a [`Job`].
#[derive(Debug)]
pub enum JobDone {
    IndexWritten { segment: SegmentId, result: Result<Vec<u8>, LogError> },
    CheckpointSaved { at: Index, result: Result<(), LogError> },
    Read(Warmed),
    IndexBuilt { segment: SegmentId, result: Result<LiveIndexHandle, OpenError> },
    SpareMade { result: Result<Spare, LogError> },
    ManifestSynced { result: Result<(), LogError> },
}

impl Job {
    pub fn run(self) -> JobDone {
        match self {
            Job::WriteIndex { segment, index, writer } => {
                let bytes = file::build(segment, &index.0);
                let result = writer.write(segment, &bytes).map(|()| bytes);
                JobDone::IndexWritten { segment, result }
            }
            Job::SaveCheckpoint { at, state, store } => {
                JobDone::CheckpointSaved { at, result: store.save(at, &state) }
            }
            Job::BuildIndex { segment, reader } => {
                let result = build_index(segment, &reader).map(|index| LiveIndexHandle(Arc::new(index)));
                JobDone::IndexBuilt { segment, result }
            }
            Job::Read { part, reader } => JobDone::Read(part.read(&*reader)),
            Job::MakeSpare { maker } => JobDone::SpareMade { result: maker.make() },
            Job::SyncManifest { flusher } => JobDone::ManifestSynced { result: flusher.sync_manifest() },
        }
    }
}

/// The result of a request that ran without waiting for the disk.
#[derive(Debug)]
pub struct Cached<R> {
    pub result: R,
    /// The parts that it was given, for its next run.
    pub parts: Vec<Warmed>,
    /// The first part that it missed.
    pub missed: Option<ColdPart>,
}

impl Engine {
    /// The next index that can be written: of a segment that is full and whose frames are all applied.
    pub fn seal(&mut self) -> Option<Job> {
        let segments = self.log.segments();
        let segment = self.indexes.live_segments().into_iter().find(|id| {
            let whole = |segment: &SegmentInfo| !segment.active && segment.last <= self.applied;
            let full = segments.iter().any(|segment| segment.id == *id && whole(segment));
            full && !self.sealing.contains(id)
        })?;
        self.sealing.insert(segment);
        planted::before_seal(&self.config, &mut self.indexes, segment);
        let index = LiveIndexHandle(self.indexes.live(segment)?.clone());
        Some(Job::WriteIndex { segment, index, writer: self.log.index_writer() })
    }

    /// The job that makes durable up to where the log is. For a moment in which nothing is written.
    pub fn sync_manifest(&self) -> Job {
        Job::SyncManifest { flusher: self.log.flusher() }
    }

    /// The job that makes the file of the log's next segment, if there is none. After a failure only with
    /// [`Engine::make_spare_again`].
    pub fn make_spare(&mut self) -> Option<Job> {
        if self.spare_failed {
            return None;
        }
        self.log.spare_maker().map(|maker| Job::MakeSpare { maker })
    }

    /// The same also after a failure. To be called after a pause.
    pub fn make_spare_again(&mut self) -> Option<Job> {
        self.spare_failed = false;
        self.make_spare()
    }

    /// Begins a checkpoint of the state, if nothing is under way: the batch is empty and every frame durable. Returns the
    /// job at once if there is little to encode; else [`Engine::encode_checkpoint`] is to be called until it does.
    pub fn checkpoint(&mut self) -> Option<Job> {
        let undecided = !self.batch.is_empty() || !self.pending.is_empty();
        let undecided = undecided && planted::checkpoints_wait(&self.config);
        if undecided || self.checkpointing || self.applied == self.checkpoints[0] {
            return None;
        }
        self.checkpointing = true;
        let end = self.log.segments().last().map_or(Position(0), |segment| segment.end);
        self.encoding = Some((self.applied, self.state.begin_encoding(end)));
        self.encode_checkpoint()
    }

    /// Takes a step of the checkpoint that was begun. Anything may happen between two steps.
    pub fn encode_checkpoint(&mut self) -> Option<Job> {
        let (_, encoding) = self.encoding.as_mut()?;
        if !encoding.step(&self.state, self.config.limits.checkpoint_step_keys) {
            return None;
        }
        let (at, encoding) = self.encoding.take()?;
        Some(Job::SaveCheckpoint { at, state: encoding.finish(), store: self.log.checkpoints() })
    }

    /// Whether a checkpoint has been begun and not encoded to its end.
    pub fn is_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Frames that a start would have to replay now; none while a checkpoint is being written.
    pub fn frames_since_checkpoint(&self) -> u64 {
        if self.checkpointing {
            return 0;
        }
        self.applied.0.saturating_sub(self.checkpoints[0].0)
    }

    pub fn job_done(&mut self, done: JobDone) -> Result<(), RetireError> {
        match done {
            JobDone::IndexWritten { segment, result } => {
                self.sealing.remove(&segment);
                let bytes = result?;
                let Some(live) = self.indexes.live(segment).cloned() else { return Ok(()) };
                for item in file::runs(&live) {
                    if let Some(topic) = self.state.topics.get_mut(&item.queue.topic) {
                        topic.queue_mut(item.queue.queue).sealed(segment, item.at);
                    }
                }
                self.indexes.sealed(segment, &bytes)?;
            }
            JobDone::CheckpointSaved { at, result } => {
                self.checkpointing = false;
                result?;
                self.checkpoints = [at, self.checkpoints[0]];
                self.retirement.look();
            }
            JobDone::Read(warmed) => {
                self.indexes.warm(&warmed);
                if self.own_reads.arrived(&warmed) && !self.cold_moves.is_empty() {
                    self.state.final_attempts.extend(std::mem::take(&mut self.cold_moves));
                    self.end_final_attempts(self.time.now());
                }
            }
            JobDone::IndexBuilt { segment, result } => self.rebuilt(segment, result)?,
            JobDone::SpareMade { result } => {
                self.spare_failed = result.is_err();
                self.log.put_spare(result)?;
            }
            JobDone::ManifestSynced { result } => result?,
        }
        Ok(())
    }

    /// Runs a request that must not wait for the disk. A part of the log that is not in memory is reported as
    /// [`IndexError::Cold`], and then the request has delivered nothing and can run again once [`Engine::warm`] has brought
    /// the part in. `parts` are those that were read for this request before. A request that did get something may
    /// have missed a part as well.
    pub fn run_cached<R>(&mut self, parts: Vec<Warmed>, run: impl FnOnce(&mut Engine) -> R) -> Cached<R> {
        self.indexes.access().begin_cached(parts);
        let result = run(self);
        let (parts, missed) = self.indexes.access().end_cached();
        Cached { result, parts, missed }
    }

    /// The job that reads what a request has missed.
    pub fn warm(&self, part: ColdPart) -> Job {
        Job::Read { part, reader: Arc::clone(&self.reader) }
    }
}
