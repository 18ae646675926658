//! Nothing is delivered that was never sent, and nothing that was sent is altered.

use redstart_engine::{Message, MessageView};

use super::{Checked, Model, Violation, ensure, model::Fate};

pub const NEVER_SENT: &str = "nothing is delivered that was never sent";
pub const UNALTERED: &str = "a message is delivered as it was sent";

/// Finds the message by its id and compares every part. A dead letter carries further properties.
pub fn check(model: &Model, view: &MessageView<'_>, dead_letter: bool) -> Result<usize, Violation> {
    let Some(known) = model.known(view.id) else {
        return Err(Violation::new(NEVER_SENT, format!("message id {:?}", view.id)));
    };
    let alive = !matches!(known.fate, Fate::Refused | Fate::Gone);
    ensure(alive, NEVER_SENT, || format!("message {:X} was {:?}", known.number, known.fate))?;
    same(&known.message, view, dead_letter)?;
    Ok(known.number)
}

fn same(sent: &Message, view: &MessageView<'_>, dead_letter: bool) -> Checked {
    let mut found = view.to_message();
    let mut sent = sent.clone();
    if dead_letter {
        found.properties.retain(|(name, _)| !name.starts_with("DLQ_"));
        sent.deliver_at = None;
    }
    ensure(found == sent, UNALTERED, || format!("sent {:?}, found {:?}", brief(&sent), brief(&found)))
}

fn brief(message: &Message) -> String {
    let mut text = format!("{message:?}");
    text.truncate(600);
    text
}
