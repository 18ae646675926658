//! What keeps the log in bounds: indexes written at seal, checkpoints, retention.

use std::{sync::Arc, time::Duration};

use redstart_log::{
    Checkpoints, Error as LogError, Flusher, Index, IndexWriter, Position, ReadError, Reader, SegmentId,
    SegmentInfo, Spare, SpareMaker, Usage,
};

use rustc_hash::FxHashMap;

use super::{Engine, OpenError, rebuild::build_index};
use crate::{
    QueueId, QueueKey, QueueOffset, Timestamp, TopicId, TopicName,
    config::Transactions,
    index::{ColdPart, IndexError, LiveIndex, Warmed, file},
    record::{Cause, FetchError, Placement, fetch, put_message},
    timer::{Timer, TimerKey},
    transaction::Half,
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
        config: Transactions,
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
            Job::BuildIndex { segment, reader, config } => {
                let result =
                    build_index(segment, &reader, &config).map(|index| LiveIndexHandle(Arc::new(index)));
                JobDone::IndexBuilt { segment, result }
            }
            Job::Read { part, reader } => JobDone::Read(part.read(&*reader)),
            Job::MakeSpare { maker } => JobDone::SpareMade { result: maker.make() },
            Job::SyncManifest { flusher } => JobDone::ManifestSynced { result: flusher.rest() },
        }
    }
}

/// What came of a request that ran without waiting for the disk.
#[derive(Debug)]
pub struct Cached<R> {
    pub result: R,
    /// The parts that were lent to it.
    pub lent: Vec<Warmed>,
    /// The first part that it missed.
    pub missed: Option<ColdPart>,
}

/// A segment that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    pub segment: SegmentId,
    /// Removed before its time because the disk is filling.
    pub forced: bool,
    /// It was damaged together with its index: what only the index listed was not looked at.
    pub damaged: bool,
    /// What was in it, if it was removed before its time and its index could be read.
    pub contents: Option<Contents>,
}

/// Topics that are named in [`Contents`].
const TOPICS_NAMED: usize = 8;

/// What a segment held: the messages that became visible in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub messages: u64,
    /// Those that a group which consumes their topic has not finished.
    pub unconsumed: u64,
    /// The topics with the most messages, most first.
    pub topics: Vec<(TopicName, u64)>,
    /// Topics that are not among these.
    pub topics_unnamed: usize,
    /// When the first and the last became visible.
    pub oldest: Timestamp,
    pub newest: Timestamp,
}

/// Time between removals by age while there is a gap in the times of the log.
const PACE: Duration = Duration::from_secs(600);

/// Whether neighbours among the segments, or the last of them and now, lie further apart than `keep`.
fn has_gap(segments: &[SegmentInfo], now: Timestamp, keep: Duration) -> bool {
    let times = segments.iter().map(|segment| segment.last_timestamp_ms).filter(|at| *at > 0);
    let mut earlier = None;
    times.chain(Some(now.0)).any(|at| {
        let before = earlier.replace(at).unwrap_or(at);
        Timestamp(at).since(Timestamp(before)) > keep
    })
}

/// Retention that could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the index of segment {segment} cannot be built again: {source}")]
    Rebuild { segment: SegmentId, source: Box<OpenError> },
}

impl RetireError {
    /// The segment that is proven to be damaged, so that its index is given up.
    pub fn damaged_segment(&self) -> Option<SegmentId> {
        match self {
            RetireError::Rebuild { source, .. }
                if matches!(**source, OpenError::Read(ReadError::Io { .. })) =>
            {
                None
            }
            RetireError::Rebuild { segment, .. } => Some(*segment),
            _ => None,
        }
    }
}

