//! Logs requests whose bodies cannot be parsed. The client itself often reports nothing, and its consumer receives nothing.

use std::sync::atomic::Ordering;

use redstart_wire::remoting::JsonError;

use super::request::Request;
use crate::throttle::Throttle;

static UNREADABLE: Throttle = Throttle::new();

/// Longest group that is logged.
const GROUP_LEN_MAX: usize = 255;

/// Logs the first such body of a connection, and at most one per second of all connections.
pub(super) fn warn(request: &Request, error: &JsonError) {
    if request.peer.warned.load(Ordering::Relaxed) {
        return;
    }
    if let Some(repeated) = UNREADABLE.permit() {
        request.peer.warned.store(true, Ordering::Relaxed);
        let (remote, language, version) = (request.peer.remote, request.language, request.version);
        let group = group(request);
        tracing::warn!(
            %remote, %language, version, group, request = request.code, %error, repeated,
            "the body of a request cannot be parsed"
        );
    }
}

/// The group that the request names in a field, or else in the part of the body that can be read.
fn group(request: &Request) -> &str {
    let named = ["consumerGroup", "group", "producerGroup"].iter().find_map(|name| request.field(name));
    let group = named.or_else(|| written(&request.body)).unwrap_or_default();
    group.get(..group.len().min(GROUP_LEN_MAX)).unwrap_or_default()
}

fn written(body: &[u8]) -> Option<&str> {
    const NAMES: [&str; 2] = ["\"groupName\"", "\"consumerGroup\""];
    let body = std::str::from_utf8(body).ok()?;
    let behind = NAMES.iter().find_map(|name| body.split_once(name))?.1;
    behind.trim_start_matches([':', ' ']).strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_what_can_be_read() {
        assert_eq!(written(br#"{"consumerDataSet":[{"groupName" : "g","consumeType":["#), Some("g"));
        for without in [&b"{"[..], b"\"groupName\"", b"\"groupName\":7", b"\xff\"groupName\":\"g\""] {
            assert_eq!(written(without), None);
        }
    }
}
