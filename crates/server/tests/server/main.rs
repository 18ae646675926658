//! The tests of the front ends and of the shard as one program. Each further program would be compiled and linked with the whole crate again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access_grpc;
mod access_remoting;
#[path = "../access_support/mod.rs"]
mod access_support;
mod drain;
#[path = "../support/engine.rs"]
mod engine;
mod grpc_abuse;
mod grpc_commands;
mod grpc_floods;
mod grpc_handles;
mod handover;
mod http_abuse;
mod http_health;
mod http_metrics;
mod http_remoting;
#[path = "../http_support/mod.rs"]
mod http_support;
mod lite;
mod new_groups;
mod properties;
mod remoting_admin_broker;
mod remoting_admin_clients;
mod remoting_admin_groups;
mod remoting_admin_topics;
mod remoting_admin_users;
mod remoting_connection;
mod remoting_consume;
mod remoting_golden;
mod remoting_names;
mod remoting_polling;
mod remoting_send;
#[path = "../remoting_support/mod.rs"]
mod remoting_support;
mod scrub;
mod several_shards;
mod shard;
#[path = "../support/mod.rs"]
mod support;
mod taken_over;
