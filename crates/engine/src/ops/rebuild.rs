//! Stored indexes that were found damaged are built again from their segments, by a job.

use std::{sync::Arc, time::Duration};

use redstart_log::{Position, ReadError, Reader, SegmentId};

use super::{Engine, Job, OpenError, RetireError, jobs::LiveIndexHandle, recovery::apply_frame};
use crate::{
    Timestamp,
    apply::Scope,
    index::{Indexes, LiveIndex},
    state::State,
};

/// A segment that the disk could not read is tried again after this time.
const BUILD_AGAIN_AFTER: Duration = Duration::from_secs(10);

impl Engine {
    /// The job that builds the next damaged index again; one at a time.
    pub fn rebuild(&mut self, now: Timestamp) -> Option<Job> {
        if self.rebuild_again_at.is_some_and(|at| now < at) {
            return None;
        }
        self.rebuild_again_at = None;
        let segment = self.indexes.begin_rebuild()?;
        Some(Job::BuildIndex { segment, reader: Arc::clone(&self.reader) })
    }

    /// Puts an index that was built again in the place of the damaged one; the next seal writes it anew. A segment that is
    /// damaged itself keeps its damaged index: what can be read of that is still served. An IO error, or a
    /// record of a newer version, proves no damage: the segment is tried again.
    pub(super) fn rebuilt(
        &mut self,
        segment: SegmentId,
        result: Result<LiveIndexHandle, OpenError>,
    ) -> Result<(), RetireError> {
        match result {
            Ok(LiveIndexHandle(index)) => {
                self.indexes.rebuilt(segment, index);
                Ok(())
            }
            Err(OpenError::Read(ReadError::Removed(_))) => {
                self.indexes.end_rebuild(segment);
                Ok(())
            }
            Err(source) => {
                if !source.proves_damage() {
                    self.indexes.postpone_rebuild(segment);
                    self.rebuild_again_at = Some(self.time.now().after(BUILD_AGAIN_AFTER));
                } else {
                    self.indexes.give_up(segment);
                }
                Err(RetireError::Rebuild { segment, source: Box::new(source) })
            }
        }
    }

    /// Stored indexes that were found damaged and wait to be built again.
    pub fn damaged_indexes(&self) -> usize {
        self.indexes.damaged()
    }

    /// Segments that are damaged together with their index, oldest first.
    pub fn lost_segments(&self) -> impl Iterator<Item = SegmentId> {
        self.indexes.lost()
    }
}

/// Reads a segment from end to end and lists what is in it.
pub(super) fn build_index(segment: SegmentId, reader: &Arc<dyn Reader>) -> Result<LiveIndex, OpenError> {
    let mut indexes = Indexes::new(Arc::clone(reader));
    indexes.live_mut(segment);
    // An index follows from its segment alone.
    let mut state = State::default();
    let mut at = Position(segment.0);
    while let Some(frame) = reader.frame(at)? {
        at = frame.next;
        apply_frame(&mut state, &mut indexes, &frame, segment, Scope::IndexOnly, false)?;
    }
    Ok(indexes.take_live(segment).unwrap_or_default())
}
