//! A minimal client of the Remoting protocol, which sends what 4.x clients send.

mod client;
mod line;
mod pipeline;
mod producer;
mod puller;
mod topics;

use std::time::Duration;

use clap::ValueEnum;
use redstart_wire::remoting as wire;

pub use pipeline::pipelines;
pub use puller::{Puller, pullers};
pub use topics::create_topics;

/// How often calls are checked for timeouts.
const SWEEP: Duration = Duration::from_millis(500);
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// Encoding of the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Serialization {
    Json,
    Binary,
}

impl From<Serialization> for wire::Serialization {
    fn from(serialization: Serialization) -> Self {
        match serialization {
            Serialization::Json => wire::Serialization::Json,
            Serialization::Binary => wire::Serialization::Binary,
        }
    }
}
