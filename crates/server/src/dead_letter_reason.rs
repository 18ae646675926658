/// Bytes of a reason that are kept.
const REASON_BYTES_MAX: usize = 1024;

/// The reason that a consumer gives for a dead letter, as it is stored: without control characters, which the properties of a message
/// cannot hold, and not longer than a line or two. `None` if nothing is left.
pub(crate) fn dead_letter_reason(text: &str) -> Option<String> {
    let mut reason = String::new();
    for character in text.trim().chars().map(|character| if character.is_control() { ' ' } else { character })
    {
        if reason.len() + character.len_utf8() > REASON_BYTES_MAX {
            break;
        }
        reason.push(character);
    }
    (!reason.is_empty()).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        assert_eq!(dead_letter_reason(" a\nb\u{1}c "), Some("a b c".to_owned()));
        assert_eq!(dead_letter_reason(" \t "), None);
        assert_eq!(
            dead_letter_reason(&"é".repeat(REASON_BYTES_MAX)).map(|reason| reason.len()),
            Some(REASON_BYTES_MAX)
        );
    }
}
