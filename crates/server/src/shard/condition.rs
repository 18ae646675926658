//! Whether a shard can do its work, as health checks and metrics see it.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
};

use redstart_engine::Config as EngineConfig;

use super::Failure;

/// Whether a shard can do its work. Written by the owner thread, read by any thread.
#[derive(Debug, Default)]
pub struct Condition {
    failed: OnceLock<String>,
    /// The failure is one that the next start mends.
    restart: AtomicBool,
    /// While messages are refused because the volume is full: how full it is, and from where on they are refused, in percent. Else 0.
    disk: AtomicU16,
    /// There is no room for another segment: what is left of the active one is kept for acks.
    scarce: AtomicBool,
    /// Bytes of facts that the log has refused, while they have reached their limit. Else 0.
    refused_bytes: AtomicUsize,
}

/// The volume is too full to store anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk is {percent} % full, from {limit} % on nothing is stored")]
pub struct DiskFull {
    pub percent: u8,
    pub limit: u8,
}

impl Condition {
    /// Why the shard stopped by itself, if it has.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Whether the shard stopped only to be started again.
    pub(super) fn wants_restart(&self) -> bool {
        self.restart.load(Ordering::Relaxed)
    }

    pub fn disk_full(&self) -> Option<DiskFull> {
        let [percent, limit] = self.disk.load(Ordering::Relaxed).to_be_bytes();
        (limit > 0).then_some(DiskFull { percent, limit })
    }

    /// Whether messages are refused because there is no room for another segment.
    pub fn is_room_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
    }

    pub(super) fn set_room_scarce(&self, scarce: bool) {
        self.scarce.store(scarce, Ordering::Relaxed);
    }

    /// Bytes of facts that wait in memory for the log, while there is no room for more.
    pub(super) fn refused_bytes(&self) -> Option<usize> {
        Some(self.refused_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    pub(super) fn set_refused_bytes(&self, bytes: Option<usize>) {
        self.refused_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn set_disk(&self, percent: Option<u8>, config: &EngineConfig) {
        let limit = config.retention.refuse_percent;
        let full = percent.filter(|percent| *percent >= limit);
        // 0 means "not full", so a limit of 0 is stored as 1.
        let packed = full.map_or(0, |percent| u16::from_be_bytes([percent, limit.max(1)]));
        self.disk.store(packed, Ordering::Relaxed);
    }

    /// Runs the shard, and records a failure or panic.
    pub(super) fn watch(&self, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let ended = self.guard(run);
        if let Err(error) = &ended {
            self.fail(error);
        }
        ended
    }

    /// Runs something after whose panic the shard cannot go on, and records a panic.
    pub(super) fn guard<R>(&self, run: impl FnOnce() -> R) -> R {
        let _on_panic = RecordPanic(self);
        run()
    }

    fn fail(&self, why: &Failure) {
        if matches!(why, Failure::Replica(redstart_raft::Failure::StartAgain)) {
            self.restart.store(true, Ordering::Relaxed);
        }
        // The first failure is the one that counts.
        let _ = self.failed.set(why.to_string());
    }
}

/// Records a panic when it unwinds through the scope that holds this.
struct RecordPanic<'a>(&'a Condition);

impl Drop for RecordPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&Failure::Panicked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_and_an_error_are_recorded_and_a_clean_end_is_not() {
        let condition = Condition::default();
        condition.watch(|| Ok(())).unwrap();
        assert_eq!(condition.failure(), None);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = condition.watch(|| std::panic::resume_unwind(Box::new(())));
        }));
        assert!(unwound.is_err());
        assert_eq!(condition.failure(), Some("the owner thread panicked"));
    }

    #[test]
    fn the_disk_is_full_from_the_limit_on_and_may_be_emptied() {
        let condition = Condition::default();
        let mut config = EngineConfig::default();
        config.retention.refuse_percent = 90;
        for (percent, full) in [(None, false), (Some(89), false), (Some(90), true), (Some(20), false)] {
            condition.set_disk(percent, &config);
            assert_eq!(condition.disk_full().is_some(), full, "{percent:?}");
        }
    }
}
