//! What the log has promised to hold, so that files that are missing or shorter than they were are noticed.
//!
//! Segments prove each other: each begins where the one before it ends, and every frame names the position that was
//! durable when it was written. Nothing in them proves the two ends of the log: that there were no older segments, and
//! that the last frames were there. The manifest does.
//!
//! A record is written only after what it says is true and durable, so it may be old but is never wrong; the newest good
//! one counts. Most are written without a sync, one for each flush: they survive the end of the process, and the kernel
//! writes them back in its own time. Those that must survive a power cut are synced: before the oldest segment is removed,
//! before frames are truncated, with each checkpoint, and before the first frame of a segment counts as durable. The last
//! one tells a segment whose header was torn, which was never promised, from one whose header was damaged.

use std::{
    io,
    sync::{Arc, Mutex},
};

use crate::{
    Error,
    disk::hold,
    error::io_error,
    field::{Fields, is_sealed, u8_at, u64_at},
    names,
    storage::{self, Storage, StorageFile, read_part},
};

const VERSION: u8 = 1;
const MAGIC: &[u8; 7] = b"rsmanif";
const RECORD_BYTES: usize = 64;
/// Each slot is a sector of its own, so that a torn write hurts one record only.
const SLOT_BYTES: u64 = 512;
/// Slots 0 and 1 are written in turn and synced each time, so that one of them is always whole.
const SYNCED_SLOTS: u64 = 2;
/// Slots 2 and 3 are written in turn without a sync.
const SLOTS: u64 = 4;

/// One record of the file `manifest`, which has four slots of 512 bytes. A record is at the beginning of its slot, the rest
/// is zeros.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 7 | `rsmanif` |
/// | 7 | 1 | version, 1 |
/// | 8 | 8 | number of the record; the greatest counts |
/// | 16 | 8 | base of the oldest segment |
/// | 24 | 8 | base of the segment that holds the last durable frame |
/// | 32 | 8 | position after that frame |
/// | 40 | 8 | index of that frame |
/// | 48 | 12 | zeros |
/// | 60 | 4 | CRC-32C of the bytes before it |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub number: u64,
    pub oldest: u64,
    pub tail: u64,
    pub end: u64,
    pub last: u64,
}

/// The last durable frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durable {
    pub segment: u64,
    pub end: u64,
    pub last: u64,
}

/// What a directory has for a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The directory is new, or was written by a version without manifests.
    Missing,
    /// No record is good.
    Damaged,
    Good {
        newest: Record,
        /// The one of the synced slots that may be overwritten: the other holds the newest record that is surely durable.
        free_slot: u64,
    },
}

impl Found {
    pub(crate) fn record(self) -> Option<Record> {
        match self {
            Self::Good { newest, .. } => Some(newest),
            Self::Missing | Self::Damaged => None,
        }
    }
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        Fields::new()
            .put(MAGIC)
            .u8(VERSION)
            .u64(self.number)
            .u64(self.oldest)
            .u64(self.tail)
            .u64(self.end)
            .u64(self.last)
            .sealed()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let known = bytes.get(..7) == Some(&MAGIC[..]) && u8_at(bytes, 7) == Some(VERSION);
        if !known || !is_sealed::<RECORD_BYTES>(bytes) {
            return None;
        }
        Some(Self {
            number: u64_at(bytes, 8)?,
            oldest: u64_at(bytes, 16)?,
            tail: u64_at(bytes, 24)?,
            end: u64_at(bytes, 32)?,
            last: u64_at(bytes, 40)?,
        })
    }
}

/// Reads the newest good record.
pub(crate) fn read(storage: &dyn Storage) -> Result<Found, Error> {
    let reading = |err| io_error(format!("reading {}", names::MANIFEST), err);
    let file = match storage.open(names::MANIFEST) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(err) => return Err(reading(err)),
    };
    let bytes = read_part(file.as_ref(), 0, (SLOTS * SLOT_BYTES) as usize).map_err(reading)?;
    let slots = || bytes.chunks(SLOT_BYTES as usize).filter_map(|slot| slot.get(..RECORD_BYTES));
    if let Some(newest) = slots().filter_map(Record::parse).max_by_key(|record| record.number) {
        let numbers: Vec<Option<u64>> =
            slots().map(|slot| Record::parse(slot).map(|record| record.number)).collect();
        let free_slot = u64::from(numbers.first() > numbers.get(1));
        return Ok(Found::Good { newest, free_slot });
    }
    let version = |slot: &[u8]| u8_at(slot, 7).filter(|found| slot.starts_with(MAGIC) && *found > VERSION);
    match slots().find_map(version) {
        Some(found) => Err(Error::UnknownVersion { file: names::MANIFEST.to_owned(), found, known: VERSION }),
        None => Ok(Found::Damaged),
    }
}

/// The manifest of an open log.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// `None` where there was no room for the file: then nothing is promised.
    file: Option<Arc<dyn StorageFile>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    record: Record,
    /// Count up to choose the slot of the next record that is synced, and of the next that is not.
    synced: u64,
    marked: u64,
    /// Whether the newest record has been synced.
    is_synced: bool,
    /// The segment that the last synced record names as the tail: frames of it are promised.
    promised: Option<u64>,
}

