//! A segmented, checksummed append log with group commit, recovery and retention.
//!
//! The log knows bytes, not messages. One frame is the unit of atomicity: it is recovered whole or not at
//! all. *Appended* means written and readable; *committed* means it survives a power cut. The two are
//! different events, because a [`Flusher`] makes frames durable on another thread while the owner goes on
//! appending.
//!
//! | word | meaning |
//! |---|---|
//! | [`Position`] | byte address in the log; stable for as long as the segment that holds it exists |
//! | [`Index`] | number of a frame, consecutive, starting at 1; 0 means "before the first" |
//! | [`SegmentId`] | the position at which a segment begins |

pub mod check;
mod checkpoint;
mod disk;
mod error;
mod field;
mod frame;
mod fs;
mod manifest;
mod memory;
mod names;
mod options;
mod recovery;
mod scan;
mod scrub;
mod segment;
mod segment_file;
mod sidecar;
#[cfg(feature = "sim")]
pub mod sim;
mod storage;
mod types;

pub use disk::{DiskLog, Origin, Spare};
pub use error::{Error, ReadError};
pub use fs::{FsStorage, create_dir_durably};
pub use memory::MemoryLog;
#[cfg(feature = "sim")]
pub use options::Planted;
pub use options::{Options, Sizes};
pub use recovery::{Cut, Recovery};
pub use scrub::{IndexScrub, Piece, Scrubber, SegmentScrub};
pub use storage::{LockGuard, Storage, StorageFile};
pub use types::{Appended, Block, Frame, Index, Position, SegmentId, SegmentInfo, Usage};

use std::sync::Arc;

use bytes::Bytes;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: u64 = frame::HEADER_BYTES as u64;

/// The log as its single owner sees it. Providers: memory, local disk, and the replicated one over either.
pub trait Log: Send {
    /// Writes one frame at the tail. Readable at once, durable only when [`Log::committed`] reaches its index.
    ///
    /// A refusal (no space, payload over the limit, poisoned) leaves the log exactly as it was.
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error>;

    /// Writes a frame of another replica of this log, with its term, index and timestamp, at the position that it has there.
    /// Begins a segment where that replica has begun one, whatever the options say. A refusal leaves the frames as they were.
    fn copy(&mut self, frame: &Frame) -> Result<(), Error>;

    /// Index of the last frame appended.
    fn appended(&self) -> Index;

    /// Index of the last frame that is durable.
    fn committed(&self) -> Index;

    /// The term that the next frames carry: 0 in a log that is not replicated.
    fn term(&self) -> u64;

    /// Sets it, when another term of leadership begins.
    fn set_term(&mut self, term: u64);

    /// The term of the frame before the oldest one; 0 before the first.
    fn previous_term(&self) -> u64;

    /// How large segments and frames become that are written from now on.
    fn sizes(&self) -> Sizes;

    /// Sets it. What is written already stays as it is.
    fn set_sizes(&mut self, sizes: Sizes);

    /// The handle that makes appended frames durable; may be used from another thread.
    fn flusher(&self) -> Arc<dyn Flusher>;

    /// The handle that reads frames and bytes; may be cloned to any thread.
    fn reader(&self) -> Arc<dyn Reader>;

    /// Drops every frame after `last`. Used by a replicated log whose tail lost an election.
    fn truncate(&mut self, last: Index) -> Result<(), Error>;

    /// All segments, oldest first; the last one is the active one.
    fn segments(&self) -> Vec<SegmentInfo>;

    /// Ends the active segment, so that the next append starts a new one. Does nothing on an empty segment.
    fn roll(&mut self) -> Result<(), Error>;

    /// Makes the file of the next segment ahead of need, so that rolling waits for no disk and works on a full one. `None`
    /// while there is such a file or one is being made. A job, because it is slow: run it on any thread, and hand the result
    /// to [`Log::put_spare`]. Without one a roll makes the file itself.
    fn spare_maker(&mut self) -> Option<Arc<dyn SpareMaker>> {
        None
    }

    /// Takes what came of a [`SpareMaker`]; returns its error.
    fn put_spare(&mut self, made: Result<Spare, Error>) -> Result<(), Error> {
        made.map(drop)
    }

    /// Why hardly any room is left, if so: no further segment can be made, and half of the active one is used. The rest is
    /// for what must go on, such as acks, and the copies that let the oldest segment go; new data is to be refused.
    fn scarcity(&self) -> Option<&str> {
        None
    }

