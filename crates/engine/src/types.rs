//! Identifiers, offsets and times.

use std::{fmt, time::Duration};

/// Milliseconds since the Unix epoch, as the owner of the shard passed it. The engine never asks a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The instant after `delay`, saturating, rounded up so that nothing is ever early.
    pub fn after(self, delay: Duration) -> Timestamp {
        let ms = delay.as_nanos().div_ceil(1_000_000);
        Timestamp(self.0.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX)))
    }

    /// The instant `age` ago, floored at the epoch.
    pub fn before(self, age: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Time from `earlier` to here; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Number of a topic. Never used twice: a topic created again under its old name is another topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TopicId(pub u32);

/// Number of a consumer group. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupId(pub u32);

/// A queue within its topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueId(pub u32);

/// A queue within the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QueueKey {
    pub topic: TopicId,
    pub queue: QueueId,
}

/// Place of a message in its queue: consecutive, starting at 0. (Not a log position.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueOffset(pub u64);

impl QueueOffset {
    pub fn next(self) -> QueueOffset {
        QueueOffset(self.0 + 1)
    }
}

/// Names a decision that has been proposed; the outcome arrives under this number once it is durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u64);

macro_rules! display_as_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}

macro_rules! debug_as_number {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}

display_as_number!(Timestamp, TopicId, GroupId, QueueId, QueueOffset);
debug_as_number!(Timestamp, QueueId, QueueOffset);
