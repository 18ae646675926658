//! What only the shard knows: where groups stand, what is held, how large the log is. It is asked in short slices, with
//! pauses between them, so that it has time for its work.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_engine::{
    Census, Engine, GroupId, GroupName, Held, HeldOf, Overdue, PassedOver, QueueId, QueueKey, Standing,
    Timestamp, TopicId, TopicName,
};
use redstart_log::{Position, SegmentId, Usage};

use crate::{
    shard::{ShardHandle, Unavailable},
    statistics::SHOWN_MAX,
};

/// For how long the shard is kept at a time, and left alone after.
const SLICE: Duration = Duration::from_micros(500);
const PAUSE: Duration = Duration::from_millis(2);
/// Pairs of a group and a topic looked at by one survey.
const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Topics of which held messages are told one by one.
const HELD_TOPICS_MAX: usize = SHOWN_MAX;
/// Due messages that are counted.
const OVERDUE_MAX: usize = 100_000;

/// What the shard said, and when.
#[derive(Debug)]
pub(super) struct Survey {
    pub taken: Instant,
    /// The shard's clock at that time.
    pub now: Timestamp,
    /// For how long it was kept.
    pub shard_time: Duration,
    pub overview: Overview,
    pub standings: BTreeMap<(GroupName, TopicName), Standing>,
    pub left_out: usize,
    /// When the oldest frame was written.
    pub oldest: Option<Timestamp>,
}

/// What takes no time to tell.
#[derive(Debug, Clone)]
pub(super) struct Overview {
    pub census: Census,
    pub held: Held,
    pub passed_over: PassedOver,
    pub held_of: Vec<HeldOf>,
    pub overdue: Overdue,
    pub log_start: Position,
    pub log_bytes: u64,
    pub segments: usize,
    /// Damaged together with their index.
    pub lost_segments: Vec<SegmentId>,
    pub usage: Option<Usage>,
    pub frames_since_checkpoint: u64,
}

/// Damaged segments that are named.
const LOST_SEGMENTS_MAX: usize = 64;

type Pairs = Arc<[(GroupId, TopicId)]>;

impl Survey {
    pub async fn take(shard: &ShardHandle, last: Option<&Survey>) -> Result<Survey, Unavailable> {
        let taken = Instant::now();
        let (now, overview, pairs, left_out, mut shard_time) = shard.ask(begin)?.await?;
        let mut standings: BTreeMap<(GroupName, TopicName), Standing> = BTreeMap::new();
        let mut at = Place::default();
        while at.pair < pairs.len() {
            tokio::time::sleep(PAUSE).await;
            let pairs = pairs.clone();
            let (rows, next, time) = shard.ask(move |engine, _| slice(engine, &pairs, at))?.await?;
            for (names, standing) in rows {
                let sum = standings.entry(names).or_default();
                *sum = sum.and(standing);
            }
            (at, shard_time) = (next, shard_time + time);
        }
        let oldest = match last.filter(|last| last.overview.log_start == overview.log_start) {
            Some(Survey { oldest: Some(oldest), .. }) => Some(*oldest),
            _ => oldest_frame(shard, overview.log_start).await,
        };
        Ok(Survey { taken, now, shard_time, overview, standings, left_out, oldest })
    }
}

/// Where the next slice begins.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    pair: usize,
    queue: u32,
}

fn begin(engine: &mut Engine, now: Timestamp) -> (Timestamp, Overview, Pairs, usize, Duration) {
    let began = Instant::now();
    let segments = engine.log().segments();
    let log_start = Position(segments.first().map_or(0, |segment| segment.id.0));
    let log_end = segments.last().map_or(log_start, |segment| segment.end);
    let overview = Overview {
        census: engine.census(),
        held: engine.held(),
        passed_over: engine.passed_over(),
        held_of: engine.held_by_topic(HELD_TOPICS_MAX),
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

type Rows = Vec<((GroupName, TopicName), Standing)>;

/// Looks at queue after queue until its time is over. What has been deleted meanwhile is passed over.
fn slice(engine: &Engine, pairs: &Pairs, mut at: Place) -> (Rows, Place, Duration) {
    let began = Instant::now();
    let mut rows = Vec::new();
    while let Some((group, topic)) = pairs.get(at.pair).copied() {
        let queues = engine.readable_queues(topic);
        let mut sum = Standing::default();
        while at.queue < queues && began.elapsed() < SLICE {
            sum = sum.and(engine.standing(group, QueueKey { topic, queue: QueueId(at.queue) }));
            at.queue += 1;
        }
        rows.extend(engine.group_name_of(group).zip(engine.shown_topic(topic)).map(|names| (names, sum)));
        if at.queue < queues {
            break;
        }
        at = Place { pair: at.pair + 1, queue: 0 };
    }
    (rows, at, began.elapsed())
}

/// Read beside the shard: a frame may be large, and its disk slow.
async fn oldest_frame(shard: &ShardHandle, start: Position) -> Option<Timestamp> {
    let reader = shard.reader();
    let frame = tokio::task::spawn_blocking(move || reader.frame(start)).await;
    frame.ok()?.ok()?.map(|frame| Timestamp(frame.timestamp_ms))
}
