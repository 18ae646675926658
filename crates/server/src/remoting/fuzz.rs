//! The pure steps between a request and the engine. Not an interface: it changes with what it opens.

use std::time::Duration;

use redstart_engine::{Message, Timestamp};
use redstart_wire::remoting::{Command, SendHeader, decode_batch, read_properties};

use super::{admin, convert::Incoming, recall};

/// The messages of a send as the engine would store them.
pub fn accept(command: &Command, now: Timestamp) -> Option<Vec<Message>> {
    const LEVELS: &[Duration] = &[Duration::from_secs(1), Duration::from_secs(5)];
    const BATCH_MAX: usize = 1000;
    let header = SendHeader::read(command).ok()?;
    let entries = if header.batch {
        let entries = decode_batch(command.body.clone(), BATCH_MAX).ok()?;
        entries.into_iter().map(|entry| (entry.properties, entry.flag, entry.body)).collect()
    } else {
        vec![(header.properties.to_owned(), header.flag, command.body.clone())]
    };
    let accept = |(properties, flag, body): (String, i32, bytes::Bytes)| {
        let incoming = Incoming {
            properties: read_properties(&properties),
            flag,
            system_flag: header.system_flag,
            born_at: header.born_at,
            born_host: "192.0.2.1:1",
            body,
            delay_levels: LEVELS,
            now,
        };
        incoming.accept().ok().map(|accepted| accepted.message)
    };
    entries.into_iter().map(accept).collect()
}

pub fn is_recall_handle(text: &str) -> bool {
    recall::read(text).is_some()
}

/// Whether the text is a list of settings.
pub fn is_settings(text: &[u8]) -> bool {
    admin::read_properties(text).is_ok()
}
