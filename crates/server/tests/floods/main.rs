//! The memory that unknown clients can make the broker use. The broker runs in a process of its own with a small byte budget, and its
//! memory is measured from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod grpc;
mod process;
mod remoting;
#[path = "../remoting_support/mod.rs"]
mod remoting_support;
#[path = "../support/mod.rs"]
mod support;
