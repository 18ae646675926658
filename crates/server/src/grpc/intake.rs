//! Requests that are on their way in. A message is held in memory until its last byte has come, so the bytes of
//! unfinished ones are counted, for each connection and for all, and they must be finished in time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tonic::Status;

/// Bytes of unfinished requests of one connection, and of all.
const CONNECTION_BYTES_MAX: usize = 256 << 20;
pub(super) const ALL_BYTES_MAX: usize = 1 << 30;

/// What the unfinished requests of a connection take.
#[derive(Debug)]
pub(super) struct Intake {
    connection: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl Intake {
    pub fn new(all: Arc<AtomicUsize>) -> Intake {
        Intake { connection: AtomicUsize::new(0), all }
    }

    pub fn take(&self, bytes: usize) -> Result<(), Status> {
        let connection = self.connection.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let full = |what, used, limit| {
            Status::resource_exhausted(format!(
                "unfinished requests of {what} take {used} bytes, the limit is {limit}"
            ))
        };
        if connection > CONNECTION_BYTES_MAX {
            return Err(full("this connection", connection, CONNECTION_BYTES_MAX));
        }
        if all > ALL_BYTES_MAX {
            return Err(full("all connections", all, ALL_BYTES_MAX));
        }
        Ok(())
    }

    pub fn give_back(&self, bytes: usize) {
        self.connection.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_past_its_bound_is_refused_and_what_is_given_back_counts_no_more() {
        let intake = Intake::new(Arc::default());
        assert!(intake.take(CONNECTION_BYTES_MAX).is_ok());
        assert!(intake.take(1).is_err());
        intake.give_back(CONNECTION_BYTES_MAX + 1);
        assert!(intake.take(1).is_ok());
        assert_eq!(intake.all.load(Ordering::Relaxed), 1);
    }
}
