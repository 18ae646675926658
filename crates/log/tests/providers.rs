//! The shared suite on every provider of the log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod suite;

use std::{any::Any, sync::Arc};

use redstart_log::{DiskLog, FsStorage, Log, MemoryLog, Options, Storage, sim::SimStorage};

use suite::{SEGMENT_BYTES, local_suite, suite};

/// A log, and whatever must outlive it.
struct Made {
    log: Box<dyn Log>,
    _keep: Box<dyn Any>,
}

fn memory() -> Made {
    let log = MemoryLog::with_options(Options::with_segment_bytes(SEGMENT_BYTES));
    Made { log: Box::new(log), _keep: Box::new(()) }
}

fn disk(storage: Arc<dyn Storage>, keep: impl Any) -> Made {
    // One open file, so that handles are closed and opened all the time.
    let options = Options { open_files_max: 1, ..Options::with_segment_bytes(SEGMENT_BYTES) };
    let (log, _) = DiskLog::open(storage, options).unwrap();
    Made { log: Box::new(log), _keep: Box::new(keep) }
}

fn file_system() -> Made {
    let dir = tempfile::tempdir().unwrap();
    disk(Arc::new(FsStorage::open(dir.path()).unwrap()), dir)
}

fn simulated() -> Made {
    disk(Arc::new(SimStorage::new(1)), ())
}

suite!(memory_log, crate::memory);
suite!(disk_log_on_files, crate::file_system);
suite!(disk_log_on_simulated_disk, crate::simulated);
local_suite!(memory_log_alone, crate::memory);
local_suite!(disk_log_on_files_alone, crate::file_system);
local_suite!(disk_log_on_simulated_disk_alone, crate::simulated);
