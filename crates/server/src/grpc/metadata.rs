//! What the headers of a request say about its client and how long that waits.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

/// The id that the client has chosen.
pub(super) fn client_id(headers: &HeaderMap) -> Option<&str> {
    let id = last(headers, "x-mq-client-id")?;
    (!id.trim().is_empty() && id.len() <= CLIENT_ID_LEN_MAX).then_some(id)
}

/// The last value of a header. Clients that try again add all headers once more: the last of each belong together.
pub(super) fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    redstart_auth::signature::grpc::last(headers.get_all(name).iter())?.to_str().ok()
}

const CLIENT_ID_LEN_MAX: usize = 512;

/// The language of the client, in capitals.
pub(super) fn language(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get_all("x-mq-language").iter().next_back()
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
