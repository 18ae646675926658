//! Nothing is delivered that was never sent, and nothing that was sent is altered.

use redstart_engine::{DLQ_PREFIX, DLQ_REASON, Message, MessageView, RETRY_PREFIX, TopicName};

use super::{Checked, Model, Violation, ensure, model::Fate};

pub const NEVER_SENT: &str = "nothing is delivered that was never sent";
pub const UNALTERED: &str = "a message is delivered as it was sent";

/// Finds the message that is in a topic by its id and compares every part. A dead letter carries further properties, also in
/// the retry topic of a group that has consumed its dead letters and left one in flight.
pub fn check(model: &Model, view: &MessageView<'_>, topic: &TopicName) -> Result<usize, Violation> {
    let topic = topic.as_str();
    let dead_letter = topic.starts_with(DLQ_PREFIX)
        || (topic.starts_with(RETRY_PREFIX) && view.property(DLQ_REASON).is_some());
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
