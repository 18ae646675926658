//! Producers and consumers against a broker in this process, over both protocols.

mod batches;
mod broker;
mod producing;
mod receiving;
mod working;
