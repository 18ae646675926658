//! The pure steps between a call and the engine. Not an interface: it changes with what it opens.

use redstart_engine::{Filter, Message};
use redstart_wire::v2::{FilterExpression, Message as WireMessage, Settings};

use super::{convert, receive, settings};
use crate::signer::Signer;

/// A message as the engine would store it.
pub fn accept(message: WireMessage) -> Option<Message> {
    convert::to_engine(message).ok()
}

pub fn filter(expression: Option<&FilterExpression>) -> Option<Filter> {
    receive::filter(expression).ok()
}

/// What a client is answered to its settings.
pub fn settle(told: Settings) -> Settings {
    settings::merge(told, None, 4 << 20, 32)
}

/// Whether the text is a handle that a broker with this key has made.
pub fn is_handle(key: &[u8; 32], text: &str) -> bool {
    let signer = Signer::with_key(key);
    signer.read_receipt(text).is_some()
        || signer.read_recall(text).is_some()
        || signer.read_transaction(text).is_some()
}
