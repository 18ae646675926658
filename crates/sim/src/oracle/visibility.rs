//! Delayed messages are never early, half messages wait for their commit, recalled ones never come.

use redstart_engine::{Timestamp, Visibility};

use super::{
    Checked, ensure,
    model::{End, Fate, Known},
};

pub const NOT_EARLY: &str = "a delayed message is never early";
pub const HALF: &str = "a half message is visible only after its commit";
pub const RECALLED: &str = "a recalled message is never delivered";
pub const DURABLE: &str = "a message is visible only when it is durable";

/// The message is in its queue, since `stored_at`.
pub fn check_visible(known: &Known, stored_at: Timestamp, now: Timestamp) -> Checked {
    let number = known.number;
    ensure(known.fate != Fate::Proposed, DURABLE, || {
        format!("message {number:X} is visible, its sender waits")
    })?;
    if let Some(due) = known.message.deliver_at.filter(|due| *due > known.sent_at) {
        ensure(due <= now && due <= stored_at, NOT_EARLY, || {
            format!("message {number:X} is due at {due}, visible since {stored_at}, it is {now}")
        })?;
    }
    let committed = match known.end {
        None => true,
        Some(End::Acknowledged { commit } | End::Unknown { commit }) => commit,
        Some(End::Open | End::Proposed { .. }) => false,
    };
    ensure(committed, HALF, || format!("message {number:X} is visible, its end is {:?}", known.end))?;
    ensure(known.recall != Some(Fate::Stored), RECALLED, || format!("message {number:X}"))
}

/// What a receipt may say of a message.
pub fn check_receipt(known: &Known, visibility: Visibility) -> Checked {
    let right = match visibility {
        Visibility::Visible(_) => known.immediate(),
        Visibility::Delayed(key) => Some(key.due) == known.message.deliver_at && known.end.is_none(),
        Visibility::Half => known.end.is_some(),
    };
    ensure(right, HALF, || {
        format!("message {:X} ({:?}) was answered {visibility:?}", known.number, known.end)
    })
}
