//! A receipt is good for the delivery it names, until its time is out or the message is delivered again.

use redstart_engine::{AckError, Receipt, Timestamp};

use super::{Checked, Model, ensure, turn::Turn};

pub const GOOD: &str = "a receipt is good until its time is out";
pub const VOID: &str = "a receipt is void when its time is out or the message was delivered again";

/// Whether this receipt is the current one.
pub fn is_current(turn: &Turn, receipt: Receipt, now: Timestamp) -> bool {
    turn.current.as_ref().is_some_and(|current| current.receipt == receipt && current.until > now)
}

/// An ack, a change or a renewal under `receipt` was answered.
pub fn check(model: &mut Model, receipt: Receipt, answer: Result<(), AckError>, now: Timestamp) -> Checked {
    if !model.subscriptions.contains_key(&(receipt.group, receipt.queue.topic)) {
        return Ok(());
    }
    // Retention takes messages from consumers, too.
    if model.queues.get(&receipt.queue).is_some_and(|log| receipt.offset.0 < log.min) {
        return Ok(());
    }
    let turn = model.turn(receipt.group, receipt.queue, receipt.offset);
    let current = is_current(turn, receipt, now);
    if current && !turn.given_up {
        ensure(answer.is_ok(), GOOD, || {
            format!("{receipt:?} at {now}: {answer:?}, delivered as {:?}", turn.current)
        })?;
    }
    // Delivered under another receipt, as far as is known since the last start.
    let other =
        turn.current.as_ref().is_some_and(|current| current.receipt != receipt && current.until > now);
    if other && !turn.may_be_done() {
        ensure(answer.is_err(), VOID, || {
            format!("{receipt:?} at {now} is taken, delivered as {:?}", turn.current)
        })?;
    }
    Ok(())
}
