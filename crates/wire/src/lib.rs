//! Bytes and types of the protocols. No IO, no policy.

pub mod remoting;

/// The messaging service of RocketMQ 5.x clients, generated from `proto/` by `examples/schema.rs`.
#[allow(missing_debug_implementations, unused_qualifications, clippy::all, reason = "generated code")]
pub mod v2 {
    include!("generated/apache.rocketmq.v2.rs");
}
