//! The commands of operators. They speak to a server over its ports only: this crate cannot reach into the broker.
//!
//! `admin/` has the commands of `redstart` itself (`topic`, `group`, `message`, `user`, …), `mqadmin/` RocketMQ's, both over the
//! client library. What every command needs is beside them: how to reach a server (`access.rs`), and how a failure is printed
//! (`failure.rs`).

pub mod access;
pub mod admin;
pub mod blocking;
pub mod contexts;
pub mod credentials;
pub mod failure;
pub mod mqadmin;
pub mod similar;
pub mod stdout;
