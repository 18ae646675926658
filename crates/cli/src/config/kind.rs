//! The types of values: how each is parsed, its range, and the words for it in error messages.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use redstart_auth::date::Zones;
use redstart_engine::{BODY_BYTES_CEILING, ConsumeFrom};
use redstart_server::{Proxies, tls};
use tracing_subscriber::filter::Targets;

use super::peers::Peers;

/// A type of values.
pub struct Kind<T> {
    /// Completes the sentence "it must be …".
    pub accepted: &'static str,
    pub notation: Notation,
    pub read: fn(&str) -> Option<T>,
}

/// The notation of a value in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    Text,
    /// A whole number, or text such as `5m` and `64MiB`.
    Number,
    Bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushMode {
    Sync,
    Async,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    None,
    Optional,
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where the audit log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    Off,
    DataDir,
    File(PathBuf),
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const NAME_BYTES_MAX: usize = 100;
const LEVELS_MAX: usize = 64;
const SHARDS_MAX: usize = 64;

pub const PATH: Kind<PathBuf> = Kind {
    accepted: "a path",
    notation: Notation::Text,
    read: |text| (!text.is_empty()).then(|| text.into()),
};

pub const OPTIONAL_PATH: Kind<Option<PathBuf>> =
    Kind { accepted: "the path of a file", notation: Notation::Text, read: optional_path };

pub const TLS_MODE: Kind<tls::Mode> = Kind {
    accepted: "off, permissive or enforcing",
    notation: Notation::Text,
    read: |text| text.parse().ok(),
};

pub const CLIENT_AUTH: Kind<ClientAuth> = Kind {
    accepted: "none, optional or required",
    notation: Notation::Text,
    read: |text| match text {
        "none" => Some(ClientAuth::None),
        "optional" => Some(ClientAuth::Optional),
        // RocketMQ's word is `require`.
        "required" | "require" => Some(ClientAuth::Required),
        _ => None,
    },
};

pub const CLIENT_USER: Kind<tls::UserField> =
    Kind { accepted: "cn or dns", notation: Notation::Text, read: |text| text.parse().ok() };

pub const PROXIES: Kind<Option<Proxies>> = Kind {
    accepted: "addresses and networks separated by commas, such as 10.0.0.0/8,127.0.0.1",
    notation: Notation::Text,
    read: |text| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) },
};

pub const ZONES: Kind<Zones> = Kind {
    accepted: "offsets from UTC separated by commas, such as +00:00 or +01:00,+02:00",
    notation: Notation::Text,
    read: Zones::read,
};

pub const ADDRESS: Kind<IpAddr> = Kind {
    accepted: "an IP address, such as 127.0.0.1, or 0.0.0.0 for all of the machine",
    notation: Notation::Text,
    read: |text| text.parse().ok(),
};

pub const PORT: Kind<u16> = Kind {
    accepted: "a port from 0 to 65535, 0 for any that is free",
    notation: Notation::Number,
    read: |text| text.parse().ok(),
};

pub const SHARDS: Kind<usize> = Kind {
    accepted: "a number from 1 to 64",
    notation: Notation::Number,
    read: |text| text.parse().ok().filter(|count| (1..=SHARDS_MAX).contains(count)),
};

pub const NODE: Kind<Option<u32>> = Kind {
    accepted: "a number from 1 to 65535",
    notation: Notation::Number,
    read: |text| match text {
        "" => Some(None),
        text => text.parse().ok().filter(|node| (1..=u32::from(u16::MAX)).contains(node)).map(Some),
    },
};

pub const PEERS: Kind<Option<Peers>> = Kind {
    accepted: "numbers and addresses of nodes, such as 1=host1:9880,2=host2:9880,3=host3:9880",
    notation: Notation::Text,
    read: |text| if text.is_empty() { Some(None) } else { Peers::read(text).map(Some) },
};

pub const HOST: Kind<Option<String>> = Kind {
    accepted: "a host or host:port, such as mq.example.org:8081",
    notation: Notation::Text,
    read: host,
};

pub const NAME: Kind<String> = Kind {
    accepted: "1 to 100 letters, digits, - and _",
    notation: Notation::Text,
    read: |text| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        ((1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(known)).then(|| text.to_owned())
    },
};

pub const BOOL: Kind<bool> =
    Kind { accepted: "true or false", notation: Notation::Bool, read: |text| text.parse().ok() };

