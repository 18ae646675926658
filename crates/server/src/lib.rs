//! The broker process: the shard runtime, which drives the engine and its log from one owner thread, and the front ends
//! that translate the clients' protocols for it.

mod access;
mod audit;
mod byte_budget;
mod dead_letter_reason;
mod drain;
pub mod durable_file;
pub mod grpc;
mod handover;
pub mod http;
mod invisible_time;
pub mod listen;
pub mod peers;
mod proxies;
mod proxy_header;
pub mod relay;
pub mod remoting;
mod resources;
mod scope;
pub mod scrub;
pub mod sealing_keys;
pub mod shard;
mod shards;
mod signer;
mod stall_detector;
pub mod statistics;
mod stream;
mod throttle;
pub mod tls;
mod transport;
mod user_properties;

use std::pin::Pin;

pub use access::{Access, MakeUserError, SealError, SealStoredError};
pub use audit::AuditLog;
pub use byte_budget::{ByteBudget, DEFAULT_BYTES};
pub use proxies::Proxies;
pub use redstart_raft::Failure as ReplicaFailure;
pub use resources::Resources;
pub use shards::{CatalogueError, CatalogueRefusal, ServedShard, ShardNumber, Shards, broker_names};
pub use signer::Signer;
pub use transport::Transport;

/// A front end at work. Behind a trait object its code is compiled once, with this crate, and not again by each crate that runs it.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What reads the bytes of a balancer. Not an interface: it changes with what it opens.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    pub use crate::proxy_header::{BYTES_MAX, Parsed, parse};
}
