//! A client of the Remoting protocol, as the 4.x clients are one.

mod client;
mod producer;
mod puller;
mod topics;

use clap::ValueEnum;
use redstart_wire::remoting as wire;

pub use client::Client;
pub use producer::Producer;
pub use puller::{Puller, pullers};
pub use topics::create_topics;

/// How headers are written.
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