impl Engine {
    /// The next index that can be written: of a segment that is full and whose frames are all durable.
    pub fn seal(&mut self) -> Option<Job> {
        let segments = self.log.segments();
        let segment = self.indexes.live_segments().into_iter().find(|id| {
            let full = segments.iter().any(|segment| segment.id == *id && !segment.active);
            full && !self.sealing.contains(id) && !self.segment_has_pending(*id)
        })?;
        self.sealing.insert(segment);
        #[cfg(feature = "planted")]
        if self.planted(crate::Planted::LoseTimersAtSeal) {
            self.indexes.live_mut(segment).timers.clear();
        }
        let index = LiveIndexHandle(self.indexes.live(segment)?.clone());
        Some(Job::WriteIndex { segment, index, writer: self.log.index_writer() })
    }

    /// The job that makes durable up to where the log is. For a moment in which nothing is written.
    pub fn sync_manifest(&self) -> Job {
        Job::SyncManifest { flusher: self.log.flusher() }
    }

    /// The job that makes the file of the log's next segment, if there is none. After a failure only with
    /// [`Engine::retry_spare`].
    pub fn make_spare(&mut self) -> Option<Job> {
        if self.spare_failed {
            return None;
        }
        self.log.spare_maker().map(|maker| Job::MakeSpare { maker })
    }

    /// The same also after a failure. To be called after a pause.
    pub fn retry_spare(&mut self) -> Option<Job> {
        self.spare_failed = false;
        self.make_spare()
    }

