//! How far a group has got in a queue.

use crate::{
    QueueOffset,
    codec::{Malformed, Put, Take},
};

/// Priorities are served in this many levels; higher priorities count as the highest.
pub(crate) const LEVELS: u8 = 10;

/// The first offset a group has not been given. Topics with priorities have one for each level, because a message
/// of a high level overtakes those of lower levels.
///
/// Layout: u8 0 and an offset u64, or u8 1 and ten offsets u64, one for each level from 0 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cursor {
    Single(QueueOffset),
    Levels(Box<[QueueOffset; LEVELS as usize]>),
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor::Single(QueueOffset(0))
    }
}

impl Cursor {
    /// The offset below which everything has been given out.
    pub fn low(&self) -> QueueOffset {
        match self {
            Cursor::Single(next) => *next,
            Cursor::Levels(levels) => levels.iter().copied().min().unwrap_or_default(),
        }
    }

    pub fn high(&self) -> QueueOffset {
        match self {
            Cursor::Single(next) => *next,
            Cursor::Levels(levels) => levels.iter().copied().max().unwrap_or_default(),
        }
    }

    pub fn level(&self, level: u8) -> QueueOffset {
        match self {
            Cursor::Single(next) => *next,
            Cursor::Levels(levels) => levels.get(usize::from(level)).copied().unwrap_or_default(),
        }
    }

    pub fn set(&mut self, level: u8, next: QueueOffset) {
        match self {
            Cursor::Single(single) => *single = next,
            Cursor::Levels(levels) => {
                if let Some(slot) = levels.get_mut(usize::from(level)) {
                    *slot = next;
                }
            }
        }
    }

    /// All levels to one offset.
    pub fn reset(&mut self, next: QueueOffset) {
        *self = Cursor::Single(next);
    }

    /// One cursor for each level from here on.
    pub fn split(&mut self) {
        if let Cursor::Single(next) = *self {
            *self = Cursor::Levels(Box::new([next; LEVELS as usize]));
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Cursor::Single(next) => {
                out.put_u8(0);
                out.put_u64(next.0);
            }
            Cursor::Levels(levels) => {
                out.put_u8(1);
                levels.iter().for_each(|next| out.put_u64(next.0));
            }
        }
    }

    pub fn decode(take: &mut Take<'_>) -> Result<Cursor, Malformed> {
        match take.u8()? {
            0 => Ok(Cursor::Single(QueueOffset(take.u64()?))),
            1 => {
                let mut levels = [QueueOffset(0); LEVELS as usize];
                for level in &mut levels {
                    *level = QueueOffset(take.u64()?);
                }
                Ok(Cursor::Levels(Box::new(levels)))
            }
            _ => Err(take.malformed()),
        }
    }
}
