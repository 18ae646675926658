use std::sync::Arc;

use crate::{
    Error, IndexWriter, SegmentId,
    error::io_error,
    sidecar,
    storage::{self},
};

use super::shared::Shared;

impl IndexWriter for Shared {
    /// A segment that retention has removed meanwhile needs no index: that is no error.
    fn write(&self, id: SegmentId, index: &[u8]) -> Result<(), Error> {
        let _open = self.enter()?;
        self.refuse_if_poisoned()?;
        let Some(segment) = self.segments.get(id.0) else {
            return Ok(());
        };
        if segment.is_active() {
            return Err(Error::SegmentActive(id));
        }
        let name = segment.index_name();
        let writing = |err| io_error(format!("writing {name}"), err);
        let kind = sidecar::Kind::Index;
        let header = sidecar::Header { kind, of: id.0, body_bytes: index.len() as u64, body_crc: 0 };
        let temporary = storage::write_temporary(self.storage.as_ref(), &name, &[&header.encode(), index])
            .map_err(writing)?;
        // With the map held, so that the segment cannot go between the question and the rename.
        let segments = self.segments.read();
        let same = segments.get(&id.0).is_some_and(|now| Arc::ptr_eq(now, &segment) && !now.is_active());
        if !same {
            temporary.discard();
            return Ok(());
        }
        temporary.publish().map_err(writing)?;
        drop(segments);
        self.sync_dir()?;
        segment.set_has_index(true);
        Ok(())
    }
}
