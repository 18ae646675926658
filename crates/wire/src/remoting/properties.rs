//! A message's properties as one text: `name 0x01 value 0x02`, repeated. The last 0x02 may be missing.

use std::collections::HashMap;

const VALUE: char = '\u{1}';
const END: char = '\u{2}';

/// Longest text: its length has 16 bits with a sign.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;

/// So many properties are looked through one by one.
const FEW: usize = 32;

/// Reads properties. As RocketMQ has it: what has no name or no value is dropped, and of two with one name the later
/// counts.
pub fn decode_properties(text: &str) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    read_properties(text).into_iter().map(owned).collect()
}

/// The same, borrowed from the text.
pub fn read_properties(text: &str) -> Vec<(&str, &str)> {
    let mut properties: Vec<(&str, &str)> = Vec::with_capacity(8);
    // Looked through one by one while they are few; a peer may send thousands.
    let mut places = HashMap::new();
    for (name, value) in text.split(END).filter_map(|entry| entry.split_once(VALUE)) {
        if name.is_empty() || value.is_empty() {
            continue;
        }
        let known = match properties.len() {
            0..FEW => properties.iter().position(|(known, _)| *known == name),
            _ => {
                if places.is_empty() {
                    places.extend(properties.iter().enumerate().map(|(at, (name, _))| (*name, at)));
                }
                places.get(name).copied()
            }
        };
        match known.and_then(|at| properties.get_mut(at)) {
            Some(place) => place.1 = value,
            None => {
                if properties.len() >= FEW {
                    places.insert(name, properties.len());
                }
                properties.push((name, value));
            }
        }
    }
    properties
}

/// Writes properties. What the format cannot express (no name, no value, its own separators inside) is left out.
pub fn encode_properties<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::with_capacity(256);
    put_properties(properties, &mut text);
    text
}

/// The same, appended to a text.
pub fn put_properties<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>, text: &mut String) {
    // All bytes of a part, many at a time, instead of one by one up to the first that is wrong.
    let separates = |part: &str| part.bytes().fold(false, |found, byte| found | (byte == 1) | (byte == 2));
    let is_plain = |part: &str| !part.is_empty() && !separates(part);
    for (name, value) in properties {
        if is_plain(name) && is_plain(value) {
            text.push_str(name);
            text.push(VALUE);
            text.push_str(value);
            text.push(END);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_text_is_read_as_rocketmq_reads_it() {
        assert_eq!(decode_properties("a\u{1}1\u{2}b\u{1}2"), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(decode_properties("a\u{1}1\u{2}a\u{1}2\u{2}"), pairs(&[("a", "2")]), "the later counts");
        assert_eq!(decode_properties("a\u{1}x\u{1}y\u{2}"), pairs(&[("a", "x\u{1}y")]), "the first splits");
        for nothing in ["", "\u{2}\u{2}", "a\u{1}\u{2}", "\u{1}b\u{2}", "ab\u{2}", "\u{1}"] {
            assert_eq!(decode_properties(nothing), [], "{nothing:?}");
        }
    }

    #[test]
    fn among_many_the_later_counts_as_well() {
        let text = |value: &str| (0..3 * FEW).map(|n| format!("{n}\u{1}{value}\u{2}")).collect::<String>();
        let read = decode_properties(&(text("old") + &text("new")));
        assert_eq!(read.len(), 3 * FEW);
        assert!(read.iter().enumerate().all(|(n, (name, value))| *name == n.to_string() && value == "new"));
    }

    #[test]
    fn a_value_that_would_break_the_text_is_left_out() {
        assert_eq!(
            encode_properties([("a", "x\u{2}b\u{1}y"), ("", "v"), ("n", ""), ("k", "v")]),
            "k\u{1}v\u{2}"
        );
    }

    proptest! {
        #[test]
        fn properties_come_back(names in proptest::collection::btree_map("[a-zé_]{1,8}", "[ -~é]{1,8}", 0..8)) {
            let text = encode_properties(names.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            prop_assert_eq!(decode_properties(&text), names.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".{0,64}") {
            decode_properties(&text);
        }
    }
}
