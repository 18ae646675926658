//! Values that only the engine knows: the lag of groups, delayed and half messages, the size of the log. They are gathered in short
//! slices with pauses between them, so that the owner thread serves requests in the meantime.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_engine::{
    Backlog, Census, Deferred, DeferredOfTopic, Engine, GroupId, GroupName, Overdue, PassedOver, QueueId,
    QueueKey, Timestamp, TopicId, TopicName,
};
use redstart_log::{Position, SegmentId, Usage};

use crate::{
    shard::{ShardHandle, Unavailable},
    statistics::SHOWN_MAX,
};

/// The length of a slice, and of the pause after it.
const SLICE: Duration = Duration::from_micros(500);
const PAUSE: Duration = Duration::from_millis(2);
/// Pairs of a group and a topic that one survey covers.
const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Topics whose delayed and half messages are listed one by one.
const HELD_TOPICS_MAX: usize = SHOWN_MAX;
/// Overdue messages are counted up to this number.
const OVERDUE_MAX: usize = 100_000;

/// The values, and when they were gathered.
#[derive(Debug)]
pub(super) struct Survey {
    pub taken: Instant,
    /// The shard's clock at that time.
    pub now: Timestamp,
    /// Time that the slices took the owner thread.
    pub shard_time: Duration,
    pub overview: Overview,
    pub backlogs: BTreeMap<(GroupName, TopicName), Backlog>,
    /// Pairs of a group and a topic past the limit.
    pub left_out: usize,
    /// When the oldest frame was written.
    pub oldest: Option<Timestamp>,
}

/// Values that are gathered in the first slice.
#[derive(Debug, Clone)]
pub(super) struct Overview {
    pub census: Census,
    pub deferred: Deferred,
    pub passed_over: PassedOver,
    pub deferred_of: Vec<DeferredOfTopic>,
    pub overdue: Overdue,
    pub log_start: Position,
    pub log_bytes: u64,
    pub segments: usize,
    /// Segments that are damaged together with their index.
    pub lost_segments: Vec<SegmentId>,
    pub usage: Option<Usage>,
    pub frames_since_checkpoint: u64,
}

/// Damaged segments that are listed.
const LOST_SEGMENTS_MAX: usize = 64;

type Pairs = Arc<[(GroupId, TopicId)]>;

impl Survey {
    pub async fn take(shard: &ShardHandle, last: Option<&Survey>) -> Result<Survey, Unavailable> {
        let taken = Instant::now();
        let (now, overview, pairs, left_out, mut shard_time) = shard.query(begin)?.await?;
        let mut backlogs: BTreeMap<(GroupName, TopicName), Backlog> = BTreeMap::new();
        let mut at = SliceStart::default();
        while at.pair < pairs.len() {
            tokio::time::sleep(PAUSE).await;
            let pairs = pairs.clone();
            let (rows, next, time) = shard.query(move |engine, _| slice(engine, &pairs, at))?.await?;
            for (names, backlog) in rows {
                let sum = backlogs.entry(names).or_default();
                *sum = sum.and(backlog);
            }
            (at, shard_time) = (next, shard_time + time);
        }
        let oldest = match last.filter(|last| last.overview.log_start == overview.log_start) {
            Some(Survey { oldest: Some(oldest), .. }) => Some(*oldest),
            _ => oldest_frame(shard, overview.log_start).await,
        };
        Ok(Survey { taken, now, shard_time, overview, backlogs, left_out, oldest })
    }
}

/// Where the next slice begins.
#[derive(Debug, Clone, Copy, Default)]
struct SliceStart {
    pair: usize,
    queue: u32,
}

fn begin(engine: &Engine, now: Timestamp) -> (Timestamp, Overview, Pairs, usize, Duration) {
    let began = Instant::now();
    let segments = engine.log().segments();
    let log_start = Position(segments.first().map_or(0, |segment| segment.id.0));
    let log_end = segments.last().map_or(log_start, |segment| segment.end);
    let overview = Overview {
        census: engine.census(),
        deferred: engine.deferred(),
        passed_over: engine.passed_over(),
        deferred_of: engine.deferred_by_topic(HELD_TOPICS_MAX),
        overdue: engine.overdue(now, OVERDUE_MAX),
        log_start,
        log_bytes: log_end.0 - log_start.0,
        segments: segments.len(),
        lost_segments: engine.lost_segments().take(LOST_SEGMENTS_MAX).collect(),
        usage: engine.usage(),
        frames_since_checkpoint: engine.frames_since_checkpoint(),
    };
    let pairs: Pairs = engine.subscriptions().take(SUBSCRIPTIONS_MAX).collect();
    let left_out = engine.subscriptions().len() - pairs.len();
    (now, overview, pairs, left_out, began.elapsed())
}

type Rows = Vec<((GroupName, TopicName), Backlog)>;

/// Covers queue after queue until its time is over. Skips groups and topics that were deleted since the survey began.
fn slice(engine: &Engine, pairs: &Pairs, mut at: SliceStart) -> (Rows, SliceStart, Duration) {
    let began = Instant::now();
    let mut rows = Vec::new();
    while let Some((group, topic)) = pairs.get(at.pair).copied() {
        let queues = engine.readable_queues(topic);
        let mut sum = Backlog::default();
        while at.queue < queues && began.elapsed() < SLICE {
            sum = sum.and(engine.backlog(group, QueueKey { topic, queue: QueueId(at.queue) }));
            at.queue += 1;
        }
        rows.extend(engine.group_name_of(group).zip(engine.shown_topic(topic)).map(|names| (names, sum)));
        if at.queue < queues {
            break;
        }
        at = SliceStart { pair: at.pair + 1, queue: 0 };
    }
    (rows, at, began.elapsed())
}

/// Read without the owner thread: the frame may be large and the disk slow.
async fn oldest_frame(shard: &ShardHandle, start: Position) -> Option<Timestamp> {
    let reader = shard.reader();
    let frame = tokio::task::spawn_blocking(move || reader.frame(start)).await;
    frame.ok()?.ok()?.map(|frame| Timestamp(frame.timestamp_ms))
}
