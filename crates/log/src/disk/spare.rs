//! The file of the next segment, made ahead of need.
//!
//! To roll, the owner writes a header into the spare and gives it the segment's name. Neither waits for the disk: the first
//! flush that covers a frame of the new segment makes header and name durable before it counts the frame as durable.
//! Until then a power cut may leave the file under either name, with or without its header, and recovery removes or empties
//! it: nothing in it was acknowledged.

use std::{io, sync::Arc};

use super::shared::Shared;
use crate::{Error, SpareMaker, error::io_error, names, storage::StorageFile};

/// A file for the next segment: empty, with its room reserved.
#[derive(Debug)]
pub struct Spare {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) bytes: u64,
}

impl SpareMaker for Shared {
    fn make(&self) -> Result<Spare, Error> {
        let _open = self.enter()?;
        self.refuse_if_poisoned()?;
        let bytes = self.segment_bytes();
        let make = || {
            // Emptied where it exists: after a crash it may hold frames that never became durable.
            let file = self.storage.create(names::SPARE)?;
            // A reservation that fails may have taken what room there was for a moment, and index and checkpoint need it.
            if self.storage.usage()?.free < bytes {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.allocate(bytes)?;
            // Before it is used: recovery takes what is behind the last frame for torn frames.
            file.sync_data()?;
            Ok(file)
        };
        match make().map_err(|err| io_error("preparing the next segment", err)) {
            Ok(file) => Ok(Spare { file, bytes }),
            Err(err) => {
                if matches!(err, Error::NoSpace(_)) {
                    // What was reserved of it serves nothing.
                    let _ = self.storage.remove(names::SPARE);
                }
                Err(err)
            }
        }
    }
}

/// What the owner knows of the spare.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    ready: Option<Spare>,
    making: bool,
    /// Why there is none, if the last attempt to make one has failed. Kept while another attempt runs.
    failure: Option<String>,
}

impl Reserve {
    /// Whether one is to be made; then that counts as begun.
    pub(super) fn order(&mut self) -> bool {
        let wanted = self.ready.is_none() && !self.making;
        self.making |= wanted;
        wanted
    }

    pub(super) fn put(&mut self, made: Result<Spare, Error>) -> Result<(), Error> {
        self.making = false;
        match made {
            Ok(spare) => {
                self.failure = None;
                self.ready = Some(spare);
                Ok(())
            }
            Err(err) => {
                self.failure = Some(err.to_string());
                Err(err)
            }
        }
    }

    pub(super) fn take(&mut self) -> Option<Spare> {
        self.ready.take()
    }

    /// Bytes that are reserved for the next segment.
    pub(super) fn bytes(&self) -> u64 {
        self.ready.as_ref().map_or(0, |spare| spare.bytes)
    }

    /// Why no spare could be made, if `left` bytes of the active segment are under half of it.
    pub(super) fn scarcity(&self, left: u64, segment_bytes: u64) -> Option<&str> {
        let failure = self.failure.as_deref().filter(|_| self.ready.is_none())?;
        (left < segment_bytes / 2).then_some(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::NoSpace(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn one_is_ordered_at_a_time_and_again_after_a_failure() {
        let mut reserve = Reserve::default();
        assert!(reserve.order() && !reserve.order());
        assert!(reserve.put(Err(full())).is_err());
        assert!(reserve.order() && !reserve.order());
    }

    #[test]
    fn room_is_scarce_only_without_a_spare_and_in_the_second_half_of_a_segment() {
        let mut reserve = Reserve::default();
        assert_eq!(reserve.scarcity(0, 100), None, "one may come yet");
        reserve.order();
        let _ = reserve.put(Err(full()));
        assert_eq!(reserve.scarcity(50, 100), None);
        assert!(reserve.scarcity(49, 100).is_some());
        reserve.order();
        assert!(reserve.scarcity(49, 100).is_some(), "while another attempt runs");
    }
}
