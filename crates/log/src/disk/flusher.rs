use std::io;

use crate::{Error, Flusher, Index, error::io_error, options::planted, recovery};

use super::shared::{Shared, Tail, hold};

impl Flusher for Shared {
    fn flush(&self) -> Result<Index, Error> {
        let _open = self.enter()?;
        let _one_at_a_time = hold(&self.flushing);
        self.refuse_if_poisoned()?;
        // What is appended from here on may or may not be covered by the sync, so it waits for the next one.
        let mut work = hold(&self.tail).clone();
        if work.rolled.is_empty() && work.appended == self.committed().0 {
            return Ok(Index(work.appended));
        }
        if let Err(err) = self.sync(&work)
            && !planted!(self.options, SwallowFsyncError)
        {
            // The kernel may have dropped the pages and would call the next sync a success: trust nothing.
            return Err(self.poison(Error::Io { what: "flushing the log".to_owned(), source: err }));
        }
        if planted!(self.options, CommitBeforeSync) {
            work = hold(&self.tail).clone();
        }
        self.manifest.mark(work.durable()).map_err(|err| self.poison(err))?;
        self.publish(work.appended, work.end);
        let sealed = |base| work.rolled.iter().any(|rolled| rolled.segment.base() == base);
        hold(&self.tail).rolled.retain(|rolled| !sealed(rolled.segment.base()));
        Ok(Index(work.appended))
    }

    fn sync_manifest(&self) -> Result<(), Error> {
        let _open = self.enter()?;
        self.refuse_if_poisoned()?;
        self.manifest.sync().map_err(|err| io_error("writing the manifest", err))
    }
}

impl Shared {
    fn sync(&self, work: &Tail) -> io::Result<()> {
        if planted!(self.options, SkipFsync) {
            return Ok(());
        }
        for rolled in &work.rolled {
            rolled.file.sync_data()?;
        }
        let active = &work.active.segment;
        let holds_frames = work.appended > self.committed().0 && work.appended >= active.header.first;
        if holds_frames || !active.is_beginning_durable() {
            work.active.file.sync_data()?;
        }
        self.sync_names(work)?;
        for rolled in &work.rolled {
            // Only now: a trailer says that the frames before it are durable, and that another segment follows.
            recovery::write_trailer(rolled.file.as_ref(), &rolled.segment.trailer())?;
        }
        Ok(())
    }

    /// Makes the names of new segments durable, whose headers are.
    fn sync_names(&self, work: &Tail) -> io::Result<()> {
        let segments = || work.rolled.iter().chain([&work.active]).map(|writing| &writing.segment);
        if segments().any(|segment| !segment.is_beginning_durable()) {
            if !planted!(self.options, SkipDirSync) {
                self.storage.sync_dir()?;
            }
            segments().for_each(|segment| segment.set_beginning_durable(true));
        }
        Ok(())
    }
}
