//! The index of a segment: where each queue's messages are, which keys they carry, which timers were made.
//!
//! While a segment may still gain entries its index is in memory ([`LiveIndex`]); when all its frames are durable the
//! index is written beside it ([`file`]) and read back block by block through a bounded cache ([`Indexes`]).

mod cache;
mod cold;
pub(crate) mod file;
mod live;
mod set;

pub(crate) use cold::Inside;
pub use cold::{ColdPart, Warmed};
pub use file::{IndexCheck, IndexFault};
pub(crate) use live::LiveIndex;
pub use set::IndexError;
pub(crate) use set::{Chunk, Indexes, KeyIndex, Unread};
