//! The tests of the engine as one program. Each further program would be compiled and linked with the whole crate again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod changes;
mod cold;
mod deferred;
mod deletion;
mod delivery;
mod give_back;
mod limits;
mod lite;
mod queries;
mod refusals;
mod restart;
mod retries;
#[path = "../support/mod.rs"]
mod support;
mod time;
