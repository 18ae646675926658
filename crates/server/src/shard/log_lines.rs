//! Lines that the owner thread writes to the process's log. No line is written for single messages, and lines that clients can cause
//! are throttled.

use std::time::Duration;

use redstart_engine::{Change, Retention, Retired, Timestamp};
use redstart_log::{Error as LogError, Sizes, Usage};

use crate::throttle::Throttle;

/// A client that sends or consumes can create topics and groups: their lines must not fill the log.
const CREATED_PER_SECOND: u64 = 10;
static TOPIC_CREATED: Throttle = Throttle::per_second(CREATED_PER_SECOND);
static GROUP_CREATED: Throttle = Throttle::per_second(CREATED_PER_SECOND);

/// A clock that is behind the log by less than this is not reported.
const CLOCK_BEHIND_MIN: Duration = Duration::from_secs(10);

/// A segment was removed. For one that was removed before its time the line says what it held.
pub(super) fn log_removal(retired: &Retired, kept: usize, disk_percent: Option<u8>) {
    let segment = retired.segment.0;
    if retired.damaged {
        tracing::error!(segment, "removed a segment that was damaged together with its index");
    }
    let Some(contents) = retired.contents.as_ref().filter(|_| retired.forced) else {
        tracing::info!(segment, forced = retired.forced, kept, disk_percent, "removed a segment");
        return;
    };
    let topics: Vec<String> =
        contents.topics.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    tracing::warn!(
        segment,
        forced = true,
        kept,
        disk_percent,
        messages = contents.messages,
        unconsumed = contents.unconsumed,
        oldest_ms = contents.oldest.0,
        newest_ms = contents.newest.0,
        topics = topics.join(", "),
        other_topics = contents.topics_unnamed,
        "removed a segment before its time: the disk is filling up"
    );
}

pub(super) fn log_change(change: &Change) {
    match change {
        Change::TopicCreated { name, config } => {
            let Some(repeated) = TOPIC_CREATED.permit() else { return };
            let (read, write, kind) = (config.read_queues, config.write_queues, config.message_type);
            tracing::info!(topic = %name, read_queues = read, write_queues = write, ?kind, repeated, "topic created");
        }
        Change::TopicChanged { name, config } => {
            let (read, write, kind) = (config.read_queues, config.write_queues, config.message_type);
            tracing::info!(topic = %name, read_queues = read, write_queues = write, ?kind, "topic changed");
        }
        Change::TopicDeleted { name } => tracing::info!(topic = %name, "topic deleted"),
        Change::GroupCreated { name, ordered } => {
            let Some(repeated) = GROUP_CREATED.permit() else { return };
            tracing::info!(group = %name, ordered, repeated, "group created");
        }
        Change::GroupChanged { name, ordered } => tracing::info!(group = %name, ordered, "group changed"),
        Change::GroupDeleted { name } => tracing::info!(group = %name, "group deleted"),
    }
}

/// Segments that a volume must have room for, so that sends are not refused while the oldest one is removed: the active one, the next
/// one, one that is being removed, and one for indexes and checkpoints.
const SEGMENTS_MIN: u64 = 4;

/// Warns at a start when the setting is another one than that which the shard was made with.
pub(super) fn log_sizes(sizes: Sizes, configured: Sizes) {
    if sizes != configured {
        tracing::warn!(
            segment_bytes = sizes.segment_bytes,
            configured = configured.segment_bytes,
            "segment_bytes is not applied: a shard keeps the one that it was made with"
        );
    }
}

/// Warns at a start when the volume is too small for its segments.
pub(super) fn log_volume(usage: Option<Usage>, segment_bytes: u64) {
    let Some(usage) = usage.filter(|usage| usage.total < SEGMENTS_MIN * segment_bytes) else { return };
    tracing::warn!(
        volume_bytes = usage.total,
        segment_bytes,
        "the volume has room for fewer than four segments: messages will be refused early, while only one segment is used; \
         make the volume larger or set a smaller segment_bytes"
    );
}

/// Warns at a start when the clock and the times in the log disagree.
pub(super) fn log_clock(last_frame: Timestamp, now: Timestamp, retention: &Retention) {
    if last_frame == Timestamp(0) {
        return;
    }
    let (behind, ahead) = (last_frame.since(now), now.since(last_frame));
    if behind >= CLOCK_BEHIND_MIN {
        tracing::warn!(
            behind_s = behind.as_secs(),
            "the clock is behind the log: it was ahead in the last run, or is wrong now; times that the last run set are brought \
             forward, and messages get the log's last time as their store time until the clock has caught up"
        );
    } else if ahead > retention.keep {
        tracing::warn!(
            ahead_s = ahead.as_secs(),
            retention_s = retention.keep.as_secs(),
            "the clock is further ahead of the log than messages are kept: if it is right, one old segment is \
             removed every ten minutes; if it is wrong, stop the broker and set it"
        );
    }
}

/// What the broker does because of how full the volume is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DiskLevel {
    #[default]
    Normal,
    /// Segments older than the retention time are removed at once.
    Cleaning,
    /// The oldest segments are removed before their time.
    Forcing,
    /// Messages are refused.
    Refusing,
}

impl DiskLevel {
    pub fn of(percent: u8, retention: &Retention) -> DiskLevel {
        match percent {
            percent if percent >= retention.refuse_percent => DiskLevel::Refusing,
            percent if percent >= retention.forced_percent => DiskLevel::Forcing,
            percent if percent >= retention.clean_percent => DiskLevel::Cleaning,
            _ => DiskLevel::Normal,
        }
    }

    pub fn log(self, percent: u8) {
        match self {
            DiskLevel::Normal => tracing::info!(percent, "the disk has room again"),
            DiskLevel::Cleaning => {
                tracing::warn!(
                    percent,
                    "the disk fills up: segments older than the retention time are removed"
                );
            }
            DiskLevel::Forcing => {
                tracing::warn!(
                    percent,
                    "the disk fills up: the oldest segments are removed before their time"
                );
            }
            DiskLevel::Refusing => tracing::error!(percent, "the disk is full: messages are refused"),
        }
    }
}

/// Whether the spare, the file of the next segment, can be made. Logged when it changes, not at every attempt.
#[derive(Debug, Default)]
pub(super) struct SpareFile {
    failed: bool,
}

impl SpareFile {
    /// An attempt to make it has ended.
    pub fn made(&mut self, error: Option<&LogError>) {
        match error {
            Some(error) if !self.failed => tracing::warn!(
                %error,
                "the next segment cannot be made yet: messages are refused when half of the active one is used"
            ),
            None if self.failed => tracing::info!("there is room for the next segment again"),
            _ => {}
        }
        self.failed = error.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fullness_begins_at_the_limits() {
        let retention =
            Retention { clean_percent: 75, forced_percent: 85, refuse_percent: 90, ..Retention::default() };
        let found: Vec<_> =
            [0, 74, 75, 84, 85, 89, 90, 100].map(|percent| DiskLevel::of(percent, &retention)).to_vec();
        use DiskLevel::{Cleaning, Forcing, Normal, Refusing};
        assert_eq!(found, [Normal, Normal, Cleaning, Cleaning, Forcing, Forcing, Refusing, Refusing]);
    }
}
