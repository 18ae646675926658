//! The producers and consumers of the client library against the real broker, over both protocols.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod batches;
mod broadcasting;
mod broker;
mod producing;
mod reading;
mod receiving;
mod transactions;
mod typed;
mod working;
