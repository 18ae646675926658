//! What the owner tells the operator's log of. Nothing here happens for every message.

use std::time::Duration;

use redstart_engine::{Change, Retention, Retired, Timestamp};
use redstart_log::Error as LogError;

/// A clock that is behind the log by less is not worth a word.
const CLOCK_BEHIND_MIN: Duration = Duration::from_secs(10);

/// What became of a segment. One that went before its time is told with what was in it.
pub(super) fn log_removal(retired: &Retired, kept: usize, disk_percent: Option<u8>) {
    let segment = retired.segment.0;
    if retired.damaged {
        tracing::error!(segment, "a segment that was removed was damaged together with its index");
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
            let (read, write, kind) = (config.read_queues, config.write_queues, config.message_type);
            tracing::info!(topic = %name, read_queues = read, write_queues = write, ?kind, "topic created");
        }
        Change::TopicChanged { name, config } => {
            let (read, write, kind) = (config.read_queues, config.write_queues, config.message_type);
            tracing::info!(topic = %name, read_queues = read, write_queues = write, ?kind, "topic changed");
        }
        Change::TopicDeleted { name } => tracing::info!(topic = %name, "topic deleted"),
        Change::GroupCreated { name, ordered } => tracing::info!(group = %name, ordered, "group created"),
        Change::GroupChanged { name, ordered } => tracing::info!(group = %name, ordered, "group changed"),
        Change::GroupDeleted { name } => tracing::info!(group = %name, "group deleted"),
    }
}

/// Tells at a start when the clock and the log do not fit together.
pub(super) fn log_clock(last_frame: Timestamp, now: Timestamp, retention: &Retention) {
    if last_frame == Timestamp(0) {
        return;
    }
    let (behind, ahead) = (last_frame.since(now), now.since(last_frame));
    if behind >= CLOCK_BEHIND_MIN {
        tracing::warn!(
            behind_s = behind.as_secs(),
            "the clock is behind the log: it was ahead in the last run, or is wrong now; what waits for a time that the last \
             run set is brought forward, and messages get the log's time as their store time until the clock has caught up"
        );
    } else if ahead > retention.keep {
        tracing::warn!(
            ahead_s = ahead.as_secs(),
            retention_s = retention.keep.as_secs(),
            "the clock is further ahead of the log than messages are kept: if it is right, the old segments go one every ten \
             minutes; if it is wrong, stop the broker and set it"
        );
    }
}

/// What the fullness of the volume means for what is stored on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fullness {
    #[default]
    Room,
    /// What is older than the retention time goes at once.
    Cleaning,
    /// Old segments go before their time.
    Forcing,
    /// Nothing new is stored.
    Refusing,
}

impl Fullness {
    pub fn of(percent: u8, retention: &Retention) -> Fullness {
        match percent {
            percent if percent >= retention.refuse_percent => Fullness::Refusing,
            percent if percent >= retention.forced_percent => Fullness::Forcing,
            percent if percent >= retention.early_percent => Fullness::Cleaning,
            _ => Fullness::Room,
        }
    }

    pub fn log(self, percent: u8) {
        match self {
            Fullness::Room => tracing::info!(percent, "the disk has room again"),
            Fullness::Cleaning => {
                tracing::warn!(percent, "the disk fills up: only what is older than the retention time goes");
            }
            Fullness::Forcing => {
                tracing::warn!(percent, "the disk fills up: the oldest segments go before their time");
            }
            Fullness::Refusing => tracing::error!(percent, "the disk is full: messages are refused"),
        }
    }
}

/// Whether the file of the next segment can be made. Told when it changes, not at every attempt.
#[derive(Debug, Default)]
pub(super) struct Room {
    failed: bool,
}

impl Room {
    pub fn spare_made(&mut self, error: Option<&LogError>) {
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
            Retention { early_percent: 75, forced_percent: 85, refuse_percent: 90, ..Retention::default() };
        let found: Vec<_> =
            [0, 74, 75, 84, 85, 89, 90, 100].map(|percent| Fullness::of(percent, &retention)).to_vec();
        use Fullness::{Cleaning, Forcing, Refusing, Room};
        assert_eq!(found, [Room, Room, Cleaning, Cleaning, Forcing, Forcing, Refusing, Refusing]);
    }
}
