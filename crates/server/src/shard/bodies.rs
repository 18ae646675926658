use std::sync::Arc;

use redstart_engine::{FetchError, Fetched, Proof, fetch, fetch_if_cached};
use redstart_log::{Position, Reader};
use tokio::sync::Semaphore;

use super::Counters;
use crate::throttle::Throttle;

/// Reads that may wait for the disk at a time. Enough to keep a disk busy, few enough that flushes of the log get their
/// turn.
pub(crate) const COLD_READS_MAX: usize = 8;

/// Reads stored messages for answers. What is in memory is read by the calling task. What is not is read on the blocking
/// pool, a bounded number of reads at a time: a task that waited for the disk would hold up every connection of its
/// thread.
#[derive(Clone)]
pub struct Bodies {
    reader: Arc<dyn Reader>,
    cold: Arc<Semaphore>,
    counters: Arc<Counters>,
}

impl std::fmt::Debug for Bodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bodies").field("cold", &self.cold).finish_non_exhaustive()
    }
}

impl Bodies {
    pub(super) fn new(reader: Arc<dyn Reader>, counters: Arc<Counters>) -> Bodies {
        Bodies { reader, cold: Arc::new(Semaphore::new(COLD_READS_MAX)), counters }
    }

    /// Reads one message.
    pub(crate) async fn fetch(&self, position: Position, size: u32) -> Result<Fetched, FetchError> {
        match fetch_if_cached(&*self.reader, position, size)? {
            Some(fetched) => Ok(fetched),
            None => self.cold(move |reader| fetch(reader, position, size)).await,
        }
    }

    pub(super) fn shared_reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }

    /// For reads of what is in memory.
    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// Runs what may wait for the disk. It is carried through even if the wait for it is given up.
    pub(crate) async fn cold<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> T + Send + 'static,
    ) -> T {
        // Never closed.
        let place = self.cold.clone().acquire_owned().await;
        let reader = self.reader.clone();
        let job = move || {
            let _place = place;
            read(&*reader)
        };
        match tokio::task::spawn_blocking(job).await {
            Ok(read) => read,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts and logs a read that failed.
    pub(crate) fn failed(&self, error: &FetchError) {
        static FAILED: Throttle = Throttle::new();
        self.counters.read_failed();
        if let Some(repeated) = FAILED.permit() {
            tracing::error!(%error, repeated, "a stored message could not be read");
        }
    }

    /// Counts and logs that a reader which keeps its own place was not given a message, because it is lost. The engine
    /// does so for deliveries.
    pub(crate) fn passed_over(&self, proof: Proof) {
        static LOST: Throttle = Throttle::new();
        self.counters.passed_over(proof.loss());
        if let Some(repeated) = LOST.permit() {
            let (position, loss) = (proof.position(), proof.loss());
            tracing::error!(%position, ?loss, repeated, "a stored message is lost and was passed over");
        }
    }
}
