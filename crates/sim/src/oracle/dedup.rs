//! Within its window a dedup key is stored once, and a duplicate gets the first one's result.

use std::time::Duration;

use redstart_engine::{SendReceipt, Timestamp, TopicId};

use super::{Checked, Model, ensure, model::Fate};

pub const ONCE: &str = "a dedup key is stored once within its window";
pub const FIRST: &str = "a duplicate gets the first one's result";
/// The longest window that a topic has here.
const WINDOW_MAX: Duration = Duration::from_secs(3600);
pub const ROOM: &str = "there is room for dedup keys when the windows of earlier ones are over";

/// A message with a dedup key was stored under `receipt`.
pub fn check_stored(model: &Model, number: usize, receipt: &SendReceipt, window: Duration) -> Checked {
    let message = &model.messages[number];
    let Some(key) = message.message.dedup_key() else { return Ok(()) };
    for other in &model.messages {
        let same = other.number != number
            && other.topic == message.topic
            && other.message.dedup_key() == Some(key)
            && other.fate == Fate::Stored;
        let Some(first) = other.receipt.filter(|_| same) else { continue };
        let apart = receipt.stored_at.since(first.stored_at).max(first.stored_at.since(receipt.stored_at));
        ensure(apart >= window, ONCE, || {
            format!("messages {:X} and {number:X} with key {key:?} are {apart:?} apart", other.number)
        })?;
    }
    Ok(())
}

/// A send was answered with the result of an earlier one. That one is stored, whether its sender knows or not.
pub fn check_duplicate(model: &mut Model, topic: TopicId, key: &str, receipt: &SendReceipt) -> Checked {
    let first = model.messages.iter_mut().find(|other| {
        other.topic == topic
            && other.message.dedup_key() == Some(key)
            && match other.receipt {
                Some(told) => told.position == receipt.position,
                None => matches!(other.fate, Fate::Unknown | Fate::Stored),
            }
    });
    ensure(first.is_some(), FIRST, || {
        format!("key {key:?} was answered {receipt:?}, nothing was stored there")
    })?;
    if let Some(first) = first
        && first.fate == Fate::Unknown
        && first.receipt.is_some()
    {
        first.fate = Fate::Stored;
    }
    Ok(())
}

/// A message was refused because `limit` keys are remembered: so many may be within the longest window.
pub fn check_full(model: &Model, limit: usize, now: Timestamp) -> Checked {
    let may_be_kept = model.messages.iter().filter(|known| {
        let since = known.receipt.map_or(now, |receipt| receipt.stored_at);
        known.message.dedup_key().is_some() && known.fate != Fate::Refused && now.since(since) < WINDOW_MAX
    });
    let count = may_be_kept.count();
    ensure(count >= limit, ROOM, || format!("{count} keys can be within their windows, the limit is {limit}"))
}
