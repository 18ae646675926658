//! The date that a gRPC client signs. It bounds how long a signature that was seen on the wire can be used.
//!
//! | client | text | time zone |
//! |---|---|---|
//! | Java, Go, C#, Python | `20240102T030405Z` | the client's own, in spite of the `Z` |
//! | C++, Node.js, PHP | `20240102T030405Z` | UTC |
//! | Rust | `2024-01-02T03:04:05.678+08:00` | as the text says |
//!
//! In the first layout the zone is not known, so the window must be as wide as the zones of the world, unless it is known in which
//! zones the clients are.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// What two clocks may differ by.
const SKEW: i64 = 15 * MINUTE;
/// Zones of the world: UTC-12 to UTC+14.
const WEST: i64 = 12 * HOUR;
const EAST: i64 = 14 * HOUR;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDate {
    #[error("x-mq-date-time is no date of a known layout")]
    Layout,
    #[error("x-mq-date-time is too far from the time of the server")]
    Window,
}

/// A moment, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Date {
    Exact(i64),
    /// In a time zone that is not known.
    Local(i64),
}

/// The time zones that clients are in, for dates that do not say theirs. By default they may be in any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zones(Option<Vec<i64>>);

impl Zones {
    /// Offsets from UTC separated by commas, such as `Z` or `+01:00,+02:00`; an empty text is any zone.
    pub fn read(text: &str) -> Option<Zones> {
        if text.trim().is_empty() {
            return Some(Zones::default());
        }
        let known = |ahead: &i64| (-WEST..=EAST).contains(ahead);
        text.split(',')
            .map(|part| zone(part.trim()).filter(known))
            .collect::<Option<_>>()
            .map(|all| Zones(Some(all)))
    }
}

/// Whether a signature made at `text` may be used at `now`, in seconds since 1970.
pub fn check(text: &str, now: i64, zones: &Zones) -> Result<(), InvalidDate> {
    let is_near = |at: i64| (at - SKEW..=at + SKEW).contains(&now);
    let is_within = match (read(text).ok_or(InvalidDate::Layout)?, &zones.0) {
        (Date::Exact(at), _) => is_near(at),
        (Date::Local(at), Some(zones)) => zones.iter().any(|ahead| is_near(at - ahead)),
        (Date::Local(at), None) => (at - EAST - SKEW..=at + WEST + SKEW).contains(&now),
    };
    if is_within { Ok(()) } else { Err(InvalidDate::Window) }
}

/// The text that a client signs at `now`, in UTC.
pub fn compact(now: i64) -> String {
    let [year, month, day, hour, minute, second] = civil(now);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// A time in milliseconds since 1970 as RFC 3339, in UTC.
pub fn rfc3339_of_millis(millis: i64) -> String {
    let [year, month, day, hour, minute, second] = civil(millis.div_euclid(1000));
    let millis = millis.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn read(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    match bytes {
        [date @ .., b'Z'] if date.len() == 15 => {
            let [year @ .., m1, m2, d1, d2, b'T', h1, h2, i1, i2, s1, s2] = date else { return None };
            let day = day(number(year)?, number(&[*m1, *m2])?, number(&[*d1, *d2])?)?;
            let time = time(number(&[*h1, *h2])?, number(&[*i1, *i2])?, number(&[*s1, *s2])?)?;
            Some(Date::Local(day + time))
        }
        _ => rfc3339(text).map(Date::Exact),
    }
}

fn rfc3339(text: &str) -> Option<i64> {
    let (date, clock) = text.split_once(['T', 't'])?;
    let [year, month, day_of_month] = three(date, '-', [4, 2, 2])?;
    let (clock, offset) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => (clock.get(..at)?, zone(clock.get(at..)?)?),
        None => return None,
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_fraction = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let [hour, minute, second] = three(clock, ':', [2, 2, 2])?;
    let at = day(year, month, day_of_month)? + time(hour, minute, second)? - offset;
    is_fraction.then_some(at)
}

/// Seconds that a zone is ahead of UTC.
fn zone(text: &str) -> Option<i64> {
    let (sign, text) = match text.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", text) => (1, text),
        ("-", text) => (-1, text),
        _ => return None,
    };
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (fixed(hours, 2)?, fixed(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * HOUR + minutes * MINUTE))
}

fn three(text: &str, separator: char, lengths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.splitn(3, separator);
    let mut part = |length| fixed(parts.next()?, length);
    Some([part(lengths[0])?, part(lengths[1])?, part(lengths[2])?])
}

fn fixed(text: &str, length: usize) -> Option<i64> {
    if text.len() == length { number(text.as_bytes()) } else { None }
}

/// At most four digits come here.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

fn time(hour: i64, minute: i64, second: i64) -> Option<i64> {
    // A leap second is 60.
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * HOUR + minute * MINUTE + second)
}

