//! Delivery: which messages a group gets next, who holds them until when, and what is done.
//!
//! A message of a queue is in one of four states for a group:
//!
//! - *ahead*: at or after the cursor, never delivered;
//! - *in flight*: delivered and invisible until a time, or waiting for its retry ([`Flight`]);
//! - *blocked*: passed by the cursor, waiting for its message group's lock ([`Locks`], ordered groups only);
//! - *done*: before the cursor and neither in flight nor blocked. Nothing is stored for it.

mod cursor;
mod locks;
mod progress;
mod select;

pub(crate) use cursor::Cursor;
pub(crate) use progress::{Flight, FlightState, Progress};
pub(crate) use select::{Budget, Part, Passes, Rules, Source, in_delivery_order, select};

use crate::{GroupId, QueueKey, QueueOffset};

/// Names one delivery of one message: void after the next one, or when its time is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub group: GroupId,
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub seq: u64,
}