pub const CONSUME_FROM: Kind<ConsumeFrom> =
    Kind { accepted: "latest or earliest", notation: Notation::Text, read: |text| text.parse().ok() };

pub const FLUSH: Kind<FlushMode> = Kind {
    accepted: "sync or async",
    notation: Notation::Text,
    read: |text| match text {
        "sync" => Some(FlushMode::Sync),
        "async" => Some(FlushMode::Async),
        _ => None,
    },
};

pub const FLUSH_INTERVAL: Kind<Duration> = Kind {
    accepted: "a time from 10ms to 60s",
    notation: Notation::Number,
    read: |text| time(text).filter(|time| (Duration::from_millis(10)..=60 * SECOND).contains(time)),
};

pub const DELAYS: Kind<Vec<Duration>> = Kind {
    accepted: "a list of up to 64 delays, such as \"1s 10m 2h\"",
    notation: Notation::Text,
    read: delays,
};

pub const WAIT: Kind<Duration> = Kind {
    accepted: "a time from 1ms to 24h, such as 60s; a bare number counts seconds",
    notation: Notation::Number,
    read: |text| time(text).filter(|time| (Duration::from_millis(1)..=24 * HOUR).contains(time)),
};

pub const CHECKS: Kind<u32> = Kind {
    accepted: "a number from 1 to 1000",
    notation: Notation::Number,
    read: |text| text.parse().ok().filter(|number| (1..=1000).contains(number)),
};

/// A value below an hour needs a unit. A bare number counts seconds: one that was meant as hours would delete messages that are
/// minutes old.
pub const RETENTION: Kind<Duration> = Kind {
    accepted: "a time from 1m to 3650d, such as 72h",
    notation: Notation::Number,
    read: |text| {
        let least = if text.ends_with(char::is_alphabetic) { MINUTE } else { HOUR };
        time(text).filter(|time| (least..=3650 * DAY).contains(time))
    },
};

pub const PERCENT: Kind<u8> = Kind {
    accepted: "a number from 1 to 100",
    notation: Notation::Number,
    read: |text| text.parse().ok().filter(|number| (1..=100).contains(number)),
};

pub const SEGMENT: Kind<u64> = Kind {
    accepted: "a size from 32MiB to 1GiB",
    notation: Notation::Number,
    read: |text| bytes(text).filter(|bytes| (32 << 20..=1 << 30).contains(bytes)),
};

pub const SCRUB_RATE: Kind<u64> = Kind {
    accepted: "a size from 64KiB to 1GiB, 0 for none",
    notation: Notation::Number,
    read: |text| bytes(text).filter(|bytes| *bytes == 0 || (64 << 10..=1 << 30).contains(bytes)),
};

pub const MESSAGE: Kind<usize> = Kind {
    accepted: "a size from 1KiB to 12MiB",
    notation: Notation::Number,
    read: |text| {
        let bytes = usize::try_from(bytes(text)?).ok()?;
        (1 << 10..=BODY_BYTES_CEILING).contains(&bytes).then_some(bytes)
    },
};

/// One connection may use a quarter of the budget, which must hold two frames of the largest size.
pub const NETWORK: Kind<usize> = Kind {
    accepted: "a size from 128MiB to 64GiB",
    notation: Notation::Number,
    read: |text| {
        bytes(text).filter(|bytes| (128 << 20..=64 << 30).contains(bytes)).map(|bytes| bytes as usize)
    },
};

pub const PENDING: Kind<usize> = Kind {
    accepted: "a size from 32MiB to 64GiB",
    notation: Notation::Number,
    read: |text| {
        bytes(text).filter(|bytes| (32 << 20..=64 << 30).contains(bytes)).map(|bytes| bytes as usize)
    },
};

pub const CONNECTIONS: Kind<usize> = Kind {
    accepted: "a number from 1 to 1000000",
    notation: Notation::Number,
    read: |text| text.parse().ok().filter(|number| (1..=1_000_000).contains(number)),
};

pub const LOG: Kind<String> = Kind {
    accepted: "levels by target, such as info,redstart_server::remoting=debug",
    notation: Notation::Text,
    read: log_levels,
};

pub const LOG_FORMAT: Kind<LogFormat> = Kind {
    accepted: "text or json",
    notation: Notation::Text,
    read: |text| match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    },
};

