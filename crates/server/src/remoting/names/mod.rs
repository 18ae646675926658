//! The name service: where topics are, which topics there are, and a small store of values for tools.

mod brokers;
mod routes;
mod topics;
mod values;

use std::{io, path::Path, time::Instant};

pub(super) use brokers::{data_version, heartbeat, register, unregister};
pub(super) use routes::{cluster, route};
pub(super) use topics::{system_topics, topics, topics_of_cluster};
pub(super) use values::{delete_value, put_value, value, values};

use brokers::Brokers;
use values::Values;

/// What the name service knows beyond this broker's own topics.
#[derive(Debug)]
pub(super) struct Names {
    brokers: Brokers,
    values: Values,
}

impl Names {
    pub fn open(dir: &Path) -> io::Result<Names> {
        Ok(Names { brokers: Brokers::default(), values: Values::open(dir)? })
    }

    /// Forgets other brokers that have been silent for too long.
    pub fn expire(&self, now: Instant) {
        self.brokers.expire(now);
    }
}
