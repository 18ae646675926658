//! Retention: the oldest segment is removed when its time has come, or when the disk fills.

use std::time::Duration;

use redstart_log::{Error as LogError, Index, Position, ReadError, SegmentId, SegmentInfo, Usage};
use rustc_hash::FxHashMap;

use super::{Engine, OpenError};
use crate::{
    QueueId, QueueKey, QueueOffset, Timestamp, TopicId, TopicName,
    index::{IndexError, Unread},
    message_ref::MessageRef,
    open_transactions::Half,
    planted,
    record::{Cause, Decision, FetchError, Placement, put_message},
    timer::TimerKey,
};

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

/// Why a segment has to wait for the copies out of it.
#[derive(Debug, Default)]
struct Copying {
    /// Some were proposed, are left for a later batch, or wait for a late timer.
    proposed: bool,
    /// Some wait for messages that are being read.
    waits: bool,
    /// Messages on their way to a retry topic. They have no copy and go with the segment, and not before.
    retries: Vec<TimerKey>,
}

/// Time between removals by age while there is a gap in the times of the log.
const PACE: Duration = Duration::from_secs(600);

/// Whether two neighbouring segments, or the last one and now, are further apart in time than `keep`.
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
            RetireError::Rebuild { segment, source } if source.proves_damage() => Some(*segment),
            _ => None,
        }
    }
}

/// The removal of the oldest segment, as far as it has come.
#[derive(Debug)]
pub(super) struct Retirement {
    /// The oldest segment, whose unfinished messages are copied forward in the frames up to this index.
    copying: Option<(SegmentId, Index)>,
    /// The segment whose removal was proposed here, as it is reported once its files are deleted.
    report: Option<Retired>,
    /// There may be a retired segment whose files can be deleted.
    look: bool,
}

impl Default for Retirement {
    fn default() -> Self {
        Retirement { copying: None, report: None, look: true }
    }
}

impl Retirement {
    /// A segment was retired, or a checkpoint was written.
    pub fn look(&mut self) {
        self.look = true;
    }

    /// The proposal was refused.
    pub fn withdraw(&mut self) {
        self.report = None;
    }
}

impl Engine {
    /// Sets how full the volume is: it decides about early deletion and about refusing to store.
    pub fn set_usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Size and free space of the volume, as last set.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Sets whether the owner's clock may be wrong by much. While it may, no segment is removed because of its age.
    pub fn set_time_suspicious(&mut self, suspicious: bool) {
        self.time_suspicious = suspicious;
    }

    /// How full the volume is, in percent, as last set.
    pub fn disk_percent(&self) -> Option<u8> {
        let usage = self.usage?;
        let used = usage.total.saturating_sub(usage.free);
        Some((u128::from(used) * 100 / u128::from(usage.total.max(1))) as u8)
    }

    /// The removal that was proposed here and has not been reported yet.
    pub fn retiring(&self) -> Option<&Retired> {
        self.retirement.report.as_ref()
    }

    /// Whether [`Engine::retire`] may have files to delete.
    pub fn has_retired(&self) -> bool {
        self.retirement.look && self.state.retired.is_some()
    }

    /// Whether what the copies out of the oldest segment waited for has been read, so that [`Engine::retire`] can go on.
    pub fn copies_were_read(&self) -> bool {
        self.copies_wait && self.own_reads.is_idle()
    }

    /// Where the log begins when the removals that are on their way are done.
    pub(super) fn log_start(&self) -> Position {
        let retired = self.state.retired.max(self.speculation.retiring);
        let segments = self.log.segments();
        let first = segments.iter().find(|segment| Some(segment.id) > retired);
        first.map_or(Position(0), |first| Position(first.id.0))
    }

    /// Deletes the files of the oldest segment if it has been retired. Both checkpoints must cover it: a start from the
    /// older one needs every frame after it.
    pub fn remove_retired(&mut self) -> Result<Option<Retired>, RetireError> {
        if !self.has_retired() {
            return Ok(None);
        }
        let oldest = self.log.segments().first().copied();
        let retired = oldest.filter(|oldest| !oldest.active && Some(oldest.id) <= self.state.retired);
        let Some(oldest) = retired.filter(|oldest| oldest.last <= self.checkpoints[1]) else {
            self.retirement.look = false;
            return Ok(None);
        };
        self.log.remove_oldest(oldest.id)?;
        let report = self.retirement.report.take().filter(|report| report.segment == oldest.id);
        let unknown = Retired { segment: oldest.id, forced: false, damaged: false, contents: None };
        Ok(Some(report.unwrap_or(unknown)))
    }

