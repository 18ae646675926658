//! A log that several nodes agree on: the Raft protocol by `raft`, over the segment log.
//!
//! The Raft log *is* the segment log: an entry is a frame with its term and index, at the same position on every replica. What
//! a node must remember beside it (term, vote, members) is a small file. [`Replica`] is the state machine: ticks, messages
//! and proposals go in; messages to send and a commit index come out. It knows neither threads nor sockets nor clocks,
//! and draws its election times from a seed. [`ReplicatedLog`] is the [`Log`](redstart_log::Log) that an engine has.
//!
//! | part | what it is |
//! |---|---|
//! | [`replica`] | the state machine around `raft` |
//! | `frame_store` | what `raft` reads: frames as entries, the newest of them from memory |
//! | `catch_up` | what a member gets that is behind the leader's oldest frame |
//! | `vote_file` | term, vote, how far is surely committed, and the members |
//! | [`membership`] | who takes part, and how that changes |
//! | `lease` | until when no other node can lead |
//! | [`message`] | what nodes tell each other, as bytes |
//! | [`provider`] | the log that an engine has |

mod catch_up;
pub mod config;
mod frame_store;
mod lease;
pub mod membership;
pub mod message;
pub mod planted;
pub mod provider;
pub mod replica;
mod vote_file;

pub use catch_up::open_log;
pub use config::{Config, Moment, Timing};
pub use membership::{Change, Member, Membership};
pub use message::{Malformed, Message};
#[cfg(feature = "sim")]
pub use planted::Planted;
pub use provider::ReplicatedLog;
pub use replica::{Failure, Refusal, Replica, Role};
pub use vote_file::has_vote;
