//! The producers and consumers of the client library against the real broker, over both protocols.

mod batches;
mod broker;
mod producing;
mod receiving;
mod working;