    /// Begins a checkpoint of the state, if nothing is under way: the batch is empty and every frame durable. Returns the
    /// job at once if there is little to encode; else [`Engine::encode_checkpoint`] is to be called until it does.
    pub fn checkpoint(&mut self) -> Option<Job> {
        let settled = self.batch.is_empty() && self.pending.is_empty();
        if !settled || self.checkpointing || self.applied == self.checkpoints[0] {
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
            }
            JobDone::Read(warmed) => self.indexes.warm(&warmed),
            JobDone::IndexBuilt { segment, result } => self.rebuilt(segment, result)?,
            JobDone::SpareMade { result } => {
                self.spare_failed = result.is_err();
                self.log.put_spare(result)?;
            }
            JobDone::ManifestSynced { result } => result?,
        }
        Ok(())
    }

    /// Runs a request that must not wait for the disk. A part of the log that is not in memory is told as
    /// [`IndexError::Cold`], and then the request has delivered nothing and can run again once [`Engine::warm`] has brought
    /// the part in. `lent` are the parts that were read for this request before. A request that did get something may
    /// have missed a part as well.
    pub fn run_cached<R>(&mut self, lent: Vec<Warmed>, run: impl FnOnce(&mut Engine) -> R) -> Cached<R> {
        self.indexes.access().begin_cached(lent);
        let result = run(self);
        let (lent, missed) = self.indexes.access().end_cached();
        Cached { result, lent, missed }
    }

    /// The job that reads what a request has missed.
    pub fn warm(&self, part: ColdPart) -> Job {
        Job::Read { part, reader: Arc::clone(&self.reader) }
    }

    /// Tells how full the volume is: it decides about early deletion and about refusing to store.
    pub fn set_usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Size and free space of the volume, as last told.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Tells whether the owner's clock may be wrong by much. While it may, nothing goes because of its age.
    pub fn set_time_suspicious(&mut self, suspicious: bool) {
        self.time_suspicious = suspicious;
    }

    /// How full the volume is, in percent, as last told.
    pub fn disk_percent(&self) -> Option<u8> {
        let usage = self.usage?;
        let used = usage.total.saturating_sub(usage.free);
        Some((u128::from(used) * 100 / u128::from(usage.total.max(1))) as u8)
    }

    /// Removes the oldest segment if its time has come. What must outlive it is copied forward first, which takes two
    /// steps: this proposes the copies, and a later call removes the segment when they are durable.
    pub fn retire(&mut self, now: Timestamp) -> Result<Option<Retired>, RetireError> {
        let now = self.advance(now);
        let segments = self.log.segments();
        let Some(oldest) = segments.first().copied().filter(|segment| !segment.active) else {
            return Ok(None);
        };
        // Both checkpoints must cover it: a start from the older one needs every frame after it.
        let covered = oldest.last <= self.checkpoints[1];
        let indexed = self.indexes.live(oldest.id).is_none();
        let expired = now >= self.expires_at(oldest) && self.may_age_out(&segments, now);
        let forced =
            !expired && self.disk_percent().is_some_and(|p| p >= self.config.retention.forced_percent);
        if !covered || !indexed || !(expired || forced) {
            return Ok(None);
        }
        if self.is_needed(oldest, forced) {
            return Ok(None);
        }
        if self.retiring.is_some_and(|(segment, until)| segment == oldest.id && self.applied < until) {
            return Ok(None);
        }
        // Asked again after each step: a frame with copies may have been refused, and one step may not be enough.
        if self.copy_forward(oldest, now)? {
            let until = Index(self.log.appended().0 + 1);
            self.retiring = Some((oldest.id, until));
            return Ok(None);
        }
        let contents = if forced { self.contents(oldest.id).ok() } else { None };
        let damaged = self.indexes.is_lost(oldest.id);
        self.log.remove_oldest(oldest.id)?;
        if expired {
            self.aged_out_at = Some(now);
        }
        self.retiring = None;
        self.indexes.forget(oldest.id);
        self.state.last_use.remove(&oldest.id);
        self.state.timers.forget_segment(oldest.id);
        for topic in self.state.topics.values_mut() {
            topic.queues.iter_mut().for_each(|queue| queue.forget(oldest.id));
        }
        let freed = self.state.raise_progress();
        #[cfg(feature = "planted")]
        let freed = if self.planted(crate::Planted::FreeSilently) { Vec::new() } else { freed };
        self.wakes.groups.extend(freed);
        Ok(Some(Retired { segment: oldest.id, forced, damaged, contents }))
    }

    /// Whether what is older than the retention time may go now.
    ///
    /// When there is more than that time between what two neighbouring segments, or the last one and the clock, were written
    /// at, then either nothing was stored for long, or the clock was wrong on one side of the gap. Nobody can tell; so the
    /// segments go one by one, slowly enough for an operator to step in. A disk that fills up ends that.
    fn may_age_out(&self, segments: &[SegmentInfo], now: Timestamp) -> bool {
        if self.time_suspicious {
            return false;
        }
        let retention = &self.config.retention;
        let filling = self.disk_percent().is_some_and(|percent| percent >= retention.early_percent);
        let since = self.aged_out_at.unwrap_or_else(|| self.time.started());
        filling || now.since(since) >= PACE || !has_gap(segments, now, retention.keep)
    }

    /// What is listed in the index of a sealed segment.
    fn contents(&self, segment: SegmentId) -> Result<Contents, IndexError> {
        let (runs, oldest, newest) = self.indexes.listing(segment)?;
        let mut contents = Contents { oldest, newest, ..Contents::default() };
        let mut by_topic: FxHashMap<TopicId, u64> = FxHashMap::default();
        let mut least: FxHashMap<QueueKey, QueueOffset> = FxHashMap::default();
        for ((_, topic), subscription) in &self.state.subscriptions {
            for (n, progress) in subscription.queues.iter().enumerate() {
                let key = QueueKey { topic: *topic, queue: QueueId(n as u32) };
                let low = least.entry(key).or_insert(QueueOffset(u64::MAX));
                *low = (*low).min(progress.low_watermark());
            }
        }
        for run in runs {
            let (first, count) = (run.first.0, u64::from(run.count));
            contents.messages += count;
            *by_topic.entry(run.queue.topic).or_default() += count;
            let done = least.get(&run.queue).map_or(count, |low| low.0.saturating_sub(first));
            contents.unconsumed += count.saturating_sub(done);
        }
        let mut topics: Vec<_> = by_topic
            .into_iter()
            .filter_map(|(id, count)| Some((self.topic_name(id)?.clone(), count)))
            .collect();
        topics.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        contents.topics_unnamed = topics.len().saturating_sub(TOPICS_NAMED);
        topics.truncate(TOPICS_NAMED);
        contents.topics = topics;
        Ok(contents)
    }

    /// Whether something points into the segment that no copy can be made for: a decision on its way, or a message
    /// that was handed back, which has only the one copy and stays until it comes again.
    fn is_needed(&self, segment: SegmentInfo, forced: bool) -> bool {
        let start = Position(segment.id.0);
        let mut lent = self.state.timers.lent_within(start, segment.end);
        self.points_into(|position| position >= start && position < segment.end)
            || (!forced && lent.any(|(_, timer)| timer.attempt > 0))
    }

    /// A segment is kept for the retention time after its last message, and after the last time that one of its
    /// messages became visible.
    fn expires_at(&self, segment: SegmentInfo) -> Timestamp {
        let last_use = self.state.last_use.get(&segment.id).copied().unwrap_or_default();
        Timestamp(segment.last_timestamp_ms).max(last_use).after(self.config.retention.keep)
    }

    /// Proposes copies of delayed and half messages whose body would go with the segment, as many as a batch may hold.
    /// Says whether there are any.
    fn copy_forward(&mut self, segment: SegmentInfo, now: Timestamp) -> Result<bool, RetireError> {
        let within = |position: Position| position.0 >= segment.id.0 && position < segment.end;
        #[cfg(feature = "planted")]
        if self.planted(crate::Planted::DropTimersOfSegment) {
            return Ok(false);
        }
        let lent = self.state.timers.lent_within(Position(segment.id.0), segment.end);
        let lent: Vec<(TimerKey, Timer)> = lent.filter(|(_, timer)| timer.attempt == 0).collect();
        let listed = match self.indexes.timers(segment.id) {
            Ok(listed) => listed,
            // The segment is damaged, so its index cannot be built again. Retention must not stop behind it, or the disk
            // fills; memory knows the timers as well.
            Err(_) if self.indexes.is_lost(segment.id) => {
                self.state.timers.all_within(Position(segment.id.0), segment.end)
            }
            Err(error) => return Err(error.into()),
        };
        let timers: Vec<(TimerKey, Timer)> = listed
            .into_iter()
            .filter_map(|(key, _)| Some((key, *self.state.timers.get(key)?)))
            .filter(|(_, timer)| within(timer.position) && timer.attempt == 0)
            .chain(lent)
            .collect();
        // A start could not tell a late one from one that has fired; it is about to.
        if timers.iter().any(|(key, _)| self.state.timers.is_late(*key)) {
            return Ok(true);
        }
        let halves: Vec<(Position, Half)> =
            self.state.transactions.iter().map(|(id, half)| (id, *half)).collect();
        let timers =
            timers.into_iter().map(|(key, timer)| (key.id, timer, Placement::Delayed, Some(key.due)));
        let halves = halves.into_iter().map(|(id, half)| {
            let placement = Placement::Half { check_after: half.next_check.since(now) };
            (id, half.message, placement, half.deliver_at)
        });
        let mut any = false;
        for (id, timer, placement, due) in
            timers.chain(halves).filter(|(_, timer, ..)| within(timer.position))
        {
            if self.batch_is_full(timer.size as usize) {
                return Ok(true);
            }
            any |= self.copy(id, &timer, placement, due)?;
        }
        Ok(any)
    }

    /// Proposes a copy of one message. `false` when it is damaged: there is nothing to save.
    fn copy(
        &mut self,
        id: Position,
        timer: &Timer,
        placement: Placement,
        due: Option<Timestamp>,
    ) -> Result<bool, RetireError> {
        let fetched = match fetch(&*self.reader, timer.position, timer.size) {
            Ok(fetched) => fetched,
            Err(error) if error.proof().is_some() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let Ok(mut message) = fetched.message().map(|view| view.to_message()) else { return Ok(false) };
        // Its timer may have been moved since.
        message.deliver_at = due;
        let cause = Cause::Relocated { id };
        let stamp = self.time.stamp();
        let stored = put_message(&mut self.batch.payload, &message, cause, timer.queue, placement, stamp);
        self.propose_stored(None, stored);
        Ok(true)
    }
}
