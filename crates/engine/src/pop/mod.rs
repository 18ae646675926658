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
#[cfg(test)]
pub(crate) use progress::NoneSpared;
pub(crate) use progress::{Flight, FlightState, Progress, Spared};
pub(crate) use select::{Budget, Part, Passes, Rules, Selected, Source, in_delivery_order, select};

use crate::{GroupId, QueueKey, QueueOffset, Timestamp};

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
///
/// Its number is never given twice for a group and queue, also if the facts of earlier deliveries were lost. An owner whose
/// log is replicated leads in a term that no other has: the number holds that. The owner of a log that is not begins with
/// its clock, at each start.
///
/// | number | bits |
/// |---|---|
/// | of a replicated log | 1, the term (23), a count (40) |
/// | of another | 0, ms since 1970 at the start (43), a count (20) that may go over into the ms |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub group: GroupId,
    pub queue: QueueKey,
    pub offset: QueueOffset,
    pub seq: u64,
}

const REPLICATED: u64 = 1 << 63;
const TERM_SHIFT: u32 = 40;
const TERM_MAX: u64 = (1 << 23) - 1;
/// A million deliveries in each millisecond of the last run would not reach the numbers of the next.
const CLOCK_SHIFT: u32 = 20;

impl Receipt {
    /// The number of the first receipt that an owner gives; `latest` is the latest time that it knows. Term 0 is that of a
    /// log that is not replicated.
    pub(crate) fn first_number(term: u64, latest: Timestamp) -> u64 {
        match term {
            0 => (latest.0 << CLOCK_SHIFT) & !REPLICATED,
            term => REPLICATED | (term.min(TERM_MAX) << TERM_SHIFT),
        }
    }

    /// The term of the owner that made the delivery; 0 if its log was not replicated.
    pub fn term(self) -> u64 {
        if self.seq & REPLICATED == 0 { 0 } else { (self.seq & !REPLICATED) >> TERM_SHIFT }
    }

    pub(crate) fn flight(self) -> FlightKey {
        FlightKey { group: self.group, queue: self.queue, offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_number(seq: u64) -> Receipt {
        Receipt { group: GroupId(1), queue: QueueKey::default(), offset: QueueOffset(1), seq }
    }

    #[test]
    fn numbers_of_a_later_term_are_greater_and_say_so() {
        let clock = Timestamp(1_800_000_000_000);
        let numbers = [0, 1, 2, 900, TERM_MAX].map(|term| Receipt::first_number(term, clock));
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // A clock that is far behind, or a billion deliveries, change nothing about that.
        assert_eq!(Receipt::first_number(2, Timestamp(0)), numbers[2]);
        assert_eq!(numbers.map(|number| of_number(number + 1_000_000_000).term()), [0, 1, 2, 900, TERM_MAX]);
    }

    #[test]
    fn without_replication_the_clock_of_each_start_tells_receipts_apart() {
        let first = Receipt::first_number(0, Timestamp(1_800_000_000_000));
        let second = Receipt::first_number(0, Timestamp(1_800_000_000_001));
        assert_eq!((of_number(first).term(), second - first), (0, 1 << CLOCK_SHIFT));
    }
}
