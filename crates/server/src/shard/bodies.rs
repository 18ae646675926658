//! Reads of stored messages by the front ends, without the owner thread.

use std::sync::Arc;

use redstart_engine::{FetchError, Fetched, Proof, fetch, fetch_if_cached};
use redstart_log::{Position, Reader};
use tokio::sync::Semaphore;

use super::Counters;
use crate::throttle::Throttle;

/// Reads from the disk at the same time: enough to keep a disk busy, few enough that flushes are not delayed by them.
pub(crate) const COLD_READS_MAX: usize = 8;

/// Reads stored messages for answers. The calling task reads what is in memory. The rest is read on the blocking pool, at most
/// [`COLD_READS_MAX`] reads at a time: a task that waited for the disk would delay all other tasks of its thread.
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

    /// The log, for reads of what is in memory.
    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// Runs a read that may wait for the disk. It runs to its end even if the returned future is dropped.
    pub(crate) async fn cold<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> T + Send + 'static,
    ) -> T {
        // The semaphore is never closed.
        let permit = self.cold.clone().acquire_owned().await;
        let reader = self.reader.clone();
        let job = move || {
            let _permit = permit;
            read(&*reader)
        };
        match tokio::task::spawn_blocking(job).await {
            Ok(read) => read,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The tokio runtime is shutting down, which ends this task too.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts and logs a failed read.
    pub(crate) fn failed(&self, error: &FetchError) {
        static FAILED: Throttle = Throttle::new();
        self.counters.read_failed();
        if let Some(repeated) = FAILED.permit() {
            tracing::error!(%error, repeated, "a stored message could not be read");
        }
    }

    /// Counts and logs that a pull passed over a lost message. The engine does that for deliveries.
    pub(crate) fn passed_over(&self, proof: Proof) {
        static LOST: Throttle = Throttle::new();
        self.counters.passed_over(proof.loss());
        if let Some(repeated) = LOST.permit() {
            let (position, loss) = (proof.position(), proof.loss());
            tracing::error!(%position, ?loss, repeated, "a stored message is lost and was passed over");
        }
    }
}
