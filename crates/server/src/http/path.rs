//! Names in paths.

use super::refusal::Refusal;

/// Bytes of a name in a path, encoded. Names of topics and groups are far shorter.
const NAME_BYTES_MAX: usize = 1024;

/// A name in a path. Every `%` begins an encoded byte: `%DLQ%g` is written `%25DLQ%25g`.
pub(super) fn name(encoded: &str) -> Result<String, Refusal> {
    decode(encoded).map_err(|why| Refusal::bad("bad_path", format!("a name in the path {why}")))
}

fn decode(encoded: &str) -> Result<String, &'static str> {
    if encoded.len() > NAME_BYTES_MAX {
        return Err("is too long");
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let decoded = match tail {
            [high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let (high, low) = decoded.ok_or("has a % without two hexadecimal digits")?;
        bytes.push(high << 4 | low);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8")
}
