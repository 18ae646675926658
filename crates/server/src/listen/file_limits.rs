//! How the files that the process may open are divided between the log and connections.

use redstart_log::Options;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::shard::{COLD_READS_MAX, READERS};

/// Files of the log that stay open between reads: the default of [`redstart_log::Options`].
const LOG_FILES_MAX: usize = 512;
/// Files that the log needs beside those. A read of a segment or index opens its file before another is closed, and may use one that
/// is no longer kept open: reads on the blocking pool, on the owner thread and on the job threads.
const LOG_FILES_BESIDE: usize = Options::FILES_BESIDE + COLD_READS_MAX + READERS + 3;
/// Files that a process has open before its first connection: standard streams, the runtime's, listeners.
const OPEN_AT_START: usize = 16;
/// Files that are opened for a moment: certificates, connections to be refused.
const MARGIN_MIN: usize = 16;
const MARGIN_MAX: usize = 256;

/// The files for each purpose. Connections never get those that the log needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// The limit of the process.
    pub total: usize,
    /// For segments and their indexes that stay open.
    pub log: usize,
    /// For connections, on all ports together.
    pub connections: usize,
}

impl FileLimits {
    /// Raises the soft limit of the process to the hard one where that is allowed (shells set only 1,024), and divides it.
    pub fn of_process() -> FileLimits {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let files = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
        let total = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        FileLimits::of(total, open_files().unwrap_or(0))
    }

    /// Divides `total` files; `open` of them are open already for other purposes.
    fn of(total: usize, open: usize) -> FileLimits {
        let log = (total / 8).min(LOG_FILES_MAX);
        let margin = (total / 8).clamp(MARGIN_MIN, MARGIN_MAX);
        let taken = log + LOG_FILES_BESIDE + margin + open + OPEN_AT_START;
        // With next to no files the broker still serves some connections.
        let connections = total.saturating_sub(taken).max(total / 8);
        FileLimits { total, log: log.max(1), connections }
    }
}

fn open_files() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_log() {
        for (total, log, connections) in
            [(64, 8, 8), (120, 15, 43), (1024, 128, 722), (65_536, 512, 64_722), (1 << 20, 512, 1_047_762)]
        {
            let limits = FileLimits::of(total, 4);
            assert_eq!(limits, FileLimits { total, log, connections }, "of {total}");
        }
        assert!(FileLimits::of(usize::MAX, 4).connections > 1 << 40);
    }
}
