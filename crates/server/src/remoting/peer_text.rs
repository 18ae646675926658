//! Limits on texts from peers that are kept or logged.

use super::refusal::Refusal;

/// Bytes of a name or an address.
const TEXT_BYTES_MAX: usize = 255;
/// Characters of a peer's text in a line of the log.
const SHOWN_MAX: usize = 64;

/// Refuses a text that is too long.
pub(super) fn check(what: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > TEXT_BYTES_MAX {
        let why = format!("a {what} of {} bytes; the limit is {TEXT_BYTES_MAX}", text.len());
        return Err(Refusal::invalid(why));
    }
    Ok(())
}

/// The first characters of a peer's text, for the log.
pub(super) fn shown(text: &str) -> &str {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_refused_and_shown_in_part() {
        assert!(check("name", &"n".repeat(TEXT_BYTES_MAX)).is_ok());
        assert!(check("name", &"n".repeat(TEXT_BYTES_MAX + 1)).is_err());
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"\u{e4}".repeat(1000)).chars().count(), SHOWN_MAX);
    }
}
