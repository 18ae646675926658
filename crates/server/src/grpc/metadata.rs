//! What a request says about its sender, and how long that waits.

use std::time::Duration;

use http::HeaderMap;

/// The client's name for itself. Retries of some clients repeat every key: the last value counts.
pub(super) fn client_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get_all("x-mq-client-id").iter().next_back()?.to_str().ok()?;
    (!id.trim().is_empty() && id.len() <= CLIENT_ID_LEN_MAX).then_some(id)
}

const CLIENT_ID_LEN_MAX: usize = 512;

/// Who asks for messages.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub client: String,
    /// How long it waits for the answer.
    pub deadline: Option<Duration>,
    /// It is a Go client.
    pub go: bool,
}

/// Whoever made the request; its id was found before.
pub(super) fn caller(headers: &HeaderMap, client: &str) -> Caller {
    let language = headers.get_all("x-mq-language").iter().next_back();
    Caller {
        client: client.to_owned(),
        deadline: deadline(headers),
        go: language.is_some_and(|language| language == "GO"),
    }
}

/// How long the client waits for the answer.
pub(super) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}

/// Up to eight digits and a unit. The values can be years.
fn parse_timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().last().filter(char::is_ascii)?;
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(value * 3600),
        'M' => Duration::from_secs(value * 60),
        'S' => Duration::from_secs(value),
        'm' => Duration::from_millis(value),
        'u' => Duration::from_micros(value),
        'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_a_timeout_or_none(text in "\\PC{0,12}|[0-9]{0,10}[HMSmun]?") {
            if let Some(time) = parse_timeout(&text) {
                proptest::prop_assert!(time <= Duration::from_secs(99_999_999 * 3600));
                proptest::prop_assert!(text.len() <= 9 && text.len() >= 2);
            }
        }
    }

    #[test]
    fn timeouts_are_read_in_every_unit_and_nonsense_is_not() {
        let seconds = |text| parse_timeout(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("3S"), Some(3.0));
        assert_eq!(seconds("2500m"), Some(2.5));
        assert_eq!(seconds("99999999H"), Some(99999999.0 * 3600.0));
        assert_eq!(seconds("1u"), Some(0.000001));
        for bad in ["", "S", "3", "3x", "-1S", "123456789S", "3é"] {
            assert_eq!(seconds(bad), None, "{bad:?}");
        }
    }
}
