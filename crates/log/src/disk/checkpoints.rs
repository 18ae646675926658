use std::io;

use crate::{
    Checkpoints, Error, Flusher, Index, StoredCheckpoints,
    checkpoint::{self, Checkpoint},
    error::io_error,
    names,
    recovery::Listing,
    storage,
};

use super::shared::{Shared, hold};

impl Checkpoints for Shared {
    /// Flushes first where the frame is not durable yet: a checkpoint must never know more than the log.
    fn save(&self, at: Index, state: &[u8]) -> Result<(), Error> {
        if at > self.committed() && at > self.flush()? {
            return Err(no_such_frame(at));
        }
        let _open = self.enter()?;
        self.refuse_if_poisoned()?;
        let name = names::checkpoint(at.0);
        let saving = |err| io_error(format!("saving {name}"), err);
        let header = checkpoint::header(at, state).encode();
        let temporary =
            storage::write_temporary(self.storage.as_ref(), &name, &[&header, state]).map_err(saving)?;
        {
            // With truncations held off: one that came while the file was written has cut what it is about.
            let _no_truncation = hold(&self.flushing);
            if at > self.committed() {
                temporary.discard();
                return Err(no_such_frame(at));
            }
            temporary.publish().map_err(saving)?;
        }
        self.sync_dir()?;
        // From here on a power cut does not hide that frames are missing or damaged.
        self.manifest.sync().map_err(|err| io_error("writing the manifest", err))?;
        let all = Listing::read(self.storage.as_ref())?.checkpoints;
        for at in all.iter().rev().skip(checkpoint::KEPT) {
            // Not synced: if it comes back after a crash, the next save removes it again.
            let old = names::checkpoint(*at);
            self.storage.remove(&old).map_err(|err| io_error(format!("removing {old}"), err))?;
        }
        Ok(())
    }

    fn load(&self) -> Result<StoredCheckpoints, Error> {
        let all = Listing::read(self.storage.as_ref())?.checkpoints;
        let mut good = Vec::new();
        let mut damaged = Vec::new();
        for at in all.iter().rev().copied() {
            match checkpoint::read(self.storage.as_ref(), at)? {
                Checkpoint::Good(state) => good.push((Index(at), state)),
                Checkpoint::Damaged => damaged.push(names::checkpoint(at)),
            }
        }
        Ok((good, damaged))
    }
}

fn no_such_frame(at: Index) -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidInput, "the log holds no such frame");
    Error::Io { what: format!("saving a checkpoint of frame {at}"), source }
}
