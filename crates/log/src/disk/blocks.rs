use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::Block;

/// Bytes that one read brings in and a slot keeps.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// Slots of the cache: 16 MiB in all. A reader that keeps a block keeps its memory, too.
const SLOTS: usize = 256;

/// A cache of blocks of the log that were read lately. Consumers of several queues read the same part of the log at the same
/// time, each for the messages of its own queue. Without the cache every message costs a system call.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// A block has one slot, by its position. Bytes of a block never change; the last block of the log grows.
    slots: Vec<Mutex<Block>>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { slots: std::iter::repeat_with(Mutex::default).take(SLOTS).collect() }
    }
}

impl Blocks {
    /// The slot of the block that begins at this position, locked. A thread that finds the wrong block in it reads the
    /// right one under the lock, so that threads which want the same block wait for one read instead of making their own.
    pub fn slot(&self, at: u64) -> MutexGuard<'_, Block> {
        let slot = (at / BLOCK_BYTES) as usize % SLOTS;
        self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if no other thread holds the block.
    pub fn try_slot(&self, at: u64) -> Option<MutexGuard<'_, Block>> {
        let slot = (at / BLOCK_BYTES) as usize % SLOTS;
        match self.slots[slot].try_lock() {
            Ok(block) => Some(block),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The log was cut: its positions come to hold something else.
    pub fn forget(&self) {
        for slot in &self.slots {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Block::default();
        }
    }
}
