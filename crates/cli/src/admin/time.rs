//! Times as people write and read them. All of them are UTC: a server and who looks at it are rarely in one place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Digits of a number that counts seconds since 1970; longer ones count milliseconds.
const SECONDS_DIGITS_MAX: usize = 11;

pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// A place in the course of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Earliest,
    Latest,
    /// Milliseconds since 1970.
    At(i64),
}

/// Reads `latest`, `earliest`, a time, or how long ago.
pub fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "latest" => return Ok(Moment::Latest),
        "earliest" => return Ok(Moment::Earliest),
        _ => {}
    }
    if let Ok(ago) = duration(text) {
        return Ok(Moment::At(now().saturating_sub(ago.as_millis() as i64)));
    }
    let wrong = || {
        format!(
            "{text:?} is none of latest, earliest, a time in UTC such as 2026-01-31T12:00 or 2026-01-31T12:00:00+02:00, milliseconds since 1970, or how long ago, such as 30m"
        )
    };
    instant(text).map(Moment::At).ok_or_else(wrong)
}

/// Reads a time.
pub fn time(text: &str) -> Result<i64, String> {
    instant(text).ok_or_else(|| {
        format!("{text:?} is no time; write 2026-01-31T12:00 (UTC), 2026-01-31T12:00:00+02:00, or milliseconds since 1970")
    })
}

/// Reads `500ms`, `10s`, `1h30m`, `2d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no length of time; write it as 500ms, 10s, 5m, 1h30m or 2d");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => DAY_MS as u64,
            _ => return Err(wrong()),
        };
        let ms =
            number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(ms)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

fn instant(text: &str) -> Option<i64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i64 = text.parse().ok()?;
        return if text.len() <= SECONDS_DIGITS_MAX { number.checked_mul(1000) } else { Some(number) };
    }
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return None;
    }
    let (year, month, day): (i64, i64, i64) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    if !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    let zone_at = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    Some(days_since_1970(year, month, day) * DAY_MS + clock_ms(clock)? - zone_ms(zone)?)
}

/// `12:00`, `12:00:01`, `12:00:01.5`.
fn clock_ms(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let (seconds, fraction) = match parts.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
        None => ("00", ""),
    };
    let seconds = two_digits(seconds)?;
    if hours > 23
        || minutes > 59
        || seconds > 59
        || fraction.len() > 9
        || !fraction.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1000 + ms)
}

/// Nothing and `Z` are UTC; else `+02:00`.
fn zone_ms(text: &str) -> Option<i64> {
    let (sign, zone) = match text.split_at_checked(1) {
        None | Some(("Z", "")) => return Some(0),
        Some(("+", zone)) => (1, zone),
        Some(("-", zone)) => (-1, zone),
        Some(_) => return None,
    };
    let (hours, minutes) = zone.split_once(':').unwrap_or((zone, "00"));
    Some(sign * (two_digits(hours)? * 60 + two_digits(minutes)?) * 60_000)
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// For scripts: `2026-01-31T12:00:00.000Z`; nothing for what never happened.
pub fn iso(ms: i64) -> Option<String> {
    if ms <= 0 {
        return None;
    }
    let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
    let rest = ms.rem_euclid(DAY_MS);
    let (hours, minutes, seconds, ms) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z"))
}

/// For people: the same, and `-` for what never happened.
pub fn shown(iso: Option<&str>) -> String {
    iso.map_or_else(|| "-".to_owned(), |time| time.replacen('T', " ", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let noon = 1_769_860_800_000;
        for text in [
            "2026-01-31T12:00",
            "2026-01-31 12:00:00",
            "2026-01-31T12:00:00.000Z",
            "2026-01-31T14:00:00+02:00",
            "2026-01-31T07:00-05",
            "1769860800000",
            "1769860800",
        ] {
            assert_eq!(time(text), Ok(noon), "{text}");
        }
        assert_eq!(iso(noon).as_deref(), Some("2026-01-31T12:00:00.000Z"));
        assert_eq!(time("2024-02-29"), Ok(1_709_164_800_000));
        assert_eq!(time("2024-02-29T00:00:00.1234"), Ok(1_709_164_800_123));
        for bad in [
            "",
            "x",
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "2026-01-01T24:00",
            "2026-01-01T1:00",
            "-5",
            "2026-01-01T10:00X",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_day_comes_back() {
        for days in (0..60_000).step_by(13) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_since_1970(year, month, day), days);
        }
        assert_eq!(
            (iso(0), shown(None), shown(iso(1).as_deref())),
            (None, "-".to_owned(), "1970-01-01 00:00:00.001Z".to_owned())
        );
    }

    #[test]
    fn lengths_of_time_have_units() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "10", "h", "1x", "1h30", "99999999999999999999s", "9999999999999999d", "-1s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(moment("latest"), Ok(Moment::Latest));
        assert!(matches!(moment("1m"), Ok(Moment::At(at)) if (now() - 70_000..now()).contains(&at)));
        assert!(moment("yesterday").is_err());
    }
}
