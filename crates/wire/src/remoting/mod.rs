//! The Remoting protocol of RocketMQ 4.x clients and `mqadmin`.

pub mod code;
mod frame;

pub use frame::{Command, DecodeError, FRAME_BYTES_MAX, Serialization, decode, encode};