    /// Removes the oldest segment if its time has come. That takes several steps, each of which begins when the one before it
    /// is committed: this proposes copies of what must outlive the segment, then its removal, and then deletes its
    /// files.
    pub fn retire(&mut self, now: Timestamp) -> Result<Option<Retired>, RetireError> {
        let now = self.advance(now);
        if let Some(retired) = self.remove_retired()? {
            return Ok(Some(retired));
        }
        let inside = self.begin_own_work();
        let retired = self.retire_oldest(now);
        self.end_own_work(inside);
        match retired {
            // It is removed by a later call, when the parts have been read.
            Err(RetireError::Index(IndexError::Cold(part))) => {
                self.own_reads.want(part);
                self.copies_wait = true;
                Ok(None)
            }
            other => {
                if !self.copies_wait && self.cold_moves.is_empty() {
                    self.own_reads.forget();
                }
                other
            }
        }
    }

    fn retire_oldest(&mut self, now: Timestamp) -> Result<Option<Retired>, RetireError> {
        self.copies_wait = false;
        let segments = self.log.segments();
        let Some(oldest) = segments.first().copied().filter(|segment| !segment.active) else {
            return Ok(None);
        };
        if Some(oldest.id) <= self.state.retired.max(self.speculation.retiring) {
            return Ok(None);
        }
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
        let copying = self.retirement.copying;
        if copying.is_some_and(|(segment, until)| segment == oldest.id && self.applied < until) {
            return Ok(None);
        }
        // Looked at again after each step: a frame with copies may have been refused, and one step may not be enough.
        let copying = self.copy_forward(oldest, now)?;
        if copying.proposed {
            let until = Index(self.log.appended().0 + 1);
            self.retirement.copying = Some((oldest.id, until));
        }
        if copying.proposed || copying.waits {
            return Ok(None);
        }
        let contents = match forced.then(|| self.contents(oldest.id)) {
            Some(Err(error @ IndexError::Cold(_))) => return Err(error.into()),
            contents => contents.and_then(Result::ok),
        };
        let damaged = self.indexes.is_lost(oldest.id);
        if expired {
            self.aged_out_at = Some(now);
        }
        self.retirement.copying = None;
        self.retirement.report = Some(Retired { segment: oldest.id, forced, damaged, contents });
        if !planted::records_retirement(&self.config) {
            self.indexes.forget_until(oldest.id);
            self.state.retire(oldest.id);
            return self.remove_retired();
        }
        copying.retries.into_iter().for_each(|key| self.drop_timer(key));
        self.speculation.retiring = Some(oldest.id);
        self.propose(None, Decision::Retire { segment: oldest.id });
        Ok(None)
    }