pub const AUDIT: Kind<AuditTarget> = Kind {
    accepted: "on, off or the path of a file",
    notation: Notation::Text,
    read: |text| match text {
        "" => None,
        "on" => Some(AuditTarget::DataDir),
        "off" => Some(AuditTarget::Off),
        path => Some(AuditTarget::File(path.into())),
    },
};

/// The empty text is `None`; every other text is a path.
fn optional_path(text: &str) -> Option<Option<PathBuf>> {
    Some((!text.is_empty()).then(|| PathBuf::from(text)))
}

fn host(text: &str) -> Option<Option<String>> {
    if text.is_empty() {
        return Some(None);
    }
    let odd = |c: char| c.is_whitespace() || matches!(c, '/' | '@' | ',' | ';');
    let port_fits = match text.rsplit_once(':') {
        // Colons belong to the address if it is IPv6 without a port.
        _ if text.parse::<IpAddr>().is_ok() || text.ends_with(']') => true,
        Some((host, port)) => !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0),
        None => true,
    };
    (port_fits && !text.contains(odd)).then(|| Some(text.to_owned()))
}

/// Reads a time such as `500ms`, `60s`, `5m`, `72h` or `7d`; a bare number counts seconds.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Reads a size such as `64MiB`; a bare number counts bytes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    Some((number.parse().ok()?, unit))
}

/// Reads delays in RocketMQ's notation: `1s 10m 2h 1d`.
fn delays(text: &str) -> Option<Vec<Duration>> {
    let delay =
        |word: &str| time(word).filter(|_| word.ends_with(['s', 'm', 'h', 'd']) && !word.ends_with("ms"));
    let delays: Vec<_> = text.split_whitespace().map(delay).collect::<Option<_>>()?;
    (1..=LEVELS_MAX).contains(&delays.len()).then_some(delays)
}

/// A word without `=` must be a level. `Targets` would accept it as the name of a target, but it is more likely a misspelt
/// level.
fn log_levels(text: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let known =
        |part: &str| part.contains('=') || LEVELS.contains(&part.trim().to_ascii_lowercase().as_str());
    let fits = text.split(',').all(known) && text.parse::<Targets>().is_ok();
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_their_units() {
        for (text, millis) in [
            ("500ms", 500),
            ("2", 2000),
            ("3s", 3000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for (text, size) in [("7", 7), ("2KiB", 2048), ("3MiB", 3 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        for text in ["", "s", "-1s", "1.5h", "5 m", "1w", "99999999999999999999", "18446744073709551615d"] {
            assert_eq!(time(text), None, "{text}");
        }
        for text in ["", "MiB", "1MB", "1 MiB", "-1", "18446744073709551615KiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_retention_without_its_unit_is_refused() {
        assert_eq!((RETENTION.read)("72"), None);
        assert_eq!((RETENTION.read)("72h"), Some(72 * HOUR));
        assert_eq!((RETENTION.read)("3m"), Some(3 * MINUTE));
        assert_eq!((RETENTION.read)("59s"), None);
    }

    #[test]
    fn delays_have_the_notation_of_rocketmq() {
        assert_eq!(delays("1s 10m  2h"), Some([1, 600, 7200].map(Duration::from_secs).to_vec()));
        for text in ["", " ", "1", "1s 2", "5ms", "1s,2s", "é", &"1s ".repeat(65)] {
            assert_eq!(delays(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_may_have_a_port() {
        for text in ["mq.example.org", "mq:1", "10.0.0.1:8081", "::1", "[::1]", "[::1]:8081"] {
            assert_eq!(host(text), Some(Some(text.to_owned())), "{text}");
        }
        assert_eq!(host(""), Some(None));
        for text in ["http://mq", "mq:", ":80", "mq:0", "mq:99999", "a b", "a:1,b:1"] {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn a_misspelt_level_is_refused() {
        for text in ["info", "WARN", "info,redstart_server::remoting=debug", "off"] {
            assert!(log_levels(text).is_some(), "{text}");
        }
        for text in ["", "inof", "info,redstart_server", "redstart_server=loud"] {
            assert!(log_levels(text).is_none(), "{text}");
        }
    }

    #[test]
    fn names_are_valid_in_topic_names() {
        for text in ["DefaultCluster", "a-b_9"] {
            assert!((NAME.read)(text).is_some(), "{text}");
        }
        for text in ["", "a b", "a.b", "a/b", "ä", &"x".repeat(101)] {
            assert!((NAME.read)(text).is_none(), "{text}");
        }
    }
}
