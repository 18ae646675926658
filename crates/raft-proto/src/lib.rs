//! The types that `raft` exchanges with its callers, in place of the published crate of this name.
//!
//! The published crate generates its types with a `protoc` binary, which is not there on every system that the broker is
//! built on. `raft` uses them as plain data: it asks for the encoded size of an entry, and it encodes and decodes
//! configuration changes. Only that is implemented here. Links between nodes have a layout of their own, and nothing
//! from a socket is read by the `protobuf` crate.
//!
//! Field names, numbers of enumerations and accessors are those that `raft` 0.7 is written against.

mod conf_change;
pub mod eraftpb;
mod wire;

pub use conf_change::{ConfChangeI, conf_state_eq, new_conf_change_single};

/// What `raft` imports by this path.
pub mod prelude {
    pub use crate::eraftpb::{
        ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry,
        EntryType, HardState, Message, MessageType, Snapshot, SnapshotMetadata,
    };
}
