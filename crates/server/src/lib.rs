//! The broker process: the shard runtime, which drives the engine and its log from one owner thread, and the front ends
//! that translate the clients' protocols for it.

mod drain;
mod durable_file;
pub mod grpc;
mod handover;
pub mod http;
pub mod listen;
pub mod remoting;
mod resources;
pub mod shard;
pub mod statistics;
mod stream;
mod throttle;
pub mod tls;

pub use resources::Resources;
