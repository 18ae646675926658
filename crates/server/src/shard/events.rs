//! What the owner tells the operator's log of. Nothing here happens for every message.

use redstart_engine::{Change, Retention};

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

/// What the fullness of the volume means for what is stored on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fullness {
    #[default]
    Room,
    /// Old segments go before their time.
    Cleaning,
    /// Nothing new is stored.
    Refusing,
}

impl Fullness {
    pub fn of(percent: u8, retention: &Retention) -> Fullness {
        match percent {
            percent if percent >= retention.refuse_percent => Fullness::Refusing,
            percent if percent >= retention.early_percent => Fullness::Cleaning,
            _ => Fullness::Room,
        }
    }

    pub fn log(self, percent: u8) {
        match self {
            Fullness::Room => tracing::info!(percent, "the disk has room again"),
            Fullness::Cleaning => {
                tracing::warn!(percent, "the disk fills up: the oldest segments go before their time");
            }
            Fullness::Refusing => tracing::error!(percent, "the disk is full: messages are refused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fullness_begins_at_the_limits() {
        let retention = Retention { early_percent: 75, refuse_percent: 90, ..Retention::default() };
        let found: Vec<_> =
            [0, 74, 75, 89, 90, 100].map(|percent| Fullness::of(percent, &retention)).to_vec();
        use Fullness::{Cleaning, Refusing, Room};
        assert_eq!(found, [Room, Room, Cleaning, Cleaning, Refusing, Refusing]);
    }
}
