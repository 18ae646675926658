//! The tests of the binary as one program. Each further program would be compiled and linked with the whole crate again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
#[path = "../admin_support/mod.rs"]
mod admin_support;
mod auth;
mod bench;
mod check;
mod config;
mod log;
mod mqadmin;
mod pages;
mod remoting_stop;
mod secrets;
mod serve;
mod shards;
mod startup;
#[path = "../support/mod.rs"]
mod support;
