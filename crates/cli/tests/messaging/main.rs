//! The producers and consumers of the client library against the real broker, over both protocols.

mod batches;
mod broadcasting;
mod broker;
mod producing;
mod reading;
mod receiving;
mod transactions;
mod typed;
mod working;
