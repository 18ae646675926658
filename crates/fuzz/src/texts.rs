use redstart_engine::{
    Filter,
    filter::{Properties, Verdict},
};
use redstart_wire::remoting::{PopHandle, offset_message_id, read_offset_message_id};

pub fn pop_handle(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(handle) = PopHandle::read(text) {
        assert_eq!(PopHandle::read(&handle.text()), Some(handle));
    }
    let _ = redstart_server::remoting::fuzz::is_recall_handle(text);
}

/// A handle cannot be made without the key.
pub fn receipt_handle(data: &[u8]) {
    const KEY: [u8; 32] = [0x5a; 32];
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(!redstart_server::grpc::fuzz::is_handle(&KEY, text), "{text:?}");
    }
}

pub fn message_id(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((host, offset)) = read_offset_message_id(text) {
        assert_eq!(offset_message_id(host, offset), text.to_ascii_uppercase());
    }
}

/// The first line is the expression, each other `name=value` a property.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let expression = lines.next().unwrap_or_default();
    let pairs: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once('=')).take(16).collect();
    let pairs = Pairs(&pairs);
    for filter in [Filter::sql(expression), Filter::tags(expression)].into_iter().flatten() {
        let matches = filter.matches(&pairs);
        assert_eq!(matches, filter.matches(&pairs), "the same again");
        let verdict = filter.by_tag_hash(pairs.get("TAGS").map_or(0, redstart_engine::filter::tag_hash));
        assert!(!(matches && verdict == Verdict::No), "a message that passes is not passed over");
    }
}

pub fn settings(data: &[u8]) {
    let _ = redstart_server::remoting::fuzz::is_settings(data);
}

struct Pairs<'a>(&'a [(&'a str, &'a str)]);

impl Properties for Pairs<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
