use std::io;

use crate::{Error, Flusher, Index, options::planted, recovery};

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
        self.publish(work.appended, work.end);
        self.manifest.mark(work.durable());
        let sealed = |base| work.rolled.iter().any(|rolled| rolled.segment.base() == base);
        hold(&self.tail).rolled.retain(|rolled| !sealed(rolled.segment.base()));
        Ok(Index(work.appended))
    }
}

impl Shared {
    fn sync(&self, work: &Tail) -> io::Result<()> {
        if planted!(self.options, SkipFsync) {
            return Ok(());
        }
        for rolled in &work.rolled {
            rolled.file.sync_data()?;
            // Only now: a trailer says that the frames before it are durable.
            recovery::write_trailer(rolled.file.as_ref(), &rolled.segment.trailer())?;
        }
        if work.appended > self.committed().0 && work.appended >= work.active.segment.header.first {
            work.active.file.sync_data()?;
        }
        Ok(())
    }
}
