//! What was acked does not come again, once the ack is durable; and not before a crash either.

use redstart_engine::Delivery;

use super::{Checked, Model, ensure, turn::Acked};

pub const FINAL: &str = "an acked message does not come again";
pub const BURIED: &str = "a dead letter is not delivered again";

pub fn check(model: &mut Model, delivery: &Delivery) -> Checked {
    let receipt = delivery.receipt;
    let turn = model.turn(receipt.group, receipt.queue, receipt.offset);
    if turn.rewound {
        (turn.acked, turn.dead) = (Acked::No, false);
        return Ok(());
    }
    let place = || format!("group {} queue {:?} offset {}", receipt.group.0, receipt.queue, receipt.offset);
    ensure(matches!(turn.acked, Acked::No | Acked::Uncertain), FINAL, || {
        format!("{}: {:?}", place(), turn.acked)
    })?;
    ensure(!turn.dead, BURIED, place)?;
    // It comes again, so the ack was lost with the process that took it.
    turn.acked = Acked::No;
    Ok(())
}
