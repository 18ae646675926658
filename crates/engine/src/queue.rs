//! A queue's directory: which segments hold its entries. The entries themselves live in the segments' indexes.

use std::collections::VecDeque;

use redstart_log::SegmentId;

use crate::QueueOffset;

/// The entries of one queue in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub segment: SegmentId,
    pub first: QueueOffset,
    /// Where the entries begin in the segment's index file; `None` while the index is in memory.
    pub at: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Oldest first, without gaps in offsets.
    runs: VecDeque<Run>,
    /// The offset the next visible message gets.
    end: QueueOffset,
}

impl Queue {
    /// A queue whose messages are not in any index yet, as a checkpoint remembers it.
    pub fn restored(end: QueueOffset) -> Queue {
        Queue { runs: VecDeque::new(), end }
    }

    pub fn min(&self) -> QueueOffset {
        self.runs.front().map_or(self.end, |run| run.first)
    }

    pub fn end(&self) -> QueueOffset {
        self.end
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The message at `end` becomes visible, with its entry in the index of `segment`.
    pub fn grow(&mut self, segment: SegmentId) -> QueueOffset {
        let offset = self.end;
        if self.runs.back().is_none_or(|run| run.segment != segment) {
            self.runs.push_back(Run { segment, first: offset, at: None });
        }
        self.end = offset.next();
        offset
    }

    /// Adds a run found in a segment's index at start. Segments are loaded oldest first.
    pub fn restore_run(&mut self, run: Run, count: u64) {
        self.runs.push_back(run);
        self.end = self.end.max(QueueOffset(run.first.0 + count));
    }

    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// The run that holds `offset`, and the offset after its last entry.
    pub fn run_of(&self, offset: QueueOffset) -> Option<(Run, QueueOffset)> {
        if offset >= self.end {
            return None;
        }
        let after = self.runs.partition_point(|run| run.first <= offset);
        let run = *self.runs.get(after.checked_sub(1)?)?;
        let end = self.runs.get(after).map_or(self.end, |next| next.first);
        Some((run, end))
    }

    /// The index of `segment` moved from memory to its file.
    pub fn sealed(&mut self, segment: SegmentId, at: u64) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.segment == segment) {
            run.at = Some(at);
        }
    }

    /// `segment`, the oldest of the log, is gone.
    pub fn forget(&mut self, segment: SegmentId) {
        while self.runs.front().is_some_and(|run| run.segment <= segment) {
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_any_of_its_offsets() {
        let mut queue = Queue::default();
        for segment in [0, 0, 0, 100, 300] {
            queue.grow(SegmentId(segment));
        }
        let found = |n| queue.run_of(QueueOffset(n)).map(|(run, end)| (run.segment.0, run.first.0, end.0));
        assert_eq!(found(0), Some((0, 0, 3)));
        assert_eq!(found(2), Some((0, 0, 3)));
        assert_eq!(found(3), Some((100, 3, 4)));
        assert_eq!(found(4), Some((300, 4, 5)));
        assert_eq!(found(5), None);
    }

    #[test]
    fn forgetting_a_segment_raises_the_minimum_and_keeps_the_end() {
        let mut queue = Queue::default();
        for segment in [0, 0, 100] {
            queue.grow(SegmentId(segment));
        }
        queue.forget(SegmentId(0));
        assert_eq!((queue.min(), queue.end()), (QueueOffset(2), QueueOffset(3)));
        queue.forget(SegmentId(100));
        assert_eq!((queue.min(), queue.end()), (QueueOffset(3), QueueOffset(3)));
        assert_eq!(queue.run_of(QueueOffset(2)), None);
    }
}
