//! A stored message that is in no queue, or comes to another one: what timers and open transactions keep of it.

use redstart_log::Position;

use crate::{
    Entry, QueueKey, Timestamp,
    codec::{Malformed, Put, Take},
    record::{Stored, put_queue, take_queue},
};

/// Where a message is stored, and the queue that it goes to. Kept small: there may be tens of millions.
///
/// Layout, 35 bytes:
///
/// | field | size | |
/// |---|---|---|
/// | queue | u32, u32 | topic and queue that the message goes to |
/// | position | u64 | of its record |
/// | size | u32 | of its record |
/// | tag hash | i32 | |
/// | group hash | u32 | of its message group; 0 without one |
/// | attempt | u16 | deliveries so far |
/// | priority | u8 | |
/// | reserved | u32 | 0 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageRef {
    pub queue: QueueKey,
    pub position: Position,
    pub size: u32,
    pub tag_hash: i32,
    pub group_hash: u32,
    /// Deliveries so far: above 0 only for a message on its way to a retry topic.
    pub attempt: u16,
    pub priority: u8,
}

impl MessageRef {
    pub const LEN: usize = 35;

    pub fn of(stored: &Stored) -> MessageRef {
        MessageRef {
            queue: stored.queue,
            position: stored.position,
            size: stored.size,
            tag_hash: stored.tag_hash,
            group_hash: stored.group_hash,
            attempt: 0,
            priority: stored.priority,
        }
    }

    /// The message of an entry, on its way to another queue after `attempt` deliveries.
    pub fn moved(entry: Entry, to: QueueKey, attempt: u16) -> MessageRef {
        MessageRef {
            queue: to,
            position: entry.position,
            size: entry.size,
            tag_hash: entry.tag_hash,
            group_hash: entry.group_hash,
            attempt,
            priority: entry.priority,
        }
    }

    /// The entry of the message in its queue, once it is visible.
    pub fn entry(&self, visible_at: Timestamp) -> Entry {
        Entry {
            position: self.position,
            size: self.size,
            stored_at: visible_at,
            tag_hash: self.tag_hash,
            group_hash: self.group_hash,
            attempt: self.attempt,
            priority: self.priority,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_queue(self.queue, out);
        out.put_u64(self.position.0);
        out.put_u32(self.size);
        out.put_u32(self.tag_hash as u32);
        out.put_u32(self.group_hash);
        out.put_u16(self.attempt);
        out.put_u8(self.priority);
        out.put_u32(0);
    }

    pub fn decode(take: &mut Take<'_>) -> Result<MessageRef, Malformed> {
        let message = MessageRef {
            queue: take_queue(take)?,
            position: Position(take.u64()?),
            size: take.u32()?,
            tag_hash: take.u32()? as i32,
            group_hash: take.u32()?,
            attempt: take.u16()?,
            priority: take.u8()?,
        };
        take.u32()?;
        Ok(message)
    }
}
