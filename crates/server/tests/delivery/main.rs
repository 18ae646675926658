//! What becomes of messages between the engine and their consumer: reads that fail, answers that do not arrive, answers
//! that are too large.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrival;
mod bounds;
mod broker;
mod flaky;
mod polling;
mod reads;
#[path = "../remoting_support/mod.rs"]
mod remoting_support;
#[path = "../support/mod.rs"]
mod support;
