//! Delivery: which messages a group gets next, how long each is invisible to other consumers, and which are done.
//!
//! A message of a queue is in one of four states for a group:
//!
//! - *ahead*: at or after the cursor, never delivered;
//! - *in flight*: delivered and not done; invisible until a time ([`Flight`]);
//! - *blocked*: passed by the cursor while its message group was locked (`GroupLocks`, ordered groups only);
//! - *done*: before the cursor and neither in flight nor blocked. Nothing is stored for it.

mod cursor;
mod group_locks;
mod progress;
mod select;

pub(crate) use cursor::Cursor;
pub(crate) use progress::{Flight, FlightState, Progress};
pub(crate) use select::{Budget, Part, Passes, Rules, Selected, Source, in_delivery_order, select};

use crate::{GroupId, QueueKey, QueueOffset};

/// A message in flight, or one that was: known by the group and its place in the queue.
///
/// Layout, 20 bytes: group u32, queue key (topic u32, queue u32), queue offset u64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlightKey {
    pub group: GroupId,
    pub queue: QueueKey,
    pub offset: QueueOffset,
}

/// Names one delivery of one message: void after the next one, or when its time is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub group: GroupId,
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub seq: u64,
}

impl Receipt {
    pub(crate) fn flight(self) -> FlightKey {
        FlightKey { group: self.group, queue: self.queue, offset: self.offset }
    }
}