    /// Stores the index of a segment that is no longer active, beside it and durably. A job, because it is slow:
    /// run it on any thread. `Reader::index_read` serves the index once the job is done.
    fn index_writer(&self) -> Arc<dyn IndexWriter>;

    /// The handle that checks what is stored; `None` where nothing is on a disk.
    fn scrubber(&self) -> Option<Arc<dyn Scrubber>> {
        None
    }

    /// Deletes the oldest segment and its index. Refuses the active one.
    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error>;

    /// Where checkpoints of the state derived from this log are kept.
    fn checkpoints(&self) -> Arc<dyn Checkpoints>;

    /// How full the volume is that holds the log. What is reserved for the next segment counts as free.
    fn usage(&self) -> Result<Usage, Error>;
}

/// Makes frames durable. `flush` blocks; one call covers every frame appended before it began.
pub trait Flusher: Send + Sync {
    /// Returns the index of the last durable frame. After an error the log is poisoned: nothing that was
    /// not durable before may be trusted, and every later call fails until the log is opened again.
    fn flush(&self) -> Result<Index, Error>;

    /// Makes the newest record of the manifest durable. Called when nothing was flushed for a while: after it, a start notices
    /// the loss of any frame that is durable now.
    fn sync_manifest(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Positioned reads, shared by all threads.
pub trait Reader: Send + Sync {
    /// Reads `len` bytes of one segment. The bytes are not checked: records carry checksums of their own, which the
    /// caller verifies.
    fn read(&self, position: Position, len: usize) -> Result<Bytes, ReadError>;

    /// The same for many small reads near each other: a whole block around them is read and cached. The block that is
    /// returned holds at least what was asked for.
    fn read_near(&self, position: Position, len: usize) -> Result<Block, ReadError> {
        Ok(Block { at: position, bytes: self.read(position, len)? })
    }

    /// [`Reader::read`] without waiting for the disk: `None` when the bytes are not in memory, or when opening their file
    /// would be needed first. A thread that must not block tries this, and leaves [`Reader::read`] to one that may.
    fn read_if_cached(&self, position: Position, len: usize) -> Result<Option<Bytes>, ReadError> {
        self.read(position, len).map(Some)
    }

    /// The same for [`Reader::read_near`].
    fn read_near_if_cached(&self, position: Position, len: usize) -> Result<Option<Block>, ReadError> {
        self.read_near(position, len).map(Some)
    }

    /// The first frame that begins at or after `position` within its segment, checked; `None` at the end of
    /// that segment. Start with a segment's id and go on with [`Frame::next`].
    fn frame(&self, position: Position) -> Result<Option<Frame>, ReadError>;

    /// Length of a segment's stored index; `None` while it has none.
    fn index_len(&self, segment: SegmentId) -> Result<Option<u64>, ReadError>;

    /// Reads bytes of a segment's stored index. Not checked here: the index carries its own checksums.
    fn index_read(&self, segment: SegmentId, offset: u64, len: usize) -> Result<Bytes, ReadError>;

    /// The same without waiting for the disk: `None` when the bytes are not in memory.
    fn index_read_if_cached(
        &self,
        segment: SegmentId,
        offset: u64,
        len: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        self.index_read(segment, offset, len).map(Some)
    }
}

/// Makes the file of the next segment and reserves its room.
pub trait SpareMaker: Send + Sync {
    fn make(&self) -> Result<Spare, Error>;
}

/// Stores the index of a sealed segment: temporary file, fsync, rename, fsync of the directory.
pub trait IndexWriter: Send + Sync {
    fn write(&self, segment: SegmentId, index: &[u8]) -> Result<(), Error>;
}

/// Blobs of derived state, each taken at a frame index. The newest two are kept, so that a damaged one has
/// an older one behind it.
pub trait Checkpoints: Send + Sync {
    /// Stores a checkpoint durably and forgets all but the newest two.
    fn save(&self, at: Index, state: &[u8]) -> Result<(), Error>;

    /// The stored checkpoints that pass their checksum, newest first. Damaged ones are left out and named in
    /// the second list.
    fn load(&self) -> Result<StoredCheckpoints, Error>;
}

/// Good checkpoints, newest first, and the names of the damaged ones.
pub type StoredCheckpoints = (Vec<(Index, Bytes)>, Vec<String>);
