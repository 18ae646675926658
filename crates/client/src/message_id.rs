//! Ids that producers give to messages, as RocketMQ's clients make them: unique without asking anyone.

use std::{
    net::Ipv4Addr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use crate::random::random_u64;

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// What is random in the ids of this process: different hosts and restarts make different ids.
fn instance() -> u64 {
    static INSTANCE: OnceLock<u64> = OnceLock::new();
    *INSTANCE.get_or_init(random_u64)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// `UNIQ_KEY`: address, process, instance, milliseconds of the month, counter; 32 digits.
pub(crate) fn remoting() -> String {
    const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let instance = instance();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&Ipv4Addr::from((instance >> 32) as u32 | 0x0a00_0000).octets());
    bytes[4..6].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
    // The counter's upper half is part of the instance, so that it wraps after 4 billion messages and not after 65,536.
    bytes[6..10].copy_from_slice(&((instance as u32 & 0xffff_0000) | count >> 16).to_be_bytes());
    bytes[10..14].copy_from_slice(&((now_ms() % MONTH_MS) as u32).to_be_bytes());
    bytes[14..].copy_from_slice(&(count as u16).to_be_bytes());
    hexadecimal(&bytes)
}

/// A text that no other call returns, in any process.
pub(crate) fn unique_text() -> String {
    format!("{:016x}{:016x}", random_u64(), random_u64())
}

/// Version 1 of the 5.x clients: 01, host, process, seconds since 2021, sequence; 34 digits.
#[cfg(feature = "grpc")]
pub(crate) fn grpc() -> String {
    const YEAR_2021: i64 = 1_609_459_200;
    let mut bytes = [0; 17];
    bytes[0] = 1;
    bytes[1..7].copy_from_slice(&instance().to_be_bytes()[..6]);
    bytes[7..9].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
    bytes[9..13].copy_from_slice(&((now_ms() / 1000 - YEAR_2021) as u32).to_be_bytes());
    bytes[13..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    hexadecimal(&bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_have_their_form_and_differ() {
        let ids: HashSet<String> = (0..100_000).map(|_| remoting()).collect();
        assert_eq!(ids.len(), 100_000, "more than the last two bytes count");
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit())));
        #[cfg(feature = "grpc")]
        {
            let (one, two) = (grpc(), grpc());
            assert!(one.len() == 34 && one.starts_with("01") && one != two);
        }
    }
}
