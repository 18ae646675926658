//! The broker process. For now: the shard runtime, which drives the engine and its log from one owner thread.

pub mod shard;
