//! Decides which segment is checked next, and when. Reads neither clock nor disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redstart_log::{SegmentId, SegmentInfo};

/// Time after which a segment is checked again.
pub(super) const PERIOD: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time after which a segment that could not be read is checked again.
const UNREADABLE_PERIOD: Duration = Duration::from_secs(600);
/// Longest wait before the list of segments is read again.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// When each sealed segment is due, and which damage is known.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes a second.
    rate: u64,
    /// How far the week was when the process started.
    started: Duration,
    /// The segment that a process begins with, see [`Plan::new`].
    begin: Option<SegmentId>,
    /// When each segment is due again.
    due: BTreeMap<SegmentId, Duration>,
    damaged: BTreeSet<(SegmentId, Part)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Segment,
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Check(SegmentId),
    Wait(Duration),
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Everything was read, damaged or not.
    Read,
    Unreadable,
}

impl Plan {
    /// `started`: when the process started, as the time of any clock that goes on over restarts. What was checked before is not known
    /// after a restart. So that a broker which is restarted often gets to every segment, each process begins with another one: after
    /// three days of a week, with the one that has three sevenths of the segments before it.
    pub fn new(rate: u64, started: Duration) -> Plan {
        let started = Duration::from_secs(started.as_secs() % PERIOD.as_secs());
        Plan { rate: rate.max(1), started, begin: None, due: BTreeMap::new(), damaged: BTreeSet::new() }
    }

    fn first_of(&self, sealed: &BTreeSet<SegmentId>) -> Option<SegmentId> {
        let before = sealed.len() as u128 * self.started.as_millis() / PERIOD.as_millis();
        sealed.iter().nth(before as usize).copied()
    }

    /// The first segment that was not checked, from the one on that this process began with; else the one that is due first.
    pub fn next(&mut self, segments: &[SegmentInfo], now: Duration) -> Next {
        let sealed = || segments.iter().filter(|segment| !segment.active).map(|segment| segment.id);
        let exists: BTreeSet<SegmentId> = sealed().collect();
        self.due.retain(|id, _| exists.contains(id));
        self.damaged.retain(|(id, _)| exists.contains(id));
        self.begin = self.begin.or_else(|| self.first_of(&exists));
        let due = |id: &SegmentId| self.due.get(id).copied().unwrap_or(Duration::ZERO);
        match sealed().min_by_key(|id| (due(id), Some(*id) < self.begin, *id)) {
            Some(id) if due(&id) <= now => Next::Check(id),
            Some(id) => Next::Wait((due(&id) - now).min(WAIT_MAX)),
            None => Next::Wait(WAIT_MAX),
        }
    }

    pub fn ended(&mut self, id: SegmentId, end: End, now: Duration) {
        let pause = match end {
            End::Read => PERIOD,
            End::Unreadable => UNREADABLE_PERIOD,
        };
        self.due.insert(id, now + pause);
    }

    /// Remembers damage of a file. Returns whether it was not known: damage is logged and counted once for each file.
    pub fn note_damage(&mut self, id: SegmentId, part: Part) -> bool {
        self.damaged.insert((id, part))
    }

    /// How long to pause after `bytes` were read in `took`, to keep to the rate.
    pub fn pause(&self, bytes: u64, took: Duration) -> Duration {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.rate);
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).saturating_sub(took)
    }
}

#[cfg(test)]
mod tests {
    use redstart_log::{Index, Position};

    use super::*;

    fn segment(id: u64, active: bool) -> SegmentInfo {
        let (id, end, first, last) = (SegmentId(id), Position(id + 10), Index(1), Index(2));
        SegmentInfo { id, end, first, last, last_timestamp_ms: 0, active, has_index: !active }
    }

    #[test]
    fn sealed_segments_are_checked_oldest_first_and_again_after_the_period() {
        let mut plan = Plan::new(1, Duration::ZERO);
        let segments = [segment(0, false), segment(10, false), segment(20, true)];
        let minute = Duration::from_secs(60);
        assert_eq!(plan.next(&segments[2..], minute), Next::Wait(WAIT_MAX), "the active one is not checked");
        assert_eq!(plan.next(&segments, minute), Next::Check(SegmentId(0)));
        plan.ended(SegmentId(0), End::Read, minute);
        assert_eq!(plan.next(&segments, minute), Next::Check(SegmentId(10)));
        plan.ended(SegmentId(10), End::Unreadable, 2 * minute);
        assert_eq!(plan.next(&segments, 3 * minute), Next::Wait(WAIT_MAX));
        assert_eq!(plan.next(&segments, 2 * minute + UNREADABLE_PERIOD), Next::Check(SegmentId(10)));
        plan.ended(SegmentId(10), End::Read, 2 * minute + UNREADABLE_PERIOD);
        assert_eq!(
            plan.next(&segments, minute + PERIOD - Duration::from_secs(1)),
            Next::Wait(Duration::from_secs(1))
        );
        assert_eq!(plan.next(&segments, minute + PERIOD), Next::Check(SegmentId(0)));
    }

    #[test]
    fn a_process_begins_where_the_week_is_and_gets_to_every_segment() {
        let segments = [0, 10, 20, 30].map(|id| segment(id, false));
        for (day, first) in [(0, 0), (2, 10), (4, 20), (6, 30), (7, 0)] {
            let mut plan = Plan::new(1, Duration::from_secs(day * 24 * 3600));
            let mut checked = Vec::new();
            while let Next::Check(id) = plan.next(&segments, Duration::ZERO) {
                plan.ended(id, End::Read, Duration::ZERO);
                checked.push(id.0);
            }
            let expected = (0..4).map(|n| (first + 10 * n) % 40).collect::<Vec<_>>();
            assert_eq!(checked, expected, "day {day}");
        }
    }

    #[test]
    fn damage_is_reported_once_while_the_segment_exists() {
        let mut plan = Plan::new(1, Duration::ZERO);
        assert!(
            plan.note_damage(SegmentId(0), Part::Segment) && !plan.note_damage(SegmentId(0), Part::Segment)
        );
        assert!(plan.note_damage(SegmentId(0), Part::Index));
        plan.next(&[], Duration::ZERO);
        assert!(plan.note_damage(SegmentId(0), Part::Segment), "it is another segment with the same base");
    }

    #[test]
    fn pauses_keep_to_the_rate() {
        let plan = Plan::new(1 << 20, Duration::ZERO);
        assert_eq!(plan.pause(2 << 20, Duration::ZERO), Duration::from_secs(2));
        assert_eq!(plan.pause(2 << 20, Duration::from_millis(500)), Duration::from_millis(1_500));
        assert_eq!(plan.pause(1, Duration::from_secs(1)), Duration::ZERO);
    }
}
