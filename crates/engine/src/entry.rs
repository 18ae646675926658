//! One place in a queue: it points at the single stored copy of its message.

use redstart_log::Position;

use crate::{
    Timestamp,
    codec::{Malformed, Put, Take},
};

/// Layout on disk, 32 bytes: position u64, store time u64, size u32, tag hash i32, group hash u32, attempt u16,
/// priority u8, reserved u8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where the message record is. It may be in an older segment: a delayed message is not copied when due.
    pub position: Position,
    pub size: u32,
    /// When the message became visible.
    pub stored_at: Timestamp,
    pub tag_hash: i32,
    /// Lock of ordered delivery; 0 without a message group.
    pub group_hash: u32,
    /// Deliveries before this entry was made: above 0 only in retry topics.
    pub attempt: u16,
    pub priority: u8,
}

impl Entry {
    pub const LEN: usize = 32;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.position.0);
        out.put_u64(self.stored_at.0);
        out.put_u32(self.size);
        out.put_u32(self.tag_hash as u32);
        out.put_u32(self.group_hash);
        out.put_u16(self.attempt);
        out.put_u8(self.priority);
        out.put_u8(0);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Entry, Malformed> {
        let position = Position(take.u64()?);
        let stored_at = Timestamp(take.u64()?);
        let size = take.u32()?;
        let tag_hash = take.u32()? as i32;
        let group_hash = take.u32()?;
        let attempt = take.u16()?;
        let priority = take.u8()?;
        take.u8()?;
        Ok(Entry { position, size, stored_at, tag_hash, group_hash, attempt, priority })
    }
}