impl Manifest {
    /// Writes a manifest for a log that was just opened; durable when the caller has synced the directory. Everything
    /// it says must be durable.
    pub(crate) fn create(storage: &dyn Storage, found: Found, mut record: Record) -> Result<Self, Error> {
        let writing = |err| io_error(format!("writing {}", names::MANIFEST), err);
        record.number = found.record().map_or(0, |record| record.number) + 1;
        let good = found.record().is_some();
        let file = match if good { storage.open(names::MANIFEST) } else { replace_file(storage, &record) } {
            Ok(file) => Some(file),
            // A log on a full volume must open, so that retention can make room.
            Err(err) => match writing(err) {
                Error::NoSpace(_) if !good => None,
                other => return Err(other),
            },
        };
        let synced = if let Found::Good { free_slot, .. } = found { free_slot } else { 0 };
        let state = State { record, synced, marked: 0, is_synced: !good, promised: None };
        let manifest = Self { file, state: Mutex::new(state) };
        if good {
            // Twice, so that both synced slots are good, whichever the next write hits.
            manifest.write_synced(|_| ()).map_err(writing)?;
            manifest.write_synced(|_| ()).map_err(writing)?;
        }
        Ok(manifest)
    }

    /// Whether there is a file, so that something is promised.
    pub(crate) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// Notes what a flush has made durable. Synced if it is the first note of its segment. That a later record could not
    /// be written does not matter to the frames: then the one before it counts.
    pub(crate) fn mark(&self, durable: Durable) -> Result<(), Error> {
        let set = |record: &mut Record| {
            record.tail = durable.segment;
            record.end = durable.end;
            record.last = durable.last;
        };
        let mut state = hold(&self.state);
        if state.promised != Some(durable.segment) {
            drop(state);
            return match self.write_synced(set).map_err(|err| io_error("writing the manifest", err)) {
                Ok(()) => {
                    hold(&self.state).promised = Some(durable.segment);
                    Ok(())
                }
                // Some file systems need room to overwrite. The next flush tries again.
                Err(Error::NoSpace(_)) => Ok(()),
                Err(err) => Err(err),
            };
        }
        set(&mut state.record);
        let slot = SYNCED_SLOTS + state.marked % (SLOTS - SYNCED_SLOTS);
        state.marked += 1;
        state.is_synced = false;
        let _ = self.put(&mut state, slot);
        Ok(())
    }

    /// The log is going to be cut there: what is behind it is no longer promised. Synced.
    pub(crate) fn retract(&self, durable: Durable) -> io::Result<()> {
        // Another segment may get the base of one that is cut.
        hold(&self.state).promised = None;
        self.write_synced(|record| {
            record.tail = durable.segment;
            record.end = durable.end;
            record.last = durable.last;
        })
    }

    /// Segments before this one are going to be removed. Synced.
    pub(crate) fn set_oldest(&self, base: u64) -> io::Result<()> {
        self.write_synced(|record| record.oldest = base)
    }

    /// Makes the newest record durable, if it is not.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if hold(&self.state).is_synced { Ok(()) } else { self.write_synced(|_| ()) }
    }

    fn write_synced(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let number = {
            let mut state = hold(&self.state);
            change(&mut state.record);
            let slot = state.synced % SYNCED_SLOTS;
            state.is_synced = false;
            self.put(&mut state, slot)?;
            state.synced += 1;
            state.record.number
        };
        // Not under the lock: a flush must not wait for this sync.
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        let mut state = hold(&self.state);
        state.is_synced |= state.record.number == number;
        Ok(())
    }

    fn put(&self, state: &mut State, slot: u64) -> io::Result<()> {
        state.record.number += 1;
        match &self.file {
            Some(file) => file.write_at(slot * SLOT_BYTES, &state.record.encode()),
            None => Ok(()),
        }
    }
}

/// Makes the file anew, whole or not at all: a crash must not leave one without a good record.
fn replace_file(storage: &dyn Storage, record: &Record) -> io::Result<Arc<dyn StorageFile>> {
    let mut content = vec![0; (SLOTS * SLOT_BYTES) as usize];
    for slot in content.chunks_mut(SLOT_BYTES as usize).take(SYNCED_SLOTS as usize) {
        slot[..RECORD_BYTES].copy_from_slice(&record.encode());
    }
    storage::write_temporary(storage, names::MANIFEST, &[&content])?.publish()?;
    storage.open(names::MANIFEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_reads_back_as_written() {
        let record = Record { number: 7, oldest: 1, tail: 2, end: 3, last: 4 };
        let bytes = record.encode();
        assert_eq!(Record::parse(&bytes), Some(record));
        for at in 0..RECORD_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(Record::parse(&damaged), None, "byte {at}");
            assert_eq!(Record::parse(&bytes[..at]), None);
        }
    }
}
