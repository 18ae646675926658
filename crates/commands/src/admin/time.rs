//! Times: how they are read from the command line, and how they are printed.
//!
//! Input without an offset is UTC, and so is JSON output. Tables show UTC, local time, or the distance from now (`--time`).

use std::time::Duration;

use clap::ValueEnum;
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone},
};
use serde::{Serialize, Serializer};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// A number of up to this many digits counts seconds since 1970; longer ones count milliseconds.
const SECONDS_DIGITS_MAX: usize = 11;

/// How tables show times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TimeFormat {
    /// 2026-01-31 12:00:00.000Z
    #[default]
    Utc,
    /// The local time with its offset: 2026-01-31 13:00:00.000+01:00
    Local,
    /// The distance from now: 5m ago
    Relative,
}

/// Milliseconds since 1970. Servers say 0 or less for something that has not happened: `null` in JSON, `-` in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time(pub i64);

impl Time {
    fn timestamp(self) -> Option<Timestamp> {
        if self.0 <= 0 { None } else { Timestamp::from_millisecond(self.0).ok() }
    }

    /// RFC 3339 in UTC: `2026-01-31T12:00:00.000Z`.
    pub fn iso(self) -> Option<String> {
        self.timestamp().map(|time| format!("{time:.3}"))
    }

    pub fn text(self, format: TimeFormat) -> String {
        let Some(time) = self.timestamp() else { return "-".to_owned() };
        match format {
            TimeFormat::Utc => format!("{time:.3}").replacen('T', " ", 1),
            TimeFormat::Local => {
                time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string()
            }
            TimeFormat::Relative => relative(now() - self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.iso().serialize(serializer)
    }
}

/// `5m ago`, `in 2h`: the largest unit that fits, rounded down.
fn relative(ago_ms: i64) -> String {
    let ms = ago_ms.unsigned_abs();
    let units = [(DAY_MS as u64, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let fits = units.into_iter().find(|(unit, _)| ms >= *unit);
    let length = fits.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", ms / unit));
    if ago_ms < 0 { format!("in {length}") } else { format!("{length} ago") }
}

pub fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Where to start or stop reading a queue.
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
    instant(text).map(Moment::At).ok_or_else(|| {
        "expected latest, earliest, a time in UTC such as 2026-01-31T12:00 or 2026-01-31T12:00:00+02:00, \
         milliseconds since 1970, or how long ago, such as 30m"
            .to_owned()
    })
}

/// Reads a time.
pub fn time(text: &str) -> Result<i64, String> {
    instant(text).ok_or_else(|| {
        "expected a time such as 2026-01-31T12:00 (UTC) or 2026-01-31T12:00:00+02:00, or milliseconds since 1970"
            .to_owned()
    })
}

/// Reads `500ms`, `10s`, `1h30m`, `2d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration such as 500ms, 10s, 5m, 1h30m or 2d".to_owned();
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

/// A number, or a date with or without a time of day and an offset; UTC if there is none.
fn instant(text: &str) -> Option<i64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i64 = text.parse().ok()?;
        return if text.len() <= SECONDS_DIGITS_MAX { number.checked_mul(1000) } else { Some(number) };
    }
    let with_offset = text.parse::<Timestamp>().ok();
    let utc = || Offset::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok();
    Some(with_offset.or_else(utc)?.as_millisecond())
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
    fn a_time_is_printed_in_utc_local_or_relative() {
        let noon = Time(1_769_860_800_000);
        assert_eq!(noon.iso().as_deref(), Some("2026-01-31T12:00:00.000Z"));
        assert_eq!(noon.text(TimeFormat::Utc), "2026-01-31 12:00:00.000Z");
        let local = noon.text(TimeFormat::Local);
        assert_eq!(time(&local), Ok(noon.0), "{local}");
        for never in [Time(0), Time(-1)] {
            assert_eq!((never.iso(), never.text(TimeFormat::Relative)), (None, "-".to_owned()));
        }
        let relatives = [0, 999, 61_000, 7_199_999, 3 * DAY_MS, -90_000].map(relative);
        assert_eq!(relatives, ["0s ago", "0s ago", "1m ago", "1h ago", "3d ago", "in 1m"]);
    }

    #[test]
    fn durations_have_units() {
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
