//! What strangers can make the broker hold in memory. The broker is a process of its own with a small budget of bytes, and
//! is watched from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod grpc;
mod process;
mod remoting;
#[path = "../remoting_support/mod.rs"]
mod remoting_support;
#[path = "../support/mod.rs"]
mod support;
