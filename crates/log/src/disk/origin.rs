use crate::{
    DiskLog, Error, Index, Options, SegmentId, Storage, error::io_error, names::Kind, recovery, segment_file,
};

/// Where a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its oldest segment.
    pub segment: SegmentId,
    /// The first frame of that.
    pub first: Index,
    /// The term of the frame before that.
    pub previous_term: u64,
}

impl DiskLog {
    /// Removes the log of a directory, its indexes and checkpoints, and begins one that has no frames yet. For a replica that
    /// gets all frames of another one from its oldest on.
    ///
    /// It takes several steps. After an error or a crash it must be called again before the log is opened.
    pub fn begin_at(storage: &dyn Storage, options: &Options, origin: Origin) -> Result<(), Error> {
        let _lock = storage.lock()?;
        for name in storage.list().map_err(|err| io_error("listing the directory", err))? {
            if !matches!(Kind::of(&name), Kind::Lock | Kind::Foreign) {
                storage.remove(&name).map_err(|err| io_error(format!("removing {name}"), err))?;
            }
        }
        // Before the new segment: an open must not meet it beside old ones.
        let sync = || storage.sync_dir().map_err(|err| io_error("syncing the directory", err));
        sync()?;
        let header = segment_file::Header {
            base: origin.segment.0,
            first: origin.first.0,
            previous_term: origin.previous_term,
            salt: storage.salt(),
        };
        recovery::create_segment(storage, &header, options.clone().sanitized().segment_bytes)?;
        sync()
    }
}