/// Seconds from 1970 to a day of the Gregorian calendar.
fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day which comes and goes is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some((days + (153 * month + 2) / 5 + day - 1 - 719_468) * 24 * HOUR)
}

/// The inverse of [`day`] and [`time`].
fn civil(seconds: i64) -> [i64; 6] {
    let (days, rest) = (seconds.div_euclid(24 * HOUR) + 719_468, seconds.rem_euclid(24 * HOUR));
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    [year, month, day, rest / HOUR, rest % HOUR / MINUTE, rest % MINUTE]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: i64 = 1_704_196_800; // 2024-01-02T12:00:00Z

    #[test]
    fn dates_are_read() {
        let cases = [
            ("20240102T120000Z", Some(Date::Local(NOON))),
            ("19700101T000000Z", Some(Date::Local(0))),
            ("20000229T235960Z", Some(Date::Local(951_868_800))),
            ("2024-01-02T12:00:00Z", Some(Date::Exact(NOON))),
            ("2024-01-02T20:00:00.123456789+08:00", Some(Date::Exact(NOON))),
            ("2024-01-02T06:30:00-05:30", Some(Date::Exact(NOON))),
            ("", None),
            ("20240102T120000", None),
            ("20241302T120000Z", None),
            ("20240100T120000Z", None),
            ("20240102T240000Z", None),
            ("2024010２T120000Z", None),
            ("2024-01-02T12:00:00", None),
            ("2024-01-02T12:00:00.+08:00", None),
            ("2024-01-02T12:00:00+8:00", None),
            ("2024-01-02T12:00:00+99:00", None),
            ("2024-01-02 12:00:00Z", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn every_official_client_in_every_time_zone_is_within_the_window() {
        for quarter in -12 * 4..=14 * 4 {
            let local = NOON + quarter * 15 * MINUTE;
            let text = format!(
                "{}T{:02}{:02}00Z",
                if local >= NOON + 12 * HOUR { "20240103" } else { "20240102" },
                local.rem_euclid(24 * HOUR) / HOUR,
                local.rem_euclid(HOUR) / MINUTE
            );
            assert_eq!(check(&text, NOON, &Zones::default()), Ok(()), "{text}");
        }
    }

    #[test]
    fn where_zones_are_known_the_window_is_that_of_the_clocks() {
        let berlin = Zones::read("+01:00, +02:00").unwrap();
        let cases = [
            ("20240102T130000Z", true),
            ("20240102T140000Z", true),
            ("20240102T141500Z", true),
            ("20240102T141501Z", false),
            ("20240102T133000Z", false),
            ("20240102T120000Z", false),
            ("20240102T200000Z", false),
            ("2024-01-02T12:00:00Z", true),
            ("2024-01-02T20:00:00+08:00", true),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text, NOON, &berlin).is_ok(), expected, "{text}");
        }
        assert!(check("20240102T120000Z", NOON, &Zones::read("Z").unwrap()).is_ok());
        assert_eq!(Zones::read(""), Some(Zones::default()));
        for bad in ["8", "+8", "+08", "UTC", "+15:00", "-13:00", "+01:00,", "+01:00 +02:00"] {
            assert_eq!(Zones::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_date_outside_the_window_is_refused() {
        let cases = [
            ("20240103T021500Z", Ok(())),
            ("20240103T021501Z", Err(InvalidDate::Window)),
            ("20240101T234500Z", Ok(())),
            ("20240101T234459Z", Err(InvalidDate::Window)),
            ("2024-01-02T12:15:00Z", Ok(())),
            ("2024-01-02T12:15:01Z", Err(InvalidDate::Window)),
            ("2024-01-02T11:44:59Z", Err(InvalidDate::Window)),
            ("99991231T235959Z", Err(InvalidDate::Window)),
            ("00000101T000000Z", Err(InvalidDate::Window)),
            ("yesterday", Err(InvalidDate::Layout)),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text, NOON, &Zones::default()), expected, "{text}");
        }
    }

    #[test]
    fn times_are_written() {
        assert_eq!(compact(NOON), "20240102T120000Z");
        assert_eq!(rfc3339_of_millis(NOON * 1000 + 7), "2024-01-02T12:00:00.007Z");
        assert_eq!(rfc3339_of_millis(-1), "1969-12-31T23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(at in 0i64..250_000_000_000) {
            prop_assert_eq!(read(&compact(at)), Some(Date::Local(at)));
            prop_assert_eq!(read(&rfc3339_of_millis(at * 1000)), Some(Date::Exact(at)));
            prop_assert_eq!(check(&compact(at), at, &Zones::default()), Ok(()));
        }

        #[test]
        fn no_text_makes_the_reader_fail(text in "\\PC{0,40}") {
            let _ = check(&text, NOON, &Zones::read(&text).unwrap_or_default());
        }
    }
}
