use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::Block;

/// What is read at once and kept.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// 16 MiB in all, and what readers hold on to.
const SLOTS: usize = 256;

/// Parts of the log that were read lately. The consumers of a topic's queues go through the same part side by side, each
/// for its own messages between those of the others: read one by one they cost a call each.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Each block has one place. What a block holds does not change, but the last one of a log grows.
    slots: Vec<Mutex<Block>>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { slots: std::iter::repeat_with(Mutex::default).take(SLOTS).collect() }
    }
}

impl Blocks {
    /// The place of the block that begins at this position. Whoever has it reads it for those who come meanwhile.
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
