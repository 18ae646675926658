//! What comes before the protocols of a running broker, as clients, balancers and operators see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client_certificates;
mod ports;
mod proxy_protocol;
mod reload;
#[path = "../support/mod.rs"]
mod support;
mod world;