    /// Whether what is older than the retention time may go now.
    ///
    /// When there is more than that time between what two neighbouring segments, or the last one and the clock, were written
    /// at, then either nothing was stored for long, or the clock was wrong on one side of the gap. The log does not show which; so the
    /// segments go one by one, slowly enough for an operator to step in. A disk that fills up ends that.
    fn may_age_out(&self, segments: &[SegmentInfo], now: Timestamp) -> bool {
        if self.time_suspicious {
            return false;
        }
        let retention = &self.config.retention;
        let filling = self.disk_percent().is_some_and(|percent| percent >= retention.clean_percent);
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

    /// Whether the segment holds a message that no copy can be made of: that of a decision not yet applied, or one
    /// on its way to a retry topic, which has only the one copy and stays until it is delivered again. A forced removal does not wait for the latter.
    fn is_needed(&self, segment: SegmentInfo, forced: bool) -> bool {
        let start = Position(segment.id.0);
        let mut borrowed = self.state.timers.borrowed_within(start, segment.end);
        self.points_into(|position| position >= start && position < segment.end)
            || (!forced && borrowed.any(|(_, message)| message.attempt > 0))
    }

    /// A segment is kept for the retention time after its last message, and after the last time that one of its
    /// messages became visible.
    fn expires_at(&self, segment: SegmentInfo) -> Timestamp {
        let last_use = self.state.last_use.get(&segment.id).copied().unwrap_or_default();
        Timestamp(segment.last_timestamp_ms).max(last_use).after(self.config.retention.keep)
    }

    /// Proposes copies of delayed and half messages whose body would go with the segment, as many as a batch may hold, and the
    /// end of those that cannot be copied.
    fn copy_forward(&mut self, segment: SegmentInfo, now: Timestamp) -> Result<Copying, RetireError> {
        let within = |position: Position| position.0 >= segment.id.0 && position < segment.end;
        let mut copying = Copying::default();
        if !planted::copies_forward(&self.config) {
            return Ok(copying);
        }
        let borrowed = self.state.timers.borrowed_within(Position(segment.id.0), segment.end);
        // A retry has only the one copy. If the segment goes all the same, then because the disk is full.
        let (borrowed, retries): (Vec<_>, Vec<_>) = borrowed.partition(|(_, message)| message.attempt == 0);
        let listed = match self.indexes.timers(segment.id) {
            Ok(listed) => listed,
            // The segment is damaged, so its index cannot be built again. Retention must not stop here, or the disk fills; the
            // timers in memory are complete.
            Err(_) if self.indexes.is_lost(segment.id) => {
                self.state.timers.all_within(Position(segment.id.0), segment.end)
            }
            Err(error) => return Err(error.into()),
        };
        let timers: Vec<(TimerKey, MessageRef)> = listed
            .into_iter()
            .filter_map(|(key, _)| Some((key, *self.state.timers.get(key)?)))
            .filter(|(_, message)| within(message.position) && message.attempt == 0)
            .chain(borrowed)
            .collect();
        // A start could not tell a late timer from one that has fired. It fires soon: the segment waits for that.
        if timers.iter().any(|(key, _)| self.state.timers.is_late(*key)) {
            copying.proposed = true;
            return Ok(copying);
        }
        let halves: Vec<(Position, Half)> =
            self.state.transactions.iter().map(|(id, half)| (id, *half)).collect();
        let timers =
            timers.into_iter().map(|(key, message)| (key.id, message, Placement::Delayed, Some(key.due)));
        let halves = halves.into_iter().map(|(id, half)| {
            let placement = Placement::Half { check_after: half.next_check.since(now) };
            (id, half.message, placement, half.deliver_at)
        });
        copying.retries = retries.into_iter().map(|(key, _)| key).collect();
        let within = |(_, message, ..): &(_, MessageRef, _, _)| within(message.position);
        for (id, message, placement, due) in timers.chain(halves).filter(within) {
            if self.batch_is_full(message.size as usize) {
                copying.proposed = true;
                break;
            }
            if self.own_reads.is_full() {
                copying.waits = true;
                break;
            }
            let copied = match self.copy(id, &message, placement, due) {
                Err(RetireError::Index(IndexError::Cold(part))) => {
                    self.own_reads.want(part);
                    copying.waits = true;
                    continue;
                }
                copied => copied?,
            };
            if !copied {
                let (Placement::Delayed, Some(due)) = (placement, due) else { continue };
                self.drop_timer(TimerKey { due, id });
            }
            copying.proposed = true;
        }
        self.copies_wait = copying.waits;
        Ok(copying)
    }

    /// Proposes the end of a delayed message whose body is lost with its segment.
    fn drop_timer(&mut self, key: TimerKey) {
        if self.speculation.timers.get(key).is_none() {
            self.speculation.timers.propose_recall(key);
            self.propose(None, Decision::Recall { key });
        }
    }

    /// Proposes a copy of one message. `false` when it is damaged: there is nothing to save.
    fn copy(
        &mut self,
        id: Position,
        original: &MessageRef,
        placement: Placement,
        due: Option<Timestamp>,
    ) -> Result<bool, RetireError> {
        let fetched = match self.indexes.record(original.position, original.size) {
            Ok(fetched) => fetched,
            Err(Unread::Cold(part)) => return Err(IndexError::Cold(part).into()),
            Err(Unread::Fetch(error)) if error.proof().is_some() => return Ok(false),
            Err(Unread::Fetch(error)) => return Err(error.into()),
        };
        let Ok(mut message) = fetched.message().map(|view| view.to_message()) else { return Ok(false) };
        // The due time may have been changed since it was stored.
        message.deliver_at = due;
        let cause = Cause::Relocated { id };
        let stamp = self.time.stamp();
        let stored = put_message(&mut self.batch.payload, &message, cause, original.queue, placement, stamp);
        self.propose_stored(None, stored);
        Ok(true)
    }
}
